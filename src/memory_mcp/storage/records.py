"""Small stores of what happened beside the tree: openings, replacements, topics, and what language models were asked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.model.audit import Act
from memory_mcp.model.change import Change
from memory_mcp.model.ids import GripId, NodeId, TopicId
from memory_mcp.model.project import Alias, Names, Split
from memory_mcp.model.spending import Spent
from memory_mcp.model.superseded import Superseded
from memory_mcp.model.topic import KnownTopic, TopicLabel
from memory_mcp.model.usage import Used
from memory_mcp.storage.values import Activity, DailyActivity


class UsageStore(Protocol):
    """When quotations were opened. Keyed by grip, so that whatever forgets a grip can forget this with it."""

    def record(self, grip_ids: Iterable[GripId], at_ms: int) -> None:
        """Each of them was opened at `at_ms`; opened twice in one moment counts twice."""
        ...

    def of(self, ids: Iterable[GripId]) -> dict[GripId, Used]:
        """Those of `ids` that were ever opened. Free while nothing was."""
        ...

    def forget(self, ids: Iterable[GripId]) -> None:
        """Nothing is known of these any more."""
        ...


@dataclass(frozen=True, slots=True)
class Stated:
    """A statement of a segment's node, and the quotation that proves it."""

    node_id: NodeId
    text: str
    kind: str
    project: str
    grip_id: GripId


class Noticed(Protocol):
    """What the program itself noticed to hold no more; worked out from what is stored, and stored nowhere."""

    def marks(self) -> Mapping[GripId, Sequence[Superseded]]:
        """By older statement what contradicts it, the newest last; the same object while nothing changes."""
        ...

    def forget(self) -> None:
        """Drop what is kept: the store is not what it was."""
        ...


class SupersededStore(Protocol):
    """Which statement stands in the place of which, and which hold no more. Append-only."""

    def notice(self, noticed: Noticed) -> None:
        """From now on what is noticed counts too, where nobody said anything of the statement."""
        ...

    def stated(self, kinds: Sequence[str], pattern: str) -> list[Stated]:
        """Statements of segments, as the summarizer tells them, of such a kind or with such words (RE2, lower case)."""
        ...

    def record(self, superseded: Superseded) -> None:
        """From now on `new` stands in the place of `old`, or nothing where it is None; of several for one, the last recorded."""
        ...

    def is_empty(self) -> bool:
        """Whether everything holds. Free."""
        ...

    def recorded(self) -> list[Superseded]:
        """Return what somebody said last of each statement, in order of time; nothing that was noticed. Free."""
        ...

    def of(self, ids: Iterable[GripId]) -> dict[GripId, Superseded]:
        """For each of `ids` that holds no more the statement that holds now, over any number of steps, and why.

        Free, but for what is noticed: nodes that changed since it was asked last are read.
        """
        ...


class AuditStore(Protocol):
    """Acts upon the memory itself: corrected, retracted, forgotten, restored. Append-only, and without the text concerned."""

    def record(self, act: Act) -> None:
        """One more."""
        ...

    def all(self, limit: int = 100) -> list[Act]:
        """The latest, newest first."""
        ...


class TombstoneLog(Protocol):
    """What was forgotten, as lines without a word of it, and the key of their hashes. Append-only."""

    def stamp(self) -> object:
        """Return a value that changes when any process has added lines. Free."""
        ...

    def lines(self) -> list[str]:
        """Return all lines, in the order they were added."""
        ...

    def key(self) -> bytes:
        """Return the key, made where there is none."""
        ...

    def add(self, lines: Sequence[str]) -> None:
        """Add lines; they outlast a crash when this returns."""
        ...

    def adopt(self, key: bytes, lines: Sequence[str]) -> list[str]:
        """Add those lines of a copy, made with `key`, that are not here; return them.

        Raises StorageError when lines are here that were made with another key: neither could be compared with the other.
        """
        ...


class SpendingStore(Protocol):
    """What language models were asked, a row each, without any text. Append-only."""

    def record(self, spent: Spent) -> None:
        """One more."""
        ...

    def since(self, at_ms: int) -> list[Spent]:
        """What was asked at or behind a moment, in order."""
        ...

    def tokens_since(self, at_ms: int) -> int:
        """Tokens in and out at or behind a moment."""
        ...

    def unusable(self, model: str) -> frozenset[tuple[NodeId | TopicId, str]]:
        """Nodes and topics for which no answer of this model could be used, each with the digest of what it was asked from."""
        ...


class TopicStore(Protocol):
    """Which topics there are and were, and how somebody called them: what must outlive the index of topics."""

    def all(self) -> list[KnownTopic]:
        """Every topic that was ever found, in the order of their ids."""
        ...

    def replace(self, topics: Sequence[KnownTopic]) -> None:
        """What is known of topics from now on, in one transaction; labels stay."""
        ...

    def label(self, given: TopicLabel) -> None:
        """Give a topic a label for one project or for all, in place of the one before; an empty one takes it back."""
        ...

    def labels(self) -> list[TopicLabel]:
        """Every label in force."""
        ...


class ProjectStore(Protocol):
    """What projects are called. Events keep the name they were recorded with.

    A new rule is in force at once for them, and for what is derived from them once that is filed again.
    """

    @property
    def names(self) -> Names:
        """Every rule in force. Free."""
        ...

    def news(self) -> list[str]:
        """Recorded names that came since this was asked last; all of them when it is asked first."""
        ...

    def recorded(self) -> list[str]:
        """Every name that events were recorded with."""
        ...

    def has_branch(self, project: str) -> bool:
        """Whether an event that was recorded with this name tells a branch, so that its directory belonged to a repository."""
        ...

    def streams(self) -> list[tuple[int, str, str, str]]:
        """Every stream that has cuts: its key, the project it was recorded with, its session, and the project its cuts name."""
        ...

    def activity(self) -> list[Activity]:
        """What the tree holds of each project, in no order."""
        ...

    def agents(self) -> list[Activity]:
        """What the tree holds of each agent, in no order."""
        ...

    def daily(self, first_day: str, after_day: str, project: str | None = None, agent: str | None = None) -> DailyActivity:
        """Return what the tree holds of the days from `first_day` up to, not including, `after_day` (ISO dates)."""
        ...

    def years(self, project: str | None = None, agent: str | None = None) -> list[int]:
        """Return the years that hold any event, in order."""
        ...

    def add_alias(self, alias: Alias) -> None:
        """In the place of what was said of `alias.old` before."""
        ...

    def drop_alias(self, old: str) -> None:
        """Nothing is said of `old` any more."""
        ...

    def add_splits(self, splits: Sequence[Split]) -> None:
        """In one transaction."""
        ...

    def drop_splits(self, new: str) -> None:
        """What was split off as `new` belongs again to where it came from."""
        ...


class Outbox(Protocol):
    """What changed, in order; read by any number of followers."""

    def after(self, seq: int, limit: int) -> list[Change]:
        """Up to `limit` changes behind `seq`."""
        ...

    def changed_since(self, seq: int) -> frozenset[str] | None:
        """Nodes that changed behind `seq` (and maybe ""); None where that cannot be told from memory."""
        ...

    def checkpoint(self, follower: str) -> int:
        """How far a follower got; 0 at first. The deriver is called `deriver`, and counts events."""
        ...

    def mark(self, follower: str, value: str) -> None:
        """Remember a follower's or importer's own position under its name."""
        ...

    def mark_all(self, values: Mapping[str, str]) -> None:
        """Remember several, by name."""
        ...

    def marks(self, prefix: str) -> dict[str, str]:
        """Positions by name, for names that begin so."""
        ...

    def forget_requests(self, now_ms: int) -> int:
        """Drop answers to writes that nobody will send again; how many."""
        ...


class Records(Protocol):
    """The parts of a store that tell of what happens beside the tree."""

    @property
    def usage(self) -> UsageStore:
        """Openings of quotations."""
        ...

    @property
    def superseded(self) -> SupersededStore:
        """Statements that hold no more."""
        ...

    @property
    def spending(self) -> SpendingStore:
        """What language models were asked."""
        ...

    @property
    def topics(self) -> TopicStore:
        """Identities and labels of topics."""
        ...

    @property
    def projects(self) -> ProjectStore:
        """What projects are called."""
        ...

    @property
    def audit(self) -> AuditStore:
        """What was done to the memory itself."""
        ...

    @property
    def tombstones(self) -> TombstoneLog | None:
        """What was forgotten; None where files of the data directory tell it."""
        ...

    @property
    def outbox(self) -> Outbox:
        """Changes and positions."""
        ...
