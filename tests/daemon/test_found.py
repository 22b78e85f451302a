"""Clients find the daemon again: when the file is gone by which they do, and when another one takes its place."""

import json
import sys
from pathlib import Path

import pytest

from bench.place import Place, end
from memory_mcp.service.client import door
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.daemon.test_commands import lines
from tests.daemon.test_lines import Raw, message
from tests.interaction.test_stdio import MODERN
from tests.waiting import until

pytestmark = [needs_proc, pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")]
PLACES = NO_INDEXES


def found_again(place: Place, pid: int, session: str) -> None:
    directory = str(place.directory)
    until(
        lambda: door.address_stamp(directory) is not None and json.loads(place.run("daemon", "status", "--json").stdout or "{}")
    )
    assert "40 new" in place.ok("ingest", "-", stdin=lines(40, session))
    assert look(place)["pid"] == pid


def test_a_daemon_is_found_again_whose_socket_was_deleted_or_replaced_by_a_link(place: Place, tmp_path: Path) -> None:
    place.ok("ingest", "-", stdin=lines(40))
    pid = look(place)["pid"]
    (place.directory / "daemon.sock").unlink()
    found_again(place, pid, "deleted")
    (tmp_path / "outside").write_text("somebody else's")
    socket = place.directory / "daemon.sock"
    socket.unlink()
    socket.symlink_to(tmp_path / "outside")
    until(lambda: "nobody finds this process" in (place.directory / "daemon.log").read_text())
    socket.unlink()
    found_again(place, pid, "replaced")
    assert (tmp_path / "outside").read_text() == "somebody else's"


@pytest.mark.slow  # in the short form: client/test_relay.py, which greets so; test_pump.py kills a daemon amid a call.
def test_a_client_that_greeted_twice_is_understood_by_the_next_daemon(place: Place) -> None:
    """Its first greeting took so long that it tried the older one too, which the connection refused."""
    client = Raw(place, greets=False)
    assert "result" in client.ask(message(1, "server/discover", _meta=MODERN))
    info = {"name": "raw", "version": "1"}
    assert "error" in client.ask(message(2, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info))
    assert "result" in client.ask(message(3, "tools/list", _meta=MODERN))
    end(look(place)["pid"])
    assert "result" in client.ask(message(4, "tools/list", _meta=MODERN))
    client.end()
