"""TombstoneLog on PostgreSQL: every server of a memory knows what any of them has forgotten.

The key is in the database as well: who can read it can read the memory itself.
"""

import secrets
import time
from collections.abc import Sequence

from memory_mcp.base.errors import StorageError
from memory_mcp_team.postgres.claims import NOW
from memory_mcp_team.postgres.connection import Connection, Writer, own

_KEY_BYTES = 32
_LINES = f"SELECT line FROM tombstone WHERE {own()} ORDER BY number"
_KEY = f"SELECT key FROM tombstone_key WHERE {own()}"
_MAKE_KEY = """INSERT INTO tombstone_key (tenant, space, key) VALUES (%(tenant)s, %(space)s, %(key)s)
  ON CONFLICT (tenant, space) DO NOTHING"""
_REPLACE_KEY = f"UPDATE tombstone_key SET key = %(key)s WHERE {own()}"

#: Work that looks once more for what was forgotten: for what a server stored that did not know of it yet, and in the place of one
#: that was killed over it. Due after so long (milliseconds).
FORGET, _LATER = "forget", 60_000
_DUE = f"""INSERT INTO work (tenant, space, name, due_ms) VALUES (%(tenant)s, %(space)s, %(name)s, {NOW} + %(later)s)
  ON CONFLICT (tenant, space, name) DO UPDATE SET due_ms = excluded.due_ms"""


class PostgresTombstones:
    """What was forgotten in a memory, each line a row, and the key of the hashes; a `TombstoneLog`."""

    def __init__(self, con: Connection) -> None:
        self._con = con

    def get_stamp(self) -> int:
        """Return a value that changes when any process adds lines."""
        return self._con.head().resets

    def read_lines(self) -> list[str]:
        """Return all lines in the order in which they were added."""
        return [str(line) for (line,) in self._con.rows(_LINES)]

    def load_key(self) -> bytes:
        """Return the key of the hashes."""
        row = self._con.row(_KEY)
        if row is None:
            with self._con.open_writer() as writer:
                row = _load_or_make_key(writer, secrets.token_bytes(_KEY_BYTES))
        return bytes(row[0])

    def add_lines(self, lines: Sequence[str]) -> None:
        """Add lines; they outlast a crash when this returns.

        Other servers read again what they keep, and in a minute what the lines forget is looked for once more.
        """
        with self._con.open_writer() as writer:
            _insert_lines(writer, lines)

    def adopt_lines(self, key: bytes, lines: Sequence[str]) -> list[str]:
        """Add lines of a copy made with `key`; return those added."""
        with self._con.open_writer() as writer:
            stored_lines = {str(line) for (line,) in writer.rows(_LINES)}
            (stored_set,) = _load_or_make_key(writer, key)
            if bytes(stored_set) != key and stored_lines:
                raise StorageError(
                    "what was forgotten here has another key than the copy",
                    "Apply the copy to the restored database before anything is forgotten there.",
                )
            if bytes(stored_set) != key:
                writer.run(_REPLACE_KEY, key=key)
            new = [line for line in dict.fromkeys(lines) if line not in stored_lines]
            if new:
                _insert_lines(writer, new)
            return new


def _load_or_make_key(writer: Writer, key: bytes) -> tuple[bytes]:
    """Return the stored key as a row, in the writer's transaction.

    It is `key` where there was none yet.
    """
    writer.run(_MAKE_KEY, key=key)
    row = writer.row(_KEY)
    assert row is not None
    return (bytes(row[0]),)


def _insert_lines(writer: Writer, lines: Sequence[str]) -> None:
    """Add lines, have what they forget looked for again in a minute, and raise the head's resets, in the writer's transaction."""
    now = time.time_ns() // 1_000_000
    writer.run(_DUE, name=FORGET, later=_LATER)
    writer.insert_rows("tombstone", "at_ms, line", ("bigint", "text"), [[now] * len(lines), list(lines)])
    writer.head.resets += 1
