"""Messages to and from the child process that groups segments."""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_mcp.indexes.files import Checked
from memory_mcp.indexes.topics.base import Names
from memory_mcp.model.topic import TopicRecord


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message."""

    #: Folder to write the part to.
    directory: str
    #: Folder of the embedding model; "" to group by terms alone.
    model: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The message after the last document: group them."""

    known: tuple[TopicRecord, ...]
    #: The former names: one that is nearly as good as a new one is kept.
    names: tuple[Names, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Made:
    """The result."""

    files: Mapping[str, Checked]
    known: tuple[TopicRecord, ...]
