"""Segments as they are told to people: their titles, and their statements with speaker and citation."""

from collections.abc import Iterable, Sequence

from memory_mcp.model.event import Event, Role, Trust
from memory_mcp.model.ids import GripId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import EXTRACTIVE, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.toc.briefing import Said, Stretch


def stretches(storage: Storage, cuts: Sequence[Segment], most: int) -> list[Stretch]:
    """Return at most `most` segments that hold statements, in the order of `cuts`; those of subagents are left out."""
    own = [cut for cut in cuts if not cut.thread]
    nodes = storage.toc.nodes([cut.node_id for cut in own])
    told = [nodes[cut.node_id] for cut in own if cut.node_id in nodes and nodes[cut.node_id].bullets][:most]
    speakers = _speakers(storage, {grip for node in told for b in node.bullets for grip in b.grip_ids})
    made = [_stretch(node, speakers) for node in told]
    return [stretch for stretch in made if stretch.said]


def speaker_of(event: Event) -> str | None:
    """Return whose words an event holds; None for tool output and the like."""
    if event.trust is Trust.AGENT_NOTE:
        return "note"
    return {Role.USER: "user", Role.ASSISTANT: "agent"}.get(event.role)


def _speakers(storage: Storage, grips: Iterable[GripId]) -> dict[GripId, str]:
    """Who said what each grip quotes; what a tool printed, alone or behind its call, is left out."""
    found = storage.grips.get_many(grips)
    events = storage.events.get_many({e for g in found.values() for e in (g.event_id_start, g.event_id_end)})
    made: dict[GripId, str] = {}
    for grip_id, grip in found.items():
        said = [speaker_of(events[e]) if e in events else None for e in (grip.event_id_start, grip.event_id_end)]
        if said[0] is not None and said[1] is not None:
            made[grip_id] = said[0]
    return made


def _stretch(node: TocNode, speakers: dict[GripId, str]) -> Stretch:
    """What a refined node says are its writer's words, whatever they rest on, and never the user's."""
    refined = node.author != EXTRACTIVE
    said = [
        Said(b.text, "agent" if refined else speakers[b.grip_ids[0]], b.grip_ids[0], b.kind)
        for b in node.bullets
        if b.grip_ids and (refined or all(grip in speakers for grip in b.grip_ids))
    ]
    return Stretch(node.start_ms, node.title, tuple(said))
