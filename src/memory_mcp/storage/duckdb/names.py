"""Lists of names in a node's row, as one text each.

With a list column DuckDB writes into its log, for each new row, the lists of all earlier rows of its vector of 2048 rows
(measured on 2.0: 90 kB for the thousandth row with ten words, 189 bytes as text).
"""

from collections.abc import Iterable
from typing import Final

from memory_mcp.storage import rows

#: Columns of `node` that hold such a text.
COLUMNS: Final = frozenset({"keywords", "agents", "projects"})
_SEPARATOR: Final = "\x1f"


def join_names(names: Iterable[str]) -> str:
    """Return a list of names as text; separators inside become spaces."""
    return _SEPARATOR.join(name.replace(_SEPARATOR, " ") for name in names)


def list_of(column: str) -> str:
    """Return the SQL expression of the list in such a column."""
    return f"CASE WHEN {column} = '' THEN []::VARCHAR[] ELSE string_split({column}, chr({ord(_SEPARATOR)})) END"


def select_lists(columns: Iterable[str]) -> str:
    """Return columns of `node` as a select list."""
    return ", ".join(f"{list_of(name)} AS {name}" if name in COLUMNS else name for name in columns)


#: `rows.NODE` on this engine.
NODE: Final = select_lists(rows.NODE.split(", "))
