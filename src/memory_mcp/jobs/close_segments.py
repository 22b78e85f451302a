"""New events to segments, nodes, grips and terms; each step one transaction with its checkpoint.

Between a kill and the next start the checkpoint says where to go on; a step done twice changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from memory_mcp.failpoints import failpoint
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.segments import Assignment, SegmentSettings, assign
from memory_mcp.storage.base import Build, Storage
from memory_mcp.summarize.base import Summarizer
from memory_mcp.toc.build import Derived, Work, derive
from memory_mcp.toc.terms import Filed, TermBook

DeriveBatch = Callable[[Sequence[Work]], list[Derived]]

#: Name of the deriver's checkpoint; it counts events.
FOLLOWER = "deriver"
#: Events taken up at once; with their segments they stay well below 50 MB.
BATCH = 2000
#: Folding starts when a node has this many rows of terms.
FOLD_AT = 24


class CloseSegments:
    """The deriver. Only one may run at a time; `app` sees to that."""

    def __init__(self, storage: Storage, calendar: Calendar, summarizer: Summarizer, settings: SegmentSettings) -> None:
        self._storage = storage
        self._calendar = calendar
        self._summarizer = summarizer
        self._settings = settings
        self._terms = TermBook(storage.toc)

    def pending(self) -> int:
        """Events stored and not yet derived."""
        return self._storage.events.last_seq() - self._storage.outbox.checkpoint(FOLLOWER)

    def run(self, progress: Callable[[int], None] | None = None, derive_batch: DeriveBatch | None = None) -> set[str]:
        """Derive everything pending; the days whose segments changed.

        `derive_batch` may spread the pure part over processes; it must give what `toc.build.derive` gives.
        """
        work = derive_batch or (lambda batch: derive(batch, self._calendar, self._summarizer))
        days: set[str] = set()
        while True:
            done = self._storage.outbox.checkpoint(FOLLOWER)
            batch = self._storage.events.after(done, BATCH)
            if not batch:
                break
            days |= self._step([s.event for s in batch], batch[-1].seq, work)
            if progress:
                progress(len(batch))
        if days:
            self._storage.toc.fold_terms(FOLD_AT)
        return days

    def _step(self, events: Sequence[Event], derived_to: int, derive_batch: DeriveBatch) -> set[str]:
        placed = self._place(events)
        changed = [cut for a in placed.values() for cut in a.changed]
        derived = derive_batch(self._work(changed, placed, events))
        failpoint("derive.computed")
        try:
            self._publish(changed, derived, derived_to)
        except BaseException:
            self._terms.forget()
            raise
        return {cut.day for cut in changed}

    def _place(self, events: Sequence[Event]) -> dict[int, Assignment]:
        streams: dict[int, list[Event]] = {}
        for event in events:
            streams.setdefault(event.stream, []).append(event)
        cuts = self._storage.toc.cuts(streams)
        return {s: assign(cuts[s], found, self._calendar, self._settings) for s, found in streams.items()}

    def _work(self, changed: Sequence[Segment], placed: Mapping[int, Assignment], events: Sequence[Event]) -> list[Work]:
        """Each changed segment with all its events: from the batch when it lies wholly inside, else from the store."""
        by_id = {e.event_id: e for e in events}
        members: dict[int, list[Event]] = {}
        for assignment in placed.values():
            for event_id, key in assignment.members.items():
                members.setdefault(key, []).append(by_id[event_id])
        partial = [cut for cut in changed if len(members.get(cut.key, ())) != cut.events]
        stored = self._storage.events.in_segments(partial)
        before = self._before(partial)
        return [
            Work(
                cut,
                tuple(stored[cut.key] if cut.key in stored else sorted(members[cut.key], key=lambda e: e.order)),
                before.get(cut.key),
            )
            for cut in changed
        ]

    def _before(self, cuts: Iterable[Segment]) -> dict[int, TocNode]:
        by_id = {cut.node_id: cut.key for cut in cuts}
        return {by_id[i]: node for i, node in self._storage.toc.nodes(by_id).items() if i in by_id}

    def _publish(self, changed: Sequence[Segment], derived: Sequence[Derived], derived_to: int) -> None:
        terms, frequencies = self._terms.add(
            [Filed(d.node.node_id, d.segment.day, d.segment.project, d.hashes, d.node.version == 1) for d in derived]
        )
        self._storage.toc.publish(
            Build(
                segments=tuple(changed),
                nodes=tuple(d.node for d in derived),
                grips=tuple(g for d in derived for g in d.grips),
                terms=tuple(terms),
                frequencies=tuple(frequencies),
                derived_to=derived_to,
            )
        )
