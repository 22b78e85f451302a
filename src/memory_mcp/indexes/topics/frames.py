"""What the child process that groups a memory is told, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_mcp.indexes.files import Checked
from memory_mcp.indexes.topics.base import Names
from memory_mcp.model.topic import KnownTopic


@dataclass(frozen=True, slots=True)
class Hello:
    """What the child is told first."""

    #: Where the part is to lie.
    directory: str
    #: Folder of the embedding model; "": grouped by terms alone.
    model: str


@dataclass(frozen=True, slots=True)
class Finish:
    """No more documents will come: group them."""

    known: tuple[KnownTopic, ...]
    #: What topics were called, as far as that is known: a name that is nearly as good as a new one is kept.
    names: tuple[Names, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Made:
    """What came of it."""

    files: Mapping[str, Checked]
    known: tuple[KnownTopic, ...]
