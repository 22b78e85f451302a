"""Stored things in, the JSON shapes of the command line out; keys as the tools name them, nothing empty."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from memory_mcp.layers.agentic.match import FieldMatch
from memory_mcp.layers.base import Hit, Step
from memory_mcp.model.calendar import Calendar, TimeWindow
from memory_mcp.model.event import Event
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.policy.explain import Explanation
from memory_mcp.policy.plan import Mode, Plan

#: Times beyond these (ms) stand for no limit.
_OPEN_END = 2**60


def dropping_empty(shape: Mapping[str, Any]) -> dict[str, Any]:
    """Only what says something."""
    return {k: v for k, v in shape.items() if v not in (None, "", (), [], {})}


def bullet(item: TocBullet) -> dict[str, Any]:
    """A bullet with its grips."""
    shape = {"text": item.text, "grip_ids": list(item.grip_ids), "kind": item.kind.value, "project": item.project}
    return dropping_empty(shape)


def node(item: TocNode, calendar: Calendar) -> dict[str, Any]:
    """A node's own text and counts."""
    return dropping_empty(
        {
            "node_id": item.node_id,
            "level": item.level.value,
            "title": item.title,
            "start": calendar.iso(item.start_ms) if item.end_ms else None,
            "end": calendar.iso(item.end_ms) if item.end_ms else None,
            "summary": item.summary,
            "bullets": [bullet(b) for b in item.bullets],
            "keywords": list(item.keywords),
            "kind": item.kind.value if item.bullets else None,
            "sessions": item.session_count,
            "events": item.event_count,
            "agents": list(item.agents),
            "projects": [p for p in item.projects if p],
            "version": item.version,
            "author": item.author if item.author != "extractive" else None,
        }
    )


def short_node(item: TocNode) -> dict[str, Any]:
    """A node as one line of a list."""
    return {"node_id": item.node_id, "level": item.level.value, "title": item.title}


def event(item: Event, calendar: Calendar) -> dict[str, Any]:
    """An event as it is returned everywhere."""
    return dropping_empty(
        {
            "event_id": item.event_id,
            "source_id": item.source_id,
            "session_id": item.session_id,
            "when": calendar.iso(item.timestamp),
            "role": item.role.value,
            "type": item.type.value,
            "speaker": item.speaker,
            "project": item.project,
            "agent": item.agent,
            "text": item.text,
        }
    )


def match(item: FieldMatch) -> dict[str, Any]:
    """A field that matched."""
    return {"field": item.field.value, "text": item.text, "grip_ids": list(item.grip_ids), "score": item.score}


def hit(item: Hit, calendar: Calendar) -> dict[str, Any]:
    """A search result with its dated quotation."""
    shape = {
        "id": item.node_id or item.event_id,
        "kind": "segment" if item.node_id else "event",
        "level": "segment" if item.node_id else "",
        "title": item.title if item.node_id else "",
        "quote": item.quote,
        "when": calendar.iso(item.timestamp),
        "session_id": item.session_id,
        "project": item.project,
        "agent": item.agent,
        "role": item.role,
        "speaker": item.speaker,
        "grip_ids": list(item.grip_ids),
        "superseded_by": item.superseded_by,
    }
    return dropping_empty(shape) | {"score": item.score}


def found(item: Hit, calendar: Calendar, full: bool) -> dict[str, Any]:
    """A result of a question: a node, a grip or an event that is not filed yet; with `full` the parts of its score."""
    shape = hit(item, calendar)
    own = {"id": (item.grip_id if item.node_id else "") or shape["id"], "level": item.level if item.node_id else ""}
    own["kind"] = ("grip" if item.grip_id else item.level) if item.node_id else "event"
    more = {"outside_window": item.outside or None, "score_parts": dict(item.parts) if full else {}}
    return dropping_empty({**shape, **own, **more}) | {"score": round(item.score, 3)}


def explanation(why: Explanation, calendar: Calendar, full: bool) -> dict[str, Any]:
    """What was decided; with `full` all of it."""
    lean = {
        "intent": why.intent,
        "tier_used": int(why.tier),
        "method_used": str(why.method),
        "fallback_occurred": why.fallback,
        "skipped": [{"layer": str(s.layer), "reason": s.reason} for s in why.skipped],
        "bounds_hit": list(why.bounds_hit),
        "nodes_visited": why.nodes_visited,
        "rpc_calls": why.rpc_calls,
        "elapsed_ms": why.elapsed_ms,
        "scope": why.scope,
        "window": window(why.window, calendar),
        "window_words": why.window_words,
        "notices": list(why.notices),
    }
    if not full:
        return lean
    used = why.used
    return lean | {
        "confidence": round(why.confidence, 3),
        "signals": list(why.signals),
        "mode": why.mode.value,
        "why_mode": why.why_mode,
        "tried": [{**asdict(t), "layer": str(t.layer)} for t in why.tried],
        "arbitration": why.arbitration,
        "scan": asdict(why.scan) if why.scan else None,
        "bounds": {n: {"limit": limit, "used": used.get(n)} for n, limit in why.limits.items()},
        "path": [step(s) for s in why.path],
    }


def plan(value: Plan, calendar: Calendar) -> dict[str, Any]:
    """A decision before it is carried out."""
    return {
        **classified(value, calendar),
        "tier": int(value.tier),
        "name": value.tier.label,
        "mode": value.mode.value,
        "why_mode": value.why_mode,
        "order": [n.value for n in (value.order if value.mode is Mode.SEQUENTIAL else value.paths)],
        "skipped": [{"layer": str(s.layer), "reason": s.reason} for s in value.skipped],
        "bounds": asdict(value.bounds),
        "strict": value.strict,
        "min_confidence": value.min_confidence,
        "escalates_when": value.escalates_when,
    }


def classified(value: Plan, calendar: Calendar) -> dict[str, Any]:
    """What was understood of a query."""
    return {
        "intent": value.intent.value,
        "confidence": round(value.confidence, 3),
        "signals": list(value.signals),
        "exact": list(value.exact),
        "text": value.text,
        "deadline_ms": value.deadline_ms,
        "window": window(value.window, calendar),
        "window_words": value.window_words,
    }


def step(item: Step) -> dict[str, Any]:
    """A step of a path."""
    shape = {
        "node_id": item.node_id,
        "label": item.label,
        "searched": item.searched,
        "searched_level": str(item.searched_level),
        "matched": item.matched,
        "score": item.score,
        "decision": item.decision,
    }
    return {k: v for k, v in shape.items() if v != ""}


def window(item: TimeWindow | None, calendar: Calendar) -> dict[str, str] | None:
    """A filter by time; a side without a limit is left out."""
    if item is None:
        return None
    sides = {"since": item.start_ms, "until": item.end_ms}
    return {k: calendar.iso(v) for k, v in sides.items() if abs(v) < _OPEN_END}
