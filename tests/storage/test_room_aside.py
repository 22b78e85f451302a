"""What the engine puts aside on the disk: a moment without room does not last."""

from pathlib import Path

import pytest

from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.storage.duckdb.connection import Connection

#: Sorts more than fits into 20 MB.
QUERY = "SELECT sum(hash(b)) FROM (SELECT repeat('x', 20) || range AS b FROM range(1000000) ORDER BY hash(range))"


def test_a_disk_that_was_full_once_is_not_full_for_ever_and_a_query_that_found_no_room_is_asked_once_more(tmp_path: Path) -> None:
    connection = Connection(tmp_path / "memory.duckdb", 20, 1)
    try:
        # As the engine sets it where it first needs room while there is none.
        connection.fetch_rows("SET GLOBAL max_temp_directory_size = '0KB'")
        with pytest.raises(ResourceExhausted), connection.lend_cursor() as cursor:
            cursor.execute(QUERY).fetchall()
        assert len(connection.fetch_rows(QUERY)) == 1
        # As long as this lasts no other query has room; the first try mends it.
        connection.fetch_rows("SET GLOBAL max_temp_directory_size = '0KB'")
        assert len(connection.fetch_rows(QUERY)) == 1
    finally:
        connection.close()
