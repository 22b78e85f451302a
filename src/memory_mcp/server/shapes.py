"""Domain values in, wire types out. Pure; times are shown on the calendar of the call."""

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from memory_mcp.app import EARLIEST_MS, LATEST_MS, App
from memory_mcp.events.evidence import Expanded
from memory_mcp.layers.base import CONTRACTS, Hit, LayerStatus
from memory_mcp.layers.base import Step as LayerStep
from memory_mcp.model import event as domain
from memory_mcp.model.calendar import Calendar, TimeWindow, parents
from memory_mcp.model.ids import ROOT, parse_span_grip
from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.model.tokens import estimate_tokens
from memory_mcp.policy.explain import Explanation, Scanned, WhyNot
from memory_mcp.policy.plan import Mode, Plan, Skipped
from memory_mcp.server import wire, wire_indexes, wire_policy

if TYPE_CHECKING:  # numpy, behind these, would double the time to the handshake
    from memory_mcp.layers.agentic.match import FieldMatch
    from memory_mcp.layers.agentic.search import NodeResult

#: Keywords of a node that is only named by another.
_CHILD_KEYWORDS = 5
#: Keywords of a node that was found.
_KEYWORDS = 8
#: Results of which further quotations are shown, so many of each, and characters of one.
_QUOTED, _FURTHER, _WIDTH = 3, 2, 300
#: The shortest quotation worth showing, characters.
_LEAST_QUOTE = 60
#: Names listed where there may be hundreds.
NAMES_SHOWN = 20
#: Tokens that a lean explanation keeps to.
LEAN_TOKENS = 120
_BRACKETS = re.compile(r" \([^()]*\)")

W = TypeVar("W", bound=BaseModel)


def compact(value: BaseModel) -> str:
    """The JSON an agent reads, without white space."""
    return json.dumps(value.model_dump(mode="json"), ensure_ascii=False, separators=(",", ":"))


def tokens_of(value: BaseModel, factor: float) -> int:
    """What a value costs the agent that reads it."""
    return estimate_tokens(compact(value), factor)


def fitting(values: Iterable[W], budget: int, factor: float) -> list[W]:
    """As many values as the budget holds, in order; one is left out whole, never cut."""
    kept: list[W] = []
    for value in values:
        budget -= tokens_of(value, factor)
        if budget < 0:
            break
        kept.append(value)
    return kept


def result(hit: Hit, calendar: Calendar, full: bool) -> wire.Result:
    """A hit: a node, a grip in one, or an event that is not in the tree yet."""
    return wire.Result(**_result(hit, calendar, full), outside_window=True if hit.outside else None)


def also(further: Sequence[tuple[str, str]]) -> list[wire.Quote]:
    """Further grips of a result and their words."""
    return [wire.Quote(grip_id=grip, quote=quote) for grip, quote in further]


def further_quotes(app: App, hits: Sequence[Hit]) -> dict[str, list[tuple[str, str]]]:
    """By node, what its further grips quote: of the first results, and nothing that the result itself says."""
    stored = {h.node_id: [g for g in h.grip_ids[1:] if parse_span_grip(g) is None] for h in hits[:_QUOTED] if h.node_id}
    wanted = {node: grips[:_FURTHER] for node, grips in stored.items()}
    grips = app.storage.grips.get_many([g for several in wanted.values() for g in several])
    quotes = app.evidence.quotes(list(grips.values()))
    own = {h.node_id: h.quote for h in hits[:_QUOTED]}
    return {
        node: [(g, _cut(quotes[g], _WIDTH)) for g in several if quotes.get(g) and quotes[g] not in own[node]]
        for node, several in wanted.items()
    }


def _cut(text: str, width: int) -> str:
    """At most so many characters, cut at white space, and marked where cut."""
    return text if len(text) <= width else f"{text[:width].rsplit(maxsplit=1)[0]} …"


def shortened(value: wire.Result, budget: int, factor: float) -> list[wire.Result]:
    """One result without what can be looked up and with as much of its quotation as the budget holds; none if too little."""
    bare = value.model_copy(update={"also": [], "title": "", "agent": "", "project": "", "role": "", "score_parts": {}})
    bare = bare.model_copy(update={"grip_ids": value.grip_ids[:1]})
    width = len(value.quote)
    while tokens_of(bare, factor) > budget and width > _LEAST_QUOTE:
        width = width * 3 // 4
        bare = bare.model_copy(update={"quote": _cut(value.quote, width)})
    return [bare] if tokens_of(bare, factor) <= budget else []


def handles(results: Sequence[wire.Result]) -> str:
    """Where to go on from the best result."""
    best = next((r for r in results if r.grip_ids), None)
    if best is None:
        return ""
    return f"expand_grip {best.grip_ids[0]} for its context; browse_toc toc:day:{best.when[:10]} for its day"


def keyword_result(hit: Hit, calendar: Calendar, full: bool) -> wire_indexes.KeywordResult:
    """A hit of the keyword index."""
    score = None if hit.raw is None else round(hit.raw, 4)
    return wire_indexes.KeywordResult(**_result(hit, calendar, full), bm25_score=score, keywords=_own_keywords(hit))


def similar_result(hit: Hit, calendar: Calendar, full: bool) -> wire_indexes.SimilarResult:
    """A hit of the vector index."""
    return wire_indexes.SimilarResult(**_result(hit, calendar, full), similarity=None if hit.raw is None else round(hit.raw, 4))


def _own_keywords(hit: Hit) -> list[str]:
    return [] if hit.grip_id else list(hit.keywords[:_KEYWORDS])


def _result(hit: Hit, calendar: Calendar, full: bool) -> dict[str, Any]:
    return {
        "id": (hit.grip_id if hit.node_id else "") or hit.node_id or hit.event_id,
        "kind": ("grip" if hit.grip_id else hit.level) if hit.node_id else "event",
        "level": hit.level if hit.node_id else "",
        "title": hit.title if hit.node_id else "",
        "quote": hit.quote,
        "when": calendar.iso(hit.timestamp),
        "session_id": hit.session_id,
        "project": hit.project,
        "agent": hit.agent,
        "role": hit.role,
        "speaker": hit.speaker,
        "grip_ids": list(hit.grip_ids),
        "score": round(hit.score, 3),
        "superseded_by": hit.superseded_by,
        "event_id": hit.event_id if full and hit.node_id else "",
        "score_parts": dict(hit.parts) if full else {},
    }


def window(value: TimeWindow | None, words: str, calendar: Calendar) -> wire.Window | None:
    """A time filter; an open end is left out."""
    if value is None:
        return None
    since = calendar.iso(value.start_ms) if value.start_ms > EARLIEST_MS else ""
    until = calendar.iso(value.end_ms) if value.end_ms < LATEST_MS else ""
    return wire.Window(since=since, until=until, words=words)


def step(value: LayerStep) -> wire.Step:
    """One step of a path."""
    return wire.Step(
        node_id=value.node_id,
        label=value.label,
        searched=value.searched,
        matched=value.matched,
        score=round(value.score, 3),
        decision=value.decision,
    )


def explanation(why: Explanation, query: str, calendar: Calendar, full: bool) -> wire_policy.Explanation:
    """The explanation; with `full` it begins with the query and holds everything that was decided."""
    lean = wire_policy.Explanation(
        intent=why.intent,
        tier_used=int(why.tier),
        method_used=why.method,
        fallback_occurred=why.fallback,
        skipped=[_skipped(s) for s in why.skipped],
        bounds_hit=list(why.bounds_hit),
        nodes_visited=why.nodes_visited,
        rpc_calls=why.rpc_calls,
        scope=why.scope,
        window=window(why.window, why.window_words, calendar),
        notices=list(why.notices),
    )
    if not full:
        return _brief(lean, {t.layer for t in why.tried})
    used = why.used
    more = {
        "query": query,
        "confidence": round(why.confidence, 3),
        "signals": list(why.signals),
        "scan": _scanned(why.scan),
        "mode": why.mode.value,
        "why_mode": why.why_mode,
        "tried": [wire_policy.Tried(**asdict(t)) for t in why.tried],
        "arbitration": why.arbitration,
        "bounds": {n: wire.BoundUse(limit=limit, used=used.get(n)) for n, limit in why.limits.items()},
        "depth": why.depth,
        "tokens": why.tokens,
        "elapsed_ms": why.elapsed_ms,
        "path": [step(s) for s in why.path],
    }
    return lean.model_copy(update=more)


def _brief(lean: wire_policy.Explanation, tried: Collection[str]) -> wire_policy.Explanation:
    """A lean explanation of few tokens: as far as there are too many, what `detail="full"` says better is left out.

    First what stands in brackets, then layers that lack another one which is named itself, then layers that were tried.
    """
    if tokens_of(lean, 1.0) <= LEAN_TOKENS:
        return lean
    skipped = [s.model_copy(update={"reason": _BRACKETS.sub("", s.reason)}) for s in lean.skipped]
    lean = lean.model_copy(update={"skipped": skipped, "notices": [_BRACKETS.sub("", n) for n in lean.notices]})
    names = {s.layer for s in skipped}
    shorter = [s for s in skipped if s.reason.partition(":")[0] not in names]
    for fewer in (shorter, [s for s in shorter if s.layer not in tried]):
        if tokens_of(lean, 1.0) > LEAN_TOKENS:
            lean = lean.model_copy(update={"skipped": fewer})
    return lean


def _skipped(value: Skipped) -> wire.Skipped:
    return wire.Skipped(layer=value.layer, reason=value.reason)


def _scanned(value: Scanned | None) -> wire_policy.Scanned | None:
    return wire_policy.Scanned(**asdict(value)) if value is not None else None


def why_not(value: WhyNot) -> wire_policy.WhyNot:
    """Why something is missing, and what to ask instead."""
    return wire_policy.WhyNot(id=value.id, reason=value.reason, change=dict(value.change))


def classified(plan: Plan, query: str, calendar: Calendar) -> wire_policy.Classified:
    """What was understood of a query."""
    return wire_policy.Classified(**_understood(plan, query, calendar))


def plan(value: Plan, query: str, calendar: Calendar) -> wire_policy.PlanAnswer:
    """A decision before it is carried out."""
    return wire_policy.PlanAnswer(
        **_understood(value, query, calendar),
        tier=int(value.tier),
        name=value.tier.label,
        mode=value.mode.value,
        why_mode=value.why_mode,
        order=[n.value for n in (value.order if value.mode is Mode.SEQUENTIAL else value.paths)],
        skipped=[_skipped(s) for s in value.skipped],
        bounds={f.name: getattr(value.bounds, f.name) for f in fields(value.bounds)},
        strict=value.strict,
        min_confidence=value.min_confidence,
        escalates_when=value.escalates_when,
    )


def _understood(value: Plan, query: str, calendar: Calendar) -> dict[str, Any]:
    return {
        "query": query,
        "intent": value.intent.value,
        "confidence": round(value.confidence, 3),
        "signals": list(value.signals),
        "exact": list(value.exact),
        "text": value.text,
        "deadline_ms": value.deadline_ms,
        "window": window(value.window, value.window_words, calendar),
    }


def match(value: "FieldMatch") -> wire.Match:
    """One matching field."""
    return wire.Match(field=value.field, text=value.text, grip_ids=list(value.grip_ids), score=value.score)


def node_match(value: "NodeResult") -> wire.NodeMatch:
    """One matching node."""
    return wire.NodeMatch(
        node_id=value.node.node_id,
        title=value.node.title,
        level=value.node.level,
        matches=[match(m) for m in value.matches],
        relevance_score=value.relevance,
    )


def child(node: TocNode) -> wire.Child:
    """A node as its parent lists it."""
    return wire.Child(
        node_id=node.node_id,
        level=node.level,
        title=node.title,
        keywords=list(node.keywords[:_CHILD_KEYWORDS]),
        events=node.event_count,
    )


def node(value: TocNode, calendar: Calendar, around: tuple[str, str] = ("", "")) -> wire.Node:
    """A whole node. `around` names its neighbours in time."""
    bullets = [
        wire.Bullet(text=b.text, grip_ids=list(b.grip_ids), kind="" if b.kind is MemoryKind.OBSERVATION else b.kind)
        for b in value.bullets
    ]
    return wire.Node(
        node_id=value.node_id,
        level=value.level,
        title=value.title,
        summary=value.summary,
        bullets=bullets,
        keywords=list(value.keywords),
        start=calendar.iso(value.start_ms) if value.end_ms else "",
        end=calendar.iso(value.end_ms) if value.end_ms else "",
        sessions=value.session_count,
        events=value.event_count,
        projects=list(value.projects[:NAMES_SHOWN]),
        agents=list(value.agents[:NAMES_SHOWN]),
        parents=[p for p in parents(value.node_id) if p != ROOT],
        previous=around[0],
        next=around[1],
        author="" if value.author == "extractive" else value.author,
        pinned=True if value.pinned else None,
    )


def event(value: domain.Event, calendar: Calendar) -> wire.Event:
    """One event with its words."""
    return wire.Event(
        event_id=value.event_id,
        source_id=value.source_id,
        session_id=value.session_id,
        when=calendar.iso(value.timestamp),
        role=value.role,
        type=value.type,
        speaker=value.speaker,
        text=value.text,
    )


def events(values: Sequence[domain.Event], calendar: Calendar) -> list[wire.Event]:
    """Several events, in order."""
    return [event(v, calendar) for v in values]


def grip(value: Expanded, proof: tuple[str, str], node_id: str, calendar: Calendar) -> wire.GripAnswer:
    """A quotation in its place; `proof` names its first and last event."""
    return wire.GripAnswer(
        grip=wire.Grip(
            grip_id=value.grip_id,
            quote=value.quote,
            when=calendar.iso(value.timestamp),
            node_id=node_id,
            event_id_start=proof[0],
            event_id_end=proof[1],
        ),
        events_before=events(value.before, calendar),
        excerpt_events=events(value.excerpt, calendar),
        events_after=events(value.after, calendar),
        verified=value.verified,
        truncated=True if value.truncated else None,
    )


def layer(status: LayerStatus, full: bool) -> wire.LayerInfo:
    """A layer's state; with `full` what it can and cannot do."""
    return wire.LayerInfo(
        name=status.name,
        enabled=status.enabled,
        healthy=status.healthy,
        count=status.count,
        reason=status.reason,
        enable_with=status.enable_with,
        contract=asdict(CONTRACTS[status.name]) if full else {},
    )
