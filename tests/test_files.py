"""The reader of folders in which others work: what goes away is passed over, what stays is read, and rest is waited for."""

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import waiting
from tests.files import find_content, iter_entries, iter_files, read_at_rest, read_files
from tests.waiting import beside

STEADY = {f"steady-{number}": b"stays %d" % number for number in range(20)}
ROUNDS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in STEADY.items():
        path = tmp_path / "live" / name[-1] / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "live"


def put(file: Path, content: bytes) -> None:
    """Write a file as the program does: aside, then renamed."""
    aside = file.with_name(f"{file.name}.new")
    aside.write_bytes(content)
    aside.replace(file)


def disturb(folder: Path, number: int) -> None:
    """Rename files, put new ones in their place and remove a folder with what is in it."""
    put(folder / "0" / "briefing", b"round %d" % number)
    part = folder / "parts" / f"part-{number}"
    part.mkdir(parents=True)
    for name in ("copies.json", "rows"):
        put(part / name, b"part %d" % number)
    shutil.rmtree(folder / "parts" / f"part-{number - 1}", ignore_errors=True)


@contextmanager
def disturbed(folder: Path) -> Iterator[None]:
    def go_on(ended: threading.Event) -> None:
        number = 0
        while not ended.is_set():
            disturb(folder, number := number + 1)

    with beside(go_on):
        yield


def names_of(contents: dict[Path, bytes]) -> dict[str, bytes]:
    return {path.name: content for path, content in contents.items()}


def test_what_stays_is_read_whole_while_other_files_come_and_go(folder: Path) -> None:
    with disturbed(folder):
        for _ in range(ROUNDS):
            contents = names_of(read_files(folder))
            assert STEADY.items() <= contents.items()
            assert STEADY.keys() <= {path.name for path, _ in iter_entries(folder)}


@pytest.mark.parametrize("leave", [Path.unlink, lambda path: shutil.rmtree(path.parent)], ids=["file", "folder"])
def test_what_goes_between_listing_and_reading_is_passed_over(folder: Path, leave: Callable[[Path], object]) -> None:
    walk = iter_files(folder)
    file = next(walk)
    leave(file)
    assert find_content(file) is None
    later = next(walk)
    shutil.rmtree(folder)
    assert (find_content(later), list(walk)) == (None, [])


def test_a_file_and_a_folder_that_change_places_are_no_error(folder: Path) -> None:
    file = next(iter_files(folder))
    file.unlink()
    file.mkdir()
    assert find_content(file) is None
    shutil.rmtree(file.parent)
    file.parent.write_bytes(b"a file by now")
    assert find_content(file) is None


def test_rest_is_waited_for_and_what_is_read_then_is_all_there_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = iter(range(1, 6))
    read = Path.read_bytes

    def read_and_disturb(file: Path) -> bytes:
        content = read(file)
        if file.name == "steady-19" and (number := next(going, 0)):
            disturb(folder, number)
        return content

    monkeypatch.setattr(Path, "read_bytes", read_and_disturb)
    contents = names_of(read_at_rest(folder))
    assert contents == STEADY | {"briefing": b"round 5", "copies.json": b"part 5", "rows": b"part 5"}


def test_what_never_comes_to_rest_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    read = Path.read_bytes

    def read_and_write(file: Path) -> bytes:
        put(file, b"again")
        return read(file)

    monkeypatch.setattr(Path, "read_bytes", read_and_write)
    with pytest.raises(AssertionError, match=r"waited in vain for .*live to come to rest"):
        read_at_rest(folder)


def test_links_are_no_folders_to_walk_and_a_missing_folder_is_empty(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"elsewhere")
    (folder / "link").symlink_to(tmp_path / "other")
    assert names_of(read_at_rest(folder, tmp_path / "missing")) == STEADY
