"""What any engine keeps, as protocols; nothing above knows which engine it is.

Invariants
1. Acknowledged means on disk: kill -9 or power loss after a writing method returned loses nothing but builds that `may_wait`.
2. Each writing method is one transaction: all of it is stored, or nothing.
3. Readers see whole transactions and never wait for a writer.
4. Every method may be called from any thread; writes are serialised inside.

Any method raises StorageError or one of its kinds when the engine fails, and DeadlineExceeded when its thread is interrupted.
Days are ISO dates (2026-01-31) of the store's zone, times UTC milliseconds, unless stated otherwise. A span of days does not
include `after_day`; a project, agent or window of None restricts nothing. Results leave out unknown ids.
Change here: keep the truth elsewhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import LLM, TocNode
from memory_mcp.storage.archive import ArchiveStore
from memory_mcp.storage.records import GripStore, Records
from memory_mcp.storage.values import (
    AppendResult,
    Build,
    Cleaner,
    ErasureResult,
    EventBatch,
    EventPosition,
    Freshness,
    Loss,
    Scope,
    SessionInfo,
    StoredEvent,
    StoreStats,
    Tally,
    WordReading,
    WriteRequest,
)


class EventStore(Protocol):
    """Layer 0: immutable events.

    An event is shown unless another one replaces it as the same message.
    """

    def append(self, events: Sequence[Event], request: WriteRequest | None = None) -> AppendResult:
        """Store new events; return their ids and those stored before.

        An id that is stored with another text becomes a variant id, so nothing is lost; storing the same events twice changes
        nothing. With a `request` whose key was answered within the last hour nothing is stored, and that answer is returned.
        """

    def append_batches(self, batches: Sequence[EventBatch]) -> list[AppendResult]:
        """Append each batch in turn; return their results in order.

        In one commit where commits are expensive.
        """

    def find_event(self, event_id: EventId) -> Event | None:
        """Return an event, shown or not, with its project's present name."""

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        """Return the stored events of `ids` by id, shown or not."""

    def find_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        """Return the stored ids whose lower 80 bits, a hash of the source, are in `tails`, by these bits."""

    def read_after(self, seq: int, limit: int) -> list[StoredEvent]:
        """Return up to `limit` committed events numbered above `seq`, shown or not."""

    def list_arrivals(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        """Return a scope's shown events numbered `after` < n <= `to`.

        In order of arrival; only those that may hold one of `probes`, lower-case texts, if there are any. With `live`, imported
        events are left out.
        """

    def last_seq(self) -> int:
        """Return the highest event number; 0 in an empty store."""

    def find_duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Return pairs with one of `ids`: hidden id to shown id.

        A pair is one message that both a client's hook and its transcript recorded.
        """

    def segment_events(self, segment: Segment) -> list[Event]:
        """Return a segment's events in order, as `events_by_segment` does."""
        return self.events_by_segment([segment]).get(segment.key, [])

    def events_by_segment(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        """Return the shown events of each segment by its key, in order.

        Only those numbered up to `last_seq`, if given. A segment of which none is shown, since another one has the same
        messages, has the hidden ones. One without any event is left out.
        """

    def list_recaps(self, streams: Iterable[int]) -> list[Event]:
        """Return the shown recaps of these streams, a client's summaries of its conversation, in order of time."""

    def get_neighbours(self, event: Event, earlier_limit: int, later_limit: int) -> tuple[list[Event], list[Event]]:
        """Return shown events before and after one in its stream."""

    def list_followers(self, events: Sequence[Event], limit: int) -> list[list[Event]]:
        """Return the later neighbours of each event, at most `limit`."""
        return [self.get_neighbours(event, 0, limit)[1] for event in events]

    def list_events(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        """Return up to `limit` shown events of a scope by (timestamp, id).

        Of one session if it is named. `after` is the (timestamp, id) of the last event that the caller has.
        """

    def search_words(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> list[Event]:
        """Return up to `limit` shown events of a scope with all `words`, newest first.

        Without words simply the newest. Neither case nor the kind of white space matters. With `segments` only of these.
        """

    def read_words(self, scope: Scope, words: Sequence[str]) -> WordReading:
        """Return a search for the events of a scope with all `words`, for several questions in a row."""

    def count_events(self, scope: Scope, windows: Sequence[TimeWindow]) -> list[int]:
        """Return how many shown events of a scope are in each window."""

    def rank_positions(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[EventPosition]]:
        """Return the number of a scope's events, and the best positions.

        Of shown events at most `limit`, best first, the latest among equals. `probes` has a weight for each lower-case text; the
        sum that an event holds is divided by the logarithm of its length, so that long ones do not win.
        """

    def get_span(self, scope: Scope) -> TimeWindow | None:
        """Return the time of a scope's shown events, or None."""

    def list_sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        """Return up to `limit` sessions with counts of a scope, latest first."""

    def list_speakers(self, scope: Scope) -> list[str]:
        """Return the speakers of a scope's shown events, sorted, without ""."""

    def count_matches(self, begin: str, pattern: str) -> dict[str, int]:
        """Return how often shown texts and metadata match, by matched group.

        `pattern` has one group, and begins with `begin`.
        """

    def iter_all(self, batch: int = 2000) -> Iterator[list[StoredEvent]]:
        """Yield every event by arrival, `batch` at a time.

        Each batch is a separate read: events stored meanwhile are included.
        """
        seq = 0
        while events := self.read_after(seq, batch):
            yield events
            seq = events[-1].seq


class TocStore(Protocol):
    """Layer 1: cuts, nodes, term sets."""

    def current_version(self) -> int:
        """Return the number of the last change, cheaply.

        What was read under one number may be kept until the next.
        """

    def publish_build(self, build: Build) -> int:
        """Write a build with its outbox entries; return its number.

        One transaction; the number is that of its last entry.
        """

    def get_cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        """Return all cuts of some streams, by stream and start.

        A stream without cuts has [].
        """

    def iter_cuts(self) -> Iterator[Segment]:
        """Yield every cut, ordered by stream and start."""

    def get_segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Return the existing cuts of these segment keys, by key."""

    def list_segments(self, scope: Scope) -> list[Segment]:
        """Return the cuts whose time, project and agent meet a scope, by start."""

    def find_node(self, node_id: NodeId) -> TocNode | None:
        """Return the latest version of a node, also by a former id."""

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the latest versions of nodes by present id, with bullets and pins."""

    def get_heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the same as `get_nodes`, but without bullets and pins.

        Enough to name a node, at a third of the cost.
        """

    def list_refined(self) -> list[NodeId]:
        """Return the ids of the current nodes that an agent has written."""
        return [node_id for node_id, author in self.get_authors().items() if not author.startswith(LLM)]

    def get_authors(self) -> dict[NodeId, str]:
        """Return the author of each current node not by the summarizer."""

    def get_builds(self, ids: Iterable[NodeId]) -> dict[NodeId, int]:
        """Return the build numbers of nodes by present id, cheaply where they are kept in memory."""

    def get_stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        """Return build number, term row count and last term row of nodes."""

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        """Return a node's children by time; for the root, the years."""

    def list_ids(self, level: TocLevel, window: TimeWindow | None = None) -> list[NodeId]:
        """Return the ids of a level that begin in the window, by time."""

    def tally_with(self, first_day: str, after_day: str, cuts: Sequence[Segment]) -> Tally | None:  # noqa: ARG002
        """Return the counts that there will be once `cuts` are published; None if an engine cannot tell."""
        return None

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:
        """Return counts and names of a span of days' segments."""

    def count_segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        """Return every day that has segments, with their number, in order."""

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        """Return the days of a span that have a segment, in order."""

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Return the cuts filed under a span of days, by start."""

    def list_salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        """Return up to `limit` most salient segments of a span, newest first."""

    def list_day_terms(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """Return the term rows of a project's segments in a span of days.

        Each row is sorted little-endian uint32.
        """

    def get_freshness(self) -> Freshness:
        """Return the highest build number of each period, and of each day's segments."""

    def get_term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """Return the stored term rows of each node; their union is its set.

        Each row is sorted little-endian uint32.
        """

    def fold_terms(self, more_than: int) -> int:
        """Join term rows where a node or project has more than `more_than`.

        Return how many nodes and projects had.
        """

    def list_frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """Return the root's document frequencies: project, hashes, counts.

        Hashes are uint32, counts int32, little-endian.
        """

    def set_pin(self, target: str, on: bool, by: str) -> None:
        """Pin a node or grip id in the name of `by`, or unpin it.

        It need not exist.
        """

    def list_pins(self) -> frozenset[str]:
        """Return every node and grip id that is pinned."""

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes with bullets and term sets, noting each, in one transaction."""

    def move_segments(self, days: Mapping[int, str]) -> None:
        """File segments (by key) under other days, noting each.

        After a change of zone; their old ids can still be read.
        """

    def replace_cuts(self, cuts: Sequence[Segment], leads: Mapping[NodeId, NodeId]) -> None:
        """Store cuts under their keys, and remove the nodes in `leads`.

        Each removed id leads to the node that it is mapped to, and the grips filed under it are filed there.
        """

    def iter_nodes(self) -> Iterator[TocNode]:
        """Yield the latest version of every node with bullets and pins."""


class Storage(Records, Protocol):
    """Everything that is kept of one memory, in several stores."""

    @property
    def events(self) -> EventStore:
        """Layer 0: the events."""

    @property
    def toc(self) -> TocStore:
        """Layer 1: the time tree."""

    @property
    def grips(self) -> GripStore:
        """The quotations."""

    @property
    def archive(self) -> ArchiveStore:
        """The whole store as rows."""

    @property
    def timezone(self) -> str:
        """IANA name of the zone in which days are counted."""

    def set_timezone(self, name: str) -> None:
        """Change the zone; only `admin rebuild-toc --timezone` does.

        Raises InvalidQuery for a zone that does not exist.
        """

    def get_stats(self, text: bool = True) -> StoreStats:
        """Return counts by table, sizes and facts.

        Without `text`, for which every text is read, `text_bytes` is 0.
        """

    def latest_times(self) -> dict[str, int]:
        """Return the time of each source's newest event, UTC ms."""

    def interrupt_reads(self, thread: int | None = None) -> None:
        """Stop the running reads of one thread, or of all.

        They raise DeadlineExceeded.
        """

    def hold_claim(self, name: str) -> AbstractContextManager[bool]:
        """Hold the claim `name` for a block, in one process at a time.

        Yields whether another process may have held it since this one did last. Raises Busy when another process does not
        let go in time.
        """

    def drop_caches(self) -> None:
        """Drop what is kept in memory, so that checks see what is stored."""

    def copy_rows(self, should_stop: Callable[[], bool]) -> int:
        """Copy rows that answers read by id to where they are found fast; return how many.

        In portions, until nothing is missing or `should_stop`; 0 for an engine that needs no copy. Then memory is given back.
        """

    def write_checkpoint(self) -> None:
        """Write the log into the file, so that opening replays little."""

    def erase_forgotten(self, keep: Cleaner, dry: bool = False, after: int = 0) -> ErasureResult:
        """Remove from every table what `keep` does not keep; return it.

        With `dry` only count it. Events up to the number `after` are known to hold nothing of it. Writers wait while it is
        removed, not while events are looked through. The caller derives again what depended on the removed events.
        """

    def dead_bytes(self) -> int:
        """Return how many bytes `compact_files` would free."""

    def rewrite_deleted_file(self) -> bool:
        """Write the file again if it was deleted; return whether it was."""

    def compact_files(self) -> tuple[int, int]:
        """Rewrite the files without dead space; return old and new bytes.

        Reads go on and writes wait meanwhile.
        """

    @property
    def loss(self) -> Loss | None:
        """Acknowledged events that are missing, until a person acknowledges it."""

    def accept_contents(self, acknowledge: bool = False) -> None:
        """Note that what the store holds now is what was acknowledged.

        After events were removed on purpose. With `acknowledge` a known loss counts as acknowledged too, and is no longer
        reported.
        """

    def close(self) -> None:
        """Write a checkpoint and release the lock; idempotent."""
