"""The whole store of one memory on PostgreSQL: a space of a tenant, and its parts."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.lock import DirectoryLock
from memory_mcp.storage.opening import OpenOptions, get_system_zone
from memory_mcp.storage.rows import COUNTED, stats_of
from memory_mcp.storage.values import Cleaner, ErasureResult, Loss, StoreStats
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.archive import PostgresArchive
from memory_mcp_team.postgres.connection import ACTING_MEMBER, Connection, own
from memory_mcp_team.postgres.database import Binding, Database, sql
from memory_mcp_team.postgres.erasing import erase_forgotten
from memory_mcp_team.postgres.events import PostgresEvents
from memory_mcp_team.postgres.memories import TEAM, Memory, find_space, make_space, make_tenant
from memory_mcp_team.postgres.outbox import PostgresOutbox
from memory_mcp_team.postgres.projects import PostgresProjects
from memory_mcp_team.postgres.records import (
    PostgresAudit,
    PostgresGrips,
    PostgresHints,
    PostgresSpending,
    PostgresSuperseded,
    PostgresTombstones,
    PostgresTopics,
    PostgresUsage,
)
from memory_mcp_team.postgres.toc import PostgresToc
from memory_mcp_team.postgres.tool_runs import PostgresToolRuns
from memory_mcp_team.postgres.work import Claims

_COUNTS = f"SELECT 'event', count(*), min(ts), max(ts) FROM event WHERE {own()}" + "".join(
    f" UNION ALL SELECT '{table}', count(*), NULL, NULL FROM {table} WHERE {own()}" for table in COUNTED
)
_TEXT_BYTES = f"SELECT coalesce(sum(octet_length(text)), 0)::bigint FROM event WHERE {own()}"


def open_storage(opening: OpenOptions) -> "PostgresStorage":
    """Open the memory that the settings name, made if missing.

    Tables are made or brought up to date first; a data directory, where the indexes are, is locked. Raises StorageAway,
    SchemaTooNew, StorageLocked, ConfigError for an unfit address, InvalidQuery for an unknown zone; nothing stays open then.
    """
    is_lock_given = opening.lock is not None
    lock = opening.lock or (DirectoryLock(opening.directory) if opening.directory is not None else None)
    database = Database(opening.url, opening.pool)
    try:
        migrations.migrate_schema(database)
        zone = opening.timezone or get_system_zone()
        Calendar(zone).day_of(0)
        memory = make_space(database, make_tenant(database, opening.tenant), opening.space, TEAM, zone)
        return PostgresStorage(database, memory, lock=lock, owns_database=True)
    except BaseException:
        database.close()
        if lock is not None and not is_lock_given:
            lock.release()
        raise


class PostgresStorage:
    """The whole store of one memory, a space of a tenant; a `Storage`."""

    def __init__(
        self,
        database: Database,
        memory: Memory,
        member: int = 0,
        replica: Database | None = None,
        lock: DirectoryLock | None = None,
        owns_database: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Serve one memory for one member (0: the program itself).

        Reads go to `replica` if there is one. `close` releases `lock` and, with `owns_database`, closes the database.
        """
        clock = clock or SystemClock()
        self._database, self._memory = database, memory
        self._lock, self._owns_database = lock, owns_database
        self._con = con = Connection(database, memory.tenant, memory.space, member, replica)
        #: What this process alone does for the memory.
        self.claims = Claims(con)
        self._counted: tuple[tuple[int, int], StoreStats | None] = ((-1, -1), None)
        self._closing = threading.Lock()
        self._closed = False
        # Nothing is kept here that says the names of projects.
        self.projects = PostgresProjects(con, renamed=lambda: None)
        self.events = PostgresEvents(con, clock, self.projects)
        self.toc = PostgresToc(con, clock)
        self.grips = PostgresGrips(con)
        self.usage = PostgresUsage(con)
        self.superseded = PostgresSuperseded(con)
        self.spending = PostgresSpending(con)
        self.topics = PostgresTopics(con)
        self.tool_runs, self.hints = PostgresToolRuns(con), PostgresHints()
        self.audit = PostgresAudit(con)
        self.tombstones = PostgresTombstones(con)
        self.archive = PostgresArchive(con, memory, self.drop_caches)
        self.outbox = PostgresOutbox(con)
        con.on_reset = self.drop_caches

    @property
    def connection(self) -> Connection:
        """The memory's access to the database."""
        return self._con

    @property
    def timezone(self) -> str:
        return self._memory.timezone

    def set_timezone(self, name: str) -> None:
        Calendar(name).day_of(0)
        with self._con.open_writer() as writer:
            writer.execute(f"UPDATE space SET timezone = %(zone)s WHERE {own()}", zone=name)
            writer.head.resets += 1
        self._memory = replace(self._memory, timezone=name)

    def hold_claim(self, name: str) -> AbstractContextManager[bool]:
        return self.claims.hold_claim(name)

    def get_stats(self, text: bool = True) -> StoreStats:
        """Return counts; the size is the whole database's."""
        head = self._con.get_head()
        stamp, cached = self._counted
        if cached is None or stamp != head.stamp:
            facts = (self._memory.store_id, self.timezone, migrations.CURRENT)
            # The size is that of the whole database: tables are shared, and what one memory takes of them is not known.
            cached = stats_of(self._con.rows(_COUNTS), *facts, size_bytes=self._database_size())
            self._counted = (head.stamp, cached)
        (text_bytes,) = (self._con.row(_TEXT_BYTES) if text else None) or (0,)
        # A member does not learn how much others have in the same tables.
        size = 0 if ACTING_MEMBER.get() else cached.size_bytes
        return replace(cached, size_bytes=size, text_bytes=text_bytes, last_seq=head.last_event, derived_to=head.derived)

    def latest_times(self) -> dict[str, int]:
        rows = self._con.rows(f"SELECT source, max(ts) FROM event WHERE {own()} GROUP BY source")
        return {str(source): int(ms) for source, ms in rows}

    def interrupt_reads(self, thread: int | None = None) -> None:
        self._con.interrupt_reads(thread)

    def drop_caches(self) -> None:
        self._con.expire_head()
        self.toc.drop_caches()
        self._memory = find_space(self._database, self._memory.tenant, self._memory.space)
        self.projects.drop_rules()
        self.superseded.drop_records()
        self.superseded.drop_contradictions()

    def copy_rows(self, should_stop: Callable[[], bool]) -> int:  # noqa: ARG002
        """Copy nothing: the database has an index for each key."""
        return 0

    def write_checkpoint(self) -> None:
        """Write the log into the file, so that opening replays little."""

    def erase_forgotten(self, keep: Cleaner, dry: bool = False, after: int = 0) -> ErasureResult:
        erased = erase_forgotten(self._con, keep, dry, after)
        if not dry:
            self.drop_caches()
        return erased

    def dead_bytes(self) -> int:
        return 0

    def rewrite_deleted_file(self) -> bool:
        return False

    def compact_files(self) -> tuple[int, int]:
        old_size = self._database_size()
        with self._database.lend_connection(Binding(self._memory.tenant)) as raw:
            for table in migrations.list_tables():
                raw.execute(sql(f"VACUUM {table}"))
        return old_size, self._database_size()

    def _database_size(self) -> int:
        row = self._con.row("SELECT pg_database_size(current_database())")
        return int(row[0]) if row else 0

    @property
    def loss(self) -> Loss | None:
        return None

    def accept_contents(self, acknowledge: bool = False) -> None:
        """Note that what the store holds now is what was acknowledged."""

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        self._con.close()
        if self._owns_database:
            self._database.close()
        if self._lock is not None:
            self._lock.release()
