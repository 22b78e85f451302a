"""New events to segments, nodes, grips and terms; each step one transaction with its checkpoint.

Between a kill and the next start the checkpoint says where to go on; a step done twice changes nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace

from memory_mcp.base import metrics
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, is_recap
from memory_mcp.model.ids import EventId, segment_key_of
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build, StoredEvent
from memory_mcp.tree.derive.build import DerivedSegment, SegmentWork, derive_segments
from memory_mcp.tree.derive.repeated import OpeningHolders, common_among, mark_common
from memory_mcp.tree.derive.segments import SegmentSettings, assign_events, recap_of, size_of
from memory_mcp.tree.derive.terms import AddedRows, FiledSegment, TermRowBuilder, refit_all
from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.summarize.stretch import openings_of

DeriveBatch = Callable[[Sequence[SegmentWork]], list[DerivedSegment]]
#: Returns a build with the periods above its segments; None if it cannot.
AddPeriods = Callable[[Build], Build | None]

#: Name of the deriver's checkpoint; it counts events.
FOLLOWER = "deriver"
#: Events taken up at once; with their segments they stay well below 50 MB.
BATCH = 2000
#: Name of the position that lists the days whose segments lost terms while their periods still hold these.
_SHRUNK = "deriver.shrunk"
#: Folding starts when a node has this many rows of terms.
FOLD_AT = 24


class SegmentDeriver:
    """Derives segments. Only one may run at a time; see `Derivation.publishing`."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer, settings: SegmentSettings) -> None:
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._settings = settings
        self._terms = TermRowBuilder(storage.toc)
        self._holders = OpeningHolders()
        #: The checkpoint as it was last read or written; None before that.
        self._checkpoint: int | None = None
        #: Steps since term rows were joined last: no node has got more rows than that. None: it is not known.
        self._steps_since_fold: int | None = None
        #: What `_SHRUNK` lists; None until it is read.
        self._shrunk_days: set[str] | None = None
        #: Whether the run under way leaves that to its end.
        self._is_bulk = False
        #: Days whose segments were published since the last `take_touched`.
        self.touched: set[str] = set()

    def reread(self) -> None:
        """Drop caches after another process changed the store."""
        self._terms.forget()
        self._holders.clear()
        self._checkpoint = self._steps_since_fold = self._shrunk_days = None

    def count_pending(self) -> int:
        """Return the number of events not derived yet."""
        return self._storage.events.last_seq() - self.last_derived()

    def last_derived(self) -> int:
        """Return the last derived event's number, cached."""
        if self._checkpoint is None:
            self._checkpoint = self._storage.outbox.get_checkpoint(FOLLOWER)
        return self._checkpoint

    def run(
        self,
        progress: Callable[[int], None] | None = None,
        derive_batch: DeriveBatch | None = None,
        size: int = BATCH,
        steps: int | None = None,
        add_periods: AddPeriods | None = None,
        give_way: Callable[[], object] = lambda: None,
    ) -> None:
        """Derive everything pending, or `steps` steps of `size` events.

        Each step is a transaction with its checkpoint. What is stored meanwhile waits for the next run, but for what fits into
        the last batch. `progress` gets the number of events of each step. `derive_batch` may spread the pure part over
        processes; it must give what `derive.build.derive` gives; `add_periods` adds the periods above its segments to a build.
        `give_way` is called between parts of a step. With `steps` or `derive_batch`, periods above segments that lost terms keep
        these until `end_run`, which other runs call at their end. Errors are passed on: steps done stay done.
        """
        self._is_bulk = steps is not None or derive_batch is not None
        work = derive_batch or (lambda batch: derive_segments(batch, self._calendar, self._summarizer))
        changed = False
        goal = self._storage.events.last_seq()
        while True:
            self._checkpoint = self._storage.outbox.get_checkpoint(FOLLOWER)
            batch = self._storage.events.read_after(self._checkpoint, size) if self._checkpoint < goal else ()
            if not batch:
                break
            with metrics.run("derive"):
                changed |= self._derive_step(batch, work, add_periods, give_way)
            self._checkpoint = batch[-1].seq
            if progress:
                progress(len(batch))
            if steps is not None and (steps := steps - 1) <= 0:
                break
        if steps is None:
            if changed:
                self.fold_terms()
            self.end_run()

    def end_run(self, give_way: Callable[[], object] = lambda: None) -> None:
        """Take lost terms out of periods, and drop what is remembered for the steps of one run."""
        self.refit_shrunk(give_way)
        self._holders.clear()

    def refit_shrunk(self, give_way: Callable[[], object] = lambda: None) -> None:
        """Take the terms that segments lost out of their periods, also what a killed process left to do."""
        if days := self._read_shrunk():
            self._refit(days, give_way)
            self._storage.outbox.set_position(_SHRUNK, "")
            self._shrunk_days = set()

    def _refit(self, days: set[str], give_way: Callable[[], object]) -> None:
        """Killed before this, periods hold a few terms too many: a visit too many, until the next rebuild."""
        if days:
            refit_all(self._storage.toc, days, give_way)
            self._terms.forget()

    def _note_shrunk(self, days: set[str]) -> None:
        """Note days before their segments shrink: a process that is killed leaves them to the next."""
        if not days <= self._read_shrunk():
            days = self._read_shrunk() | days
            self._storage.outbox.set_position(_SHRUNK, " ".join(sorted(days)))
            self._shrunk_days = days

    def _read_shrunk(self) -> set[str]:
        if self._shrunk_days is None:
            self._shrunk_days = set(self._storage.outbox.get_positions(_SHRUNK).get(_SHRUNK, "").split())
        return self._shrunk_days

    def fold_terms(self) -> None:
        """Join term rows of nodes that may have many: finding them is slow."""
        if self._steps_since_fold is None or self._steps_since_fold >= FOLD_AT:
            self._storage.toc.fold_terms(FOLD_AT)
            self._steps_since_fold = 0

    def take_touched(self) -> set[str]:
        """Return and clear the days published since last."""
        touched, self.touched = self.touched, set()
        return touched

    def _derive_step(
        self,
        batch: Sequence[StoredEvent],
        derive_batch: DeriveBatch,
        add_periods: AddPeriods | None,
        give_way: Callable[[], object],
    ) -> bool:
        derived_to, changes = batch[-1].seq, self._place_events([stored.event for stored in batch])
        give_way()
        work = self._collect_work(changes, derived_to)
        give_way()
        try:
            counts_before, counts_after = self._terms.expected_counts(
                [(w.segment.node_id, w.former_node is None, w.openings) for w in work]
            )
            expected = common_among(counts_after)
            derived = derive_batch(mark_common(work, expected))
            failpoint("derive.computed")
            give_way()
            added = self._terms.add_segments(_list_filed(derived))
            give_way()
            common = common_among(self._terms.count_segments(counts_after))
            changed_work = mark_common([w for w in work if not w.openings.isdisjoint(expected ^ common)], common)
            if crossed := common - common_among(counts_before):
                changed_work += self._mark_crossed({opening: counts_before[opening] for opening in crossed}, work)
            if changed_work:
                again = {d.segment.key: d for d in derive_batch(changed_work)}
                derived = list(({d.segment.key: d for d in derived} | again).values())
            give_way()
            is_rolled_up = self._publish_step(derived, added, derived_to, add_periods, give_way)
            self._holders.note_segments(work)
        except BaseException:
            self._terms.forget()
            self._holders.clear()
            raise
        if not is_rolled_up:
            self.touched.update(d.segment.day for d in derived)
        if self._steps_since_fold is not None:
            self._steps_since_fold += 1
        return bool(derived)

    def _mark_crossed(self, crossed: Mapping[int, int], work: Sequence[SegmentWork]) -> list[SegmentWork]:
        """Return the stored segments not in `work` with an opening that is common now; `crossed`: in how many each was."""
        stored_work = self._stored_work(crossed, {w.segment.key for w in work})
        counts = self._terms.count_segments(o for w in stored_work for o in w.openings)
        return mark_common(stored_work, common_among(counts))

    def _place_events(self, events: Sequence[Event]) -> "_BatchChanges":
        """Those that they join, open, take an event from, or sum up."""
        duplicate_pairs = self._storage.events.find_duplicates(e.event_id for e in events)
        by_id = {e.event_id: e for e in events}
        # What a new event joins may hide others with it.
        groups = self._storage.events.find_duplicates(set(duplicate_pairs.values()) - by_id.keys()) if duplicate_pairs else {}
        hidden_ids = [hidden for hidden, shown in (duplicate_pairs | groups).items() if shown in by_id or hidden not in by_id]
        hidden_events = [by_id[i] for i in hidden_ids if i in by_id]
        hidden_events += self._storage.events.get_events(i for i in hidden_ids if i not in by_id).values()
        streams: dict[int, list[Event]] = {event.stream: [] for event in hidden_events}
        for event in events:
            if event.event_id not in duplicate_pairs:
                streams.setdefault(event.stream, []).append(event)
        cuts = self._storage.toc.get_cuts(streams)
        changes = _BatchChanges(events=by_id)
        for event in hidden_events:
            for index, cut in enumerate(cuts[event.stream]):
                if cut.start <= event.order <= cut.end:
                    # An event of the batch itself was not counted yet: its segment is only counted again.
                    is_counted = event.event_id not in by_id
                    tokens_left = max(cut.tokens - is_counted * size_of(event), 0)
                    shrunk = replace(cut, events=max(cut.events - is_counted, 0), tokens=tokens_left)
                    cuts[event.stream][index] = changes.changed[cut.key] = shrunk
                    changes.recounted.add(cut.key)
        for stream, stream_events in streams.items():
            assignment = assign_events(cuts[stream], stream_events, self._calendar, self._settings)
            changes.changed.update((c.key, c) for c in assignment.changed)
            changes.members.update(assignment.members)
            first = min((c.start for c in assignment.changed), default=None)
            if any(map(is_recap, stream_events)) or (first is not None and any(c.start > first for c in cuts[stream])):
                changes.recap_streams.add(stream)
        changes.recap_streams |= {changes.changed[key].stream for key in changes.recounted}
        if changes.recap_streams:
            changes.recaps = self._storage.events.list_recaps(changes.recap_streams)
            for stream in changes.recap_streams:
                _mark_recap_segments(cuts[stream], streams.get(stream, ()), changes)
        return changes

    def _collect_work(self, changes: "_BatchChanges", derived_to: int) -> list[SegmentWork]:
        members: dict[int, list[Event]] = {}
        for event_id, key in changes.members.items():
            members.setdefault(key, []).append(changes.events[event_id])
        changed = list(changes.changed.values())
        partial = [cut for cut in changed if cut.key in changes.recounted or len(members.get(cut.key, ())) != cut.events]
        stored = self._storage.events.events_by_segment(partial, derived_to)
        by_id = {cut.node_id: cut.key for cut in partial}
        former_nodes = {by_id[i]: node for i, node in self._storage.toc.get_nodes(by_id).items() if i in by_id}
        work = []
        for cut in changed:
            events = stored[cut.key] if cut.key in stored else sorted(members[cut.key], key=lambda e: e.order)
            counted = cut
            if len(events) != cut.events or cut.key in changes.recounted:
                counted = replace(cut, events=len(events), tokens=sum(map(size_of, events)))
            work.append(
                SegmentWork(
                    counted,
                    tuple(events),
                    former_nodes.get(cut.key),
                    recap_of(cut, changes.recaps),
                    openings_of(events),
                    fresh=changes.find_fresh(cut.key, members.get(cut.key, ()), cut.key in former_nodes),
                )
            )
        return work

    def _stored_work(self, openings: Mapping[int, int], excluded_keys: Collection[int]) -> list[SegmentWork]:
        """Return the stored segments that have any of some openings; `openings` says in how many each is."""
        ids = self._holders.find_holders(self._storage.toc, openings)
        cuts = self._storage.toc.get_segments(
            [key for key in map(segment_key_of, ids) if key is not None and key not in excluded_keys]
        )
        events = self._storage.events.events_by_segment(list(cuts.values()), self._checkpoint)
        former_nodes = self._storage.toc.get_nodes(ids)
        recaps = self._storage.events.list_recaps({cut.stream for cut in cuts.values()})
        work = [
            SegmentWork(
                cut,
                tuple(events[key]),
                former_nodes.get(cut.node_id),
                recap_of(cut, recaps),
                openings_of(events[key]),
                fresh=frozenset(),
            )
            for key, cut in cuts.items()
            if events.get(key)
        ]
        return [stored for stored in work if not stored.openings.isdisjoint(openings)]

    def _publish_step(
        self,
        derived: Sequence[DerivedSegment],
        added: AddedRows,
        derived_to: int,
        add_periods: AddPeriods | None,
        give_way: Callable[[], object],
    ) -> bool:
        """Publish segments; return whether their periods were published with them."""
        build = Build(
            segments=tuple(d.segment for d in derived),
            nodes=tuple(d.node for d in derived),
            grips=tuple(g for d in derived for g in d.grips),
            terms=tuple(added.rows),
            frequencies=tuple(added.frequencies),
            reset_terms=tuple(added.reset),
            runs=tuple(r for d in derived for r in d.runs),
            reset_runs=tuple(d.segment.key for d in derived if d.resets_runs),
            derived_to=derived_to,
        )
        with_periods = add_periods(build) if add_periods else None
        shrunk_days = {d.segment.day for d in derived if d.node.node_id in added.reset}
        if self._is_bulk:
            self._note_shrunk(shrunk_days)
        self._storage.toc.publish_build(with_periods or build)
        if not self._is_bulk:
            self._refit(shrunk_days, give_way)
        return with_periods is not None


def _list_filed(derived: Sequence[DerivedSegment]) -> list[FiledSegment]:
    return [FiledSegment(d.node.node_id, d.segment.day, d.segment.project, d.hashes, d.node.version == 1) for d in derived]


@dataclass(slots=True)
class _BatchChanges:
    """The changes of one batch."""

    #: Its events by id.
    events: Mapping[EventId, Event]
    #: Cuts that are to be derived, by key.
    changed: dict[int, Segment] = field(default_factory=dict)
    #: The cut of each event that has a place of its own.
    members: dict[EventId, int] = field(default_factory=dict)
    #: Streams whose recaps must be known, and these.
    recap_streams: set[int] = field(default_factory=set)
    recaps: Sequence[Event] = ()
    #: Cuts that may have lost an event to its duplicate.
    recounted: set[int] = field(default_factory=set)

    def find_fresh(self, key: int, members: Sequence[Event], is_stored: bool) -> frozenset[EventId] | None:
        """Return the events of a segment whose tool runs are not stored; None: all."""
        if not is_stored or key in self.recounted:
            return None
        return frozenset(event.event_id for event in members)


def _mark_recap_segments(cuts: Sequence[Segment], events: Sequence[Event], changes: _BatchChanges) -> None:
    fresh = sorted(e.order for e in events if is_recap(e))
    if fresh:
        earlier = (r.order for r in changes.recaps if r.stream == events[0].stream and r.order < fresh[0])
        since = max(earlier, default=(0, ""))
        changes.changed.update((c.key, c) for c in cuts if c.key not in changes.changed and since < c.start < fresh[-1])
