"""The local door without a Unix socket: loopback TCP, for whoever can read the secret."""

import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.place import Place
from memory_mcp.base import paths
from memory_mcp.service.client import door
from tests.daemon.places import DAEMON, NO_INDEXES, call, look, needs_proc
from tests.waiting import PATIENCE

pytestmark = needs_proc

EVENT = json.dumps({"session_id": "s", "timestamp": 1_780_000_000_000, "role": "user", "text": "the harbour is closed"})


@pytest.fixture(scope="module")
def tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    more = DAEMON | NO_INDEXES | {"MEMORY_MCP_SERVER__SOCKET": "false"}
    with Place(tmp_path_factory.mktemp("tcp"), more=more) as made:
        yield made


def told(place: Place) -> tuple[Path, dict[str, object]]:
    file = Path(paths.door_file(str(place.directory)))
    return file, json.loads(file.read_text())


def test_who_does_not_know_the_secret_hears_nothing(tcp: Place) -> None:
    tcp.ok("ingest", "-", stdin=EVENT)
    _, found = told(tcp)
    with socket.create_connection(("127.0.0.1", int(str(found["port"])))) as stranger:
        stranger.sendall(b'{"nonce": "0"}\n{"proof": "0"}\n{"memory-mcp": "1", "kind": "rpc"}\n')
        stranger.settimeout(PATIENCE)
        heard = b""
        while got := stranger.recv(1000):
            heard += got
    assert set(json.loads(heard)) == {"nonce", "proof"}
    assert str(found["secret"]) not in heard.decode()


def test_commands_and_clients_reach_the_daemon_over_tcp(tcp: Place) -> None:
    tcp.ok("ingest", "-", stdin=EVENT)
    assert "harbour" in tcp.ok("search", "harbour", "--all")
    [status] = call(tcp, ("serve",), {}, ("get_retrieval_status", {}))
    assert status["name"] == "Agentic"
    file, _ = told(tcp)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not Path(paths.socket_path(str(tcp.directory))).exists()
    assert len(tcp.owners()) == 1
    status = look(tcp)
    tcp.ok("daemon", "stop")
    assert status["pid"] not in tcp.processes()
    assert not file.exists()


def test_nothing_is_said_to_a_stranger_on_the_port(tmp_path: Path) -> None:
    directory = str(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        Path(paths.door_file(directory)).write_text(json.dumps({"port": port, "secret": "s"}))
        heard: list[bytes] = []

        def answer() -> None:
            there, _ = stranger.accept()
            with there:
                heard.append(there.recv(1000))
                there.sendall(b'{"nonce": "1", "proof": "wrong"}\n')
                heard.append(there.recv(1000))

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ConnectionRefusedError, match="not this user's daemon"):
            door.connect(directory)
        thread.join()
    assert set(json.loads(heard[0])) == {"nonce"}
    assert heard[1] == b""


def test_where_no_socket_can_be_made_the_door_is_tcp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(place: str) -> socket.socket:
        raise OSError("not supported")

    monkeypatch.setattr(door, "_listen_unix", refuse)
    listener, secret = door.listen(str(tmp_path))
    with listener:
        assert secret
        assert listener.family == socket.AF_INET
    door.remove_address(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        door.connect(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_of_the_socket_stays(tmp_path: Path) -> None:
    place = Path(paths.socket_path(str(tmp_path)))
    place.write_text("somebody's")
    with pytest.raises(FileExistsError, match="in the way"):
        door.listen(str(tmp_path))
    assert place.read_text() == "somebody's"
