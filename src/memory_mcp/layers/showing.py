"""Matches of an index in, hits out: ids become the words they stand for, read from the store and nowhere else.

What the store does not hold, or does not show to this caller, is left out: an index is never believed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory_mcp.events.evidence import quotes_in
from memory_mcp.indexes.base import DocType, Filters, Match, Unfiled
from memory_mcp.layers.base import Hit, unfiled_hit
from memory_mcp.layers.standing import with_standing
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, NodeId, span_grip_id
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.text import term_set
from memory_mcp.toc.tree import Tree, share_of

#: Words quoted of an event that no grip covers yet, characters.
_SPAN = 400


@dataclass(frozen=True, slots=True)
class _Read:
    """What the store holds of the matches."""

    nodes: dict[NodeId, TocNode]
    grips: dict[GripId, Grip]
    quotes: dict[GripId, str]
    events: dict[EventId, Event]


class Showing:
    """Reads what matches stand for."""

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree

    def hits(self, matches: Sequence[Match], filters: Filters, wanted: frozenset[str]) -> list[Hit]:
        """A hit for each match that the store still holds for this caller, in order; `wanted` are the query's terms."""
        nodes = self._nodes(matches, filters.project)
        chosen = {i: _quoted_bullet(n, wanted) for i, n in nodes.items() if n.bullets}
        named = [m.grip_id or m.best_grip or _first(chosen.get(m.node_id)) for m in matches]
        grips = self._storage.grips.get_many([g for g in named if g])
        events = self._storage.events.get_many({i for g in grips.values() for i in (g.event_id_start, g.event_id_end)})
        read = _Read(nodes, grips, quotes_in(grips.values(), events), events)
        shown = (self._hit(m, g, read, chosen.get(m.node_id)) for m, g in zip(matches, named, strict=True))
        seen = [h for h in shown if h is not None and _may_see(h, filters)]
        return with_standing(seen, nodes, self._storage)

    def _nodes(self, matches: Sequence[Match], project: str | None) -> dict[NodeId, TocNode]:
        """Nodes to be named, whole only where their bullets are what is shown."""
        told = {m.node_id for m in matches if m.grip_id is None and m.best_grip is None}
        whole = self._tree.nodes(list(told)) if told else {}
        if project is not None:
            whole = {i: n if n.level is TocLevel.SEGMENT else share_of(n, project) for i, n in whole.items()}
        return self._storage.toc.heads({m.node_id for m in matches} - told) | whole

    def _hit(self, match: Match, named: GripId | None, read: _Read, bullet: TocBullet | None) -> Hit | None:
        node = read.nodes.get(match.node_id)
        grip = read.grips.get(named) if named else None
        if node is None or (match.doc_type is DocType.GRIP and grip is None):
            return None
        event = read.events.get(grip.event_id_start) if grip else None
        own = match.doc_type is DocType.NODE
        ids = tuple(dict.fromkeys(i for i in (named, *match.also, *(bullet.grip_ids if bullet and own else ())) if i))
        return Hit(
            node_id=node.node_id,
            title=node.title,
            quote=read.quotes.get(grip.grip_id, "") if grip else (bullet.text if bullet else ""),
            grip_ids=ids[:3],
            timestamp=event.timestamp if event else node.start_ms,
            session_id=event.session_id if event else "",
            project=event.project if event else (node.projects[0] if len(node.projects) == 1 else ""),
            agent=event.agent if event else "",
            role=event.role.value if event else "",
            speaker=event.speaker if event else "",
            score=match.score,
            parts=match.parts,
            event_id=event.event_id if event else "",
            level=node.level,
            grip_id=grip.grip_id if grip and not own else "",
            raw=match.raw,
            similarity=match.similarity,
            keywords=node.keywords,
            kind=_given_kind(named, bullet, event),
        )

    def unfiled(self, found: Iterable[Unfiled], wanted: frozenset[str]) -> list[Hit]:
        """Hits for events that are in no document yet."""
        return with_standing([_unfiled(u, wanted) for u in found], {}, self._storage)


def _first(bullet: TocBullet | None) -> GripId | None:
    return bullet.grip_ids[0] if bullet and bullet.grip_ids else None


def _quoted_bullet(node: TocNode, wanted: frozenset[str]) -> TocBullet | None:
    """The bullet that holds most of the query; the first of equals."""
    return max(node.bullets, key=lambda b: len(wanted & term_set(b.text)), default=None)


def _given_kind(named: GripId | None, bullet: TocBullet | None, event: Event | None) -> str:
    """The kind of the bullet that is shown, or that the event's author gave; "" where neither is known."""
    if bullet and (not named or named in bullet.grip_ids):
        return bullet.kind.value
    return event.metadata.get("kind", "") if event else ""


def _may_see(hit: Hit, filters: Filters) -> bool:
    """Whether the caller may see it: the index filtered already, and is not believed."""
    return filters.project is None or not hit.event_id or hit.project == filters.project


def _unfiled(found: Unfiled, wanted: frozenset[str]) -> Hit:
    event = found.event
    start = _best_place(event.text, wanted)
    end = min(len(event.text), start + _SPAN)
    grip = span_grip_id(event.event_id, start, end)
    hit = unfiled_hit(event, grip, event.text[start:end], found.score)
    return replace(hit, grip_id=grip, raw=found.raw)


def _best_place(text: str, wanted: frozenset[str]) -> int:
    """Where a window of the text holds most of the query, at white space."""
    if len(text) <= _SPAN:
        return 0
    starts = range(0, len(text), _SPAN // 2)
    best = max(starts, key=lambda at: (len(wanted & term_set(text[at : at + _SPAN])), -at))
    return text.rfind(" ", max(0, best - 40), best + 1) + 1 or best
