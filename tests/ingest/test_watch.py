"""Being told of files that are put into a directory."""

import sys
import threading
from pathlib import Path

import pytest

from memory_mcp.capture.watch import DirectoryWatch
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")


def watching(directory: Path, told: list[int]) -> DirectoryWatch:
    watch = DirectoryWatch.open_watch(directory)
    assert watch is not None
    watch.start(lambda: told.append(1))
    return watch


def test_a_file_that_is_moved_in_is_told_of_and_what_is_aside_is_not(tmp_path: Path) -> None:
    told: list[int] = []
    watch = watching(tmp_path / "spool" / "new", told)
    aside = tmp_path / "aside"

    def move_in(name: str) -> None:
        before = len(told)
        aside.rename(tmp_path / "spool" / "new" / name)
        until(lambda: len(told) > before)

    for number in range(3):
        aside.write_text("whole")
        move_in(str(number))
    watch.close()
    done = len(told)
    aside.write_text("late")
    aside.rename(tmp_path / "spool" / "new" / "late")
    assert len(told) == done


def test_what_came_between_making_and_starting_is_told_of(tmp_path: Path) -> None:
    told = threading.Event()
    watch = DirectoryWatch.open_watch(tmp_path / "new")
    assert watch is not None
    (tmp_path / "new" / "one").write_text("x")
    watch.start(told.set)
    assert told.wait(PATIENCE)
    watch.close()


def test_a_directory_that_is_removed_ends_the_watch(tmp_path: Path) -> None:
    told: list[int] = []
    watch = watching(tmp_path / "new", told)
    (tmp_path / "new").rmdir()
    until(lambda: not any(t.name == "watch" and t.is_alive() for t in threading.enumerate()))
    watch.close()


def test_what_cannot_be_watched_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert DirectoryWatch.open_watch(tmp_path / "file" / "new") is None
