"""Reads a file whose damaged blocks were given checksums that fit: in a child process, as what it meets may end it.

Run by `children` in a process of its own, and imported by nobody.
"""

import os
from collections.abc import Callable

import duckdb

from memory_mcp.storage.duckdb.connection import Row, copy_config


def begin(file: str) -> Callable[[str], list[Row] | None]:
    """Open a file; return what answers each query, with None where it cannot be."""
    con = duckdb.connect(file, True, copy_config())

    def rows(sql: str) -> list[Row] | None:
        try:
            return con.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException):
            # Nothing more is answered by this connection.
            os._exit(1)
        except (duckdb.Error, UnicodeDecodeError, ValueError):
            return None

    return rows
