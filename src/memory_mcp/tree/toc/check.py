"""Every invariant of a whole store, as a list of findings; empty means all is well. Reads only.

What is checked: each event that is shown lies in exactly one segment, and one that is shown stands for each that is not;
cuts of a stream do not overlap and their counts are right; each segment has its node and each period its roll-up;
parents are newer than children; windows tile; every bullet has grips, every grip resolves and its hash matches the words;
term sets cover their segments; nothing acknowledged is lost.

Change here: understand a bug in stored data.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar, TocLevel, level_of, parents_of, rollup_targets, source_level
from memory_mcp.model.grip import hash_quote, join_quote
from memory_mcp.model.ids import EventId, GripId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.tree.derive.build import hashes_of
from memory_mcp.tree.derive.terms import children_of, from_bytes, read_sets, subtract_set, union_sets

#: The rule that a period that is not rolled up yet breaks: the only one that is repaired by waiting.
FRESHNESS = "freshness"
#: Cuts whose events are compared at a time.
_CUTS_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """One broken invariant: which rule, about what, and how."""

    rule: str
    subject: str
    detail: str


def check_store(storage: Storage, calendar: Calendar) -> list[Finding]:
    """Return all findings in what is derived, by rule. Reads the whole store."""
    storage.drop_caches()
    cuts = {c.key: c for c in storage.toc.iter_cuts()}
    nodes = {n.node_id: n for n in storage.toc.iter_nodes()}
    findings = [Finding("acknowledged", "events", storage.loss.description)] if storage.loss else []
    findings += _check_cuts(cuts.values())
    findings += _check_events(storage, list(cuts.values()))
    findings += _check_nodes(storage, calendar, cuts.values(), nodes)
    findings += _check_bullets(storage, nodes.values())
    findings += _check_grips(storage, cuts.keys())
    for node_id in (n for n in nodes if level_of(n) is not TocLevel.SEGMENT):
        below = union_sets(read_sets(storage.toc, children_of(storage.toc, node_id)).values())
        if len(subtract_set(below, read_sets(storage.toc, [node_id])[node_id])):
            findings.append(Finding("terms", node_id, "does not hold all terms of what lies below it"))
    return findings


def _check_cuts(cuts: Iterable[Segment]) -> Iterator[Finding]:
    previous: Segment | None = None
    for cut in cuts:
        if cut.start > cut.end:
            yield Finding("cuts", cut.node_id, "starts after its end")
        if previous and previous.stream == cut.stream:
            if cut.start <= previous.end:
                yield Finding("cuts", cut.node_id, f"overlaps {previous.node_id}")
            if previous.open:
                yield Finding("cuts", previous.node_id, "is open although a later segment of its stream exists")
        previous = cut


def _check_events(storage: Storage, cuts: Sequence[Segment]) -> Iterator[Finding]:
    """Yield findings on derived events that are not in exactly one segment.

    Also on segments that miscount or lack terms of their events. Events that a duplicate hides need not be in one.
    """
    derived_to = storage.outbox.get_checkpoint("deriver")
    waiting = _pending_ids(storage, derived_to)
    # By stream, how many counted events are now hidden by a duplicate that is not derived yet.
    hidden_by = storage.events.find_duplicates(waiting)
    hidden_events = storage.events.get_events(i for i, shown_id in hidden_by.items() if shown_id in waiting and i not in waiting)
    outdone = Counter(event.stream for event in hidden_events.values())
    placed_ids: set[EventId] = set()
    for start in range(0, len(cuts), _CUTS_AT_ONCE):
        part = cuts[start : start + _CUTS_AT_ONCE]
        events = storage.events.events_by_segment(part)
        sets = read_sets(storage.toc, [c.node_id for c in part])
        pairs = storage.events.find_duplicates(event.event_id for own in events.values() for event in own)
        for cut in part:
            cut_events = [e for e in events.get(cut.key, ()) if e.event_id not in waiting]
            # Wholly hidden by what is not derived yet: copies that were hidden before are read as well, until the cut goes.
            shown_ids = [pairs.get(event.event_id) for event in cut_events]
            if None not in shown_ids and not waiting.isdisjoint(shown_ids):
                placed_ids.update(event.event_id for event in cut_events)
                continue
            if not len(cut_events) <= cut.events <= len(cut_events) + outdone[cut.stream]:
                yield Finding("partition", cut.node_id, f"counts {cut.events} events and holds {len(cut_events)}")
            for event in cut_events:
                if event.event_id in placed_ids:
                    yield Finding("partition", event.event_id, f"is in more than one segment, {cut.node_id} among them")
                placed_ids.add(event.event_id)
            if len(subtract_set(from_bytes(hashes_of(cut_events)), sets[cut.node_id])):
                yield Finding("terms", cut.node_id, "words of its events are missing from its term set")
    for batch in storage.events.iter_all():
        pairs = storage.events.find_duplicates(s.event.event_id for s in batch)
        yield from _check_duplicates(storage, pairs)
        for stored in batch:
            is_placed = stored.event.event_id in placed_ids or stored.event.event_id in pairs
            if stored.seq <= derived_to and not is_placed:
                yield Finding("partition", stored.event.event_id, "is in no segment")


def _check_duplicates(storage: Storage, pairs: Mapping[EventId, EventId]) -> Iterator[Finding]:
    events = storage.events.get_events([*pairs, *pairs.values()]) if pairs else {}
    chained = storage.events.find_duplicates(pairs.values()) if pairs else {}
    for hidden_id, shown_id in pairs.items():
        hidden_event, shown_event = events.get(hidden_id), events.get(shown_id)
        if hidden_event is None or shown_event is None or shown_id in chained or hidden_event.role is not shown_event.role:
            yield Finding("duplicates", hidden_id, f"is not shown, and {shown_id} cannot stand for it")


def _pending_ids(storage: Storage, derived_to: int) -> set[EventId]:
    waiting: set[EventId] = set()
    while page := storage.events.read_after(derived_to, 2000):
        waiting.update(s.event.event_id for s in page)
        derived_to = page[-1].seq
    return waiting


def _check_nodes(
    storage: Storage, calendar: Calendar, cuts: Iterable[Segment], nodes: Mapping[NodeId, TocNode]
) -> Iterator[Finding]:
    expected: set[NodeId] = set()
    for cut in cuts:
        expected.add(cut.node_id)
        expected.update(rollup_targets(cut.day))
    for missing in sorted(expected - set(nodes)):
        yield Finding("nodes", missing, "has no node")
    for extra in sorted(set(nodes) - expected):
        yield Finding("nodes", extra, "has a node and nothing below it")
    children_of_parent = {p: set(storage.toc.child_ids(p)) for p in {p for n in nodes for p in parents_of(n)}}
    for node_id, node in nodes.items():
        for parent in parents_of(node_id):
            if node_id not in children_of_parent[parent]:
                yield Finding("tree", node_id, f"is not among the children of {parent}")
        if node.level is not TocLevel.SEGMENT:
            window = calendar.node_window(node.node_id)
            if (node.start_ms, node.end_ms) != (window.start_ms, window.end_ms):
                yield Finding("windows", node.node_id, "does not have its calendar window")
            children = [nodes[c] for c in children_of(storage.toc, node.node_id) if c in nodes]
            if any(c.level is not source_level(node.node_id) for c in children):
                yield Finding("tree", node.node_id, "is made of children of another level")
            newest = max((c.built for c in children), default=0)
            if newest > node.built:
                yield Finding(FRESHNESS, node.node_id, "is older than one of its children")


def _check_bullets(storage: Storage, nodes: Iterable[TocNode]) -> Iterator[Finding]:
    node_of_grip: dict[GripId, NodeId] = {}
    for node in nodes:
        for bullet in node.bullets:
            if not bullet.grip_ids:
                yield Finding("evidence", node.node_id, f"a bullet names no grip: {bullet.text[:60]!r}")
            node_of_grip.update(dict.fromkeys(bullet.grip_ids, node.node_id))
    ids = list(node_of_grip)
    for start in range(0, len(ids), 2000):
        part = ids[start : start + 2000]
        stored = storage.grips.get_grips(part)
        for grip_id in part:
            if grip_id not in stored:
                yield Finding("evidence", node_of_grip[grip_id], f"names a grip that does not exist: {grip_id}")


def _check_grips(storage: Storage, cuts: Collection[int]) -> Iterator[Finding]:
    for batch in storage.grips.iter_all():
        events = storage.events.get_events({i for g in batch for i in (g.event_id_start, g.event_id_end)})
        for grip in batch:
            first, last = events.get(grip.event_id_start), events.get(grip.event_id_end)
            if first is None or last is None:
                yield Finding("grips", grip.grip_id, "quotes an event that does not exist")
                continue
            tail = None if first.event_id == last.event_id else last.text
            if hash_quote(join_quote(first.text, tail, grip.span_start, grip.span_end)) != grip.quote_hash:
                yield Finding("grips", grip.grip_id, "its hash does not match the stored words")
            elif grip.segment not in cuts:
                yield Finding("grips", grip.grip_id, "belongs to no segment")
