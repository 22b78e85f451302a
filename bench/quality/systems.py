"""The systems that run on a store: intelligent_search at its tiers, and each layer asked alone."""

import datetime as dt
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import anyio

from bench.quality.asking import Answer, Place, Places, Server
from bench.quality.corpora import Kind, Question
from bench.quality.rows import TEN, Row
from bench.quality.stores import ROOMY, Stores
from memory_mcp.app import App

_WIDE: Mapping[str, object] = {"limit": TEN, "scope": "all"}
_FULL: Mapping[str, object] = {"detail": "full"}
_NODES: Mapping[str, object] = {"doc_type": "toc_node", "level": "segment"}
_GRIPS: Mapping[str, object] = {"doc_type": "grip"}
#: The tier at which every layer can be used.
_ALL_LAYERS = 2
#: Questions asked before any that counts, so that everything is loaded.
_WARM = 3


class Group(StrEnum):
    """Systems that are asked together."""

    INTELLIGENT = "intelligent"
    LAYERS = "layers"
    DEFAULT = "default"
    PLAIN = "plain"
    AGENT = "agent"


@dataclass(frozen=True, slots=True)
class System:
    """One line of the tables: a tool with its arguments."""

    name: str
    tool: str
    arguments: Mapping[str, object]
    #: Whether the tool reads the moment at which a question is asked.
    timed: bool = False

    def asked(self, question: Question) -> dict[str, object]:
        """The arguments of one question."""
        when = {"as_of": question.as_of.astimezone(dt.UTC).isoformat()} if self.timed else {}
        return {"query": question.text, **self.arguments, **when}


#: Each layer alone, at the tier where all can be used.
LAYERS = (
    System("bm25 nodes", "teleport_search", {**_WIDE, **_FULL, **_NODES}),
    System("bm25 grips", "teleport_search", {**_WIDE, **_FULL, **_GRIPS}),
    System("vector nodes", "vector_teleport", {**_WIDE, **_FULL, **_NODES}),
    System("vector grips", "vector_teleport", {**_WIDE, **_FULL, **_GRIPS}),
    System("hybrid nodes", "hybrid_search", {**_WIDE, **_FULL, **_NODES}),
    System("hybrid grips", "hybrid_search", {**_WIDE, **_FULL, **_GRIPS}),
    System("navigate", "navigate", _WIDE, timed=True),
)
#: What an agent gets when it names nothing but its question.
DEFAULT = System("default answer", "intelligent_search", {"limit": 5, "scope": "all"}, timed=True)


def intelligent(tier: int) -> System:
    """Ask intelligent_search at a tier, with room for ten results."""
    arguments = {**_WIDE, **_FULL, "token_budget": ROOMY["retrieval.bounds.max_token_budget"]}
    return System(f"intelligent_search tier {tier}", "intelligent_search", arguments, timed=True)


def row_of(system: str, question: Question, answer: Answer, places: Sequence[Place], quoted: Collection[str] = ()) -> Row:
    """The line of one answer; `quoted`: the messages that all of it quotes."""
    first = places[:TEN]
    rank = next((at for at, place in enumerate(first, 1) if place.session in question.sessions), 0)
    named = {message for place in first for message in place.messages}
    return Row(
        corpus=question.corpus,
        system=system,
        half=question.half,
        question=question.id,
        kind=question.kind,
        session_rank=rank,
        gold=len(question.messages),
        found=len(question.messages & named),
        results=len(places),
        quoted=len(question.messages.intersection(quoted)),
        probability=answer.probability,
        confidence=answer.confidence,
        method=answer.method,
        tokens=answer.tokens,
        ms=round(answer.ms, 2),
    )


def ask_store(
    stores: Stores, name: str, questions: Sequence[Question], tiers: Sequence[int], groups: Collection[Group]
) -> list[Row]:
    """Ask the systems of these groups that run on one store."""
    rows: list[Row] = []
    for tier in tiers:
        systems = [intelligent(tier)] if Group.INTELLIGENT in groups else []
        systems += LAYERS if tier == _ALL_LAYERS and Group.LAYERS in groups else ()
        if systems:
            with stores.opened(name, tier, ROOMY) as app:
                rows += anyio.run(_ask, app, stores.sessions(name), tier, systems, questions)
    if Group.DEFAULT in groups:
        with stores.opened(name, min(tiers), {}) as app:
            rows += anyio.run(_ask, app, stores.sessions(name), min(tiers), [DEFAULT], questions)
    return rows


async def _ask(
    app: App, sessions: Mapping[str, str], tier: int, systems: Sequence[System], questions: Sequence[Question]
) -> list[Row]:
    """Ask each question of each system, the systems in turn, so that their times compare.

    A layer alone is asked only what can be answered: it says nothing of its confidence.
    """
    server, places = Server(app), Places(app, sessions)
    told = (await server.call("get_retrieval_status", {})).structured["tier"]
    if told != tier:
        print(f"  tier {tier} cannot be had here (it is {told})", file=sys.stderr)
        return []
    for question in questions[:_WARM]:
        for system in systems:
            await server.call(system.tool, system.asked(question))
    rows = []
    for question in questions:
        for system in systems:
            if question.kind is not Kind.ANSWERABLE and system in LAYERS:
                continue
            answer = await server.call(system.tool, system.asked(question))
            quoted = places.quoted(answer)
            rows.append(row_of(system.name, question, answer, [places.of(r) for r in answer.results], quoted))
    return rows
