"""Read units with events and grips from the store by node id."""

from collections.abc import Callable, Iterator, Sequence

from memory_mcp.indexes.document import Source
from memory_mcp.model.calendar import PERIODS, TocLevel, level_of
from memory_mcp.model.exchange import lacks_reply
from memory_mcp.model.ids import NodeId, node_key, segment_key_of
from memory_mcp.storage.base import Storage

#: Segments read at a time, about 16 KB of text each: reading them one by one takes twice the time.
READ_BATCH = 192
#: Units per frame.
FRAME_SIZE = 24
#: Events read after a segment that ends before the reply to its last prompt: the reply, or enough to tell.
_AFTER = 24


def read_units(storage: Storage, ids: Sequence[NodeId]) -> tuple[list[Source], list[int]]:
    """Return some nodes' units as they are now, and missing keys.

    A segment comes with its events, what follows an unanswered prompt, and the grips that are wholly in them; one
    without a record of its segment comes alone. No repeats.
    """
    nodes = storage.toc.get_nodes(ids)
    by_key = {node_key(i): n for i, n in nodes.items()}
    keys = list(dict.fromkeys(node_key(i) for i in ids))
    segments = storage.toc.get_segments([k for i in ids if (k := segment_key_of(i)) is not None])
    events = storage.events.events_by_segment(list(segments.values()))
    event_ids = {e.event_id for segment_events in events.values() for e in segment_events}
    quoted = storage.grips.grips_by_event(event_ids)
    unanswered = {key: segment_events[-1] for key, segment_events in events.items() if lacks_reply(segment_events)}
    followers = dict(zip(unanswered, storage.events.list_followers([*unanswered.values()], _AFTER), strict=True))
    sources = []
    for key in keys:
        if key not in by_key:
            continue
        node, segment = by_key[key], segments.get(key)
        if segment is None or node.level is not TocLevel.SEGMENT:
            sources.append(Source(node))
            continue
        segment_events = events.get(key, [])
        ids_here = {e.event_id for e in segment_events}
        grips = {g.grip_id: g for e in segment_events for g in quoted.get(e.event_id, ())}
        inside = (g for g in grips.values() if g.event_id_start in ids_here and g.event_id_end in ids_here)
        sources.append(Source(node, segment, tuple(segment_events), tuple(inside), tuple(followers.get(key, ()))))
    return sources, [k for k in keys if k not in by_key]


def iter_all_units(storage: Storage, give_way: Callable[[], object] = lambda: None) -> Iterator[list[Source]]:
    """Yield all units in frames of at most 24, segments first; `give_way` as for `iter_frames`."""
    periods = [i for level in PERIODS for i in storage.toc.list_ids(level)]
    segments = storage.toc.list_ids(TocLevel.SEGMENT)
    for ids in (segments, periods):
        yield from iter_frames(storage, ids, give_way)


def iter_frames(storage: Storage, ids: Sequence[NodeId], give_way: Callable[[], object] = lambda: None) -> Iterator[list[Source]]:
    """Yield the units of some nodes in frames of at most 24.

    `give_way` is called before they are read; while it returns something true, no more than a frame is read at once.
    """
    start = 0
    while start < len(ids):
        # Reading holds the interpreter's lock for long.
        size = FRAME_SIZE if give_way() else READ_BATCH
        sources, _ = read_units(storage, ids[start : start + size])
        start += size
        for first in range(0, len(sources), FRAME_SIZE):
            yield sources[first : first + FRAME_SIZE]


def is_segment(node_id: NodeId) -> bool:
    """Return whether an id is that of a segment."""
    return level_of(node_id) is TocLevel.SEGMENT
