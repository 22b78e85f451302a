"""Hint: a text that a hook gave a client's model at a call of a tool, and its evidence."""

from enum import StrEnum

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.ids import EventId


class HintKind(StrEnum):
    """What a hint is about. On disk: do not change the values."""

    #: A file that is about to be written: what somebody demanded of it.
    FILE = "file"
    #: A command line that failed before: the one that worked in its place.
    COMMAND = "command"
    #: An error that came before: what ended it.
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One thing that is worth saying at a call, with its proof."""

    kind: HintKind
    #: The file, or the command line, as it was called.
    subject: str
    text: str
    grip_id: str
    #: The events that the text quotes.
    evidence: tuple[EventId, ...]
    #: Equal for hints that say the same of the same.
    topic: int
    #: Invocations (`KeyKind.INVOCATION`): of the call, and of what works; 0: none.
    call: int = 0
    remedy: int = 0
    #: Hashes of the whole calls (`hash_call`), whose invocations others may share.
    call_name: int = 0
    remedy_name: int = 0


@dataclass(frozen=True, slots=True)
class HintRecord:
    """A hint that was given, when and to whom; without words if they were forgotten and it was rejected."""

    hint_id: int
    at_ms: int
    session_id: str
    project: str
    hint: Hint
    #: What came of it, once that is known.
    outcome: str = ""
    #: A person wants it never again.
    is_rejected: bool = False
