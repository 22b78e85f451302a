"""Values that stores take and return; all are frozen but `ErasureResult`."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from typing import Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.event import Event, ExcludedSession
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import EventId, NodeId
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocNode
from memory_mcp.model.tool_run import ToolRun


@dataclass(frozen=True, slots=True)
class Scope:
    """What a reader may see; None means no restriction."""

    project: str | None = None
    agent: str | None = None
    window: TimeWindow | None = None
    #: Of events alone: who said it, by role and by name (whatever its case).
    role: str | None = None
    speaker: str | None = None
    #: Of events alone: what is left out of it.
    excluded: frozenset[ExcludedSession] = frozenset()


@dataclass(frozen=True, slots=True)
class AppendResult:
    """New ids and ids that were stored before, in input order."""

    new_ids: tuple[EventId, ...]
    known_ids: tuple[EventId, ...]
    #: Set when the request key had been answered before: the stored answer, and nothing was written.
    replayed_answer: str | None = None


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """A write that may be sent again, with the answer to repeat.

    The answer is kept for an hour; for "" it is the stored ids.
    """

    key: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one caller, stored together with those of others."""

    events: Sequence[Event]
    request: WriteRequest | None = None


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with its number of arrival."""

    seq: int
    event: Event


@dataclass(frozen=True, slots=True)
class EventPosition:
    """Position of an event: its stream, and its order in it."""

    stream: int
    order: tuple[int, str]


@dataclass(frozen=True, slots=True)
class TermDelta:
    """New terms below a node: sorted hashes, little-endian uint32."""

    node_id: NodeId
    hashes: bytes


@dataclass(frozen=True, slots=True)
class DocumentFrequency:
    """How many more segments of a project hold each term."""

    project: str
    #: Sorted hashes (uint32) and as many counts (int32), little-endian; a count may be negative.
    hashes: bytes
    counts: bytes


@dataclass(frozen=True, slots=True)
class Build:
    """Everything one derivation step publishes with its checkpoint."""

    segments: tuple[Segment, ...] = ()
    nodes: tuple[TocNode, ...] = ()
    #: Nodes whose text stays as it is: only their counts of sessions and events, and this build's number, are written.
    count_updates: tuple[TocNode, ...] = ()
    grips: tuple[Grip, ...] = ()
    terms: tuple[TermDelta, ...] = ()
    frequencies: tuple[DocumentFrequency, ...] = ()
    #: Nodes whose stored term rows are thrown away before `terms` are added.
    reset_terms: tuple[NodeId, ...] = ()
    #: Throw away all document frequencies before `frequencies` are added.
    reset_frequencies: bool = False
    #: List nodes below their parents anew, also those that were listed with an earlier version.
    relist: bool = False
    #: New tool runs, and the segments (keys) whose stored ones are thrown away before.
    runs: tuple[ToolRun, ...] = ()
    reset_runs: tuple[int, ...] = ()
    #: Event sequence number up to which everything is derived; None leaves the checkpoint alone.
    derived_to: int | None = None
    #: Whether it may be stored with the next read or write of the file. A kill before loses it with its checkpoint, and the next
    #: process derives it again.
    may_wait: bool = False


@dataclass(frozen=True, slots=True)
class MissingEvents:
    """The missing events of one source, and between which times (UTC ms)."""

    events: int
    after_ms: int | None
    to_ms: int


@dataclass(frozen=True, slots=True)
class Loss:
    """Acknowledged events that the store does not hold."""

    noticed_ms: int
    #: At least so many; 0 where a damaged part was set aside and no event was in it.
    events: int
    exact: bool
    #: By source, as far as it is known.
    sources: Mapping[str, MissingEvents]
    #: The folder of the data directory into which damaged files were put; "" when there was none.
    damaged_folder: str = ""
    #: What else was lost with a damaged block: how many, by what.
    other_losses: Mapping[str, int] = field(default_factory=dict)
    #: Whether the file that described the loss was damaged itself.
    is_unread: bool = False

    @property
    def description(self) -> str:
        """A sentence for people: how many events, of which sources and times."""
        qualifier = "" if self.exact else "at least "
        parts = [
            f"{qualifier}{self.events:,} acknowledged events are missing" if self.events else "no event is known to be missing"
        ]
        ordered = sorted(self.sources.items(), key=lambda item: -item[1].events)
        source_lines: list[str] = []
        for source, gap in ordered[:_NAMED]:
            start = f" from {_minute(gap.after_ms)}" if gap.after_ms is not None else ""
            source_lines.append(f"{gap.events:,} of {source or 'an unnamed source'}{start} up to {_minute(gap.to_ms)}")
        if source_lines:
            more = f" and of {len(ordered) - _NAMED} more sources" if len(ordered) > _NAMED else ""
            parts.append(f" ({'; '.join(source_lines)}{more})")
        if self.is_unread:
            parts = ["acknowledged events are missing; what was missing can no longer be said, its file is damaged"]
        if self.other_losses:
            parts.append(f"; besides {', '.join(f'{count:,} {what}' for what, count in self.other_losses.items())}")
        if self.damaged_folder:
            parts.append(f"; the damaged part of the store was set aside in {self.damaged_folder}")
        return "".join(parts)

    @property
    def summary_line(self) -> str:
        """A line for clients and hooks, with the command that tells more."""
        few = "" if self.exact else "at least "
        many = f"{few}{self.events:,} acknowledged events" if self.events else "parts"
        return f"{many} of this memory are missing; a person is told which by: memory-mcp doctor"

    @property
    def recovery_hint(self) -> str:
        """How to get the events back, as a part of a sentence."""
        return f"import their sources again (memory-mcp import) or restore a backup (memory-mcp restore); then: {ACKNOWLEDGE}"


#: The command by which a person acknowledges a loss.
ACKNOWLEDGE = "memory-mcp admin acknowledge-loss"
#: Most sources that the sentence about a loss names.
_NAMED = 5


def _minute(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


@dataclass(frozen=True, slots=True)
class StoreStats:
    """Row counts by table, sizes in bytes, and the facts of the store."""

    rows: Mapping[str, int]
    size_bytes: int
    text_bytes: int
    store_id: str
    timezone: str
    schema_version: int
    first_ms: int | None
    last_ms: int | None
    derived_to: int
    last_seq: int
    #: What is missing, until a person acknowledges it.
    loss: Loss | None = None
    #: Why nothing can be written, where there is no room.
    no_room: str = ""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session as the store knows it."""

    session_id: str
    project: str
    agent: str
    start_ms: int
    end_ms: int
    events: int


@dataclass(frozen=True, slots=True)
class Activity:
    """What the tree holds of one project or one agent."""

    name: str
    events: int
    sessions: int
    start_ms: int
    end_ms: int
    #: Agents of a project, projects of an agent.
    counterparts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ActivityCount:
    """Events and sessions of one day, project or agent."""

    name: str
    events: int
    sessions: int


@dataclass(frozen=True, slots=True)
class MonthCount:
    """Events of one project or agent in one month (2026-01)."""

    name: str
    month: str
    events: int


@dataclass(frozen=True, slots=True)
class DailyActivity:
    """Events and sessions by day, project and agent; each by name."""

    days: tuple[ActivityCount, ...] = ()
    projects: tuple[ActivityCount, ...] = ()
    agents: tuple[ActivityCount, ...] = ()
    #: A session that goes on over several days, projects or agents counts once.
    events: int = 0
    sessions: int = 0
    #: By month, then by name.
    projects_by_month: tuple[MonthCount, ...] = ()
    agents_by_month: tuple[MonthCount, ...] = ()


@dataclass(frozen=True, slots=True)
class Freshness:
    """Highest build number of each day's segments, and of each period."""

    segment_days: Mapping[str, int]
    periods: Mapping[NodeId, int]


@dataclass(frozen=True, slots=True)
class Tally:
    """What a span of days holds, by its segments."""

    sessions: int
    events: int
    segments: int
    tokens: int
    agents: tuple[str, ...]
    projects: tuple[str, ...]


class WordReading(Protocol):
    """Searches for some words in one scope; what was read for a question is not read again for the next."""

    def list_newest(self, limit: int, segments: Sequence[Segment] | None = None, *, is_followed: bool = False) -> list[Event]:
        """Return what `EventStore.search_words` would.

        `is_followed` tells that `find_all` is asked next if these are fewer than `limit`.
        """
        ...

    def find_all(self, limit: int) -> list[Event] | None:
        """Return all events with the words; None if that may take reading every text, or if there are `limit`."""
        ...


class Cleaner(Protocol):
    """Removes what was forgotten from events and texts."""

    def clean_event(self, event: Event) -> Event | None:
        """Return the event, or a copy without what was forgotten.

        The same object where it holds nothing forgotten; None where nothing of it may stay.
        """

    def clean_text(self, text: str) -> str:
        """Return a text without what was forgotten."""


@dataclass(slots=True)
class ErasureResult:
    """What a forgetting removes, or would remove."""

    #: Events that go whole, with when they were said, and events that lose a value.
    removed_events: list[tuple[str, int]] = field(default_factory=list)
    changed_events: list[tuple[str, int]] = field(default_factory=list)
    #: Segments (keys) that go or are derived again; their local days, and one day of each other period that is derived again.
    segments: set[int] = field(default_factory=set)
    days: set[str] = field(default_factory=set)
    #: Highest number of arrival afterwards.
    last_seq: int = 0
    #: Rows by kind.
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be removed or changed."""
        return not any(self.counts.values())
