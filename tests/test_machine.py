"""What differs between operating systems: the parts that can be tried on any of them."""

import os
import select
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Self

import anyio
import pytest

from memory_mcp.base import machine, paths
from memory_mcp.server.ending import signals_of_end
from tests.waiting import PATIENCE, until


def test_no_child_opens_a_window_on_windows_or_hears_this_terminals_keys() -> None:
    assert machine.apart("win32") == {"creationflags": 0x08000200}
    assert machine.group_options("win32") == machine.apart("win32")
    assert machine.group_options("linux") == {"process_group": 0}
    assert machine.apart("linux") == machine.apart("darwin") == {"start_new_session": True}


def test_every_child_is_started_without_a_window() -> None:
    """Whoever starts a process says how it meets a console."""
    package = Path(machine.__file__).parent
    starting = [p for p in sorted(package.rglob("*.py")) if "subprocess.Popen(" in p.read_text(encoding="utf-8")]
    assert starting
    for file in starting:
        for call in file.read_text(encoding="utf-8").split("subprocess.Popen(")[1:]:
            assert any(f"{way}()" in call[:600] for way in ("machine.group_options", "apart")), file


def test_a_pipe_is_read_and_written_through_sockets_where_select_takes_nothing_else() -> None:
    for platform in ("win32", "linux"):
        source, into = os.pipe()
        out, sink = os.pipe()
        reading, writing = machine.End(source, True, platform), machine.End(sink, False, platform)
        os.write(into, b"words")
        assert select.select([reading], [], [], PATIENCE)[0] == [reading]
        assert reading.read(100) == b"words"
        os.close(into)
        assert select.select([reading], [], [], PATIENCE)[0] == [reading]
        assert reading.read(100) == b""
        assert select.select([], [writing], [], PATIENCE)[1] == [writing]
        text = b"x" * 5000
        assert writing.write(text) == len(text)
        writing.close()
        assert os.read(out, 10_000) == text
        for one in (source, out, sink):
            os.close(one)


def test_a_lock_is_held_by_one_alone(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR, 0o600) for _ in range(2))
    machine.lock(first)
    with pytest.raises(BlockingIOError):
        machine.lock(second)
    os.close(first)
    machine.lock(second)
    os.close(second)


@pytest.mark.usefixtures("processes")
def test_whether_a_process_lives() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert machine.lives(child.pid)
    child.communicate(b"\n")
    until(lambda: not machine.lives(child.pid), "for the end of a process")


@pytest.mark.parametrize("spawns", [True, False])
@pytest.mark.usefixtures("processes")
def test_a_started_process_writes_to_its_log_and_tells_how_it_ended(
    spawns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not spawns:
        monkeypatch.delattr(os, "posix_spawn")
    log = tmp_path / "log"
    words = [sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"]
    started = machine.start(words, dict(os.environ), str(log))
    until(lambda: started.ended() is not None, "for its end")
    assert started.ended() == 3
    assert sorted(log.read_text().split()) == ["err", "out"]


@pytest.mark.parametrize("by_handler", [True, False])
def test_a_signal_of_end_is_heard(by_handler: bool) -> None:
    async def hear() -> int:
        with signals_of_end(by_handler) as received:
            os.kill(os.getpid(), signal.SIGTERM)
            with anyio.fail_after(PATIENCE):
                async for number in received:
                    return number
        return 0

    before = signal.getsignal(signal.SIGTERM)
    assert anyio.run(hear) == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("text", [True, False])
def test_a_file_is_put_in_its_place_whole_and_for_its_owner_alone(tmp_path: Path, text: bool) -> None:
    place = tmp_path / "notes"
    place.write_text("before")
    place.with_name("notes.new").write_text("left by a process that was killed")
    with machine.Aside(place, text=text) as stream:
        stream.write("für alle\n" if text else "für alle\n".encode())
        assert place.read_text() == "before"
    assert place.read_bytes() == "für alle\n".encode()
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert [found.name for found in tmp_path.iterdir()] == ["notes"]


@pytest.mark.parametrize("fails", ["in the block", "as it is synced", "as it is renamed"])
def test_what_cannot_be_written_leaves_what_was_there_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    place = tmp_path / "notes"
    place.write_text("before")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    if fails != "in the block":
        monkeypatch.setattr(os, "fsync" if "synced" in fails else "replace", refuse)

    def put() -> None:
        with machine.Aside(place, tmp_path / "other") as stream:
            stream.write(b"after")
            if fails == "in the block":
                refuse()

    with pytest.raises(OSError, match="No space"):
        put()
    assert place.read_text() == "before"
    assert [found.name for found in tmp_path.iterdir()] == ["notes"]


def test_files_below_a_folder_are_found_and_measured_whatever_goes_meanwhile(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"four")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "b" / "file")
    assert machine.size_of(tmp_path) == 12
    assert machine.size_of(tmp_path / "a" / "file") == 4
    assert machine.size_of(tmp_path / "missing") == 0
    walk = machine.iter_files(tmp_path)
    path, state = next(walk)
    assert (path, state.st_size) == (str(tmp_path / "a" / "file"), 4)
    (tmp_path / "b" / "file").unlink()
    (tmp_path / "b").rmdir()
    assert [path for path, _ in walk] == [str(tmp_path / "c" / "file")]


class Listing(list[os.DirEntry[str]]):
    """The entries of a folder, as `os.scandir` gives them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.skipif(machine.WINDOWS, reason="made with links and pipes")
@pytest.mark.parametrize("kind", [paths.HARD_LINK, "a pipe"])
def test_what_is_planted_is_seen_though_other_files_go_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    directory = tmp_path / "data"
    (directory / "spool").mkdir(parents=True)
    (tmp_path / "outside").write_bytes(b"")
    if kind == paths.HARD_LINK:
        (directory / "memory.duckdb").hardlink_to(tmp_path / "outside")
    else:
        os.mkfifo(directory / "spool" / "pipe")
    scandir = os.scandir

    def list_and_remove(folder: str) -> Listing:
        passing = [Path(folder, f"passing-{number}") for number in range(20)]
        for path in passing:
            path.symlink_to(tmp_path / "outside")
        with scandir(folder) as entries:
            listing = Listing(entries)
        for path in passing:
            path.unlink()
        return listing

    monkeypatch.setattr(os, "scandir", list_and_remove)
    assert paths.planted(str(directory))[1] == kind
