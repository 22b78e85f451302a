"""A topic graph in, files of a part out, and back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from memory_mcp.base.errors import IndexUnreadable
from memory_mcp.indexes.files import Checked, Contents, seal, write_arrays
from memory_mcp.indexes.topics.base import Name, Names
from memory_mcp.indexes.topics.rows import Rows
from memory_mcp.indexes.topics.tables import Tables
from memory_mcp.model.ids import TopicId

#: The layout of the files, and what is kept of a segment.
FORMAT = 1
_ROWS, _FACTS = "rows", "topics.json"
_COLUMNS = tuple(f.name for f in fields(Rows))


@dataclass(frozen=True, slots=True)
class Stored:
    """What is kept of a graph: segments with their topics, names of topics and then of areas, the area of each topic."""

    rows: Rows
    tables: Tables
    names: tuple[Names, ...]
    area_of: tuple[int, ...]


def write(directory: Path, graph: Stored) -> dict[str, Checked]:
    """Write a graph into a new directory, private to the user; return the checksums of its files. Raises OSError."""
    directory.mkdir(mode=0o700)
    write_arrays(directory / _ROWS, {name: getattr(graph.rows, name) for name in _COLUMNS})
    facts = {
        "projects": graph.tables.projects,
        "agents": [list(names) for names in graph.tables.agents],
        "topics": [[n.topic_id, _told(n.whole), {p: _told(name) for p, name in n.by_project.items()}] for n in graph.names],
        "areas": list(graph.area_of),
    }
    (directory / _FACTS).write_text(json.dumps(facts), encoding="utf-8")
    return seal(directory)


def read(directory: Path, files: Mapping[str, Checked], scratch: Path) -> Stored:
    """Return what `write` wrote; raises IndexUnreadable when the files have changed or are others. `scratch`: see `Contents`."""
    if set(files) != {_ROWS, _FACTS}:
        raise IndexUnreadable("the manifest of the index names other files than it has")
    contents = Contents(directory, files, scratch)
    facts = contents.json_of(_FACTS)
    names = tuple(
        Names(TopicId(topic_id), _name(whole), {p: _name(fields) for p, fields in by_project.items()})
        for topic_id, whole, by_project in facts["topics"]
    )
    rows = Rows(**contents.arrays(_ROWS, _COLUMNS))
    return Stored(rows, Tables(facts["projects"], facts["agents"]), names, tuple(facts["areas"]))


def _told(name: Name) -> list[Any]:
    """Return a name as a list for JSON: its label, and the list of its keywords."""
    return [name.label, list(name.keywords)]


def _name(fields: list[Any]) -> Name:
    """Return the name that `_told` wrote."""
    return Name(fields[0], tuple(fields[1]))
