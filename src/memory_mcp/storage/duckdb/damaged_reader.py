"""Reads a file whose damaged blocks were given checksums that fit: in a child process, as what it meets may end it.

Run by `children` in a process of its own, and imported by nobody.
"""

import os
from collections.abc import Callable

import duckdb

from memory_mcp.storage.duckdb.connection import Row, copy_config


def begin(file: str) -> Callable[[str], list[Row] | None]:
    """Open a file for reading; return a function that answers each query with its rows, with None where it cannot be read.

    Ends this process with status 1 when the engine gives up the file. Raises duckdb.Error when the file cannot be
    opened.
    """
    con = duckdb.connect(file, True, copy_config())

    def rows(sql: str) -> list[Row] | None:
        """Return all rows of a query, None where they cannot be read; end the process where the engine gives up."""
        try:
            return con.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException):
            # Nothing more is answered by this connection.
            os._exit(1)
        except (duckdb.Error, UnicodeDecodeError, ValueError):
            return None

    return rows
