"""What any engine must keep, and how; nothing above this room knows which engine it is.

Invariants
1. Acknowledged means committed: when a writing method returns, kill -9 and power loss do not lose what it wrote.
2. Each writing method is one transaction: all of it is there, or nothing.
3. Readers see whole transactions and never wait for a writer.
4. Every method may be called from any thread; writes are serialised inside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, GripId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.archive import ArchiveStore
from memory_mcp.storage.records import Records
from memory_mcp.storage.values import (
    Appended,
    Batch,
    Build,
    Cleaner,
    Erased,
    Freshness,
    Loss,
    Place,
    Request,
    Scope,
    SessionInfo,
    StoredEvent,
    StoreStats,
    Tally,
)


class EventStore(Protocol):
    """Layer 0: immutable events."""

    def append(self, events: Sequence[Event], request: Request | None = None) -> Appended:
        """Store what is new. An id stored with other text gets a variant id, so nothing is lost; twice changes nothing."""
        ...

    def append_each(self, batches: Sequence[Batch]) -> list[Appended]:
        """Do what `append` does for each batch in turn; an engine whose commits are dear makes one commit of them."""
        ...

    def find(self, event_id: EventId) -> Event | None:
        """One event, or None."""
        ...

    def get_many(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        """Those of `ids` that exist."""
        ...

    def known_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        """Stored ids by their lower 80 bits: how an event without a source time is recognised."""
        ...

    def after(self, seq: int, limit: int) -> list[StoredEvent]:
        """Up to `limit` events that arrived after `seq`, in order of arrival."""
        ...

    def arrived(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        """Shown events that arrived after `after`, up to `to`, and may hold a lower-case probe; `live`: those of no import."""
        ...

    def last_seq(self) -> int:
        """Highest sequence number in the store; 0 when it is empty."""
        ...

    def duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Messages told by a hook and by a transcript, those in which `ids` take part: the event not shown to the one shown."""
        ...

    def in_segment(self, segment: Segment) -> list[Event]:
        """A segment's own events in order."""
        ...

    def in_segments(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        """Of each segment (by key) its events in order, up to `last_seq`; of one told wholly elsewhere all the same."""
        ...

    def recaps(self, streams: Iterable[int]) -> list[Event]:
        """Every recap (see `model.event.RECAP`) of these streams, in order."""
        ...

    def around(self, event: Event, before: int, after: int) -> tuple[list[Event], list[Event]]:
        """Neighbours shown in the same session, project and thread: up to `before` earlier and `after` later ones, in order."""
        ...

    def window(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        """Events that are shown, in (timestamp, id) order, starting behind `after`."""
        ...

    def holding(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> tuple[int, list[Event]]:
        """How many events of a scope are shown, and those that hold every one of some texts, newest first.

        Neither case nor the kind of white space matters. `segments`: look in these alone.
        """
        ...

    def likely(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[Place]]:
        """Return how many events of a scope are shown, and where those lie that hold most of some texts, by their weights.

        The texts are in lower case; the best events first, the latest among equals. What an event holds is divided by the
        logarithm of its length: one of the right session is then among five for 53.8 % of coding questions, else for 48.7 %.
        """
        ...

    def span(self, scope: Scope) -> TimeWindow | None:
        """From the first to the last event of a scope that is shown; None where there is none."""
        ...

    def sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        """Sessions, latest first."""
        ...

    def speakers(self, scope: Scope) -> list[str]:
        """Return the names of those who spoke, in order."""
        ...

    def marks(self, begin: str, pattern: str) -> dict[str, int]:
        """Count what the only group of `pattern` matches in texts and metadata; every match begins with `begin`."""
        ...

    def iter_all(self, batch: int = 2000) -> Iterator[list[StoredEvent]]:
        """Every event in order of arrival, in batches."""
        ...


class TocStore(Protocol):
    """Layer 1: cuts, nodes, term sets."""

    def version(self) -> int:
        """The number of the last change; what was read under one version may be kept until the next. Free."""
        ...

    def publish(self, build: Build) -> int:
        """Write a build and its outbox entries in one transaction; the build number."""
        ...

    def cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        """All cuts of some streams, by stream, ordered by start."""
        ...

    def iter_cuts(self) -> Iterator[Segment]:
        """Every cut, by stream and start."""
        ...

    def segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Cuts by segment key."""
        ...

    def segments_in(self, scope: Scope) -> list[Segment]:
        """Cuts whose own time meets the scope's window, of its project and agent, ordered by start."""
        ...

    def find(self, node_id: NodeId) -> TocNode | None:
        """The latest version of a node, following aliases; None when there is none."""
        ...

    def nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Latest versions of those that exist."""
        ...

    def heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """As `nodes`, without bullets and pins: what is needed to name a node, at a third of the cost."""
        ...

    def refined(self) -> list[NodeId]:
        """Current nodes that an agent has written."""
        ...

    def authors(self) -> dict[NodeId, str]:
        """Who wrote each current node that the summarizer has not written: an agent, or a language model."""
        ...

    def stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        """For each node, by the id it has now: build number, rows of terms, the last of them. What was read under it holds."""
        ...

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        """Ids of the children of a node in time order; years for the root."""
        ...

    def ids_at(self, level: TocLevel, window: TimeWindow | None = None, project: str | None = None) -> list[NodeId]:
        """Ids of one level that begin inside the window, in time order; `project` filters segments only."""
        ...

    def tally(self, first_day: str, after_day: str, project: str | None) -> Tally:
        """Counts over the segments filed under local days from `first_day` up to, not including, `after_day`."""
        ...

    def segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        """Every local day that has segments (of the project), with how many, in order."""
        ...

    def days_with(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        """Local days of a span on which there is a segment (of the project), in order."""
        ...

    def segments_of_days(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Cuts filed under the days of a span, ordered by start."""
        ...

    def salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        """The most salient segments of a project in a span of days, the newest first among equals."""
        ...

    def terms_of_days(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """Stored term rows of all a project's segments in a span of days."""
        ...

    def freshness(self) -> Freshness:
        """Build numbers that decide which roll-ups are due."""
        ...

    def term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """Stored delta rows of each node: little-endian uint32, each row sorted."""
        ...

    def fold_terms(self, more_than: int) -> int:
        """Merge the rows of every node that has more than so many; how many nodes were folded."""
        ...

    def frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """The root's document frequency rows: project, hashes (uint32), counts (int32)."""
        ...

    def set_pin(self, target: str, on: bool, by: str) -> None:
        """Pin or unpin a node or grip id."""
        ...

    def pins(self) -> frozenset[str]:
        """Everything pinned."""
        ...

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes that must not exist, with bullets and term sets, each a change; never events, cuts, grips or pins."""
        ...

    def move_segments(self, days: Mapping[int, str]) -> None:
        """File segments under other days (by segment key), after a change of zone, each a change; old ids stay readable."""
        ...

    def recut(self, cuts: Sequence[Segment], leads: Mapping[NodeId, NodeId]) -> None:
        """Put cuts under their keys; drop those whose nodes `leads` names: such an id, and its grips, lead to another now."""
        ...

    def all_nodes(self) -> Iterator[TocNode]:
        """Latest version of every node, for checks and rebuilds."""
        ...


class GripStore(Protocol):
    """Quotations. Written by `TocStore.publish`, read here."""

    def find(self, grip_id: str) -> Grip | None:
        """A grip by any accepted form of its id, or None."""
        ...

    def get_many(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Those of `ids` that exist."""
        ...

    def of_events(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Grips that quote each event, in order of place."""
        ...

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """Every grip, in batches."""
        ...


class Storage(Records, Protocol):
    """The whole truth of one data directory."""

    @property
    def events(self) -> EventStore:
        """Layer 0."""
        ...

    @property
    def toc(self) -> TocStore:
        """Layer 1."""
        ...

    @property
    def grips(self) -> GripStore:
        """Quotations."""
        ...

    @property
    def archive(self) -> ArchiveStore:
        """Everything as rows."""
        ...

    @property
    def timezone(self) -> str:
        """The zone the store's days are counted in."""
        ...

    def set_timezone(self, name: str) -> None:
        """Change the zone; only `admin rebuild-toc --timezone` does."""
        ...

    def stats(self, text: bool = True) -> StoreStats:
        """Counts and sizes; without `text`, which reads every event, `text_bytes` is 0."""
        ...

    def latest(self) -> dict[str, int]:
        """The time of the newest event of each source (importer, hook, tool), UTC ms."""
        ...

    def interrupt(self, thread: int | None = None) -> None:
        """Stop the reads running now, in one thread (by its identity) or in all; they raise DeadlineExceeded."""
        ...

    def exclusive(self, name: str) -> AbstractContextManager[bool]:
        """Do what `name` says in one process alone of all that have the memory open: yields whether another did it since.

        Raises Busy when another process does not let go in time.
        """
        ...

    def reread(self) -> None:
        """Drop what is kept in memory of the store's content, so that checks and repairs see what is in the file."""
        ...

    def checkpoint(self) -> None:
        """Write what the log holds into the file, so that opening it after a crash has little to replay."""
        ...

    def erase(self, keep: Cleaner, dry: bool = False, after: int = 0) -> Erased:
        """Take out what `keep` does not keep, of every table; `dry`: only count it. Events up to number `after` hold nothing.

        Writers wait while it is taken out, not while events are looked through. The caller derives again what tells of it.
        """
        ...

    def dead_bytes(self) -> int:
        """How much of the files holds nothing, and would be gone after `compact`."""
        ...

    def save_anew(self) -> bool:
        """Write the file anew where somebody deleted it while it is open; whether that was so."""
        ...

    def compact(self) -> tuple[int, int]:
        """Rewrite the files without dead space, while reads go on and writes wait: size before and after, bytes."""
        ...

    @property
    def loss(self) -> Loss | None:
        """Acknowledged events that are missing, until a person acknowledges it. Free."""
        ...

    def reseal(self, acknowledge: bool = False) -> None:
        """What the store holds now is what was acknowledged, after events were rightly taken away; `acknowledge`: a loss too."""

    def close(self) -> None:
        """Checkpoint and let go of the lock; closing twice is nothing."""
        ...
