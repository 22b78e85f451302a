"""Copies the tombstones of all memories of a database to a file, and applies them to a database restored from a backup."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.config import Settings
from memory_mcp.forgetting.act import Forgetting
from memory_mcp_team.access.directory import Directory
from memory_mcp_team.postgres.connection import Connection
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.postgres.memories import Memory
from memory_mcp_team.postgres.records import PostgresTombstones
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.server import tombstone_files as outside

#: Recorded in each memory's audit.
AUTHOR, SUBJECT = "memory-mcp", "after a restore"


@dataclass(slots=True)
class AppliedTombstones:
    """What was done to a restored database."""

    #: Tombstones that it did not have, and memories that had to be cleaned.
    tombstones: int = 0
    memories: int = 0
    #: Rows that went or changed.
    events: int = 0
    #: Memories of the files that the database does not have: made after the backup.
    unknown: int = 0


def export_tombstones(database: Database, file: Path) -> int:
    """Add missing tombstones to a file; return how many."""
    return outside.add_tombstones(
        file, {memory.store_id: _tombstone_log(database, memory) for memory in _iter_memories(database)}
    )


def apply_tombstones(database: Database, settings: Settings, places: Sequence[Path]) -> AppliedTombstones:
    """Forget again, in a restored database, what files name.

    A second time changes nothing more. Memories are matched by their store id. Raises InvalidQuery for a missing path,
    StorageError if something was forgotten in a memory since, under another key.
    """
    copies, applied, matched_ids = outside.read_tombstones(outside.list_files(places)), AppliedTombstones(), set[str]()
    for memory in _iter_memories(database):
        # A memory that was copied keeps its id, so that several spaces may be copies of one.
        copy = copies.get(memory.store_id)
        if copy is None:
            continue
        matched_ids.add(memory.store_id)
        new = _tombstone_log(database, memory).adopt_lines(copy.key, copy.lines)
        applied.tombstones += len(new)
        # Also where nothing is new: a run before this one may have been killed in the middle.
        event_count = _clean_memory(database, settings, memory)
        applied.memories += bool(event_count)
        applied.events += event_count
    applied.unknown = len(copies.keys() - matched_ids)
    return applied


def _clean_memory(database: Database, settings: Settings, memory: Memory) -> int:
    with tempfile.TemporaryDirectory(prefix="memory-mcp-") as folder:
        # Indexes are each server's own: none is made here, and servers read again what they have.
        storage = replace(settings.storage, data_dir=folder)
        cleaning_settings = replace(settings, storage=storage, teleport=replace(settings.teleport, enabled=False))
        app = App(cleaning_settings, storage=PostgresStorage(database, memory))
        try:
            return Forgetting(app).look_again(AUTHOR, SUBJECT)
        finally:
            app.close()


def _iter_memories(database: Database) -> Iterator[Memory]:
    directory = Directory(database)
    for tenant in directory.list_tenants():
        for space in directory.list_spaces(tenant.tenant):
            yield directory.get_memory(tenant.tenant, space.space)


def _tombstone_log(database: Database, memory: Memory) -> PostgresTombstones:
    return PostgresTombstones(Connection(database, memory.tenant, memory.space))
