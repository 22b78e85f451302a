"""Reads a file whose damaged blocks were given checksums that fit: in a child process, as what it meets may end it.

Started as a program, and imported by nobody.
"""

import os
from collections.abc import Callable

import duckdb

from memory_mcp.children import answering
from memory_mcp.storage.duckdb.connection import Row, copy_config


def _begin(hello: object) -> Callable[[object], object]:
    con = duckdb.connect(str(hello), True, copy_config())

    def rows(sql: object) -> list[Row] | None:
        try:
            return con.execute(str(sql)).fetchall()
        except (duckdb.InternalException, duckdb.FatalException):
            # Nothing more is answered by this connection.
            os._exit(1)
        except (duckdb.Error, UnicodeDecodeError, ValueError):
            return None

    return rows


if __name__ == "__main__":
    answering(_begin)
