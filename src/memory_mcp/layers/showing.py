"""Matches of an index in, hits out: ids become the words they stand for.

They are read from the copies beside the index, as far as these are what the store holds now, and from the store else. What
neither holds, or is not for this caller, is left out.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from memory_mcp.events.evidence import quotes_in, said_of
from memory_mcp.indexes.base import DocType, Filters, Match, Unfiled
from memory_mcp.indexes.shown import Shown
from memory_mcp.layers.base import Hit, unfiled_hit
from memory_mcp.layers.standing import with_standing
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.grip import Said
from memory_mcp.model.ids import GripId, NodeId, span_grip_id
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.text import term_set
from memory_mcp.toc.tree import Tree, share_of

#: Words quoted of an event that no grip covers yet, characters.
_SPAN = 400


@dataclass(frozen=True, slots=True)
class _Read:
    """What is held of the matches."""

    nodes: dict[NodeId, TocNode]
    said: dict[GripId, Said]


class Showing:
    """Reads what matches stand for."""

    def __init__(self, storage: Storage, tree: Tree, shown: Shown) -> None:
        self._storage = storage
        self._tree = tree
        self._shown = shown

    def hits(self, matches: Sequence[Match], filters: Filters, wanted: frozenset[str]) -> list[Hit]:
        """A hit for each match that the store still holds for this caller, in order; `wanted` are the query's terms."""
        nodes = self._nodes(matches, filters.project)
        chosen = {i: _quoted_bullet(n, wanted) for i, n in nodes.items() if n.bullets}
        named = [m.grip_id or m.best_grip or _first(chosen.get(m.node_id)) for m in matches]
        read = _Read(nodes, self.said([g for g in named if g]))
        shown = (self._hit(m, g, read, chosen.get(m.node_id)) for m, g in zip(matches, named, strict=True))
        seen = [h for h in shown if h is not None and _may_see(h, filters)]
        return with_standing(seen, nodes, self._storage)

    def _nodes(self, matches: Sequence[Match], project: str | None) -> dict[NodeId, TocNode]:
        """Nodes to be named, with bullets only where these are what is shown."""
        ids = {m.node_id for m in matches}
        told = {m.node_id for m in matches if m.grip_id is None and m.best_grip is None}
        whole = self._shown.nodes(told)
        whole |= self._tree.nodes([i for i in told if i not in whole])
        if project is not None:
            whole = {i: n if n.level is TocLevel.SEGMENT else share_of(n, project) for i, n in whole.items()}
        heads = self._shown.nodes(ids - told, whole=False)
        return heads | self._storage.toc.heads([i for i in ids - told if i not in heads]) | whole

    def said(self, ids: Collection[GripId]) -> dict[GripId, Said]:
        """Quotations with what is told of their events, as far as they are held."""
        copied = self._shown.said(ids)
        grips = self._storage.grips.get_many([i for i in ids if i not in copied])
        events = self._storage.events.get_many({i for g in grips.values() for i in (g.event_id_start, g.event_id_end)})
        quotes = quotes_in(grips.values(), events)
        return copied | {i: said_of(grips[i], events[grips[i].event_id_start], quote) for i, quote in quotes.items()}

    def _hit(self, match: Match, named: GripId | None, read: _Read, bullet: TocBullet | None) -> Hit | None:
        node = read.nodes.get(match.node_id)
        said = read.said.get(named) if named else None
        if node is None or (match.doc_type is DocType.GRIP and said is None):
            return None
        own = match.doc_type is DocType.NODE
        ids = tuple(dict.fromkeys(i for i in (named, *match.also, *(bullet.grip_ids if bullet and own else ())) if i))
        return Hit(
            node_id=node.node_id,
            title=node.title,
            quote=said.quote if said else (bullet.text if bullet else ""),
            grip_ids=ids[:3],
            timestamp=said.timestamp if said else node.start_ms,
            session_id=said.session_id if said else "",
            project=said.project if said else (node.projects[0] if len(node.projects) == 1 else ""),
            agent=said.agent if said else "",
            role=said.role if said else "",
            speaker=said.speaker if said else "",
            score=match.score,
            parts=match.parts,
            event_id=said.event_id if said else "",
            level=node.level,
            grip_id=named if named and said and not own else "",
            raw=match.raw,
            similarity=match.similarity,
            keywords=node.keywords,
            kind=_given_kind(named, bullet, said),
        )

    def unfiled(self, found: Iterable[Unfiled], wanted: frozenset[str]) -> list[Hit]:
        """Hits for events that are in no document yet."""
        return with_standing([_unfiled(u, wanted) for u in found], {}, self._storage)


def _first(bullet: TocBullet | None) -> GripId | None:
    return bullet.grip_ids[0] if bullet and bullet.grip_ids else None


def _quoted_bullet(node: TocNode, wanted: frozenset[str]) -> TocBullet | None:
    """The bullet that holds most of the query; the first of equals."""
    return max(node.bullets, key=lambda b: len(wanted & term_set(b.text)), default=None)


def _given_kind(named: GripId | None, bullet: TocBullet | None, said: Said | None) -> str:
    """The kind of the bullet that is shown, or that the event's author gave; "" where neither is known."""
    if bullet and (not named or named in bullet.grip_ids):
        return bullet.kind.value
    return said.kind if said else ""


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
