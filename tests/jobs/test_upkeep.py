"""The jobs that call one room each: roll-ups, upkeep of the store, and the spool."""

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory_mcp.app import App, Callbacks
from memory_mcp.base import extensions
from memory_mcp.base.clock import SystemClock
from memory_mcp.base.errors import DiskFull
from memory_mcp.config import Settings
from memory_mcp.model.event import Trust
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import WriteRequest
from memory_mcp.tree.derive.derivation import Depth
from memory_mcp.upkeep.jobs import calls
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.calls import drain_spool_job
from memory_mcp.upkeep.jobs.registry import JOBS
from memory_mcp.upkeep.jobs.schedule import SchedulerSettings
from tests.factories import a_small_history, draft
from tests.fakes import FakeClock
from tests.toc.helpers import findings, memory, one, run_sql
from tests.waiting import PATIENCE
from tests.work import asked_of_the_store


def test_the_apps_jobs_are_those_of_the_table_in_their_order(app: App) -> None:
    added = extensions.names(extensions.JOBS)
    assert [s.name for s in app.scheduler.statuses()] == [*JOBS, *added]
    schedules = {s.name: s.schedule for s in app.scheduler.statuses() if s.name not in added}
    assert schedules == {
        "drain_spool": "every second",
        "follow_clients": "every 15 seconds",
        "roll_up": "every hour",
        "render_briefings": "every 30 seconds",
        "commit_indexes": "every minute",
        "copy_rows": "every 10 seconds",
        "derive_missing_runs": "every 10 minutes",
        "improve_summaries": "every 30 minutes",
        "improve_indexes": "every 10 minutes",
        "group_topics": "every minute",
        "compact_grown": "daily at 03:00",
        "sync_folder": "every 30 minutes",
        "back_up": "daily at 03:00",
        "prune_indexes": "daily at 03:00",
        "housekeeping": "daily at 03:00",
    }


def test_the_hour_of_the_upkeep_is_a_setting(clock: FakeClock) -> None:
    settings = Settings(storage=StorageSettings(timezone="Europe/Berlin"), scheduler=SchedulerSettings("04:30"))
    app = App(settings, clock, in_memory=True)
    assert {s.name: s.schedule for s in app.scheduler.statuses()}["housekeeping"] == "daily at 04:30"
    app.close()


def test_rolling_up_publishes_what_is_stale_once_waits_for_whoever_publishes_and_stops_between_two_transactions() -> None:
    app = memory(a_small_history(1))
    run_sql(app, "UPDATE node SET built = 0 WHERE level IN ('week', 'month')")
    assert "freshness" in {f.rule for f in findings(app)}
    assert app.scheduler.run_now("roll_up") == JobReport("rolled up 3 periods", {"periods": 3})
    assert findings(app) == []
    assert app.scheduler.run_now("roll_up").words == "nothing was stale"
    run_sql(app, "UPDATE node SET built = 0 WHERE level IN ('week', 'month')")
    done: list[JobReport] = []
    with app.derivation.publishing:
        thread = threading.Thread(target=lambda: done.append(app.scheduler.run_now("roll_up")))
        thread.start()
        # Without the lock it would be done long before.
        thread.join(0.5)
        assert done == []
    thread.join(PATIENCE)
    assert done[0].counts == {"periods": 3}
    run_sql(app, "UPDATE node SET built = 0 WHERE level IN ('week', 'month')")
    looks = iter([False, True])
    assert 0 < app.derivation.run(Depth.PERIODS, should_stop=lambda: next(looks)).periods < 3
    app.close()


def test_many_periods_are_read_as_few_are() -> None:
    """Days of one week and of four, all due: what is asked of the store does not grow with them."""
    counted = []
    for weeks in (1, 4):
        app = memory(a_small_history(weeks))
        run_sql(app, "UPDATE node SET built = 0 WHERE level = 'day'")
        with asked_of_the_store() as read:
            assert app.derivation.run(Depth.PERIODS).periods >= 5 * weeks
        counted.append(len(read.statements))
        app.close()
    assert counted[1] <= counted[0] + 10


def test_upkeep_folds_terms_drops_old_answers_and_checkpoints(data_dir: Path) -> None:
    clock = FakeClock(SystemClock().now_ms())
    app = App(Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin")), clock)
    for i in range(8):
        app.write(
            [draft(f"step {i} of the plan", at=clock.now_ms() + i, session="s")], "test", Trust.USER, WriteRequest(f"k{i}", "a")
        )
        app.derivation.run()
    clock.advance(3700)
    log = data_dir / "memory.duckdb.wal"
    assert log.stat().st_size > 0
    assert one(app, "SELECT max(n) FROM (SELECT count(*) AS n FROM term_delta GROUP BY key)") == 8
    report = app.scheduler.run_now("housekeeping")
    assert report.counts["dropped"] == 8
    assert report.counts["folded"] == 2
    assert report.words.endswith("dropped 8 old answers, wrote the log into the file, freed 0 MB")
    assert one(app, "SELECT max(n) FROM (SELECT count(*) AS n FROM term_delta GROUP BY key)") == 1
    assert not log.exists() or log.stat().st_size < 1000
    assert findings(app) == []
    assert app.scheduler.run_now("housekeeping").counts == {"folded": 0, "dropped": 0, "freed_bytes": 0}
    app.close()


class Half:
    """A store of which so much is dead."""

    def __init__(self, dead: int, size: int) -> None:
        self._dead, self._size = dead, size
        self.compacted = 0

    def dead_bytes(self) -> int:
        return self._dead

    def get_stats(self, text: bool) -> Any:
        assert not text
        return SimpleNamespace(size_bytes=self._size)

    def compact_files(self) -> tuple[int, int]:
        self.compacted += 1
        return self._size, self._size - self._dead


@pytest.mark.parametrize(("dead", "size", "freed"), [(16, 100, 16), (100, 700, 0), (15, 20, 0), (0, 0, 0)])
def test_the_file_is_rewritten_only_when_much_of_it_is_dead(dead: int, size: int, freed: int) -> None:
    from memory_mcp.upkeep.jobs.calls import compact_if_worth_it

    store = Half(dead * 1_000_000, size * 1_000_000)
    asked: list[str] = []
    assert compact_if_worth_it(cast("Storage", store), asked.append) == freed * 1_000_000
    assert store.compacted == (freed > 0) == len(asked)


def test_upkeep_gives_back_the_room_of_what_is_gone(data_dir: Path) -> None:
    app = App(Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin")), FakeClock())
    assert isinstance(app.storage, DuckStorage)
    with app.storage.connection.begin_transaction() as con:
        con.execute("CREATE TABLE gone AS SELECT md5(i::VARCHAR) || md5((i + 1)::VARCHAR) AS text FROM range(500000) r(i)")
    app.storage.write_checkpoint()
    with app.storage.connection.begin_transaction() as con:
        con.execute("DROP TABLE gone")
    before = (data_dir / "memory.duckdb").stat().st_size
    report = app.scheduler.run_now("housekeeping")
    assert report.counts["freed_bytes"] > before / 2 > 8_000_000
    assert (data_dir / "memory.duckdb").stat().st_size < before / 2
    assert app.scheduler.run_now("housekeeping").counts["freed_bytes"] == 0
    app.close()


def test_the_file_is_rewritten_once_it_has_grown_by_a_quarter_and_all_is_derived(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(app: App, first: int, count: int) -> None:
        app.append(
            [draft(f"step {i} of the plan", at=1_760_000_000_000 + i, session="s") for i in range(first, first + count)], "test"
        )

    def refuse(_storage: Storage) -> tuple[int, int]:
        raise DiskFull("no room")

    def run(app: App) -> tuple[str, bool]:
        before = (data_dir / "memory.duckdb").stat().st_ino
        report = app.scheduler.run_now("compact_grown")
        assert set(report.counts) <= {"freed_bytes"}
        is_rewritten = (data_dir / "memory.duckdb").stat().st_ino != before
        assert is_rewritten == bool(report.counts)
        return report.words, is_rewritten

    monkeypatch.setattr(calls, "_LEAST_GROWTH", 8)
    settings = Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin"))
    importing = True
    app = App(settings, FakeClock(), callbacks=Callbacks(importing=lambda: importing))
    write(app, 0, 7)
    app.derivation.run()
    assert run(app) == ("it has not grown by a quarter", False)
    write(app, 7, 33)
    assert run(app) == ("left it for later", False)
    app.derivation.run()
    assert run(app) == ("left it for later", False)
    importing = False
    assert run(app)[1]
    assert run(app) == ("it has not grown by a quarter", False)
    app.close()
    app = App(settings, FakeClock())
    assert run(app) == ("it has not grown by a quarter", False)
    write(app, 40, 9)
    app.derivation.run()
    assert run(app) == ("it has not grown by a quarter", False)
    write(app, 49, 1)
    app.derivation.run()
    with monkeypatch.context() as patched:
        patched.setattr(type(app.storage), "compact_files", refuse)
        with pytest.raises(DiskFull):
            run(app)
    # What failed is not tried again every minute.
    assert run(app) == ("it has not grown by a quarter", False)
    app.close()
    app = App(settings, FakeClock())
    assert run(app)[1]
    assert app.storage.events.last_seq() == 50
    assert findings(app) == []
    app.close()


def test_the_file_is_not_rewritten_where_its_copy_would_take_the_room_of_others(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_LEAST_GROWTH", 8)
    settings = Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin"))
    app = App(settings, FakeClock())
    app.append([draft(f"step {i} of the plan", at=1_760_000_000_000 + i, session="s") for i in range(9)], "test")
    app.derivation.run()
    file = data_dir / "memory.duckdb"
    before, size = file.stat().st_ino, app.storage.get_stats(text=False).size_bytes
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * size - 1))
        assert app.scheduler.run_now("compact_grown").words == "there is no room for a copy of the file"
        assert app.scheduler.run_now("compact_grown").words == "it has not grown by a quarter"
    app.close()
    assert file.stat().st_ino == before
    app = App(settings, FakeClock())
    assert "freed_bytes" in app.scheduler.run_now("compact_grown").counts
    assert file.stat().st_ino != before
    app.close()


def test_upkeep_ends_between_two_steps_when_it_must() -> None:
    app = memory(a_small_history(1))
    from memory_mcp.upkeep.jobs.calls import Housekeeping
    from memory_mcp.upkeep.jobs.schedule import Daily

    looks = iter([False, True, True, True])
    report = Housekeeping(app.storage, app.backups.back_up_before, Daily(3, 0)).run(0, lambda: next(looks))
    assert set(report.counts) == {"folded"}
    assert report.words.endswith("stopped early")
    app.close()


@pytest.mark.parametrize(
    ("parts", "words"), [([], "stored 0 events"), ([1], "stored 1 event"), ([1000, 200], "stored 1,200 events")]
)
def test_draining_goes_on_until_the_spool_is_empty_and_says_how_many_events_it_stored(parts: list[int], words: str) -> None:
    left = iter([*parts, 0])
    assert drain_spool_job(lambda: next(left)).run(0, lambda: False) == JobReport(words, {"events": sum(parts)})
    assert list(left) == []


def test_draining_ends_between_two_parts_when_it_must() -> None:
    looks = iter([False, True])
    assert drain_spool_job(lambda: 200).run(0, lambda: next(looks)).counts == {"events": 200}


@pytest.mark.usefixtures("processes")
def test_what_a_hook_left_is_stored_by_the_apps_own_job(data_dir: Path) -> None:
    app = App(Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin")))
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": "/acme/shop", "transcript_path": "/t.jsonl"}
    command = [sys.executable, "-m", "memory_mcp", "hook", "claude-code", "--data-dir", str(data_dir)]
    given = json.dumps(payload | {"prompt": "Please keep the retry queue."})
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert app.scheduler.run_now("drain_spool").words == "stored 1 event"
    assert app.scheduler.run_now("drain_spool").words == "stored 0 events"
    (stored,) = app.storage.events.read_after(0, 10)
    assert stored.event.text == "Please keep the retry queue."
    app.close()


def test_closing_the_app_ends_its_scheduler() -> None:
    app = memory()
    app.scheduler.start()
    app.close()
    assert not [t for t in threading.enumerate() if t.name == "scheduler"]
    app.close()
