"""How small statements that write are run: parsed once, and as they stand.

Of the time that one takes, a third is parsing and another the optimizer: an event alone, with what follows, has fifteen.
"""

import atexit
from collections.abc import Sequence
from typing import Any

import duckdb

#: Values of a statement that names each by itself: planned faster than lists, up to some hundred.
_FEW_VALUES = 100
#: Statements that were parsed, by their text; the oldest go.
_MOST_PARSED = 256
_parsed: dict[str, duckdb.Statement] = {}
# One that is alive when the interpreter ends makes DuckDB's binding report leaks on standard error.
atexit.register(_parsed.clear)


def run_parsed(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any]) -> duckdb.DuckDBPyConnection:
    """Execute one statement, which is parsed when it is met first: for texts that come again."""
    statement = _parsed.get(sql)
    if statement is None:
        statement = con.extract_statements(sql)[0]
        while len(_parsed) >= _MOST_PARSED:
            _parsed.pop(next(iter(_parsed)), None)
        _parsed[sql] = statement
    return con.execute(statement, list(parameters))


def insert_columns(con: duckdb.DuckDBPyConnection, table: str, types: Sequence[str], columns: Sequence[list[Any]]) -> None:
    """Insert the rows of `columns`, lists in the table's order.

    `types` are the SQL types of the columns. A few values are planned fastest by themselves; more of them as lists.
    """
    count = len(columns[0])
    if count * len(types) <= _FEW_VALUES:
        row = f"({', '.join('?' * len(types))})"
        values = [value for row_values in zip(*columns, strict=True) for value in row_values]
        run_parsed(con, f"INSERT INTO {table} VALUES {', '.join([row] * count)}", values)
    else:
        run_parsed(con, f"INSERT INTO {table} SELECT {', '.join(f'unnest(?::{kind}[])' for kind in types)}", columns)
