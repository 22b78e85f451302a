"""`memory-mcp open` as the installed program: the address it gives, the door behind it, and how long both stay."""

import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.place import Place
from memory_mcp.service.daemon import security
from memory_mcp.web.registry import FIRST
from memory_mcp.web.visits import COOKIE
from tests.daemon.inside import ALONE, SERVED, Beside
from tests.daemon.places import look, needs_proc
from tests.daemon.test_serve_http import serve, told
from tests.files import read_at_rest
from tests.ports import free_port
from tests.waiting import PATIENCE, until
from tests.web.visitor import Visitor, entered

pytestmark = needs_proc

#: Of a process that ends as soon as nobody needs it (seconds).
SOON = 3


@pytest.fixture
def place(processes: None, tmp_path: Path) -> Iterator[Place]:
    with Place(tmp_path, more=SERVED) as made:
        yield made


@pytest.fixture(scope="module")
def running(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A memory whose process is there as long as the module's tests, with its door open, which the command starts."""
    with Beside(tmp_path_factory.mktemp("running"), more=SERVED) as made:
        # A port that is still free when another process opens it again.
        opened(made, port=free_port())
        yield made


def opened(place: Place, *words: str, port: int = 0) -> str:
    return place.ok("open", "--print", "--port", str(port), *words).strip()


def refuses(server: str) -> bool:
    """Whether nobody listens there."""
    try:
        Visitor(server).send("GET", "/ui/")
    except OSError:
        return True
    return False


def stream_of(visitor: Visitor) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    """A page left open: its stream of changes, which goes on."""
    connection = http.client.HTTPConnection(visitor.server, timeout=PATIENCE)
    connection.request("GET", f"{visitor.base}/live", headers={"Cookie": f"{COOKIE}={visitor.cookie}"})
    reply = connection.getresponse()
    assert reply.status == 200
    assert reply.readline().startswith(b"data: ")
    return connection, reply


def outlast(visitor: Visitor) -> None:
    """Leave a page open until its stream of changes ends by itself."""
    connection, reply = stream_of(visitor)
    while reply.read(1):
        pass
    connection.close()


# the address


def test_open_starts_the_process_and_its_door_and_gives_an_address_that_works_once_until_a_restart_and_is_in_no_log(
    running: Place,
) -> None:
    url = opened(running)
    assert urlsplit(url).hostname == "127.0.0.1"
    visitor = entered(url)
    assert visitor.get(FIRST).status == 200
    assert Visitor(visitor.server).send("GET", urlsplit(url).path).status == 403
    assert look(running)["http"] == visitor.origin
    # Another address is another visit of the same door.
    again = json.loads(running.ok("open", "--print", "--json"))
    assert again["opened"] is False
    other = entered(again["url"])
    assert (other.server, other.base == visitor.base) == (visitor.server, False)
    assert visitor.get(FIRST).status == other.get(FIRST).status == 200
    visitor.get("nothing")
    visitor.send("GET", f"{visitor.base}/{FIRST}", Origin="https://evil.example")
    # A restart ends every visit, and a port that somebody has is named.
    running.stop()
    for path, text in read_at_rest(running.directory).items():
        if path.suffix != ".duckdb":
            assert visitor.cookie.encode() not in text, path
            assert visitor.base.encode() not in text, path
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = running.run("open", "--print", "--port", port)
    assert done.returncode != 0
    assert f"port {port} of 127.0.0.1 is in use" in done.stderr
    anew = entered(running.ok("open", "--print", "--port", visitor.server.rpartition(":")[2]).strip())
    assert anew.server == visitor.server
    assert visitor.get(FIRST).status == 403
    assert anew.get(FIRST).status == 200


@pytest.mark.usefixtures("processes")
def test_without_the_background_process_the_command_says_what_to_do(tmp_path: Path) -> None:
    with Beside(tmp_path, more=ALONE) as place:
        done = place.run("open", "--print")
        assert (done.returncode, done.stdout) == (3, "")
        assert "server.daemon = false" in done.stderr
        assert "Set server.daemon = true" in done.stderr
        assert place.processes() == {}


# on a terminal


def on_terminal(place: Place, *words: str, **env: str) -> str:
    """What a command writes on a terminal, both its outputs; there are no screen and no browser but those of `env`."""
    ours, theirs = os.openpty()
    given = {k: v for k, v in place.environment().items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    done = subprocess.Popen([*place.command, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=given | env, cwd=place.home)
    os.close(theirs)
    said = b""
    try:
        while data := _read(ours):
            said += data
        assert done.wait(PATIENCE) == 0, said
    finally:
        os.close(ours)
    return said.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""


def test_on_a_terminal_the_browser_is_started_but_without_a_screen_or_where_it_is_asked_for_the_address_is_printed(
    running: Place, tmp_path: Path
) -> None:
    # A program that notes what a browser is started with, as the variable BROWSER names it.
    note, script = tmp_path / "opened", tmp_path / "a-browser"
    script.write_text(f'#!/bin/sh\nprintf "%s" "$1" > {note}\n')
    script.chmod(0o700)
    screen = {"BROWSER": f"{script} %s", "DISPLAY": ":0"}
    said = on_terminal(running, "open", "--port", "0", **screen)
    url = note.read_text()
    assert said == f"Opened in the browser: {url}\n"
    assert entered(url).get(FIRST).status == 200
    note.unlink()

    [url, hint] = on_terminal(running, "open", "--port", "0").splitlines()
    assert "within two minutes" in hint
    assert entered(url).get(FIRST).status == 200
    [url, _] = on_terminal(running, "open", "--print", **screen).splitlines()
    assert entered(url).get(FIRST).status == 200
    # Nor does a script that reads the output get a window.
    done = subprocess.run(
        [*running.command, "open"],
        env=running.environment() | screen,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE,
        check=True,
    )
    assert entered(done.stdout.strip()).get(FIRST).status == 200
    assert not note.exists()


# how long it stays


@pytest.mark.usefixtures("processes")
def test_a_door_that_was_opened_for_pages_closes_when_nobody_uses_them_and_a_page_left_open_keeps_no_process_alive(
    tmp_path: Path,
) -> None:
    """The process stays for a client; a page left open is told nothing more, and its visit is over."""
    with Beside(tmp_path, idle=SOON, more=SERVED) as hasty:
        client = subprocess.Popen(
            [*hasty.command, "serve"], env=hasty.environment(), cwd=hasty.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert client.stdin is not None
            client.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
            client.stdin.flush()
            visitor = entered(opened(hasty, port=free_port()))
            pid = look(hasty)["pid"]
            outlast(visitor)
            until(lambda: look(hasty)["http"] == "", "the door to close")
            assert refuses(visitor.server)
            # Whoever listens there now may have been sent the cookie by the page: it opens nothing when the door is there again.
            again = entered(hasty.ok("open", "--print", "--port", visitor.server.rpartition(":")[2]).strip())
            assert (look(hasty)["pid"], again.server) == (pid, visitor.server)
            assert visitor.get(FIRST).status == 403
        finally:
            client.kill()
            client.communicate()
        # Without the client the process ends, and with it the stream of a page.
        outlast(entered(opened(hasty)))
        until(lambda: hasty.processes() == {}, hasty.processes)
        assert refuses(visitor.server)


@pytest.mark.slow  # in the short form: daemon/test_settings.py for such a door; its pages are those of any door.
@pytest.mark.usefixtures("processes")
def test_pages_are_served_by_a_door_that_is_open_by_its_settings(tmp_path: Path) -> None:
    more = {**SERVED, "MEMORY_MCP_SERVER__HTTP": "true", "MEMORY_MCP_SERVER__HTTP_PORT": "0"}
    with Place(tmp_path, idle=SOON, more=more) as place:
        place.ok("daemon", "start")
        until(lambda: look(place)["http"], "the door")
        url = look(place)["http"]
        visitor = entered(place.ok("open", "--print").strip())
        assert visitor.origin == url
        assert visitor.get(FIRST).status == 200
        done = place.run("open", "--print", "--port", "1")
        assert (done.returncode, f"HTTP is served at {url} already" in done.stderr) == (2, True)
        # Unused pages close neither the door nor the visit: it is the settings' door.
        connection, _ = stream_of(visitor)
        place.ok("daemon", "status")
        connection.close()
        assert (look(place)["http"], visitor.get(FIRST).status) == (url, 200)


@pytest.mark.slow  # in the short form: daemon/test_serve_http.py for a command that ends and its door.
def test_pages_go_on_when_the_command_that_served_http_is_stopped(place: Place) -> None:
    process = serve(place, "--http", "--port", "0", "--json")
    try:
        url = told(process)["url"]
        visitor = entered(place.ok("open", "--print").strip())
        assert visitor.origin == url
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    until(lambda: look(place)["commands"] == [] or len(look(place)["commands"]) <= 1, "the command to be gone")
    assert visitor.get(FIRST).status == 200
    assert look(place)["http"] == url


# other users of the machine


#: Everything is loaded before, because another user may not read where Python lies.
ASKS = """
import encodings.idna, http.client, os, sys
server, path = sys.argv[1:]
os.setgid(65534)
os.setuid(65534)
connection = http.client.HTTPConnection(server, timeout=60)
connection.request("GET", path)
print(connection.getresponse().status)
"""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can ask as another user")
def test_another_user_who_reads_the_address_from_the_list_of_processes_gets_nothing_and_uses_nothing(running: Place) -> None:
    url = opened(running)
    parts = urlsplit(url)
    command = [sys.executable, "-c", ASKS, parts.netloc, parts.path]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert asked.stdout == "403\n"
    assert entered(url).get(FIRST).status == 200


def test_who_made_a_connection_is_read_from_the_systems_list(tmp_path: Path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    line = "   0: {} {} 01 00000000:00000000 00:00000000 00000000  {}        0 1 1 0 20 4 30 10 -1\n"
    mine, theirs = os.geteuid(), os.geteuid() + 1
    (tmp_path / "tcp").write_text(head + line.format("0100007F:1F90", "0100007F:2327", theirs))
    (tmp_path / "tcp6").write_text(
        head
        + line.format("0000000000000000FFFF00000100007F:1F91", "0000000000000000FFFF00000100007F:2327", theirs)
        + line.format("00000000000000000000000001000000:1F92", "00000000000000000000000001000000:2327", mine)
    )
    own = ("127.0.0.1", 0x2327)
    assert security.is_another_users(("127.0.0.1", 0x1F90), own, tmp_path)
    assert security.is_another_users(("127.0.0.1", 0x1F91), own, tmp_path)
    assert not security.is_another_users(("::1", 0x1F92), ("::1", 0x2327), tmp_path)
    # Not listed, as the far end of a container's connection; no address; no lists.
    assert not security.is_another_users(("127.0.0.1", 1), own, tmp_path)
    assert not security.is_another_users(None, own, tmp_path)
    assert not security.is_another_users(("127.0.0.1", 0x1F90), own, tmp_path / "none")
    assert not security.is_another_users(("no address", 1), own, tmp_path)
