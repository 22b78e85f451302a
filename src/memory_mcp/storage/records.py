"""Stores of what lies beside events and time tree: quotations, openings, corrections, topics, projects, requests to models."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.model.change import Change
from memory_mcp.model.grip import Grip, GripUsage, Supersession
from memory_mcp.model.ids import EventId, GripId, NodeId, TopicId
from memory_mcp.model.ledger import AuditEntry, ModelCall
from memory_mcp.model.project import Alias, ProjectNames, Split
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.values import Activity, DailyActivity

#: The name under which the deriver's position stands: how far events are part of the tree. On disk.
DERIVER = "deriver"
#: How long answers to writes that may be sent again are kept (milliseconds).
REQUEST_KEPT_MS = 3_600_000


class GripStore(Protocol):
    """Quotations. Written by `TocStore.publish`, read here."""

    def find_grip(self, grip_id: str) -> Grip | None:
        """Return the grip of a whole id or of its hash alone; None for an unknown one. Raises InvalidQuery for no grip id."""

    def get_grips(self, ids: Iterable[GripId]) -> dict[GripId, Grip]:
        """Return those of `ids` that are stored, by id, others left out. Raises InvalidQuery for a text that is no grip's id."""

    def grips_by_event(self, ids: Iterable[EventId]) -> dict[EventId, list[Grip]]:
        """Return by event the grips that begin or end in it, in the order of their places; events without any are left out."""

    def iter_all(self, batch: int = 5000) -> Iterator[list[Grip]]:
        """Yield every grip in the order of ids, `batch` at a time, each batch a read of its own."""


class UsageStore(Protocol):
    """When quotations were opened, by grip: whatever removes a grip can remove this with it."""

    def record_usage(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Note that each of the grips was opened at `at_ms` (UTC ms), committed; one that is named twice counts twice."""

    def get_usage(self, ids: Iterable[GripId]) -> dict[GripId, GripUsage]:
        """Return by id the times (`GripUsage`) when those of `ids` were opened, if ever; reads nothing if none was."""

    def forget_usage(self, ids: Iterable[GripId]) -> None:
        """Remove every opening of these grips; one without any is no error."""


@dataclass(frozen=True, slots=True)
class StoredStatement:
    """A statement of a segment's node, and the quotation that proves it."""

    node_id: NodeId
    text: str
    kind: str
    project: str
    grip_id: GripId


class ContradictionFinder(Protocol):
    """Contradictions that the program noticed by itself; worked out from what is stored, and not stored."""

    def find_contradictions(self) -> Mapping[GripId, Sequence[Supersession]]:
        """Return for each older statement those that contradict it, the newest last; the same object while nothing changes."""

    def drop_cache(self) -> None:
        """Drop what is kept in memory, since the store has changed."""


class SupersededStore(Protocol):
    """Which statement replaces which, and which hold no more. Rows are only added."""

    def follow_contradictions(self, noticed: ContradictionFinder) -> None:
        """From now on count also contradictions that the program noticed, for statements without a record."""

    def list_statements(self, kinds: Sequence[str], pattern: str) -> list[StoredStatement]:
        """Return the statements of segments, as the summarizer wrote them, that are of one of `kinds` or match `pattern`.

        The pattern is in the syntax of RE2 and is matched with the statement in lower case.
        """

    def record_supersession(self, superseded: Supersession) -> None:
        """Record that `new` replaces `old`, or that nothing does where `new` is None; for one `old` the last record counts."""

    def is_empty(self) -> bool:
        """Return whether every statement still holds: nothing is recorded or noticed. Reads nothing while nothing changed."""

    def list_recorded(self) -> list[Supersession]:
        """Return the last record about each statement, in order of time, without what the program noticed."""

    def get_successors(self, ids: Iterable[GripId]) -> dict[GripId, Supersession]:
        """Return, for each of `ids` that holds no more, what holds now in its place, over any number of steps, and why.

        The record's `new` is None where nothing does. Others are left out. Of what the program noticed, nodes that
        changed since the last call are read.
        """


class AuditStore(Protocol):
    """Acts upon the memory itself: corrected, retracted, forgotten, restored. Rows are only added, without the text concerned."""

    def record_entry(self, act: AuditEntry) -> None:
        """Add an act, committed when this returns."""

    def list_entries(self, limit: int = 100) -> list[AuditEntry]:
        """Return up to `limit` acts, newest first, of equal times the one added last first."""


class TombstoneLog(Protocol):
    """What was forgotten, as lines without a word of it, and the key of their hashes. Lines are only added."""

    def get_stamp(self) -> object:
        """Return a value that changes when any process has added lines, cheaply: no line is read."""

    def read_lines(self) -> list[str]:
        """Return all lines, in the order in which they were added."""

    def load_key(self) -> bytes:
        """Return the key of the hashes; it is made when there is none."""

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines; they outlast a crash when this returns."""

    def adopt_lines(self, key: bytes, lines: Sequence[str]) -> list[str]:
        """Add those lines of a copy, made with `key`, that are not here; return the lines that were added.

        Raises StorageError when lines are here that were made with another key: neither could be compared with the other.
        """


class SpendingStore(Protocol):
    """What language models were asked, a row for each request, without any text. Rows are only added."""

    def record_call(self, spent: ModelCall) -> None:
        """Add a request, committed when this returns."""

    def list_calls(self, at_ms: int) -> list[ModelCall]:
        """Return the requests made at `at_ms` (UTC ms) or later, in order of time."""

    def count_tokens(self, at_ms: int) -> int:
        """Return the number of tokens, in and out, of the requests made at `at_ms` (UTC ms) or later; 0 for none."""

    def list_unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        """Return (node or topic id, digest of what was to be written) of the requests whose answer by a model was unusable."""


class TopicStore(Protocol):
    """Which topics there are and were, and what somebody called them: this has to outlive the index of topics."""

    def list_topics(self) -> list[TopicRecord]:
        """Return every topic that was ever found, in the order of their ids."""

    def replace_topics(self, topics: Sequence[TopicRecord]) -> None:
        """Replace everything that is known of topics, in one transaction; labels stay."""

    def set_label(self, given: TopicLabel) -> None:
        """Give a topic a label for one project, or for all, in place of the one it has there; an empty one only removes that."""

    def list_labels(self) -> list[TopicLabel]:
        """Return every label in force, in the order in which they were given."""


class ProjectStore(Protocol):
    """What projects are called. Events keep the name they were recorded with.

    A new rule is in force at once for them, and for what is derived from them once that is filed again.
    """

    @property
    def names(self) -> ProjectNames:
        """Every rule in force. Reads nothing while no rule changed."""

    def take_new_names(self) -> list[str]:
        """Return the recorded names but "" that came since the last call in this process, sorted; at the first all of them."""

    def list_recorded(self) -> list[str]:
        """Return every name but "" that events were recorded with, sorted."""

    def has_branch(self, project: str) -> bool:
        """Return whether an event recorded with this name has a branch, so that its directory belonged to a repository."""

    def get_root_commits(self) -> dict[str, str]:
        """Return the newest root commit that messages recorded with a name have, by name; those recorded first come first."""

    def list_streams(self) -> list[tuple[int, str, str, str]]:
        """Return (stream, recorded project, session, project in its cuts) of every stream that has cuts, in no order.

        A stream whose cuts name two projects comes once for each.
        """

    def list_projects(self) -> list[Activity]:
        """Return events, sessions, first and last time, and agents of each project in the tree, in no order."""

    def list_agents(self) -> list[Activity]:
        """Return events, sessions, first and last time, and projects of each agent in the tree, in no order."""

    def daily_activity(
        self, first_day: str, after_day: str, project: str | None = None, agent: str | None = None
    ) -> DailyActivity:
        """Return events and sessions of the local days from `first_day` up to, not including, `after_day` (ISO dates).

        Counted from cuts by day, project (its present name), agent and month; `project` and `agent` None: of all.
        """

    def list_years(self, project: str | None = None, agent: str | None = None) -> list[int]:
        """Return the years that have any segment (of the project, of the agent; None: of any), in order."""

    def add_alias(self, alias: Alias) -> None:
        """Record another name of a project, in place of what was recorded of `alias.old` before."""

    def drop_alias(self, old: str) -> None:
        """Remove the rule about the name `old`; does nothing where there is none."""

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Record that sessions are a project of their own, in one transaction; other rules stay."""

    def drop_splits(self, new: str) -> None:
        """Remove the rules that made `new` a project of its own: its sessions belong again to where they came from."""


class Outbox(Protocol):
    """What changed, in order; any number of followers read it."""

    def read_after(self, seq: int, limit: int) -> list[Change]:
        """Return up to `limit` changes whose number is above `seq`, in order; [] at the end."""

    def nodes_changed_since(self, seq: int) -> frozenset[str] | None:
        """Return the ids of the nodes that changed after the change `seq`; None where that is not known any more.

        The empty id is among them where something else than a node changed. Empty where nothing did.
        """

    def get_checkpoint(self, follower: str) -> int:
        """Return the number up to which a follower got; 0 at first. That of `deriver` counts events, not changes."""

    def set_position(self, follower: str, value: str) -> None:
        """Store the position of a follower or importer in place of its earlier one, in a transaction of its own."""

    def set_positions(self, values: Mapping[str, str]) -> None:
        """Store several positions, by name, each in place of its earlier one, in one transaction; others stay."""

    def get_positions(self, prefix: str) -> dict[str, str]:
        """Return the positions whose names begin with `prefix`, by name, as texts; {} for none."""

    def forget_requests(self, now_ms: int) -> int:
        """Remove the answers to writes that are too old to be sent again at `now_ms`; return how many."""


class Records(Protocol):
    """The parts of a store that keep what happens beside the tree."""

    @property
    def usage(self) -> UsageStore:
        """The store of openings of quotations."""

    @property
    def superseded(self) -> SupersededStore:
        """The store of statements that hold no more, and what replaces them."""

    @property
    def spending(self) -> SpendingStore:
        """The store of requests to language models and their costs."""

    @property
    def topics(self) -> TopicStore:
        """The store of identities and labels of topics."""

    @property
    def projects(self) -> ProjectStore:
        """The store of rules for names of projects, and of what is recorded of them."""

    @property
    def audit(self) -> AuditStore:
        """The store of acts upon the memory itself, such as corrections and forgetting."""

    @property
    def tombstones(self) -> TombstoneLog | None:
        """What was forgotten; None where files of the data directory keep it."""

    @property
    def outbox(self) -> Outbox:
        """Changes, and the positions of those who follow them."""
