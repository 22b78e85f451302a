"""Backups in a folder: what they share, what they cost, how long they stay, and that they hold what the store held."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import ConfigError, DeadlineExceeded, NotFound, SourceUnreadable, StorageError
from memory_mcp.config import Settings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.upkeep.archive import backup as module
from memory_mcp.upkeep.archive.backup import Backup, SharedFile, find_backup, list_backups, read_shared_files, select_kept
from memory_mcp.upkeep.archive.blocks import Archive, rewrite_archive
from memory_mcp.upkeep.archive.keeper import read_folder
from memory_mcp.upkeep.archive.reading import iter_rows, verify_backup
from memory_mcp.upkeep.archive.settings import BackupSettings
from tests.factories import SHOP, a_day_of_drafts, a_small_history, draft
from tests.fakes import FakeClock
from tests.filled import filled

DAY = 86_400_000


@pytest.fixture
def app(data_dir: Path, clock: FakeClock) -> Iterator[App]:
    """A memory on disk with a week in it."""
    made = App(filled(data_dir, a_small_history(1)), clock)
    yield made
    made.close()


def more(app: App, count: int, name: str) -> None:
    app.write([draft(f"{name} {n}", session=name, source_id=f"{name}{n}") for n in range(count)], "test")


def events_in(backup: Backup) -> list[int]:
    """Numbers of the events that a backup gives."""
    return sorted(row[0] for part in iter_rows(backup) if part.table == "event" for row in part.rows)


def files_in(backup: Backup) -> list[SharedFile]:
    """The shared files that a backup names."""
    found = read_shared_files(backup)
    assert found is not None
    return found


def test_a_second_backup_adds_what_came_since_and_shares_the_rest(app: App, clock: FakeClock) -> None:
    first = app.backups.make_backup("test")
    clock.advance(60)
    more(app, 3, "later")
    second = app.backups.make_backup("test")
    newest, oldest = list_backups(first.path.parent)
    assert (newest.path, oldest.path) == (second.path, first.path)
    shared = {f.name for f in files_in(oldest)} & {f.name for f in files_in(newest)}
    assert second.size_bytes - second.added_bytes == sum((first.path.parent / name).stat().st_size for name in shared) > 0
    assert events_in(oldest) == list(range(1, first.last_seq + 1))
    assert events_in(newest) == list(range(1, first.last_seq + 4))
    assert (second.events, second.last_seq) == (first.events + 3, first.last_seq + 3)
    assert verify_backup(newest).missing == verify_backup(oldest).missing == []


def test_files_of_events_stay_few(app: App, clock: FakeClock) -> None:
    for round_ in range(12):
        clock.advance(60)
        more(app, 5, f"round {round_}")
        made = app.backups.make_backup("test")
    newest = list_backups(made.path.parent)[0]
    assert len(files_in(newest)) <= 8
    assert events_in(newest) == list(range(1, made.last_seq + 1))


def test_one_file_holds_everything(app: App, tmp_path: Path) -> None:
    made = app.backups.make_backup("test", tmp_path / "usb" / "mine.archive")
    assert [p.name for p in (tmp_path / "usb").iterdir()] == ["mine.archive"]
    found = verify_backup(find_backup(made.path))
    assert found.rows["event"] == app.storage.events.last_seq() == made.events
    assert found.rows["segment_cut"] == app.tree.tally().segments
    assert read_folder(app.backups.folder or tmp_path).count == 0


def test_a_damaged_file_is_not_built_upon(app: App, clock: FakeClock) -> None:
    first = app.backups.make_backup("test")
    file, _ = files_in(list_backups(first.path.parent)[0])
    path = first.path.parent / file.name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    clock.advance(60)
    more(app, 1, "later")
    second = find_backup(app.backups.make_backup("test").path)
    assert verify_backup(second).missing == []
    assert events_in(second) == list(range(1, first.last_seq + 2))


def test_what_was_forgotten_in_a_file_is_in_no_later_backup(app: App, clock: FakeClock) -> None:
    first = app.backups.make_backup("test")
    file, _ = files_in(list_backups(first.path.parent)[0])
    rewrite_archive(first.path.parent / file.name, lambda table, row: None if row.get("seq") == 7 else row)
    assert events_in(find_backup(first.path)) == [n for n in range(1, first.last_seq + 1) if n != 7]
    assert verify_backup(find_backup(first.path)).missing == []


def test_a_wrong_byte_is_named_by_time_and_source_and_costs_its_block(app: App, tmp_path: Path) -> None:
    target = tmp_path / "one.archive"
    app.backups.make_backup("test", target)
    whole, right = verify_backup(find_backup(target)).rows, target.read_bytes()
    for share in (0.1, 0.3, 0.5, 0.7, 0.9):
        content = bytearray(right)
        content[int(len(content) * share)] ^= 0xFF
        target.write_bytes(bytes(content))
        found = verify_backup(find_backup(target))
        assert found.missing or found.harmless
        lost = {table: count - found.rows.get(table, 0) for table, count in whole.items()}
        assert sum(lost.values()) == sum(m.rows for m in found.missing) <= 500
        for missing in found.missing:
            assert lost[missing.table] == missing.rows
            if missing.table == "event":
                assert missing.sources == {"test": missing.rows}
                assert 0 < missing.from_ms <= missing.to_ms


def test_a_file_that_is_gone_is_told_with_what_it_held(app: App) -> None:
    made = app.backups.make_backup("test")
    backup = find_backup(made.path)
    file, _ = files_in(backup)
    (made.path.parent / file.name).unlink()
    [missing] = verify_backup(backup).missing
    assert (missing.rows, missing.sources) == (made.events, {"test": made.events})


def test_a_backup_that_is_stopped_leaves_nothing_and_gives_way_often(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def stop() -> bool:
        looked.append(1)
        return len(looked) > 1

    with pytest.raises(DeadlineExceeded):
        app.backups.make_backup("test", should_stop=stop)
    folder = app.backups.folder
    assert folder is not None
    assert list(folder.iterdir()) == []
    turns: list[int] = []
    monkeypatch.setattr(app.backups, "_give_way", lambda: turns.append(1))
    made = app.backups.make_backup("test")
    assert len(turns) >= made.events / 500 + len(made.rows)


def test_days_and_weeks_are_kept_and_what_nothing_needs_goes(data_dir: Path, clock: FakeClock) -> None:
    few = BackupSettings(keep_days=3, keep_weeks=2)
    app = App(replace(filled(data_dir, a_day_of_drafts(projects=(SHOP,))), backup=few), clock)
    for day in range(20):
        clock.advance(24 * 3600)
        more(app, 3, f"day {day}")
        app.backups.make_backup("daily")
    folder = app.backups.folder
    assert folder is not None
    ages = [round((clock.now_ms() - b.at_ms) / DAY) for b in list_backups(folder)]
    assert ages[:3] == list(range(3))
    assert 4 <= len(ages) <= 5
    named = {f.name for b in list_backups(folder) for f in files_in(b)}
    assert {p.name for p in folder.iterdir()} == named | {b.path.name for b in list_backups(folder)}
    for backup in list_backups(folder):
        assert verify_backup(backup).missing == []
    app.close()


def test_what_is_wanted_is_the_last_of_each_day_and_week() -> None:
    def at(day: int, hour: int) -> Backup:
        ms = round(dt.datetime(2026, 3, day, hour, tzinfo=dt.UTC).timestamp() * 1000)
        return Backup(Path(f"{day:02}-{hour:02}"), ms, "s")

    found = [at(day, hour) for day in range(2, 30) for hour in (3, 12)]
    now = at(29, 13).at_ms
    kept = select_kept(found, 2, 3, lambda ms: f"{dt.datetime.fromtimestamp(ms / 1000, dt.UTC):%Y-%m-%d}", now)
    assert sorted(map(str, kept)) == ["15-12", "22-12", "28-12", "29-03", "29-12"]


def test_the_newest_up_to_a_moment_is_found(app: App, clock: FakeClock, tmp_path: Path) -> None:
    made = []
    for _ in range(3):
        clock.advance(3600)
        made.append((clock.now_ms(), app.backups.make_backup("test").path))
    folder = made[0][1].parent
    assert find_backup(folder).path == made[2][1]
    assert find_backup(folder, made[1][0]).path == made[1][1]
    assert find_backup(folder, made[1][0] + 5).path == made[1][1]
    with pytest.raises(NotFound):
        find_backup(folder, made[0][0] - 1)
    with pytest.raises(NotFound):
        find_backup(tmp_path / "nowhere")


def test_the_daily_job_makes_one_and_is_silent_where_it_is_off(app: App, data_dir: Path) -> None:
    report = app.scheduler.run_now("back_up")
    assert report.counts == {"events": app.storage.events.last_seq()}
    assert read_folder(data_dir / "backups").count == 1
    off = App(Settings(backup=BackupSettings(enabled=False)), in_memory=True)
    assert off.scheduler.run_now("back_up").words == "off (backup.enabled = false)"
    off.close()


def test_a_backup_is_made_before_the_file_is_rewritten(app: App, data_dir: Path) -> None:
    app.backups.back_up_before("a test")
    [one] = list_backups(data_dir / "backups")
    with Archive(one.path) as archive:
        assert archive.about["why"] == "before a test"


def test_another_stores_files_in_the_folder_are_left_alone(app: App, tmp_path: Path, clock: FakeClock) -> None:
    shared = tmp_path / "shared"
    settings: dict[str, Any] = {"backup": BackupSettings(directory=str(shared), keep_days=1, keep_weeks=0)}
    made = []
    for name in ("a", "b"):
        one = App(Settings(storage=StorageSettings(str(tmp_path / name), "UTC"), **settings), clock)
        one.write([draft(f"said to {name}")], "test")
        made.append(one.backups.make_backup("test"))
        clock.advance(2 * 24 * 3600)
        one.backups.make_backup("test")
        one.close()
    left = list_backups(shared)
    assert len({b.store for b in left}) == len(left) == 2
    assert all(verify_backup(b).missing == [] for b in left)


def test_what_is_no_backup_says_so(tmp_path: Path) -> None:
    other = tmp_path / "x.archive"
    other.write_bytes(b"nothing of ours")
    with pytest.raises(SourceUnreadable):
        verify_backup(find_backup(other))


def test_settings_that_would_keep_nothing_are_refused() -> None:
    with pytest.raises(ConfigError):
        BackupSettings(keep_days=0)
    assert module.SUFFIX == ".archive"


def test_quotations_are_shared_like_events(app: App, clock: FakeClock) -> None:
    first = app.backups.make_backup("test")
    clock.advance(60)
    second = app.backups.make_backup("test")
    tables = {f.table for f in files_in(find_backup(second.path))}
    assert tables == {"event", "grip"}
    assert second.rows["grip"] == first.rows["grip"] > 0
    assert verify_backup(find_backup(second.path)).rows["grip"] == first.rows["grip"]
    # Nothing but the small tables is written once more.
    assert second.added_bytes == second.path.stat().st_size < second.size_bytes / 4


def test_quotations_that_are_filed_otherwise_are_written_anew(app: App, clock: FakeClock, tmp_path: Path) -> None:
    first = app.backups.make_backup("test")
    app.close()
    con = duckdb.connect(str(app.settings.storage.directory / "memory.duckdb"))
    con.execute("UPDATE grip SET segment = segment + 1 WHERE grip_id = (SELECT min(grip_id) FROM grip)")
    con.close()
    clock.advance(60)
    again = App(app.settings, clock)
    made = find_backup(again.backups.make_backup("test").path)
    again.close()
    one, two = ([f.name for f in files_in(b) if f.table == "grip"] for b in (find_backup(first.path), made))
    assert one != two


def test_months_of_backups_with_a_clock_that_jumps(data_dir: Path, clock: FakeClock) -> None:
    app = App(filled(data_dir, a_day_of_drafts(projects=(SHOP,))), clock)
    folder, jumps = app.backups.folder, {5: 400, 9: -400, 13: -2000, 16: 2000, 21: 30, 25: -30}
    assert folder is not None
    for day in range(36):
        clock.advance(24 * 3600 * (1 + jumps.get(day, 0)))
        if day % 5 == 0:
            more(app, 1, f"day {day}")
        made = app.backups.make_backup("daily")
        left = list_backups(folder)
        assert made.path in {b.path for b in left}
        assert find_backup(folder, None, clock.now_ms()).path == made.path
        assert len(left) <= 2 * (7 + 4 + 2)
    steady = [b for b in left if b.at_ms <= clock.now_ms()]
    assert [round((clock.now_ms() - b.at_ms) / DAY) for b in steady[:7]] == list(range(7))
    named = {f.name for b in left for f in files_in(b)}
    assert {p.name for p in folder.iterdir()} == named | {b.path.name for b in left}
    for backup in left:
        assert verify_backup(backup).missing == []
    app.close()


def test_a_link_in_the_place_of_the_folder_is_not_followed(app: App, data_dir: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (data_dir / "backups").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is a link"):
        app.backups.make_backup("test")
    assert list(elsewhere.iterdir()) == []
