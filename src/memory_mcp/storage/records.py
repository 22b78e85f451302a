"""Stores next to events and tree: quotations, openings, corrections, topics, projects, model calls."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.model.change import Change
from memory_mcp.model.grip import Grip, GripUsage, Supersession
from memory_mcp.model.hint import Hint, HintRecord
from memory_mcp.model.ids import EventId, GripId, NodeId, TopicId
from memory_mcp.model.ledger import AuditEntry, ModelCall
from memory_mcp.model.project import Alias, ProjectNames, Split
from memory_mcp.model.tool_run import FailureTally, KeyKind, StoredRun
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.values import Activity, DailyActivity

#: The name under which the deriver's position stands: how far events are part of the tree. On disk.
DERIVER = "deriver"
#: How long answers to writes that may be sent again are kept (milliseconds).
REQUEST_KEPT_MS = 3_600_000


class GripStore(Protocol):
    """Quotations. Written by `TocStore.publish_build`, read here."""

    def find_grip(self, grip_id: str) -> Grip | None:
        """Return the grip of a complete id or of its hash alone.

        None for an unknown one. Raises InvalidQuery for what is not a grip id.
        """

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Return the stored grips of `ids`, by id.

        Raises InvalidQuery for what is not a grip id.
        """

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return the grips that begin or end in each event, in order."""

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """Yield every grip by id, `batch` at a time.

        Each batch is a separate read.
        """


class UsageStore(Protocol):
    """When quotations were opened, by grip.

    Whatever removes a grip can remove this with it.
    """

    def record_usage(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Note that each grip was opened at `at_ms` (UTC ms).

        One that is named twice counts twice.
        """

    def get_usage(self, ids: Iterable[GripId]) -> dict[GripId, GripUsage]:
        """Return the times at which those of `ids` were opened, by id."""


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement of a segment's node, and the quotation that proves it."""

    node_id: NodeId
    text: str
    kind: str
    project: str
    grip_id: GripId


class ContradictionFinder(Protocol):
    """Finds contradictions in what is stored; they are not stored."""

    def find_contradictions(self) -> Mapping[GripId, Sequence[Supersession]]:
        """Return the later contradictions of each older statement.

        The newest is last; the same object while nothing changes.
        """

    def drop_cache(self) -> None:
        """Drop what is kept in memory, since the store has changed."""


class SupersededStore(Protocol):
    """Which statement replaces which. Rows are only added."""

    def follow_contradictions(self, noticed: ContradictionFinder) -> None:
        """Also count contradictions found, for statements without a record."""

    def list_statements(self, kinds: Sequence[str], pattern: str) -> list[StoredStatement]:
        """Return the summarizer's statements of these kinds, or that match.

        Of segments alone. The pattern is in the syntax of RE2 and is matched with the statement in lower case.
        """

    def record_supersession(self, superseded: Supersession) -> None:
        """Record that `new` replaces `old`; the last record of `old` counts."""

    def is_empty(self) -> bool:
        """Return whether every statement is valid; cheap while nothing changes."""

    def list_recorded(self) -> list[Supersession]:
        """Return the last record about each statement, in order of time.

        Without contradictions that were found.
        """

    def get_successors(self, ids: Iterable[GripId]) -> dict[GripId, Supersession]:
        """Return what is valid now instead of each invalid one of `ids`.

        Over any number of steps; `new` is None if nothing is. Of contradictions found, nodes that changed since the last call are
        read.
        """


class AuditStore(Protocol):
    """The audit trail. Entries are only added, without the text concerned."""

    def record_entry(self, act: AuditEntry) -> None:
        """Add an entry, committed when this returns."""

    def list_entries(self, limit: int = 100) -> list[AuditEntry]:
        """Return up to `limit` entries, newest first.

        Of equal times the one added last comes first.
        """


class TombstoneLog(Protocol):
    """What was forgotten, as hashed lines, and the key of the hashes.

    Lines are only added.
    """

    def get_stamp(self) -> object:
        """Return a value that changes when any process adds lines.

        Cheap: no line is read.
        """

    def read_lines(self) -> list[str]:
        """Return all lines in the order in which they were added."""

    def load_key(self) -> bytes:
        """Return the key of the hashes; it is made if there is none."""

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines; they outlast a crash when this returns."""

    def adopt_lines(self, key: bytes, lines: Sequence[str]) -> list[str]:
        """Add lines of a copy made with `key`; return those added.

        Raises StorageError when lines are here that were made with another key: neither could be compared with the other.
        """


class SpendingStore(Protocol):
    """Requests to language models, without any text. Rows are only added."""

    def record_call(self, spent: ModelCall) -> None:
        """Add a request, committed when this returns."""

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        """Return the requests made since `at_ms` (UTC ms), by time."""

    def count_tokens(self, at_ms: int) -> int:
        """Return the tokens, in and out, of requests since `at_ms` (UTC ms)."""

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        """Return (node or topic id, digest) of a model's unusable answers."""


class TopicStore(Protocol):
    """Topics of present and past, and their labels; outlives the index."""

    def list_topics(self) -> list[TopicRecord]:
        """Return every topic that was ever found, by id."""

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Replace all topics, in one transaction; labels stay."""

    def set_label(self, topic_label: TopicLabel) -> None:
        """Label a topic for one project or all; an empty label removes it."""

    def list_labels(self) -> list[TopicLabel]:
        """Return every label in force, in the order in which they were given."""


class ToolRunStore(Protocol):
    """Calls of tools with their outcomes. Written by `TocStore.publish_build`, read here."""

    def find_runs(
        self, kind: KeyKind, hashes: Iterable[int], project: str | None, limit: int, window: TimeWindow | None = None
    ) -> list[StoredRun]:
        """Return up to `limit` runs with one of these keys, called in the window, newest first."""

    def tally_failures(
        self, kind: KeyKind, project: str | None, window: TimeWindow, least: int, limit: int
    ) -> list[FailureTally]:
        """Return the keys of a kind by which runs failed in at least `least` sessions, called in the window.

        Those of most such sessions first, the latest of equals.
        """

    def list_stream_runs(self, streams: Iterable[int]) -> dict[int, list[StoredRun]]:
        """Return all runs of some streams, in order of their results."""

    def list_failed_runs(self, project: str) -> list[StoredRun]:
        """Return all runs of a project that failed, newest first."""


class HintStore(Protocol):
    """Hints that hooks gave; few, and kept in memory."""

    @property
    def is_kept(self) -> bool:
        """Whether this engine keeps them at all; where it does not, none is given."""

    def record_hint(self, session_id: str, project: str, hint: Hint, at_ms: int) -> None:
        """Add a hint that was given, unless an event that it quotes is gone; the oldest beyond a number go."""

    def record_outcomes(self, outcomes: Mapping[int, str]) -> None:
        """Keep what came of hints, by their ids."""

    def list_hints(self) -> Sequence[HintRecord]:
        """Return every hint, the oldest first."""

    def reject_hint(self, hint_id: int) -> bool:
        """Mark a hint as rejected; return whether there is one of this id."""


class ProjectStore(Protocol):
    """Names of projects. Events keep the name they were recorded with.

    A new rule is in force at once for them, and for what is derived from them once that is filed again.
    """

    @property
    def names(self) -> ProjectNames:
        """Every rule in force. Reads nothing while no rule changed."""

    def take_new_names(self) -> list[str]:
        """Return the names recorded since the last call in this process.

        Sorted, without ""; at the first call all of them.
        """

    def list_recorded(self) -> list[str]:
        """Return every recorded name but "", sorted."""

    def has_branch(self, project: str) -> bool:
        """Return whether an event recorded with this name has a branch.

        Its directory then belonged to a repository.
        """

    def get_root_commits(self) -> dict[str, str]:
        """Return the newest root commit of each recorded name.

        Names recorded first come first.
        """

    def list_streams(self) -> list[tuple[int, str, str, str]]:
        """Return (stream, recorded project, session, project in its cuts).

        Of every stream that has cuts, in no order; one whose cuts name two projects comes once for each.
        """

    def list_projects(self) -> list[Activity]:
        """Return the activity of each project in the tree, in no order."""

    def list_agents(self) -> list[Activity]:
        """Return the activity of each agent in the tree, in no order."""

    def daily_activity(
        self, first_day: str, after_day: str, project: str | None = None, agent: str | None = None
    ) -> DailyActivity:
        """Return events and sessions of a span of local days.

        Counted from cuts by day, project (its present name), agent and month.
        """

    def list_years(self, project: str | None = None, agent: str | None = None) -> list[int]:
        """Return the years that have any segment, in order."""

    def add_alias(self, alias: Alias) -> None:
        """Record another name of a project, replacing the rule of `alias.old`."""

    def drop_alias(self, old: str) -> None:
        """Remove the rule about the name `old`, if any."""

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Record that sessions are a separate project; other rules stay."""

    def drop_splits(self, new: str) -> None:
        """Remove the rules that made `new` a separate project."""


class Outbox(Protocol):
    """What changed, in order; any number of followers read it."""

    def read_after(self, seq: int, limit: int) -> list[Change]:
        """Return up to `limit` changes numbered above `seq`, in order."""

    def nodes_changed_since(self, seq: int) -> frozenset[str] | None:
        """Return the nodes changed after the change `seq`, or None if unknown.

        "" is among them if something else than a node changed.
        """

    def get_checkpoint(self, follower: str) -> int:
        """Return the number up to which a follower got; 0 at first.

        That of `deriver` counts events, not changes.
        """

    def set_position(self, follower: str, value: str) -> None:
        """Store the position of a follower or importer, in a transaction."""

    def set_positions(self, values: Mapping[str, str]) -> None:
        """Store several positions by name, in one transaction; others stay."""

    def get_positions(self, prefix: str) -> dict[str, str]:
        """Return the positions whose names begin with `prefix`, by name."""

    def store_waiting(self) -> None:
        """Have every change on disk that `read_after` returns, before something else on disk counts on it."""

    def forget_requests(self, now_ms: int) -> int:
        """Remove answers to writes too old at `now_ms`; return how many."""


class Records(Protocol):
    """The stores next to the tree."""

    @property
    def usage(self) -> UsageStore:
        """The store of openings of quotations."""

    @property
    def superseded(self) -> SupersededStore:
        """The store of replaced and retracted statements."""

    @property
    def spending(self) -> SpendingStore:
        """The store of requests to language models and their costs."""

    @property
    def topics(self) -> TopicStore:
        """The store of identities and labels of topics."""

    @property
    def tool_runs(self) -> ToolRunStore:
        """The store of calls with their outcomes."""

    @property
    def hints(self) -> HintStore:
        """The store of hints that hooks gave."""

    @property
    def projects(self) -> ProjectStore:
        """The store of project names and their rules."""

    @property
    def audit(self) -> AuditStore:
        """The store of operations on the memory, such as corrections."""

    @property
    def tombstones(self) -> TombstoneLog | None:
        """What was forgotten; None if files of the data directory keep it."""

    @property
    def outbox(self) -> Outbox:
        """Changes, and the positions of their followers."""
