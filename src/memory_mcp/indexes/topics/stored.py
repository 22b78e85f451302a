"""A topic graph in, files of a part out, and back."""

import json
from dataclasses import fields
from pathlib import Path

from memory_mcp.errors import IndexUnreadable
from memory_mcp.indexes.files import Checked, Contents, seal, write_arrays
from memory_mcp.indexes.topics.graph import Names, facts_of, graph_of
from memory_mcp.indexes.topics.rows import Rows, Tables

#: The layout of the files, and what is kept of a segment.
FORMAT = 1
_ROWS, _FACTS = "rows", "topics.json"
_COLUMNS = tuple(f.name for f in fields(Rows))


def write(directory: Path, rows: Rows, tables: Tables, names: tuple[Names, ...]) -> dict[str, Checked]:
    """Write a graph into a new directory; the checksums of its files."""
    directory.mkdir(mode=0o700)
    write_arrays(directory / _ROWS, {name: getattr(rows, name) for name in _COLUMNS})
    (directory / _FACTS).write_text(json.dumps(facts_of(tables, names)), encoding="utf-8")
    return seal(directory)


def read(directory: Path, files: dict[str, Checked], scratch: Path) -> tuple[Rows, Tables, tuple[Names, ...]]:
    """Read what `write` wrote; IndexUnreadable when the files are not what they were."""
    if set(files) != {_ROWS, _FACTS}:
        raise IndexUnreadable("the manifest of the index names other files than it has")
    contents = Contents(directory, files, scratch)
    tables, names = graph_of(contents.json_of(_FACTS))
    return Rows(**contents.arrays(_ROWS, _COLUMNS)), tables, names
