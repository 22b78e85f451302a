"""What only the DuckDB engine has: its schema, its files, its lock, and DuckDB's own errors in our words."""

import inspect
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import (
    ConfigError,
    DeadlineExceeded,
    DiskFull,
    InvalidQuery,
    MemoryMcpError,
    ResourceExhausted,
    SchemaTooNew,
    StorageDamaged,
    StorageError,
    StorageLocked,
    StorageMoved,
)
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.grip import GripUsage
from memory_mcp.model.ids import GripId, topic_id
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.duckdb import blocks, files, migrations, open_read_only, open_storage, publish
from memory_mcp.storage.duckdb.connection import Connection
from memory_mcp.storage.duckdb.engine_errors import translate_errors
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.duckdb.waiting import LongReads
from memory_mcp.storage.opening import find_zone, get_system_zone
from memory_mcp.storage.values import Build, Scope, WriteRequest
from memory_mcp.upkeep.archive.keeper import BackupKeeper
from memory_mcp.upkeep.archive.settings import BackupSettings
from tests.factories import event, node, run_of
from tests.fakes import FakeClock
from tests.waiting import PATIENCE, together, until

FILE = "memory.duckdb"
#: What an error must never tell anyone to do to a store.
DAMAGE = ("delete", "remove", "rm ", "init", "reset", "recreate", "overwrite")


def made(directory: Path, count: int = 50) -> Path:
    """A closed store with some events; its file."""
    store = open_storage(directory, "Europe/Berlin")
    store.events.append(run_of(count))
    store.close()
    return directory / FILE


def columns(con: duckdb.DuckDBPyConnection) -> list[tuple[object, ...]]:
    sql = (
        "SELECT table_name, column_index, column_name, data_type, is_nullable, column_default FROM duckdb_columns() ORDER BY ALL"
    )
    return con.execute(sql).fetchall()


# schema


def test_the_schema_and_the_numbered_steps_that_lead_to_it_give_the_same_tables() -> None:
    fresh, stepped = duckdb.connect(), duckdb.connect()
    migrations.create_tables(fresh)
    for name in migrations.STEPS.values():
        stepped.execute(migrations.sql(f"steps/{name}"))
    assert columns(fresh) == columns(stepped)
    assert len({row[0] for row in columns(fresh)}) > 10
    indexes = "SELECT table_name, index_name, sql FROM duckdb_indexes() ORDER BY ALL"
    assert fresh.execute(indexes).fetchall() == stepped.execute(indexes).fetchall()
    assert sorted(migrations.STEPS) == list(range(1, migrations.CURRENT + 1))


def test_a_store_written_by_a_newer_version_is_refused_left_as_it_is_and_let_go_of(data_dir: Path) -> None:
    file = made(data_dir)
    con = duckdb.connect(str(file))
    con.execute("UPDATE meta SET value = '99' WHERE name = 'schema_version'")
    con.close()
    before = file.read_bytes()
    for _ in range(2):
        with pytest.raises(SchemaTooNew, match=r"schema 99.*Install the newer memory-mcp; the store is untouched"):
            open_storage(data_dir)
    assert file.read_bytes() == before
    assert [p.name for p in data_dir.glob("*backup*")] == []
    con = duckdb.connect(str(file))
    con.execute("UPDATE meta SET value = ? WHERE name = 'schema_version'", [str(migrations.CURRENT)])
    con.close()
    open_storage(data_dir).close()


def test_an_older_store_is_copied_aside_before_it_is_brought_up_to_date(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made(data_dir)
    sql, now = migrations.sql, migrations.CURRENT
    monkeypatch.setattr(migrations, "CURRENT", now + 1)
    monkeypatch.setitem(migrations.STEPS, now + 1, "test.sql")
    monkeypatch.setattr(migrations, "sql", lambda n: "CREATE TABLE added (x INTEGER);" if n.endswith("test.sql") else sql(n))
    store = open_storage(data_dir)
    assert (store.get_stats().schema_version, store.events.last_seq()) == (now + 1, 50)
    store.close()
    backup = duckdb.connect(str(data_dir / f"memory.schema-{now}.backup.duckdb"), read_only=True)
    assert backup.execute("SELECT count(*) FROM event").fetchall() == [(50,)]
    backup.close()
    con = duckdb.connect(str(file), read_only=True)
    assert con.execute("SELECT count(*) FROM added").fetchall() == [(0,)]
    con.close()


def test_a_store_of_the_first_version_is_brought_up_to_date_with_everything_it_held(data_dir: Path) -> None:
    file = made(data_dir)
    con = duckdb.connect(str(file))
    for table in (
        "usage",
        "superseded",
        "spending",
        "topic",
        "topic_label",
        "project_alias",
        "project_split",
        "audit",
        "tool_run",
        "hint",
    ):
        con.execute(f"DROP TABLE {table}")
    con.execute("UPDATE meta SET value = '1' WHERE name = 'schema_version'")
    con.close()
    store = open_storage(data_dir)
    store.usage.record_usage([GripId("grip:1")], 5)
    assert (store.events.last_seq(), store.usage.get_usage([GripId("grip:1")])) == (50, {"grip:1": GripUsage((5,))})
    store.topics.replace_topics([TopicRecord(topic_id("topic", [1]), 5, members=(1,))])
    store.topics.set_label(TopicLabel(topic_id("topic", [1]), None, "Harbours", "agent", 6))
    store.close()
    store = open_storage(data_dir)
    assert [t.members for t in store.topics.list_topics()] == [(1,)]
    assert [given.label for given in store.topics.list_labels()] == ["Harbours"]
    store.close()
    assert (data_dir / "memory.schema-1.backup.duckdb").exists()


def test_the_file_is_written_in_a_format_that_an_older_duckdb_reads(data_dir: Path) -> None:
    con = duckdb.connect(str(made(data_dir)), read_only=True)
    row = con.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'memory'").fetchall()
    con.close()
    assert "v1.5" in str(row)


# one owner


#: Opens the store that each line names.
OPEN = """
import sys
from pathlib import Path
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.storage.duckdb import open_storage
for line in sys.stdin:
    try:
        open_storage(Path(line.strip())).close()
        print("opened", flush=True)
    except MemoryMcpError as error:
        print(type(error).__name__, error.retryable, error, flush=True)
"""


@pytest.fixture(scope="module")
def opened_there(processes: None) -> Iterator[Callable[[Path], str]]:
    """What another process says when it opens a store."""
    with subprocess.Popen([sys.executable, "-c", OPEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        given, said = process.stdin, process.stdout

        def opened(directory: Path) -> str:
            given.write(f"{directory}\n")
            given.flush()
            return said.readline()

        yield opened


def test_a_second_process_is_told_who_holds_the_store_if_the_note_can_be_read_and_gets_it_afterwards(
    data_dir: Path, opened_there: Callable[[Path], str]
) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    refused = opened_there(data_dir)
    assert refused.startswith("StorageLocked True LOCKED: ")
    assert f"(process {os.getpid()})" in refused
    assert not any(word in refused.lower() for word in DAMAGE)
    (data_dir / "owner.json").write_text("{", encoding="utf-8")
    assert "another memory-mcp process" in opened_there(data_dir)
    store.close()
    assert opened_there(data_dir) == "opened\n"


def test_a_second_opener_in_the_same_process_is_refused_too(data_dir: Path) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    with pytest.raises(StorageLocked):
        open_storage(data_dir)
    store.events.append([event("still mine")])
    store.close()


def test_a_program_that_has_the_file_open_itself_is_named(data_dir: Path, opened_there: Callable[[Path], str]) -> None:
    file = made(data_dir)
    con = duckdb.connect(str(file))
    refused = opened_there(data_dir)
    con.close()
    assert refused.startswith("StorageLocked True")
    assert f"PID {os.getpid()}" in refused


# files


def test_everything_in_the_data_directory_is_the_users_alone(tmp_path: Path) -> None:
    directory = tmp_path / "deep" / "data"
    store = open_storage(directory, "Europe/Berlin")
    store.events.append(run_of(3))
    modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in [directory, *directory.iterdir()]}
    assert modes.pop("data") == 0o700
    assert {mode & 0o077 for name, mode in modes.items() if not name.endswith(".wal")} == {0}
    store.compact_files()
    store.close()
    assert {stat.S_IMODE(p.stat().st_mode) for p in directory.iterdir()} == {0o600}


def test_looking_at_a_store_changes_no_file_of_it_takes_its_lock_and_refuses_an_older_schema(data_dir: Path) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    store.events.append(run_of(3))
    with pytest.raises(StorageLocked, match="is in use by"):
        open_read_only(data_dir)
    store.close()
    before = {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in (data_dir, *data_dir.iterdir())}
    looked = open_read_only(data_dir)
    assert (looked.events.last_seq(), looked.timezone) == (3, "Europe/Berlin")
    with pytest.raises(StorageLocked):
        open_storage(data_dir, "Europe/Berlin")
    with pytest.raises(StorageError):
        looked.events.append(run_of(4, session="s2"))
    looked.close()
    assert {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in (data_dir, *data_dir.iterdir())} == before
    open_storage(data_dir, "Europe/Berlin").close()
    with duckdb.connect(str(data_dir / FILE)) as con:
        con.execute("UPDATE meta SET value = '1' WHERE name = 'schema_version'")
    with pytest.raises(StorageError, match="has schema 1, which this program brings up to"):
        open_read_only(data_dir)


@pytest.mark.parametrize("mode", [0o755, 0o2750])
def test_a_directory_that_was_there_keeps_its_mode_where_nobody_else_may_write(data_dir: Path, mode: int) -> None:
    data_dir.mkdir()
    data_dir.chmod(mode)
    open_storage(data_dir, "Europe/Berlin").close()
    assert stat.S_IMODE(data_dir.stat().st_mode) == mode
    assert {stat.S_IMODE(p.stat().st_mode) for p in data_dir.iterdir()} == {0o600}


def test_a_directory_that_others_may_write_into_is_refused_and_nothing_is_written(data_dir: Path) -> None:
    data_dir.mkdir()
    data_dir.chmod(0o777)
    with pytest.raises(ConfigError, match="chmod go-w"):
        open_storage(data_dir, "Europe/Berlin")
    assert list(data_dir.iterdir()) == []


def test_a_folder_of_something_else_is_refused_and_left_as_it_was(data_dir: Path) -> None:
    data_dir.mkdir()
    data_dir.chmod(0o755)
    for name in ("README.md", "src", "spool"):
        (data_dir / name).touch()
    with pytest.raises(ConfigError, match=r"holds other things \(README.md, src\).*--data-dir"):
        open_storage(data_dir, "Europe/Berlin")
    assert sorted(p.name for p in data_dir.iterdir()) == ["README.md", "spool", "src"]
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o755


@pytest.mark.parametrize("name", ["spool", "lost+found", ".DS_Store", "owner.json"])
def test_a_folder_that_is_ours_or_as_good_as_empty_is_taken(data_dir: Path, name: str) -> None:
    data_dir.mkdir()
    (data_dir / name).mkdir() if name in ("spool", "lost+found") else (data_dir / name).touch()
    open_storage(data_dir, "Europe/Berlin").close()
    assert (data_dir / "memory.duckdb").exists()


#: The superuser may write anywhere, so a test that runs as one steps down first.
AS_NOBODY = """
import os
import filelock
import memory_mcp.storage.duckdb
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
"""


@pytest.fixture
def public_dir() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.usefixtures("processes")
def test_a_read_only_directory_is_a_clear_error_and_stays_read_only(public_dir: Path) -> None:
    directories = {public_dir / "own": 0o500, public_dir / "everybodys": 0o555}
    for directory, mode in directories.items():
        directory.mkdir()
        if os.getuid() == 0:
            os.chown(directory, 65534, 65534)
        directory.chmod(mode)
    code, lines = AS_NOBODY + OPEN, "".join(f"{directory}\n" for directory in directories)
    answers = subprocess.check_output([sys.executable, "-c", code], input=lines, text=True, timeout=PATIENCE).splitlines()
    for (directory, mode), told in zip(directories.items(), answers, strict=True):
        assert told.startswith("StorageError False")
        assert "is read-only" in told
        assert "--data-dir" in told
        assert stat.S_IMODE(directory.stat().st_mode) == mode
        assert list(directory.iterdir()) == []


def test_a_file_where_the_directory_should_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(StorageError, match="cannot be used"):
        open_storage(tmp_path / "file")


@pytest.mark.parametrize("damage", ["empty", "half", "garbage", "header", "second header"])
@pytest.mark.few(2)
def test_a_damaged_file_is_set_aside_the_loss_is_told_and_can_be_put_right(data_dir: Path, damage: str) -> None:
    file = made(data_dir, 2000)
    whole = file.read_bytes()
    broken = {
        "garbage": b"hello world " * 1000,
        "empty": b"",
        "header": whole[:100],
        "half": whole[: len(whole) // 2],
        "second header": whole[:4096] + b"\xff" * 8192 + whole[12288:],
    }[damage]
    file.write_bytes(broken)
    try:
        store = open_storage(data_dir)
    except StorageDamaged:
        # Met behind the opening: the next one saves what is whole.
        store = open_storage(data_dir)
    loss = store.loss
    assert loss is not None
    assert loss.events + store.get_stats().rows["event"] == 2000
    assert loss.damaged_folder
    assert not any(word in loss.recovery_hint.lower() for word in DAMAGE)
    kept = data_dir / loss.damaged_folder / "memory.duckdb"
    assert len(kept.read_bytes()) == len(broken)
    store.close()
    for beside in data_dir.glob("memory.duckdb*"):
        beside.unlink()
    file.write_bytes(whole)
    store = open_storage(data_dir)
    assert (store.events.last_seq(), store.loss) == (2000, None)
    store.close()


APPEND_AND_DIE = """
import os, sys
from pathlib import Path
from memory_mcp.storage.duckdb import open_storage
from tests.factories import run_of
store = open_storage(Path(sys.argv[1]), "Europe/Berlin")
store.events.append(run_of(7))
os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def died(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store whose owner was killed, with a copy beside it."""
    directory = tmp_path_factory.mktemp("died") / "data"
    done = subprocess.run([sys.executable, "-c", APPEND_AND_DIE, directory], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    shutil.copytree(directory, directory.with_name("copy"))
    return directory


def test_what_was_acknowledged_survives_a_kill_which_leaves_nothing_locked(died: Path) -> None:
    store = open_storage(died)
    assert store.events.list_events(Scope()) == run_of(7)
    assert store.loss is None
    store.close()


@pytest.mark.parametrize("damage", ["header", "gone"])
def test_acknowledged_events_that_went_with_a_damaged_log_are_reported_until_someone_looks(
    died: Path, data_dir: Path, damage: str
) -> None:
    """DuckDB opens a file beside a log with a broken header without a word, and without what the log held."""
    shutil.copytree(died.with_name("copy"), data_dir)
    log = data_dir / (FILE + ".wal")
    log.write_bytes(b"" if damage == "gone" else b"\0" * 64 + log.read_bytes()[64:])
    for _ in range(2):
        store = open_storage(data_dir, "Europe/Berlin")
        assert store.loss is not None
        assert (store.loss.events, store.loss.exact) == (7, True)
        store.close()


def test_a_node_costs_the_log_the_same_however_many_came_before(data_dir: Path) -> None:
    """With a list column DuckDB's log takes in the lists of all rows of the vector with each new one."""
    store = open_storage(data_dir)
    log = data_dir / (FILE + ".wal")
    keywords, projects = tuple(f"keyword-{n}" for n in range(10)), ("/home/someone/work/project",)
    ids = [f"toc:day:{year}-01-{day:02}" for year in range(2000, 2020) for day in range(1, 31)]
    nodes = [replace(node(node_id), keywords=keywords, projects=projects) for node_id in ids]
    store.toc.publish_build(Build(nodes=tuple(nodes[:-1])))
    size = log.stat().st_size
    store.toc.publish_build(Build(nodes=(nodes[-1],)))
    assert log.stat().st_size - size < 5_000
    stored = store.toc.get_nodes([nodes[-1].node_id])[nodes[-1].node_id]
    assert (stored.keywords, stored.projects, stored.agents) == (keywords, projects, nodes[-1].agents)
    store.close()


def test_an_older_copy_of_the_file_is_reported_as_a_loss(data_dir: Path) -> None:
    file = made(data_dir, 5)
    older = file.read_bytes()
    store = open_storage(data_dir)
    store.events.append(run_of(3, session="s2"))
    store.close()
    file.write_bytes(older)
    store = open_storage(data_dir)
    assert store.loss is not None
    assert (store.loss.events, store.loss.exact) == (3, True)
    store.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"last_seq": "x"}', '{"last_seq": null}'])
def test_a_high_water_mark_that_cannot_be_read_is_no_mark(data_dir: Path, text: str) -> None:
    made(data_dir, 5)
    (data_dir / "high-water.json").write_text(text, encoding="utf-8")
    store = open_storage(data_dir)
    assert store.loss is None
    store.close()
    said = json.loads((data_dir / "high-water.json").read_text(encoding="utf-8"))
    assert (said["last_seq"], said["events"], sum(count for count, _ in said["sources"].values())) == (5, 5, 5)


def test_compaction_gives_back_the_space_of_what_is_gone_and_what_a_killed_one_left_is_cleared_away(data_dir: Path) -> None:
    store = open_storage(data_dir, "Europe/Berlin")
    assert isinstance(store, DuckStorage)
    store.events.append([event(random.Random(i).randbytes(1000).hex(), at=i) for i in range(3000)])
    store.connection.write_checkpoint()
    with store.connection.begin_transaction() as con:
        con.execute("DELETE FROM event WHERE seq > 10")
    # As DuckDB leaves it where a copy took more memory than it may use.
    (data_dir / (FILE + ".tmp")).mkdir()
    before, after = store.compact_files()
    # As a killed compaction leaves it.
    (data_dir / (FILE + ".compact")).write_bytes(b"half a copy")
    assert not (data_dir / (FILE + ".tmp")).exists()
    assert after < before / 2
    assert (data_dir / FILE).stat().st_size == after
    store.close()
    store = open_storage(data_dir)
    assert not (data_dir / (FILE + ".compact")).exists()
    assert store.events.last_seq() == 10
    store.close()


def test_a_file_with_large_blocks_of_an_earlier_version_is_read_and_gets_small_ones_when_it_is_rewritten(data_dir: Path) -> None:
    made(data_dir, 5)
    assert blocks.read_block_size(data_dir / FILE) == 65_536
    (data_dir / FILE).rename(data_dir / "small.duckdb")
    with duckdb.connect(str(data_dir / FILE), config={"storage_compatibility_version": "v1.5.0"}) as con:
        con.execute(f"ATTACH '{data_dir / 'small.duckdb'}' AS small (READ_ONLY)")
        con.execute("COPY FROM DATABASE small TO memory")
        con.execute("DETACH small")
    (data_dir / "small.duckdb").unlink()
    assert blocks.read_block_size(data_dir / FILE) == 262_144
    store = open_storage(data_dir)
    store.events.append([event("after it")])
    assert store.events.last_seq() == 6
    before, after = store.compact_files()
    assert blocks.read_block_size(data_dir / FILE) == 65_536
    assert after < before / 2
    assert len(store.events.read_after(0, 10)) == 6
    store.close()


@pytest.mark.parametrize("size", [16_384, 65_536, 262_144])
def test_damage_is_found_in_blocks_of_any_size(tmp_path: Path, size: int) -> None:
    file = tmp_path / "some.duckdb"
    with duckdb.connect(":memory:") as con:
        con.execute(f"ATTACH '{file}' AS made (BLOCK_SIZE {size})")
        con.execute("CREATE TABLE made.t AS SELECT md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS text FROM range(20000) r(i)")
    assert blocks.read_block_size(file) == size
    assert list(blocks.iter_damaged(file)) == []
    content = bytearray(file.read_bytes())
    start = blocks.HEADER * blocks.HEADERS + size
    content[start + 5000] ^= 4
    file.write_bytes(content)
    [damaged] = blocks.iter_damaged(file)
    assert (damaged.offset, damaged.size) == (start, size)
    # One header that says something else is not believed.
    content[blocks.HEADER + 40 : blocks.HEADER + 48] = (32_768).to_bytes(8, "little")
    file.write_bytes(content)
    assert blocks.read_block_size(file) == 262_144


def test_a_file_that_is_deleted_during_a_long_read_takes_no_writes_and_is_written_anew_after_it(data_dir: Path) -> None:
    made(data_dir, 5)
    store = open_storage(data_dir)

    def write() -> None:
        with pytest.raises(StorageMoved, match="was deleted"):
            store.events.append([event("in vain")])

    with store.archive.open_snapshot():
        (data_dir / FILE).unlink()
        # By the thread that reads, and by two at once.
        write()
        together(write, write)
    with store.archive.open_snapshot() as snapshot:
        assert (snapshot.last_seq, (data_dir / FILE).exists()) == (5, True)
    store.events.append([event("after it")])
    store.close()
    store = open_storage(data_dir)
    assert (store.events.last_seq(), store.loss) == (6, None)
    store.close()


def test_a_file_that_is_deleted_is_written_anew_with_what_waits_in_the_log_of_writes(data_dir: Path) -> None:
    made(data_dir, 5)
    store = open_storage(data_dir)
    for n in range(3):
        store.events.append([event(f"deferred {n}", 1_800_000_000_000 + n)])
    assert store.events.deferred
    assert store.events.deferred.is_waiting
    (data_dir / FILE).unlink()
    assert store.rewrite_deleted_file()
    # By the end, too.
    (data_dir / FILE).unlink()
    store.close()
    store = open_storage(data_dir)
    assert (store.events.last_seq(), store.loss) == (8, None)
    store.close()


def test_a_file_that_the_engine_gives_up_during_a_long_read_holds_no_writer_for_ever(data_dir: Path) -> None:
    made(data_dir, 5)
    store = open_storage(data_dir)

    def write_within() -> None:
        with store.archive.open_snapshot():
            store.connection._con.close()
            store.outbox.set_positions({"some": "1"})

    with pytest.raises(StorageError):
        write_within()
    with pytest.raises(StorageError):
        store.outbox.set_positions({"some": "1"})
    store.outbox.set_positions({"some": "1"})
    assert store.events.last_seq() == 5
    store.close()


def test_a_copy_that_differs_from_the_file_does_not_replace_it(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(data_dir, 5)
    store = open_storage(data_dir)
    number, sum_rows = (data_dir / FILE).stat().st_ino, files._sum_rows

    def sum_with_loss(cursor: duckdb.DuckDBPyConnection, database: str) -> list[tuple[str, int, int | None]]:
        if database == "fresh":
            rows = cursor.execute("SELECT DISTINCT table_name FROM duckdb_tables() WHERE database_name = 'fresh'").fetchall()
            assert ("event",) in rows
            return [(t, n, s) for t, n, s in sum_rows(cursor, database) if t != "event"]
        return sum_rows(cursor, database)

    monkeypatch.setattr(files, "_sum_rows", sum_with_loss)
    with pytest.raises(StorageError, match="differs"):
        store.compact_files()
    assert (data_dir / FILE).stat().st_ino == number
    assert not list(data_dir.glob(FILE + ".compact*"))
    monkeypatch.undo()
    store.events.append([event("after it")])
    store.compact_files()
    assert (data_dir / FILE).stat().st_ino != number
    assert store.events.last_seq() == 6
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM event WHERE seq = 3",
        "UPDATE event SET text = 'another' WHERE seq = 3",
        "UPDATE checkpoint SET value = 'another' WHERE name = (SELECT min(name) FROM checkpoint)",
        "INSERT INTO meta VALUES ('another', 'x')",
        "DROP TABLE usage",
    ],
)
def test_every_row_of_a_copy_is_compared(data_dir: Path, change: str) -> None:
    made(data_dir, 5)
    store = open_storage(data_dir)
    assert isinstance(store, DuckStorage)
    store.outbox.set_position("someone", "7")
    copy = data_dir / (FILE + ".compact")
    with store.connection.lend_cursor() as cursor:
        files.copy_database(cursor, copy)
        cursor.execute(f"ATTACH '{copy}' AS fresh")
        name = cursor.execute("SELECT current_database()").fetchall()[0][0]
        assert files._sum_rows(cursor, name) == files._sum_rows(cursor, "fresh")
        cursor.execute("USE fresh")
        cursor.execute(change)
        assert files._sum_rows(cursor, name) != files._sum_rows(cursor, "fresh")
        cursor.execute(f'USE "{name}"')
        cursor.execute("DETACH fresh")
    store.close()


def test_a_name_with_quotes_and_spaces_is_a_name(tmp_path: Path) -> None:
    directory = tmp_path / 'it\'s a "data" dir'
    made(directory, 5)
    store = open_storage(directory)
    store.compact_files()
    assert store.events.last_seq() == 5
    store.close()


def test_the_system_zone_is_taken_when_none_is_given(data_dir: Path) -> None:
    store = open_storage(data_dir)
    assert store.timezone
    store.close()


@pytest.mark.parametrize(
    ("given", "zone"),
    [
        ("CST-8", "CST-8"),
        ("CET-1CEST,M3.5.0,M10.5.0/3", "CET-1CEST,M3.5.0,M10.5.0/3"),
        ("<+0330>-3:30", "<+0330>-3:30"),
        (":Europe/Berlin", "Europe/Berlin"),
        (" Europe/Berlin ", "Europe/Berlin"),
        ("/usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"),
        (":/usr/share/zoneinfo/posix/Europe/Berlin", "Europe/Berlin"),
        ("/etc/localtime", ""),
        ("", ""),
        (":", ""),
        ("/no/zone", None),
        ("Europe/Nowhere", None),
        ("../../etc/passwd", None),
        ("\x01", None),
    ],
)
def test_a_zone_is_understood_in_every_form_and_any_other_text_begins_a_store_all_the_same(
    given: str, zone: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", given)
    if zone is None:
        with pytest.raises(InvalidQuery):
            find_zone(os.environ)
    else:
        assert find_zone(os.environ) == zone
    assert Calendar(get_system_zone()).day_of(0)


# requests


def test_an_answer_is_kept_for_an_hour(clock: FakeClock) -> None:
    store = open_storage(None, "UTC", clock)
    store.events.append([event("a")], WriteRequest("key", "answer"))
    clock.advance(3599)
    assert store.events.append([event("b")], WriteRequest("key", "answer")).replayed_answer == "answer"
    clock.advance(2)
    assert store.events.append([event("c")], WriteRequest("key", "answer")).replayed_answer is None
    store.close()


# errors


ERRORS = [c for _, c in inspect.getmembers(duckdb, inspect.isclass) if issubclass(c, duckdb.Error)]


def test_duckdb_still_has_the_errors_that_we_know() -> None:
    names = {c.__name__ for c in ERRORS}
    assert {"IOException", "InterruptException", "OutOfMemoryException", "FatalException", "ConversionException"} <= names


@pytest.mark.parametrize("kind", ERRORS, ids=lambda c: c.__name__)
def test_every_error_of_duckdb_is_one_of_ours(kind: type[Exception]) -> None:
    with pytest.raises(MemoryMcpError) as caught, translate_errors(Path("/data/memory.duckdb")):
        raise kind("it went wrong\nwith a stack trace")
    assert not isinstance(caught.value, duckdb.Error)
    assert not any(word in str(caught.value).lower() for word in DAMAGE)


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ('Could not set lock on file "x": Conflicting lock is held in python (PID 5)', StorageLocked, "PID 5"),
        ("No space left on device", DiskFull, "the disk that holds . is full"),
        ("There is not enough space to write", DiskFull, "the disk that holds . is full"),
        ("could not read block 17 of the file", StorageError, "readable and writable"),
    ],
)
def test_trouble_with_files_says_what_it_is_and_an_error_of_ours_passes(text: str, kind: type[StorageError], words: str) -> None:
    with pytest.raises(StorageError, match=words) as caught, translate_errors(Path("x")):
        raise duckdb.IOException(text)
    assert type(caught.value) is kind
    with pytest.raises(SchemaTooNew), translate_errors(None):
        raise SchemaTooNew("newer")


def begin_reading(cursor: duckdb.DuckDBPyConnection) -> None:
    """Begin a read that goes on."""
    cursor.execute("BEGIN TRANSACTION")
    cursor.execute("SELECT count(*) FROM event").fetchall()


def test_a_checkpoint_waits_for_reads_in_progress(data_dir: Path) -> None:
    store = open_storage(data_dir)
    assert isinstance(store, DuckStorage)
    connection, log_file = store.connection, data_dir / f"{FILE}.wal"
    failures: list[BaseException] = []

    def write_checkpoint() -> None:
        try:
            store.write_checkpoint()
        except MemoryMcpError as error:
            failures.append(error)

    thread = threading.Thread(target=write_checkpoint)
    with connection.lend_cursor() as cursor:
        begin_reading(cursor)
        # What is inserted alone may be taken in beside a read.
        store.set_timezone("Europe/Paris")
        assert log_file.stat().st_size > 0
        thread.start()
        until(lambda: connection._is_held or not thread.is_alive())
        assert thread.is_alive()
    thread.join(PATIENCE)
    assert failures == []
    assert not log_file.exists() or log_file.stat().st_size == 0
    store.close()


def test_a_store_is_closed_while_somebody_reads(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.storage.duckdb.store.LAST_READS", 0.0)
    monkeypatch.setattr("memory_mcp.storage.duckdb.connection.LAST_READS", 0.0)
    store = open_storage(data_dir)
    assert isinstance(store, DuckStorage)
    with store.connection.lend_cursor() as cursor:
        begin_reading(cursor)
        store.events.append([event("said meanwhile")])
        store.set_timezone("Europe/Paris")
        store.close()
    store = open_storage(data_dir)
    assert (store.events.last_seq(), store.loss) == (1, None)
    store.close()


def test_a_query_that_is_interrupted_says_so_within_a_moment() -> None:
    con = Connection(None, 256, 1)
    began = threading.Event()
    caught: list[Exception] = []

    def run() -> None:
        try:
            with con.lend_cursor() as cursor:
                began.set()
                cursor.execute("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b").fetchall()
        except MemoryMcpError as error:
            caught.append(error)

    reader = threading.Thread(target=run)
    reader.start()
    assert began.wait(PATIENCE)

    def is_interrupted() -> bool:
        con.interrupt()
        return not reader.is_alive()

    until(is_interrupted)
    assert [type(e) for e in caught] == [DeadlineExceeded]
    assert con.fetch_row("SELECT 1") == (1,)
    con.close()


def test_a_query_that_needs_too_much_memory_says_so_and_the_store_goes_on() -> None:
    con = Connection(None, 64, 1)
    with pytest.raises(ResourceExhausted, match="more memory than the store may use"):
        con.fetch_rows("SELECT list(range::VARCHAR || 'xxxxxxxxxxxxxxxx') FROM range(20000000)")
    assert con.fetch_row("SELECT 1") == (1,)
    con.close()


def test_the_engine_has_little_memory_until_a_write_or_a_read_needs_more(tmp_path: Path) -> None:
    con = Connection(tmp_path / "memory.duckdb", 64, 1)

    def limit_mib() -> float:
        [(text,)] = con.fetch_rows("SELECT current_setting('memory_limit')")
        return float(text.split()[0])

    assert limit_mib() < 40
    with con.begin_transaction() as writer:
        writer.execute("CREATE TABLE word AS SELECT range AS number, repeat('x', 100) || range AS text FROM range(300000)")
        con.shrink_memory()
        assert limit_mib() > 60
    with con.lend_cursor() as reader:
        reader.execute("SELECT * FROM word").fetchone()
        con.shrink_memory()
    assert limit_mib() > 60
    con.shrink_memory()
    assert limit_mib() < 40
    # More than rests and less than may be used at most.
    [(length,)] = con.fetch_rows("SELECT len(list(text)) FROM word")
    assert (length, limit_mib() > 60) == (300_000, True)
    con.close()


def test_no_query_reaches_outside_the_store_and_a_variable_of_ours_is_no_table(storage: DuckStorage) -> None:
    secrets = [1]  # noqa: F841
    outside = ("SELECT * FROM read_csv('/etc/hosts')", "ATTACH '/tmp/x.duckdb'", "COPY (SELECT 1) TO '/tmp/x.csv'")
    for sql in (*outside, "INSTALL httpfs", "SELECT * FROM secrets"):
        with pytest.raises(StorageError):
            storage.connection.fetch_rows(sql)


def test_a_failed_write_takes_its_numbers_back(storage: DuckStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(point: str) -> None:
        raise KeyboardInterrupt(point)

    with monkeypatch.context() as patched:
        patched.setattr("memory_mcp.storage.duckdb.events.failpoint", interrupted)
        with pytest.raises(KeyboardInterrupt, match="before_commit"):
            storage.events.append([event("a"), event("b")])
    storage.events.append([event("a")])
    assert storage.events.read_after(0, 5)[0].seq == 1


def test_a_version_is_told_when_what_it_names_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read under one version is kept until the next: one told too early would be kept with what is older."""
    store = open_storage(tmp_path / "data", "UTC")
    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(publish, "failpoint", lambda name: seen.append((name, store.toc.current_version())))
    before = store.toc.current_version()
    built = store.toc.publish_build(Build(nodes=(node(),)))
    store.close()
    assert seen == [("derive.before_commit", before), ("derive.committed", built)]
    assert before < built


def test_the_clock_of_a_real_store_is_the_machines_own() -> None:
    clock = SystemClock()
    before = time.time_ns()
    now = clock.now_ms()
    assert now in range(before // 1_000_000, time.time_ns() // 1_000_000 + 1)
    assert clock.monotonic() <= clock.monotonic()


def test_the_mark_of_how_far_the_store_got_is_written_by_many_writers_at_once(tmp_path: Path) -> None:
    """Writers come to it after their transactions, side by side; none of them may fail over it."""
    store = open_storage(tmp_path / "data", "UTC")

    def write(number: int) -> None:
        for step in range(12):
            store.events.append([event(f"writer {number} step {step}", source_id=f"{number}-{step}")])

    together(*[partial(write, n) for n in range(6)])
    store.close()
    assert json.loads((tmp_path / "data" / "high-water.json").read_text())["last_seq"] == 72


def test_what_is_counted_is_read_again_only_after_a_commit(storage: DuckStorage, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    rows = Connection.fetch_rows

    def spy(self: Connection, sql: str, parameters: list[object] | None = None) -> list[tuple[object, ...]]:
        said.append(sql)
        return rows(self, sql, parameters)

    monkeypatch.setattr(Connection, "fetch_rows", spy)
    storage.events.append(run_of(3))
    assert storage.get_stats(text=False).rows["event"] == 3
    said.clear()
    for _ in range(5):
        assert storage.get_stats(text=False).rows["event"] == 3
    assert said == []
    assert storage.get_stats().text_bytes > 0
    assert len(said) == 1
    storage.events.append([event("one more")])
    found = storage.get_stats(text=False)
    assert (found.rows["event"], found.last_seq, found.timezone) == (4, 4, storage.timezone)
    # All counts in one statement, and three facts.
    assert len(said) <= 6
    storage.set_timezone("Asia/Tokyo")
    assert storage.get_stats(text=False).timezone == "Asia/Tokyo"


def test_reads_go_on_while_a_compacted_copy_is_made(data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(data_dir)
    store = open_storage(data_dir)
    assert isinstance(store, DuckStorage)
    seen: list[int] = []
    reading, here = Connection.lend_cursor, threading.current_thread()

    @contextmanager
    def copying(self: Connection) -> Iterator[duckdb.DuckDBPyConnection]:
        with reading(self) as cursor:
            yield cursor
            if threading.current_thread() is here and (data_dir / (FILE + ".compact")).exists():
                reader = threading.Thread(target=lambda: seen.append(len(store.events.read_after(0, 100))))
                reader.start()
                reader.join(PATIENCE)

    monkeypatch.setattr(Connection, "lend_cursor", copying)
    store.compact_files()
    assert seen == [50]
    store.close()


def run_aside(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_compaction_waits_for_a_backup_and_holds_up_nothing_meanwhile(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(data_dir)
    store = open_storage(data_dir)
    waiting, done, exclude = threading.Event(), list[str](), LongReads.exclude

    def note_wait(reads: LongReads, may_wait: bool) -> AbstractContextManager[None]:
        waiting.set()
        return exclude(reads, may_wait)

    def compact() -> None:
        store.compact_files()
        done.append("compacted")

    def serve() -> None:
        store.events.append([event("said meanwhile")])
        done.append(f"read {len(store.events.read_after(0, 100))}")

    def go_on() -> None:
        if not waiting.is_set():
            threads.append(run_aside(compact))
            assert waiting.wait(PATIENCE)
            serving = run_aside(serve)
            serving.join(PATIENCE)
            assert not serving.is_alive()

    monkeypatch.setattr(LongReads, "exclude", note_wait)
    threads: list[threading.Thread] = []
    backups = BackupKeeper(store, BackupSettings(), data_dir, FakeClock(), go_on)
    # It reads more of the store between its blocks.
    backup = run_aside(lambda: done.append(f"backed up {backups.make_backup('test', tmp_path / 'b').events}"))
    backup.join(PATIENCE)
    threads[0].join(PATIENCE)
    assert done == ["read 51", "backed up 50", "compacted"]
    store.close()


def test_who_has_a_cursor_gets_another_while_the_file_is_about_to_be_replaced(data_dir: Path) -> None:
    made(data_dir)
    store = open_storage(data_dir)
    assert isinstance(store, DuckStorage)
    con, seen = store.connection, list[object]()

    def replace_file() -> None:
        with con.close_for_replacement():
            seen.append("replaced")

    def read_twice() -> None:
        with con.lend_cursor():
            threads.append(run_aside(replace_file))
            until(lambda: con._is_held)
            seen.append(con.fetch_row("SELECT count(*) FROM event"))

    threads: list[threading.Thread] = []
    run_aside(read_twice).join(PATIENCE)
    threads[0].join(PATIENCE)
    assert seen == [(50,), "replaced"]
    store.close()


def test_a_copy_that_cannot_be_made_leaves_the_store_as_it_is(data_dir: Path) -> None:
    made(data_dir)
    store = open_storage(data_dir)
    (data_dir / (FILE + ".compact")).mkdir()
    with pytest.raises((StorageError, OSError)):
        store.compact_files()
    (data_dir / (FILE + ".compact")).rmdir()
    store.events.append([event("after it")])
    assert store.compact_files()[1] > 0
    assert store.events.last_seq() == 51
    store.close()


def test_long_texts_are_stored_and_copied_before_the_log_is_taken_in(data_dir: Path) -> None:
    # More than the log grows to and than the memory of small stores, in texts that the engine keeps apart from their rows.
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(6000)]
    storage = open_storage(data_dir)
    for start in range(0, 600, 50):
        texts = [" ".join(rng.choices(words, k=14_000)) for _ in range(50)]
        storage.events.append([event(text, at=1_769_000_000_000 + (start + n) * 60_000) for n, text in enumerate(texts)])
    assert storage.events.last_seq() == 600
    assert storage.copy_rows(lambda: False) >= 600
    storage.close()
    storage = open_storage(data_dir)
    assert storage.events.last_seq() == 600
    storage.close()
