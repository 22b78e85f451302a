"""Tool run: one call of a tool with its outcome, as it is found again: by hashes, never by words."""

from collections.abc import Sequence
from enum import IntEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import EventId, event_key, hash_parts

_HASH_BITS = 60
_TIME_SHIFT = 80


class KeyKind(IntEnum):
    """By what a run is found. On disk: do not change the values."""

    #: The whole call: each program with its subcommand and flags; of a tool without a shell its name and file.
    INVOCATION = 1
    #: One program with its subcommand; the name of a tool.
    COMMAND = 2
    #: The name of a file that was changed, without its folders.
    FILE = 3
    #: A line of an error in its normal form.
    ERROR = 4


#: A kind, and the hash of what it names.
RunKey = tuple[KeyKind, int]


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A call and its result in one segment; without an outcome there is none."""

    segment: int
    call: EventId
    result: EventId
    failed: bool
    keys: tuple[RunKey, ...]

    def hashes(self, kind: KeyKind) -> frozenset[int]:
        """Return the hashes of one kind."""
        return frozenset(value for key_kind, value in self.keys if key_kind is kind)

    @property
    def start_ms(self) -> int:
        """When it was called, UTC ms."""
        return event_key(self.call) >> _TIME_SHIFT

    @property
    def took_ms(self) -> int:
        """How long its result took."""
        return max((event_key(self.result) >> _TIME_SHIFT) - self.start_ms, 0)


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run with its place."""

    run: ToolRun
    stream: int
    project: str
    session_id: str


@dataclass(frozen=True, slots=True)
class FailureTally:
    """In how many sessions runs with one key were called, failed, and failed at the first call; and the last failure."""

    value: int
    sessions: int
    failing: int
    failing_first: int
    last: EventId


def make_key(kind: KeyKind, text: str) -> RunKey:
    """Return the key of a normal form."""
    return kind, hash_parts(kind.name, text, bits=_HASH_BITS)


def make_hashes(kind: KeyKind, texts: Sequence[str]) -> frozenset[int]:
    """Return the hashes of several normal forms."""
    return frozenset(value for _, value in make_keys(kind, texts))


def make_keys(kind: KeyKind, texts: Sequence[str]) -> tuple[RunKey, ...]:
    """Return the keys of several normal forms, each once, in order."""
    return tuple(dict.fromkeys(make_key(kind, text) for text in texts))
