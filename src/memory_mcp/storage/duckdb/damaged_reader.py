"""Reads a file with damaged blocks in a child process, which it may end.

Run by `children`, and imported by nothing.
"""

import os
from collections.abc import Callable

import duckdb

from memory_mcp.storage.duckdb.connection import Row
from memory_mcp.storage.duckdb.files import make_copy_config


def begin(file: str) -> Callable[[str], list[Row] | None]:
    """Open a damaged file; return a function of a query: its rows, or None if it fails.

    Ends this process with status 1 when the file cannot be opened, or the engine gives it up.
    """
    try:
        con = duckdb.connect(file, True, make_copy_config())
    except duckdb.Error:
        # Who asks says so.
        os._exit(1)

    def rows(sql: str) -> list[Row] | None:
        try:
            return con.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException):
            # Nothing more is answered by this connection.
            os._exit(1)
        except (duckdb.Error, UnicodeDecodeError, ValueError):
            return None

    return rows
