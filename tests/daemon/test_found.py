"""The file by which clients find the daemon is taken away or replaced: it is found again, and stays the one owner."""

import json
import sys
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp import door
from tests.daemon.places import look, needs_proc
from tests.daemon.test_commands import lines
from tests.waiting import until

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")]


def found_again(place: Place, pid: int) -> None:
    directory = str(place.directory)
    until(lambda: door.seen(directory) is not None and json.loads(place.run("daemon", "status", "--json").stdout or "{}"))
    assert "40 new" in place.ok("ingest", "-", stdin=lines(40, "after"))
    assert look(place)["pid"] == pid


def test_a_socket_that_was_deleted(place: Place) -> None:
    place.ok("ingest", "-", stdin=lines(40))
    pid = look(place)["pid"]
    (place.directory / "daemon.sock").unlink()
    found_again(place, pid)


def test_a_link_that_stood_in_the_place_of_the_socket(place: Place, tmp_path: Path) -> None:
    place.ok("ingest", "-", stdin=lines(40))
    pid = look(place)["pid"]
    (tmp_path / "outside").write_text("somebody else's")
    socket = place.directory / "daemon.sock"
    socket.unlink()
    socket.symlink_to(tmp_path / "outside")
    until(lambda: "nobody finds this process" in (place.directory / "daemon.log").read_text())
    socket.unlink()
    found_again(place, pid)
    assert (tmp_path / "outside").read_text() == "somebody else's"
