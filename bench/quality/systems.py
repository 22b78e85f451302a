"""The systems that run on a store: intelligent_search at its tiers, and each layer asked alone."""

import datetime as dt
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import anyio

from bench.quality.asking import Answer, Place, Places, Server
from bench.quality.corpora import Kind, Question
from bench.quality.recorded import is_recorded
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


class Words(StrEnum):
    """What is asked beside the question itself; the values end a system's name."""

    NONE = ""
    #: The written keywords, as the tool's argument, or behind the question.
    KEYWORDS = " with keywords"
    APPENDED = " with keywords appended"


def words_of(question: Question, words: Words) -> dict[str, object]:
    """The arguments that say what is asked."""
    match words:
        case Words.KEYWORDS:
            return {"query": question.text, "keywords": list(question.keywords)}
        case Words.APPENDED:
            return {"query": " ".join((question.text, *question.keywords))}
    return {"query": question.text}


async def usable_words(server: Server) -> list[Words]:
    """What can be asked beside a question: not every version of the tool takes keywords."""
    takes = await server.takes("intelligent_search", "keywords")
    return [words for words in Words if takes or words is not Words.KEYWORDS]


@dataclass(frozen=True, slots=True)
class System:
    """One line of the tables: a tool with its arguments."""

    name: str
    tool: str
    arguments: Mapping[str, object]
    #: Whether the tool reads the moment at which a question is asked.
    timed: bool = False
    words: Words = Words.NONE

    def asked(self, question: Question) -> dict[str, object]:
        """The arguments of one question."""
        when = {"as_of": question.as_of.astimezone(dt.UTC).isoformat()} if self.timed else {}
        return {**words_of(question, self.words), **self.arguments, **when}

    def takes(self, question: Question) -> bool:
        """Whether this system is asked such a question.

        A layer alone says nothing of its confidence, so it is asked only what can be answered. What is asked in other words is
        asked as an agent asks it.
        """
        if self.words is not Words.NONE and not (question.keywords and question.kind is Kind.ANSWERABLE):
            return False
        if question.kind in (Kind.PARAPHRASED, Kind.ASKED_BEFORE):
            return self == DEFAULT
        return question.kind is Kind.ANSWERABLE or self not in LAYERS


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


def worded(system: System, words: Words) -> System:
    """A system of intelligent_search that is asked with more than the question."""
    return replace(system, name=system.name + words, words=words)


def intelligent(tier: int) -> System:
    """Ask intelligent_search at a tier, with room for ten results."""
    arguments = {**_WIDE, **_FULL, "token_budget": ROOMY["retrieval.bounds.max_token_budget"]}
    return System(f"intelligent_search tier {tier}", "intelligent_search", arguments, timed=True)


def row_of(system: str, question: Question, answer: Answer, places: Sequence[Place], quoted: Collection[str] = ()) -> Row:
    """The line of one answer; `quoted`: the messages that all of it quotes."""
    first = places[:TEN]
    rank = next((at for at, place in enumerate(first, 1) if place.session in question.sessions), 0)
    recorded = next((at for at, place in enumerate(first, 1) if is_recorded(place.session)), 0)
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
        recorded_rank=recorded if question.kind is Kind.ASKED_BEFORE else None,
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
    """Ask each question of each system that takes it, the systems in turn, so that their times compare."""
    server, places = Server(app), Places(app, sessions)
    told = (await server.call("get_retrieval_status", {})).structured["tier"]
    if told != tier:
        print(f"  tier {tier} cannot be had here (it is {told})", file=sys.stderr)
        return []
    systems = [worded(s, words) for s in systems for words in await usable_words(server) if s not in LAYERS or not words]
    for question in questions[:_WARM]:
        for system in systems:
            if system.takes(question):
                await server.call(system.tool, system.asked(question))
    rows = []
    for question in questions:
        for system in systems:
            if not system.takes(question):
                continue
            answer = await server.call(system.tool, system.asked(question))
            quoted = places.quoted(answer)
            rows.append(row_of(system.name, question, answer, [places.of(r) for r in answer.results], quoted))
    return rows
