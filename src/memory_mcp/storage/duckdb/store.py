"""The whole store of one data directory on DuckDB."""

import logging
import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from memory_mcp.base import machine
from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.errors import DiskFull, SchemaTooNew, SchemaTooOld, StorageDamaged, StorageMoved
from memory_mcp.base.failpoints import failpoint
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.storage.duckdb import migrations, records
from memory_mcp.storage.duckdb.archive import DuckArchive
from memory_mcp.storage.duckdb.connection import LAST_READS, Connection, Row
from memory_mcp.storage.duckdb.deferred import open_deferred_writes
from memory_mcp.storage.duckdb.engine_errors import ReadsInProgress
from memory_mcp.storage.duckdb.erasing import EVENTS_AFTER, DuckEraser
from memory_mcp.storage.duckdb.events import DuckEvents
from memory_mcp.storage.duckdb.files import log_path, remove_compact_copy, write_log_path
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.duckdb.outbox import DuckOutbox, Numbers
from memory_mcp.storage.duckdb.projects import DuckProjects
from memory_mcp.storage.duckdb.recent import RecentGrips
from memory_mcp.storage.duckdb.salvage import SalvageResult, check_log, note_damage, salvage_store, store_saved
from memory_mcp.storage.duckdb.space import make_disk_full
from memory_mcp.storage.duckdb.toc import DuckToc
from memory_mcp.storage.forgotten import Findings
from memory_mcp.storage.highwater import ContentMark, HighWater, is_damage_noted, load_mark, make_mark
from memory_mcp.storage.lock import DirectoryLock, SharedLock
from memory_mcp.storage.opening import get_system_zone
from memory_mcp.storage.records import DERIVER
from memory_mcp.storage.replacing import finish_replacement
from memory_mcp.storage.rows import COUNTED, stats_of
from memory_mcp.storage.values import Cleaner, ErasureResult, Loss, StoreStats

log = logging.getLogger(__name__)

FILE_NAME = "memory.duckdb"
#: Memory that DuckDB may use (with 64 MB, a log of long texts ends all writes), and its threads: callers bring their own.
_MEMORY_MB, _THREADS = 256, 1
_BRING_UP = "Any other command that reads it does so, and keeps a copy of the old file: memory-mcp timeline"
#: In one statement: each costs as much again before it reads a row.
_COUNTS = "SELECT 'event', count(*), min(ts), max(ts) FROM event" + "".join(
    f" UNION ALL SELECT '{table}', count(*), NULL, NULL FROM {table}" for table in COUNTED
)
#: By source, up to a number of arrival: see `mark_of`.
_MARKED = """SELECT source, count(*), bit_xor(event_id), bit_xor(content), max(ts), max(seq) FROM event {where} GROUP BY source"""
_TEXT_BYTES = "SELECT coalesce(sum(strlen(text)), 0)::BIGINT FROM event"


def open_storage(
    directory: Path | None, timezone: str = "", clock: Clock | None = None, lock: DirectoryLock | None = None
) -> "DuckStorage":
    """Open the store of a data directory, or one in memory for None.

    It is made when it is missing. An older schema is brought up to date, and what is whole of a damaged store is saved
    first. `timezone` is that of a new store (default: the system's). `lock` is the directory's when the caller holds it
    already; closing the store releases it. Raises StorageLocked when another process holds it, SchemaTooNew when a newer
    version wrote it, StorageError when it cannot be read.
    """
    is_lock_given = lock is not None
    if directory is not None and lock is None:
        lock = DirectoryLock(directory)
    try:
        try:
            return DuckStorage(directory, lock, timezone, clock or SystemClock())
        except StorageDamaged:
            # Met while it was opened, and noted: the second opening saves what is whole.
            return DuckStorage(directory, lock, timezone, clock or SystemClock())
    except BaseException:
        if lock and not is_lock_given:
            lock.release()
        raise


def open_read_only(directory: Path) -> "DuckStorage":
    """Open the store of a data directory only for reading.

    No file of it changes, also not when it is closed. Raises StorageLocked when another process holds it, SchemaTooNew when
    a newer version wrote it, SchemaTooOld for an older schema, StorageError when it cannot be read.
    """
    lock = SharedLock(directory)
    try:
        return DuckStorage(directory, lock, "", SystemClock(), looking=True)
    except BaseException:
        lock.release()
        raise


class DuckStorage:
    """The whole store of a data directory, opened with its lock."""

    def __init__(
        self, directory: Path | None, lock: DirectoryLock | SharedLock | None, timezone: str, clock: Clock, looking: bool = False
    ) -> None:
        self._directory = directory
        self._lock = lock
        self._is_read_only = looking
        self._path = directory / FILE_NAME if directory else None
        self._closed = False
        self._high_water = HighWater(directory, clock, looking)
        #: Commits when the rows were last counted, and what came of it.
        self._cached_stats: tuple[int, StoreStats | None] = (0, None)
        self._con, salvaged = self._connect(clock)
        try:
            self._migrate_schema(timezone)
            if self._path and not looking:
                self._path.chmod(0o600)
            self._numbers = Numbers(self._con)
            self._con.on_rollback, self._con.on_commit = self._numbers.load, self._numbers.settle
            self._keyed = self._open_keyed_rows()
            self._quoted = quoted = RecentGrips()
            self.projects = DuckProjects(self._con, lambda: self.events.drop_recent())  # noqa: PLW0108 - made below
            self.events = DuckEvents(self._con, self._numbers, clock, self._high_water, quoted, self.projects, self._keyed)
            self.toc = DuckToc(self._con, self._numbers, clock, quoted, self._keyed, self.projects.activities)
            self.grips = records.DuckGrips(self._con, quoted, self._keyed)
            self.usage, self.superseded = records.DuckUsage(self._con), records.DuckSuperseded(self._con)
            self.spending, self.hints = records.DuckSpending(self._con), records.DuckHints(self._con)
            self.topics, self.tool_runs = records.DuckTopics(self._con), records.DuckToolRuns(self._con)
            self.audit = records.DuckAudit(self._con)
            self.tombstones = None
            self.archive = DuckArchive(self._con, self.drop_caches)
            self.outbox = DuckOutbox(self._con, self._numbers)
            self._settle_damage(salvaged, clock)
            self._con.on_doubt, self._con.on_deleted = self.drop_caches, lambda: self.rewrite_deleted_file(False)
        except BaseException:
            # An open file would stay locked, and a second try in this process would meet the first one's state.
            self._con.close()
            raise

    def _open_keyed_rows(self) -> KeyedRows:
        return KeyedRows(
            self._con,
            self._numbers,
            None if self._is_read_only else self._directory,
            lambda: self._read_meta("store_id"),
            lambda keys: self.toc.read_packed(keys),  # noqa: PLW0108 - made later
        )

    def _connect(self, clock: Clock) -> tuple[Connection, SalvageResult]:
        """Connect to the file, after a look for damage.

        The log of every file is looked at; the file itself where damage was met, now or before. A store that is only read
        is opened as it is.
        """
        if self._directory:
            finish_replacement(self._directory, self._is_read_only)
        if self._path is None or self._is_read_only:
            return Connection(self._path, _MEMORY_MB, _THREADS, self._is_read_only), SalvageResult()
        remove_compact_copy(self._path)
        directory = self._path.parent
        done = salvage_store(self._path, clock.now_ms()) if is_damage_noted(directory) else check_log(self._path, clock.now_ms())
        try:
            con = Connection(self._path, _MEMORY_MB, _THREADS)
        except StorageDamaged as error:
            log.error("%s", error)  # noqa: TRY400 - what it says is the whole of it
            more = salvage_store(self._path, clock.now_ms())
            done = replace(more, mended_bytes=done.mended_bytes + more.mended_bytes)
            con = Connection(self._path, _MEMORY_MB, _THREADS)
        con.on_damage = lambda: note_damage(directory)
        return con, done

    def _settle_damage(self, salvaged: SalvageResult, clock: Clock) -> None:
        """Store what was logged or saved, compare the mark, audit it."""
        file = None if self._is_read_only else self._path
        self.events.deferred = open_deferred_writes(self._con, file, self.events.append, clock.now_ms())
        other_losses: dict[str, int] = {}
        if salvaged.is_unfinished and self._directory:
            other_losses = store_saved(self._directory, self.events.append, self._add_rows)
            self.drop_caches()
            self.superseded.drop_records()
        if self._is_read_only and self._path and machine.size_of(write_log_path(self._path)):
            log.warning("writes that an earlier process acknowledged are shown when the store is opened for writing")
            return
        self._high_water.check_mark(self._read_mark, salvaged.folder if salvaged.is_unfinished else "", other_losses)
        if salvaged.folder:
            counts = {
                "bytes mended": salvaged.mended_bytes,
                "events missing": self.loss.events if self.loss else 0,
            } | other_losses
            self.audit.record_entry(AuditEntry("salvage", clock.now_ms(), "memory-mcp", salvaged.folder, counts=counts))

    def _add_rows(self, table: str, rows: list[Row]) -> None:
        """Add rows that are not in a table yet, in one transaction."""
        with self._con.begin_transaction() as con:
            for row in rows:
                columns = [name for name, *_ in con.execute(f"SELECT * FROM {table} LIMIT 0").description]
                same = " AND ".join(f"{name} IS NOT DISTINCT FROM ?" for name in columns[: 1 if table == "pin" else None])
                marks = ", ".join("?" * len(row))
                sql = f"INSERT INTO {table} SELECT {marks} WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
                con.execute(sql, [*row, *(row[:1] if table == "pin" else row)])

    def _migrate_schema(self, timezone: str) -> None:
        """Create or migrate the tables, after a copy NAME.schema-HAVE.backup.

        Raises SchemaTooNew, SchemaTooOld for an older one that is only read, InvalidQuery for a zone that does not exist. A
        file begun again after damage keeps the store id of the mark next to it.
        """
        with self._con.lend_cursor() as cursor:
            have = migrations.read_version(cursor) if self._path else 0
        current = migrations.CURRENT
        if have > current:
            message = f"the store was written by a newer version (schema {have}, this program knows {current})"
            raise SchemaTooNew(message, "Install the newer memory-mcp; the store is untouched.")
        if self._is_read_only and have < current:
            raise SchemaTooOld(f"the store has schema {have}, which this program brings up to {current}", _BRING_UP)
        if have == 0 or not self._read_meta("store_id"):
            zone = timezone or get_system_zone()
            Calendar(zone).day_of(0)
            with self._con.begin_transaction() as con:
                if have == 0:
                    migrations.create_tables(con)
                # A file that was begun anew after damage is still the store that the mark is about.
                mark = load_mark(self._directory) if have and self._directory else None
                number = mark.store_id if mark and mark.store_id else uuid.uuid4().hex
                con.execute("INSERT INTO meta VALUES ('timezone', ?), ('store_id', ?)", [zone, number])
        elif have < current:
            if self._path:
                with self._con.close_for_replacement():
                    shutil.copy2(self._path, self._path.with_name(f"{self._path.stem}.schema-{have}.backup{self._path.suffix}"))
            with self._con.begin_transaction() as con:
                migrations.migrate_tables(con, have)

    def _read_meta(self, name: str) -> str:
        row = self._con.fetch_row("SELECT value FROM meta WHERE name = ?", [name])
        return str(row[0]) if row else ""

    @property
    def timezone(self) -> str:
        return self._read_meta("timezone") or "UTC"

    def set_timezone(self, name: str) -> None:
        Calendar(name).day_of(0)
        with self._con.begin_transaction() as con:
            con.execute("UPDATE meta SET value = ? WHERE name = 'timezone'", [name])

    def get_stats(self, text: bool = True) -> StoreStats:
        commits, stats = self._cached_stats
        if stats is None or commits != self._con.commits:
            # Read before the rows: what is committed meanwhile is counted again by the next caller.
            commits = self._con.commits
            facts = (self._read_meta("store_id"), self.timezone, migrations.CURRENT)
            stats = stats_of(self._con.fetch_rows(_COUNTS), *facts, derived_to=self.outbox.get_checkpoint(DERIVER))
            self._cached_stats = (commits, stats)
        (text_bytes,) = (self._con.fetch_row(_TEXT_BYTES) if text else None) or (0,)
        if self._con.space.is_lacking:
            stats = replace(stats, no_room=make_disk_full(self._path).message)
        return replace(
            stats, size_bytes=self._file_bytes(), text_bytes=text_bytes, last_seq=self._numbers.last_event, loss=self.loss
        )

    def _file_bytes(self) -> int:
        return machine.size_of(self._path) + machine.size_of(log_path(self._path)) if self._path else 0

    def latest_times(self) -> dict[str, int]:
        return {str(source): int(ms) for source, ms in self._con.fetch_rows("SELECT source, max(ts) FROM event GROUP BY source")}

    def interrupt_reads(self, thread: int | None = None) -> None:
        self._con.interrupt(thread)

    def hold_claim(self, name: str) -> AbstractContextManager[bool]:  # noqa: ARG002
        """Yield at once: no other process has the file open. True if this one read it without what waited, which is stored now.

        Raises DiskFull if that cannot be stored yet.
        """
        return nullcontext(self._con.reads_behind.settle(self.outbox.store_waiting))

    def drop_caches(self) -> None:
        with self._con.hold_writes():
            self._keyed.distrust()
            self._drop_memory()

    def _drop_memory(self) -> None:
        with self._con.hold_writes():
            self._numbers.load()
            self._numbers.changes.drop_all()
            self.projects.drop_rules()
            self.events.drop_memory()
            self.toc.drop_caches()
            self.superseded.drop_contradictions()
            self.hints.drop_cache()
            self._quoted.drop_all()

    def copy_rows(self, should_stop: Callable[[], bool]) -> int:
        if not (count := self._keyed.fill(should_stop)):
            self._con.shrink_memory()
        return count

    def write_checkpoint(self) -> None:
        self._con.write_checkpoint()

    def erase_forgotten(self, keep: Cleaner, dry: bool = False, after: int = 0) -> ErasureResult:
        """Erase; events are looked through while others write.

        Afterwards, unless `dry`, caches are dropped and the mark begun again.
        """
        findings = Findings(after)
        findings.look_through(lambda seq: self._con.fetch_rows(EVENTS_AFTER, [seq]), keep)
        with self._con.hold_writes():
            with self._con.begin_transaction() as con:
                erased = DuckEraser(con, self._numbers, keep, dry, findings).run()
                if not dry:
                    self._keyed.remove()
                    rows = con.execute(_MARKED.format(where="")).fetchall()
                    self._high_water.write_mark(sync=True, next_mark=self._mark_of(rows))
                failpoint("forget.before_commit")
            if not dry:
                failpoint("forget.erased")
                self.drop_caches()
                self.superseded.drop_records()
                self.accept_contents()
            erased.last_seq = self._numbers.last_event
        return erased

    def dead_bytes(self) -> int:
        row = self._con.fetch_row("SELECT free_blocks * block_size FROM pragma_database_size()")
        return int(row[0]) if row and self._path else 0

    def rewrite_deleted_file(self, may_wait: bool = True) -> bool:
        gone = self._path is not None and not self._path.exists()
        if gone:
            self.compact_files(may_wait)
            log.warning("the database file was deleted while it was open; it was written anew, with everything")
        return gone

    def compact_files(self, may_wait: bool = True) -> tuple[int, int]:
        if self._path is None:
            return 0, 0
        with self._con.make_dense_copy(may_wait) as fresh:
            old_size = self._file_bytes()
            with suppress(FileNotFoundError):
                shutil.copymode(self._path, fresh)
            with fresh.open("rb+") as written:
                machine.on_disk(written)
            failpoint("compact.copied")
            os.replace(fresh, self._path)
            machine.sync_names(self._path.parent)
            failpoint("compact.swapped")
            with suppress(OSError):
                self._path.with_name(self._path.name + ".tmp").rmdir()  # the engine leaves it empty
        self._drop_memory()
        return old_size, self._file_bytes()

    def _read_mark(self, last_seq: int | None) -> ContentMark:
        where, parameters = ("", []) if last_seq is None else ("WHERE seq <= ?", [last_seq])
        return self._mark_of(self._con.fetch_rows(_MARKED.format(where=where), parameters))

    def _mark_of(self, rows: Sequence[Row]) -> ContentMark:
        return make_mark(self._read_meta("store_id"), [(row[0], *map(int, row[1:])) for row in rows])

    @property
    def loss(self) -> Loss | None:
        return self._high_water.loss

    def accept_contents(self, acknowledge: bool = False) -> None:
        with self._con.hold_writes():
            now = self._read_mark(None)
            if acknowledge:
                self._high_water.drop_loss()
            self._high_water.reset_mark(now)

    @property
    def connection(self) -> Connection:
        """The connection to the file that every statement uses."""
        return self._con

    def close(self) -> None:
        """Write checkpoint and mark (synced), and release the lock.

        A full disk, damage or a move met meanwhile is only logged. A store that is only read is closed without a checkpoint.
        """
        if self._closed:
            return
        self._closed = True
        try:
            if not self._is_read_only:
                # Else the next start takes the log in.
                with suppress(ReadsInProgress):
                    self._con.write_checkpoint(LAST_READS)
                self._high_water.write_mark(sync=True)
        except DiskFull as error:
            log.warning("closed without taking the log in, which the next start does: %s", error)
        except (StorageDamaged, StorageMoved) as error:
            log.error("%s", error)  # noqa: TRY400 - what it says is the whole of it
        finally:
            self._keyed.close()
            self._con.close()
            if self.events.deferred:
                self.events.deferred.close()
            if self._lock:
                self._lock.release()
