"""Events read word by word in one stretch of time: what holds a text is found, whatever any index or term set says."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace

from memory_mcp.layers.base import Hit, Query, Slice, unfiled_hit
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event
from memory_mcp.model.ids import span_grip_id
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from memory_mcp.toc.tree import Tree

#: Stretches that a scan is cut into at most.
SLICES = 8
#: What a hit of a scan is worth: it holds every word, which says little about whether it answers. Not calibrated: no layer
#: found it, so there is nothing that it would be compared with.
SCORE = 0.5
#: The same of a whole question that was found word for word.
WHOLE = 0.97
#: Characters quoted around the words.
_SPAN = 400
_WEEK = dt.timedelta(days=7)


class Scan:
    """See Scanner."""

    def __init__(self, storage: Storage, tree: Tree) -> None:
        self._storage = storage
        self._tree = tree

    def slices(self, query: Query) -> list[TimeWindow]:
        """See Scanner."""
        calendar = self._tree.calendar
        held = self._storage.events.span(Scope(query.project, query.agent, query.window, query.role, query.speaker))
        if held is None:
            return []
        first, last = (calendar.local(ms).date() for ms in (held.start_ms, held.end_ms))
        monday = first - dt.timedelta(days=first.weekday())
        weeks = (last - monday).days // 7 + 1
        step = -(-weeks // SLICES) * _WEEK
        starts = [monday + n * step for n in range(-(-weeks * _WEEK // step))]
        windows = [calendar.days(day, day + step) for day in starts]
        return [w.meet(query.window) for w in reversed(windows)]

    def read(self, query: Query, words: Sequence[str]) -> Slice:
        """See Scanner."""
        scope = Scope(query.project, query.agent, query.window, query.role, query.speaker)
        count, found = self._storage.events.holding(scope, words, query.limit)
        return Slice(tuple(self._hits(found, words)), count)

    def _hits(self, events: Sequence[Event], words: Sequence[str]) -> list[Hit]:
        """Return one for each event, the newest first."""
        grips = self._storage.grips.of_events([e.event_id for e in events])
        keys = {g.segment for several in grips.values() for g in several if g.segment}
        segments = self._storage.toc.segments(keys)
        nodes = self._storage.toc.heads({s.node_id for s in segments.values()})
        hits: dict[str, Hit] = {}
        score = WHOLE if len(words) == 1 and len(words[0].split()) > 1 else SCORE
        for event in events:
            start = _place(event.text, words)
            end = min(len(event.text), start + _SPAN)
            hit = unfiled_hit(event, span_grip_id(event.event_id, start, end), event.text[start:end], score)
            own = next((segments[g.segment] for g in grips.get(event.event_id, ()) if g.segment in segments), None)
            node = nodes.get(own.node_id) if own is not None else None
            if node is not None:
                hit = replace(hit, node_id=node.node_id, title=node.title, level=node.level, keywords=node.keywords)
            hits.setdefault(hit.event_id, replace(hit, parts=(("scan", score),)))
        return list(hits.values())


def _place(text: str, words: Sequence[str]) -> int:
    """Where the words to quote begin: a little before the first place that holds one of them, at white space."""
    if len(text) <= _SPAN:
        return 0
    lower = text.lower()
    places = [p for p in (lower.find(w.lower()) for w in words) if p >= 0]
    start = max(0, min(places, default=0) - _SPAN // 4)
    return text.rfind(" ", 0, start + 1) + 1
