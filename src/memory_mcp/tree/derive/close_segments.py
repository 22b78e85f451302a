"""New events to segments, nodes, grips and terms; each step one transaction with its checkpoint.

Between a kill and the next start the checkpoint says where to go on; a step done twice changes nothing.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from memory_mcp.base import metrics
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, is_recap
from memory_mcp.model.ids import EventId, segment_key_of
from memory_mcp.model.segment import Segment
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Build
from memory_mcp.tree.derive.build import Derived, Work, derive
from memory_mcp.tree.derive.repeated import common_among, holders_of, mark_common
from memory_mcp.tree.derive.segments import SegmentSettings, assign, recap_of, size_of
from memory_mcp.tree.derive.terms import Added, Filed, TermBook, refit_all
from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.summarize.stretch import openings_of

DeriveBatch = Callable[[Sequence[Work]], list[Derived]]

#: Name of the deriver's checkpoint; it counts events.
FOLLOWER = "deriver"
#: Events taken up at once; with their segments they stay well below 50 MB.
BATCH = 2000
#: Folding starts when a node has this many rows of terms.
FOLD_AT = 24


class CloseSegments:
    """Derives segments. Only one may run at a time; see `Derivation.publishing`."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer, settings: SegmentSettings) -> None:
        """Prepare the derivation; nothing is read from the store before the first call."""
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._settings = settings
        self._terms = TermBook(storage.toc)
        #: The checkpoint as it was last read or written; None before that.
        self._done: int | None = None
        #: Steps since term rows were joined last: no node has got more rows than that. None: it is not known.
        self._unfolded: int | None = None
        #: Days whose segments were published since the last `take_touched`.
        self.touched: set[str] = set()

    def reread(self) -> None:
        """Drop cached terms and the cached checkpoint after another process changed the store."""
        self._terms.forget()
        self._done = self._unfolded = None

    def pending(self) -> int:
        """Return the number of events stored and not derived, by the checkpoint that the first call reads, cached later."""
        return self._storage.events.last_seq() - self.reached()

    def reached(self) -> int:
        """Return the number of the last derived event; read once, then cached."""
        if self._done is None:
            self._done = self._storage.outbox.get_checkpoint(FOLLOWER)
        return self._done

    def run(
        self,
        progress: Callable[[int], None] | None = None,
        derive_batch: DeriveBatch | None = None,
        size: int = BATCH,
        steps: int | None = None,
    ) -> None:
        """Derive everything pending, or `steps` steps of it, of `size` events each.

        Each step is a transaction with its checkpoint. What is stored meanwhile waits for the next run, but for what fits into
        the last batch. `progress` gets the number of events of each step. `derive_batch` may spread the pure part over
        processes; it must give what `derive.build.derive` gives. Errors are passed on: steps done stay done.
        """
        work = derive_batch or (lambda batch: derive(batch, self._calendar, self._summarizer))
        changed = False
        goal = self._storage.events.last_seq()
        while True:
            self._done = self._storage.outbox.get_checkpoint(FOLLOWER)
            batch = self._storage.events.read_after(self._done, size) if self._done < goal else ()
            if not batch:
                break
            with metrics.run("derive"):
                changed |= self._step([s.event for s in batch], batch[-1].seq, work)
            self._done = batch[-1].seq
            if progress:
                progress(len(batch))
            if steps is not None and (steps := steps - 1) <= 0:
                break
        if changed and steps is None:
            self.fold()

    def fold(self) -> None:
        """Join the term rows of nodes that have 24 or more, in one transaction; skipped if none can: finding them is slow."""
        if self._unfolded is None or self._unfolded >= FOLD_AT:
            self._storage.toc.fold_terms(FOLD_AT)
            self._unfolded = 0

    def take_touched(self) -> set[str]:
        """Return the days whose segments were published since the last call, and clear them."""
        touched, self.touched = self.touched, set()
        return touched

    def _step(self, events: Sequence[Event], derived_to: int, derive_batch: DeriveBatch) -> bool:
        """Derive and publish one batch in one transaction; return whether a segment changed. An error drops cached terms."""
        work = self._work(self._placed(events), derived_to)
        try:
            before, after = self._terms.expect([(w.segment.node_id, w.before is None, w.openings) for w in work])
            expected = common_among(after)
            derived = derive_batch(mark_common(work, expected))
            failpoint("derive.computed")
            added = self._terms.add(
                [Filed(d.node.node_id, d.segment.day, d.segment.project, d.hashes, d.node.version == 1) for d in derived]
            )
            common = common_among(self._terms.count(after))
            again = mark_common([w for w in work if not w.openings.isdisjoint(expected ^ common)], common)
            if crossed := common - common_among(before):
                others = self._stored_work(crossed, {w.segment.key for w in work})
                again += mark_common(others, common_among(self._terms.count(o for w in others for o in w.openings)))
            if again:
                derived = list(({d.segment.key: d for d in derived} | {d.segment.key: d for d in derive_batch(again)}).values())
            self._publish(derived, added, derived_to)
        except BaseException:
            self._terms.forget()
            raise
        self.touched.update(d.segment.day for d in derived)
        if self._unfolded is not None:
            self._unfolded += 1
        return bool(derived)

    def _placed(self, events: Sequence[Event]) -> "_Placed":
        """Return the segments that these events change: those they join or open, and those that lose a duplicate.

        Segments that a new recap describes are among them. Events that a duplicate hides are placed nowhere.
        """
        pairs = self._storage.events.find_duplicates(e.event_id for e in events)
        by_id = {e.event_id: e for e in events}
        # What a new event joins may hide others with it.
        groups = self._storage.events.find_duplicates(set(pairs.values()) - by_id.keys()) if pairs else {}
        outdone = [hidden for hidden, shown in (pairs | groups).items() if shown in by_id or hidden not in by_id]
        lost = [by_id[i] for i in outdone if i in by_id]
        lost += self._storage.events.get_events(i for i in outdone if i not in by_id).values()
        streams: dict[int, list[Event]] = {event.stream: [] for event in lost}
        for event in events:
            if event.event_id not in pairs:
                streams.setdefault(event.stream, []).append(event)
        cuts = self._storage.toc.get_cuts(streams)
        placed = _Placed(events=by_id)
        for event in lost:
            for place, cut in enumerate(cuts[event.stream]):
                if cut.start <= event.order <= cut.end:
                    # An event of the batch itself was not counted yet: its segment is only counted again.
                    held = event.event_id not in by_id
                    left = max(cut.tokens - held * size_of(event), 0)
                    shrunk = replace(cut, events=max(cut.events - held, 0), tokens=left)
                    cuts[event.stream][place] = placed.changed[cut.key] = shrunk
                    placed.recounted.add(cut.key)
        for stream, found in streams.items():
            assignment = assign(cuts[stream], found, self._calendar, self._settings)
            placed.changed.update((c.key, c) for c in assignment.changed)
            placed.members.update(assignment.members)
            first = min((c.start for c in assignment.changed), default=None)
            if any(map(is_recap, found)) or (first is not None and any(c.start > first for c in cuts[stream])):
                placed.told.add(stream)
        placed.told |= {placed.changed[key].stream for key in placed.recounted}
        if placed.told:
            placed.recaps = self._storage.events.list_recaps(placed.told)
            for stream in placed.told:
                _told_anew(cuts[stream], streams.get(stream, ()), placed)
        return placed

    def _work(self, placed: "_Placed", derived_to: int) -> list[Work]:
        """Return each changed segment with all its events, from the batch if it holds them all, else from the store.

        With it go its node as published before, and its recap. Its counts are corrected where they differ from its events.
        """
        members: dict[int, list[Event]] = {}
        for event_id, key in placed.members.items():
            members.setdefault(key, []).append(placed.events[event_id])
        changed = list(placed.changed.values())
        partial = [cut for cut in changed if cut.key in placed.recounted or len(members.get(cut.key, ())) != cut.events]
        stored = self._storage.events.events_by_segment(partial, derived_to)
        by_id = {cut.node_id: cut.key for cut in partial}
        before = {by_id[i]: node for i, node in self._storage.toc.get_nodes(by_id).items() if i in by_id}
        work = []
        for cut in changed:
            own = stored[cut.key] if cut.key in stored else sorted(members[cut.key], key=lambda e: e.order)
            counted = cut
            if len(own) != cut.events or cut.key in placed.recounted:
                counted = replace(cut, events=len(own), tokens=sum(map(size_of, own)))
            work.append(Work(counted, tuple(own), before.get(cut.key), recap_of(cut, placed.recaps), openings_of(own)))
        return work

    def _stored_work(self, openings: Collection[int], placed: Collection[int]) -> list[Work]:
        """Return the stored segments that have one of these openings, with events, node and recap; without those `placed`."""
        ids = holders_of(self._storage.toc, openings)
        cuts = self._storage.toc.get_segments([key for key in map(segment_key_of, ids) if key is not None and key not in placed])
        events = self._storage.events.events_by_segment(list(cuts.values()), self._done)
        before = self._storage.toc.get_nodes(ids)
        recaps = self._storage.events.list_recaps({cut.stream for cut in cuts.values()})
        work = [
            Work(cut, tuple(events[key]), before.get(cut.node_id), recap_of(cut, recaps), openings_of(events[key]))
            for key, cut in cuts.items()
            if events.get(key)
        ]
        return [each for each in work if not each.openings.isdisjoint(openings)]

    def _publish(self, derived: Sequence[Derived], added: Added, derived_to: int) -> None:
        """Store segments, nodes, grips, terms and the checkpoint in one transaction.

        Where a segment lost terms, those of its periods are written again in further transactions.
        """
        self._storage.toc.publish_build(
            Build(
                segments=tuple(d.segment for d in derived),
                nodes=tuple(d.node for d in derived),
                grips=tuple(g for d in derived for g in d.grips),
                terms=tuple(added.rows),
                frequencies=tuple(added.frequencies),
                reset_terms=tuple(added.reset),
                derived_to=derived_to,
            )
        )
        if added.reset:
            # Killed before this, the periods hold a few terms too many: a visit too many, until the next rebuild.
            shrunk = {d.segment.day for d in derived if d.node.node_id in added.reset}
            refit_all(self._storage.toc, shrunk)
            self._terms.forget()


@dataclass(slots=True)
class _Placed:
    """The changes of one batch."""

    #: Its events by id.
    events: Mapping[EventId, Event]
    #: Cuts that are to be derived, by key.
    changed: dict[int, Segment] = field(default_factory=dict)
    #: The cut of each event that has a place of its own.
    members: dict[EventId, int] = field(default_factory=dict)
    #: Streams whose recaps must be known, and these.
    told: set[int] = field(default_factory=set)
    recaps: Sequence[Event] = ()
    #: Cuts that may have lost an event to its duplicate.
    recounted: set[int] = field(default_factory=set)


def _told_anew(cuts: Sequence[Segment], events: Sequence[Event], placed: _Placed) -> None:
    """Mark the segments between the last new recap and the recap before the first new one to be derived again.

    `events` are new ones of one stream, `cuts` its segments. Does nothing without a new recap.
    """
    fresh = sorted(e.order for e in events if is_recap(e))
    if fresh:
        earlier = (r.order for r in placed.recaps if r.stream == events[0].stream and r.order < fresh[0])
        since = max(earlier, default=(0, ""))
        placed.changed.update((c.key, c) for c in cuts if c.key not in placed.changed and since < c.start < fresh[-1])
