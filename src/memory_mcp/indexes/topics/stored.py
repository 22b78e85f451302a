"""A topic graph as files of a shard, and the messages of the child that writes them."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.files import FileChecksum, FolderContents, seal_folder, write_arrays
from memory_mcp.indexes.topics.base import TopicName, TopicNames
from memory_mcp.indexes.topics.documents import NameTables
from memory_mcp.indexes.topics.rows import Rows
from memory_mcp.model.ids import TopicId
from memory_mcp.model.topic import TopicRecord


@dataclass(frozen=True, slots=True)
class GroupingSetup:
    """The first message."""

    #: Folder to write the part to.
    directory: str
    #: Folder of the embedding model; "" to group by terms alone.
    model: str


@dataclass(frozen=True, slots=True)
class GroupingRequest:
    """The message after the last document: group them."""

    records: tuple[TopicRecord, ...]
    #: The former names: one that is nearly as good as a new one is kept.
    names: tuple[TopicNames, ...]
    at_ms: int


@dataclass(frozen=True, slots=True)
class GroupingResult:
    """The result."""

    files: Mapping[str, FileChecksum]
    records: tuple[TopicRecord, ...]


#: The layout of the files, and what is kept of a segment.
FORMAT = 1
_ROWS, _FACTS = "rows", "topics.json"
_COLUMNS = tuple(f.name for f in fields(Rows))


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """Segments with their topics, names of topics, then of areas, and areas."""

    rows: Rows
    tables: NameTables
    names: tuple[TopicNames, ...]
    area_of: tuple[int, ...]


def write_graph(directory: Path, graph: StoredGraph) -> dict[str, FileChecksum]:
    """Write a graph; return its checksums. Raises OSError."""
    directory.mkdir(mode=0o700)
    write_arrays(directory / _ROWS, {name: getattr(graph.rows, name) for name in _COLUMNS})
    facts = {
        "projects": graph.tables.projects,
        "agents": [list(names) for names in graph.tables.agents],
        "topics": [
            [n.topic_id, _name_as_list(n.overall), {p: _name_as_list(name) for p, name in n.by_project.items()}]
            for n in graph.names
        ],
        "areas": list(graph.area_of),
    }
    (directory / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
    return seal_folder(directory)


def read_graph(directory: Path, files: Mapping[str, FileChecksum], scratch: Path) -> StoredGraph:
    """Return what `write_graph` wrote; raises IndexUnreadable if changed."""
    if set(files) != {_ROWS, _FACTS}:
        raise IndexUnreadable("the manifest of the index names other files than it has")
    contents = FolderContents(directory, files, scratch)
    facts = contents.json_of(_FACTS)
    names = tuple(
        TopicNames(TopicId(topic_id), _parse_name(overall), {p: _parse_name(fields) for p, fields in by_project.items()})
        for topic_id, overall, by_project in facts["topics"]
    )
    rows = Rows(**contents.read_arrays(_ROWS, _COLUMNS))
    return StoredGraph(rows, NameTables(facts["projects"], facts["agents"]), names, tuple(facts["areas"]))


def _name_as_list(name: TopicName) -> list[Any]:
    return [name.label, list(name.keywords)]


def _parse_name(fields: list[Any]) -> TopicName:
    return TopicName(fields[0], tuple(fields[1]))
