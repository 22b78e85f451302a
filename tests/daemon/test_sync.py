"""What machines do to each other through a shared folder when something goes wrong: copies, losses, kills, missing disks."""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from bench.place import Place
from memory_mcp.app import App
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.upkeep.archive import blocks
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Block
from tests.daemon.inside import BARE, Inside
from tests.factories import draft
from tests.files import iter_files

Make = Callable[[str], Place]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Machines by name; their commands open the memory themselves."""
    return lambda name: Inside(tmp_path / name, more=BARE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder that machines share."""
    place = tmp_path / "shared"
    place.mkdir()
    return place


def say(place: Place, session: str, *texts: str) -> None:
    settings = Settings(storage=StorageSettings(str(place.directory), "UTC"), teleport=TeleportSettings(enabled=False))
    with closing(App(settings)) as app:
        app.write([draft(text, 1768212000000 + n, session) for n, text in enumerate(texts)], "jsonl")


def held(place: Place) -> dict[str, str]:
    """The text of each event of a machine, by its id, as it lies in the database."""
    with duckdb.connect(str(place.directory / "memory.duckdb"), read_only=True) as con:
        rows = con.execute("SELECT event_id, text FROM event").fetchall()
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def sync(place: Place, folder: Path) -> dict[str, Any]:
    return dict(json.loads(place.ok("sync", str(folder), "--json")))


def converge(folder: Path, *places: Place) -> dict[str, str]:
    """What all hold once each but the last had its turn twice."""
    for place in places:
        sync(place, folder)
    assert [sync(place, folder)["written"] for place in places[:-1]] == [0] * (len(places) - 1)
    first, *others = [held(place) for place in places]
    assert all(other == first for other in others)
    return first


def archives(folder: Path) -> list[Path]:
    return [path for path in iter_files(folder) if path.suffix == ".archive"]


def shared_texts(folder: Path) -> list[str]:
    """Every text of an event that lies in a shared folder."""
    found = []
    for path in archives(folder):
        with Archive(path) as archive:
            found += [str(row["text"]) for part in archive if isinstance(part, Block) for row in part.mappings()]
    return found


def test_a_copied_laptop_takes_a_folder_of_its_own(make: Make, folder: Path, tmp_path: Path) -> None:
    one = make("one")
    say(one, "both", "Said before the laptop was copied.")
    sync(one, folder)
    shutil.copytree(one.root, tmp_path / "two")
    two = make("two")
    say(one, "one", "Said on the first laptop.")
    say(two, "two", "Said on the second laptop.")
    sync(one, folder)
    sync(two, folder)
    say(one, "one again", "Said later on the first laptop.")
    say(two, "two again", "Said later on the second laptop.")
    assert len(converge(folder, one, two)) == 5
    assert len(list(folder.iterdir())) == 2


def test_a_machine_that_was_brought_back_from_a_backup_gets_what_it_had_shared(make: Make, folder: Path) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "Said before the backup.")
    sync(one, folder)
    one.ok("backup")
    say(one, "second", "Said behind the backup.")
    sync(one, folder)
    sync(two, folder)
    one.ok("restore", str(one.directory / "backups"))
    assert len(held(one)) == 1
    # The same number as an event that others have already.
    say(one, "third", "Said behind the restore.")
    assert len(converge(folder, one, two)) == 3


def test_files_stay_few_and_readers_take_in_each_event_once(make: Make, folder: Path, request: pytest.FixtureRequest) -> None:
    one, two = make("one"), make("two")
    turns = 8 if request.config.getoption("--slow") else 4
    for n in range(turns):
        say(one, f"s{n}", *(f"Statement {n} {k}." for k in range(3)))
        assert sync(one, folder)["written"] == 3
        if n % 4 == 1:
            sync(two, folder)
    assert len(archives(folder)) <= 3
    assert len(converge(folder, one, two)) == 3 * turns


def test_a_machine_that_is_gone_takes_nothing_with_it(make: Make, folder: Path) -> None:
    one, two, third = make("one"), make("two"), make("third")
    say(one, "one", "Said on the machine that stays.")
    say(two, "two", "Said on the machine that was sold.")
    for place in (two, one):
        sync(place, folder)
    [own] = (two.directory / "sync-id").read_text().split()
    shutil.rmtree(folder / f"machine-{own}")
    sync(one, folder)
    sync(third, folder)
    assert len(held(third)) == 2


def test_a_disk_that_is_not_connected_swallows_nothing(make: Make, folder: Path) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "Said while the disk was there.")
    sync(one, folder)
    away = folder.rename(folder.with_name("away"))
    say(one, "second", "Said while the disk was away.")
    refused = one.run("sync", str(folder))
    assert refused.returncode != 0
    assert "is not there" in refused.stderr
    assert not folder.exists()
    # The empty place of a disk that is not mounted looks like a new folder.
    folder.mkdir()
    assert sync(one, folder)["written"] == 2
    shutil.rmtree(folder)
    away.rename(folder)
    say(one, "third", "Said when it was there again.")
    assert len(converge(folder, one, two)) == 3


def test_copies_that_a_program_makes_are_read_like_any_other(make: Make, folder: Path) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "Said once.")
    sync(one, folder)
    [file] = archives(folder)
    file.rename(file.with_name(f"{file.stem} (conflicted copy).archive"))
    assert sync(two, folder)["new"] == 1
    file.parent.rename(file.parent.with_name(f"{file.parent.name} (1)"))
    say(one, "second", "Said later.")
    assert len(converge(folder, one, two)) == 2


# In the short form: killed before the store counts what is written.
@pytest.mark.parametrize("point", ["sync.written", pytest.param("sync.noted", marks=pytest.mark.slow)])
def test_a_run_that_is_killed_leaves_nothing_and_loses_nothing(make: Make, folder: Path, point: str) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "Said first.")
    sync(one, folder)
    say(one, "second", "Said second.")
    one.settings[VARIABLE] = point
    assert one.run("sync", str(folder)).returncode == -9
    del one.settings[VARIABLE]
    assert sync(two, folder)["new"] == 2
    say(one, "third", "Said third.")
    assert len(converge(folder, one, two)) == 3
    assert len(archives(folder)) == 1
    assert not [path for path in iter_files(folder) if path.name.startswith(".")]


def test_a_database_that_is_deleted_during_a_run_ends_it_with_an_error_and_is_written_anew(
    make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "Said before the file was deleted.")
    write_archive = blocks.write_archive

    def write_and_delete(*arguments: Any) -> Any:
        heads = write_archive(*arguments)
        (one.directory / "memory.duckdb").unlink()
        return heads

    with monkeypatch.context() as patched:
        patched.setattr(blocks, "write_archive", write_and_delete)
        done = one.run("sync", str(folder))
    assert (done.returncode, "was deleted" in done.stderr) == (3, True)
    say(one, "second", "Said behind it.")
    assert len(converge(folder, one, two)) == 2


def test_what_is_forgotten_while_the_folder_is_away_goes_from_it_later_and_doubles_nothing(make: Make, folder: Path) -> None:
    one, two = make("one"), make("two")
    say(one, "gate", "The code of the gate is walnut-8841-harbour, keep it.", "The gate is green.")
    both = converge(folder, one, two)
    away = folder.rename(folder.with_name("away"))
    one.ok("forget", "--value", "walnut-8841-harbour", "--yes")
    away.rename(folder)
    for place in (one, two, one, two):
        sync(place, folder)
    assert held(two) == both
    assert sorted(held(one).values()) == ["The code of the gate is [forgotten], keep it.", "The gate is green."]
    # The other machine keeps what it knows until it is told there, too; nobody has anything twice.
    own = folder / f"machine-{(one.directory / 'sync-id').read_text().split()[-1]}"
    assert not any("walnut" in text for text in shared_texts(own))


def test_a_whole_text_that_arrives_beside_its_marked_one_doubles_nothing(make: Make, folder: Path) -> None:
    """The one that forgot gives what is left to a third; that one gets the whole text from the other."""
    one, two, third = make("one"), make("two"), make("third")
    say(one, "gate", "The code of the gate is walnut-8841-harbour, keep it.", "The gate is green.")
    say(two, "gate", "The code of the gate is [forgotten], keep it.", "The gate is green.")
    sync(two, folder)
    sync(third, folder)
    sync(one, folder)
    assert sync(third, folder)["new"] == 0
    assert sorted(held(third).values()) == ["The code of the gate is [forgotten], keep it.", "The gate is green."]


def test_a_secret_stored_before_its_rule_leaves_by_no_door(make: Make, folder: Path, tmp_path: Path) -> None:
    one, two = make("one"), make("two")
    say(one, "first", "The key is PLACEHOLDER for now.")
    before = held(one)
    key = "AKIA" + "QYLPMN5HHHFPZAM2"
    con = duckdb.connect(str(one.directory / "memory.duckdb"))
    con.execute("UPDATE event SET text = replace(text, 'PLACEHOLDER', ?)", [key])
    con.close()
    sync(one, folder)
    [text] = shared_texts(folder)
    assert key not in text
    assert "REDACTED" in text
    sync(two, folder)
    one.ok("export", str(tmp_path / "vault"), "--format", "markdown")
    [page] = (tmp_path / "vault").iterdir()
    out = one.ok("export") + page.read_text()
    assert key not in out
    assert out.count("REDACTED") >= 2
    sync(one, folder)
    assert len(held(one)) == len(held(two)) == len(before) == 1


def test_a_text_that_was_shortened_passes_every_further_door_as_it_is(make: Make, folder: Path, tmp_path: Path) -> None:
    one, two, third = make("one"), make("two"), make("third")
    long = " ".join(f"row {n}: {n * 7919 % 1009}" for n in range(9000))
    told = {"session_id": "s", "timestamp": 1768212000000, "role": "tool", "type": "tool_result", "text": long}
    one.ok("ingest", "-", stdin=json.dumps(told | {"metadata": {"cwd": "/srv/" + "x" * 9000}}))
    sync(one, folder)
    sync(two, folder)
    out = one.ok("export")
    assert "bytes left out" in out
    assert two.ok("export") == out
    (tmp_path / "all.jsonl").write_text(out)
    third.ok("import", "jsonl", str(tmp_path / "all.jsonl"))
    assert third.ok("export") == out
