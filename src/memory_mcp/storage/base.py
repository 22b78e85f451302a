"""What any engine has to keep, as protocols; nothing above this room knows which engine it is.

Invariants
1. Acknowledged means committed: when a writing method returns, kill -9 and power loss do not lose what it wrote.
2. Each writing method is one transaction: all of it is stored, or nothing.
3. Readers see whole transactions and never wait for a writer.
4. Every method may be called from any thread; writes are serialised inside.

Any method raises StorageError or one of its kinds when the engine fails, and DeadlineExceeded when its thread is interrupted.
Days are ISO dates (2026-01-31) of the store's zone, times UTC milliseconds, unless something else is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event
from memory_mcp.model.ids import EventId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
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
    WriteRequest,
)


class EventStore(Protocol):
    """Layer 0: immutable events."""

    def append(self, events: Sequence[Event], request: WriteRequest | None = None) -> AppendResult:
        """Store the events that are new; return the ids of these and of those stored before.

        An id that is stored with another text becomes a variant id, so nothing is lost; storing the same events twice
        changes nothing. With a `request` whose key was answered within the last hour nothing is stored, and that
        answer is returned.
        """

    def append_batches(self, batches: Sequence[EventBatch]) -> list[AppendResult]:
        """Append each batch in turn, in one commit where commits are expensive; return their results in that order."""

    def find_event(self, event_id: EventId) -> Event | None:
        """Return the event of this id, also one that is not shown, with its project's present name; None for an unknown id."""

    def get_events(self, ids: Iterable[EventId]) -> dict[EventId, Event]:
        """Return those of `ids` that are stored, also those that are not shown, by id; unknown ones are left out."""

    def find_tails(self, tails: Sequence[int]) -> dict[int, EventId]:
        """Return the stored ids whose lower 80 bits are among `tails`, by these bits.

        They are a hash of the event's source: this is how an event without a time of its own is recognised.
        """

    def read_after(self, seq: int, limit: int) -> list[StoredEvent]:
        """Return up to `limit` committed events, shown or not, numbered above `seq`, in order of arrival; [] for none."""

    def list_arrivals(self, after: int, to: int, scope: Scope, probes: Sequence[str] = (), live: bool = False) -> list[Event]:
        """Return, in order of arrival, the shown events of a scope numbered above `after` up to `to` that may hold a probe.

        Probes are lower-case texts; without any, all such events are returned. With `live`, imported events are left
        out.
        """

    def last_seq(self) -> int:
        """Return the highest number of arrival in the store; 0 when it is empty."""

    def find_duplicates(self, ids: Iterable[EventId]) -> dict[EventId, EventId]:
        """Return the pairs in which one of `ids` takes part, either one: by the hidden event's id that of the shown one.

        A pair is one message that both a client's hook and its transcript recorded.
        """

    def segment_events(self, segment: Segment) -> list[Event]:
        """Return the events of a segment that are shown, in order, as `in_segments` does; [] for none."""

    def events_by_segment(self, segments: Sequence[Segment], last_seq: int | None = None) -> dict[int, list[Event]]:
        """Return the shown events of each segment by its key, in order, numbered up to `last_seq`, if given.

        A segment of which none is shown, since another one tells the same messages, has the hidden ones. One without any
        event is left out.
        """

    def list_recaps(self, streams: Iterable[int]) -> list[Event]:
        """Return every shown recap (a client's summary of its conversation) of these streams, in order of time."""

    def get_neighbours(self, event: Event, before: int, after: int) -> tuple[list[Event], list[Event]]:
        """Return the shown events nearest to one in its session, project and thread, in order.

        The first list has up to `before` earlier ones, the second up to `after` later ones.
        """

    def list_events(
        self, scope: Scope, session_id: str | None = None, limit: int = 100, after: tuple[int, str] | None = None
    ) -> list[Event]:
        """Return up to `limit` shown events of a scope, of one session if it is named, in order of (timestamp, id).

        `after` is the (timestamp, id) of the last event that the caller has.
        """

    def search_words(
        self, scope: Scope, words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> tuple[int, list[Event]]:
        """Return how many events of a scope are shown, and up to `limit` of them that hold every one of `words`, newest first.

        Neither case nor the kind of white space matters. With `segments` only their events are looked at and counted.
        """

    def rank_positions(self, scope: Scope, probes: Mapping[str, float], limit: int) -> tuple[int, list[EventPosition]]:
        """Return how many events of a scope are shown, and the places of up to `limit` that hold most of some texts.

        `probes` has a weight for each lower-case text; the best events come first, the latest among equals. The sum
        of the weights that an event holds is divided by the logarithm of its length: one of the right session is then
        among the first five for 53.8 % of coding questions, else for 48.7 %.
        """

    def get_span(self, scope: Scope) -> TimeWindow | None:
        """Return the time from the first to the last shown event of a scope (end excluded); None where there is none."""

    def list_sessions(self, scope: Scope, limit: int = 100) -> list[SessionInfo]:
        """Return up to `limit` sessions of a scope that have shown events, the latest first; counts are within the scope."""

    def list_speakers(self, scope: Scope) -> list[str]:
        """Return the names of those who said the shown events of a scope, as recorded, in alphabetical order, without ""."""

    def count_matches(self, begin: str, pattern: str) -> dict[str, int]:
        """Return how often shown texts and metadata match `pattern` (beginning with `begin`), by what its only group matches."""

    def iter_all(self, batch: int = 2000) -> Iterator[list[StoredEvent]]:
        """Yield every event in order of arrival, `batch` at a time, each batch a read of its own: new ones come too."""


class TocStore(Protocol):
    """Layer 1: cuts, nodes, term sets."""

    def current_version(self) -> int:
        """Return the number of the last change, cheaply; what was read under one number may be kept until the next."""

    def publish_build(self, build: Build) -> int:
        """Write a build and its outbox entries in one transaction; return the build's number, that of its last entry."""

    def get_cuts(self, streams: Iterable[int]) -> dict[int, list[Segment]]:
        """Return all cuts of some streams, by stream, each list ordered by start; [] for a stream without cuts."""

    def iter_cuts(self) -> Iterator[Segment]:
        """Yield every cut, ordered by stream and start."""

    def get_segments(self, keys: Iterable[int]) -> dict[int, Segment]:
        """Return by segment key those cuts that exist; unknown keys are left out."""

    def list_segments(self, scope: Scope) -> list[Segment]:
        """Return the cuts of a scope's project and agent (None: any) whose own time meets its window, ordered by start."""

    def find_node(self, node_id: NodeId) -> TocNode | None:
        """Return the latest version of a node, also by an id that it had before (any number of steps); None for none."""

    def get_nodes(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return by their present ids the latest versions, with bullets and pins, of those nodes that exist."""

    def get_heads(self, ids: Iterable[NodeId]) -> dict[NodeId, TocNode]:
        """Return the same as `nodes` without bullets (empty) and pins (False): enough to name a node, at a third of the cost."""

    def list_refined(self) -> list[NodeId]:
        """Return the ids of the current nodes that an agent has written, neither summarizer nor language model."""

    def get_authors(self) -> dict[NodeId, str]:
        """Return by id who wrote each current node that the summarizer has not written: an agent, or a language model."""

    def get_stamps(self, ids: Iterable[NodeId]) -> dict[NodeId, tuple[int, int, int]]:
        """Return by each node's present id: its build number, how many term rows it has, and the last row's; no missing nodes."""

    def child_ids(self, parent: NodeId) -> list[NodeId]:
        """Return the ids of a node's children in order of time, [] without any; for the root, those of the years."""

    def list_ids(self, level: TocLevel, window: TimeWindow | None = None, project: str | None = None) -> list[NodeId]:
        """Return the ids of one level that begin inside the window (None: any), by time; `project`: only nodes that name it."""

    def tally_days(self, first_day: str, after_day: str, project: str | None) -> Tally:
        """Return sessions, events, segments, tokens, agents and projects of a span of days' segments (`after_day` excluded)."""

    def count_segments_by_day(self, project: str | None = None) -> list[tuple[str, int]]:
        """Return every day that has segments (of the project; None: of any), with their number, in order."""

    def list_days(self, project: str | None, first_day: str, after_day: str) -> list[str]:
        """Return the days from `first_day` up to, not including, `after_day` that have a segment (of the project), in order."""

    def list_day_segments(self, first_day: str, after_day: str, project: str | None) -> list[Segment]:
        """Return the cuts (of the project) filed under days from `first_day` up to, not including, `after_day`, by start."""

    def list_salient(self, first_day: str, after_day: str, project: str, limit: int) -> list[NodeId]:
        """Return up to `limit` ids of a project's most salient segments of days before `after_day`, newest of equals first."""

    def list_day_terms(self, first_day: str, after_day: str, project: str) -> list[bytes]:
        """Return the stored term rows (sorted little-endian uint32) of a project's segments of days (`after_day` excluded)."""

    def get_freshness(self) -> Freshness:
        """Return the highest build number of each day's segments, and that of each period's node; without nodes, no entry."""

    def get_term_sets(self, ids: Iterable[NodeId]) -> dict[NodeId, list[bytes]]:
        """Return the stored term rows of each node: little-endian uint32, each row sorted; the node's set is their union."""

    def fold_terms(self, more_than: int) -> int:
        """Join the term rows of each node and project that has more than `more_than`; return how many nodes and projects had."""

    def list_frequencies(self) -> list[tuple[str, bytes, bytes]]:
        """Return the rows of the root's document frequencies: project, term hashes (uint32), counts (int32), little-endian."""

    def set_pin(self, target: str, on: bool, by: str) -> None:
        """Pin a node or grip id (`target`) in the name of `by`, or with `on` False remove its pin; it need not exist."""

    def list_pins(self) -> frozenset[str]:
        """Return every node and grip id that is pinned."""

    def drop_nodes(self, ids: Iterable[NodeId]) -> None:
        """Remove nodes with their bullets and term sets, noting each, in one transaction; events, cuts, grips and pins stay."""

    def move_segments(self, days: Mapping[int, str]) -> None:
        """File segments (by key) under other days, after a change of zone, noting each; their old ids can still be read."""

    def replace_cuts(self, cuts: Sequence[Segment], leads: Mapping[NodeId, NodeId]) -> None:
        """Store cuts under their keys, and remove those whose nodes `leads` names.

        Each removed id leads to the node that it is mapped to, and the grips filed under it are filed there.
        """

    def iter_nodes(self) -> Iterator[TocNode]:
        """Yield the latest version of every node with bullets and pins, for checks and rebuilds."""


class Storage(Records, Protocol):
    """Everything that is kept of one memory; its parts are stores of their own."""

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
        """The IANA name of the zone in which the store's days are counted."""

    def set_timezone(self, name: str) -> None:
        """Change the zone; only `admin rebuild-toc --timezone` does. Raises InvalidQuery for a zone that does not exist."""

    def get_stats(self, text: bool = True) -> StoreStats:
        """Return counts by table, sizes and facts; without `text`, for which every text is read, `text_bytes` is 0."""

    def latest_times(self) -> dict[str, int]:
        """Return the time of the newest event of each source (importer, hook, tool), UTC ms; {} in an empty store."""

    def interrupt_reads(self, thread: int | None = None) -> None:
        """Stop the reads that run now, in one thread (by its identity) or, for None, in all; they raise DeadlineExceeded."""

    def hold_claim(self, name: str) -> AbstractContextManager[bool]:
        """Hold the claim `name` for a block, which then runs in one process alone of all that have the memory open.

        Yields whether another process may have held it since this one did last. Raises Busy when another process does not
        let go in time.
        """

    def drop_caches(self) -> None:
        """Drop what is kept in memory of the store's content, so that checks and repairs see what is stored."""

    def write_checkpoint(self) -> None:
        """Write what the log holds into the file, so that opening it after a crash has little to replay."""

    def erase_forgotten(self, keep: Cleaner, dry: bool = False, after: int = 0) -> ErasureResult:
        """Remove from every table what `keep` does not keep, and return what went; with `dry` only count it.

        Events up to the number `after` are known to hold nothing of it. Writers wait while it is removed, not while
        events are looked through. The caller derives again what depended on the events that are gone.
        """

    def dead_bytes(self) -> int:
        """Return how many bytes of the files hold nothing, and would be gone after `compact`."""

    def rewrite_deleted_file(self) -> bool:
        """Write the file again if somebody deleted it while it is open; return whether that was so."""

    def compact_files(self) -> tuple[int, int]:
        """Rewrite the files without dead space while reads go on and writes wait; return the size before and after, in bytes."""

    @property
    def loss(self) -> Loss | None:
        """Acknowledged events that are missing, until a person acknowledges that; None where none are. Reads nothing."""

    def accept_contents(self, acknowledge: bool = False) -> None:
        """Note that what the store holds now is what was acknowledged, after events were removed on purpose.

        With `acknowledge` a loss that is known counts as acknowledged too, and is not reported any more.
        """

    def close(self) -> None:
        """Write a checkpoint and release the lock; closing a second time does nothing."""
