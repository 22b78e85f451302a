"""Who gets through the HTTP door: the same checks on every route, the token's file, and which addresses are bound."""

import json
import logging
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from memory_mcp.app import App
from memory_mcp.base.errors import AddressInUse, ConfigError
from memory_mcp.config import ServerSettings
from memory_mcp.server.build import build_server
from memory_mcp.service.daemon.http import HttpDoor, bind, check_address
from memory_mcp.service.daemon.security import Rules
from memory_mcp.service.daemon.token import token_of
from tests.daemon.door import SMALL, Door, opened
from tests.waiting import PATIENCE

ROUTES = [
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("POST", "/hooks/claude-code"),
    ("GET", "/mcp"),
    ("POST", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("GET", "/nothing/there"),
]
#: What is wrong with a request: its headers (an empty one is left out), and the status and code it is refused with.
WRONG: dict[str, tuple[dict[str, str], int, str]] = {
    "no token": ({"Authorization": ""}, 401, "UNAUTHENTICATED"),
    "wrong token": ({"Authorization": "Bearer " + "x" * 43}, 401, "UNAUTHENTICATED"),
    "token beyond ASCII": ({"Authorization": "Bearer tökén"}, 401, "UNAUTHENTICATED"),
    "empty token": ({"Authorization": "Bearer "}, 401, "UNAUTHENTICATED"),
    "another scheme": ({"Authorization": "Basic bWU6bWU="}, 401, "UNAUTHENTICATED"),
    "another host": ({"Host": "memory.evil.example"}, 421, "PERMISSION_DENIED"),
    "a host that begins like ours": ({"Host": "localhost.evil.example:8767"}, 421, "PERMISSION_DENIED"),
    "a host with a user": ({"Host": "localhost@evil.example"}, 421, "PERMISSION_DENIED"),
    "a foreign origin": ({"Origin": "https://evil.example"}, 403, "PERMISSION_DENIED"),
    "an origin that begins like ours": ({"Origin": "http://127.0.0.1.evil.example"}, 403, "PERMISSION_DENIED"),
    "an origin with a user": ({"Origin": "http://localhost@evil.example"}, 403, "PERMISSION_DENIED"),
    "a null origin": ({"Origin": "null"}, 403, "PERMISSION_DENIED"),
    "an origin of another kind": ({"Origin": "chrome-extension://abcdef"}, 403, "PERMISSION_DENIED"),
}


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    with opened(tmp_path_factory.mktemp("security") / "data", http_allowed_hosts="memory.example, proxy.example:8443") as found:
        yield found


@pytest.fixture(params=ROUTES, ids=" ".join)
def route(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param  # type: ignore[no-any-return]


def refused(door: Door, answer: tuple[int, dict[str, str], bytes]) -> tuple[int, str]:
    """Status and code of a refusal that is small JSON with a next step, and gives nothing away."""
    status, headers, body = answer
    error = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint"}
    assert error["hint"].endswith(".")
    assert headers["content-type"] == "application/json"
    assert "access-control-allow-origin" not in headers
    assert door.token.encode() not in body
    assert len(body) < 400
    return status, error["code"]


@pytest.mark.parametrize("wrong", WRONG)
def test_every_route_refuses(door: Door, route: tuple[str, str], wrong: str) -> None:
    headers, status, code = WRONG[wrong]
    before = len(door.hooks)
    answer = door.request(*route, headers, b"{}" if route[0] == "POST" else None)
    assert refused(door, answer) == (status, code)
    assert ("www-authenticate" in answer[1]) == (status == 401)
    assert len(door.hooks) == before


@pytest.mark.parametrize("is_chunked", [False, True])
def test_every_route_refuses_a_body_that_is_too_large(door: Door, route: tuple[str, str], is_chunked: bool) -> None:
    chunks = (b"x" * 8192 for _ in range(SMALL // 8192 + 1))
    before = len(door.hooks)
    answer = door.request(*route, body=chunks if is_chunked else b"x" * (SMALL + 1))
    assert refused(door, answer) == (413, "RESOURCE_EXHAUSTED")
    assert len(door.hooks) == before


def test_a_body_is_not_read_before_the_token_is_right(door: Door) -> None:
    """The answer comes though nothing of the announced body is sent."""
    headers = {"Authorization": "", "Content-Length": str(SMALL * 100)}
    assert refused(door, door.request("POST", "/hooks/claude-code", headers)) == (401, "UNAUTHENTICATED")


def test_a_large_body_that_is_announced_and_held_back_is_refused_all_the_same(door: Door) -> None:
    headers = {"Content-Length": str(SMALL + 1), "Expect": "100-continue"}
    assert refused(door, door.request("POST", "/hooks/claude-code", headers)) == (413, "RESOURCE_EXHAUSTED")


def test_a_body_as_large_as_may_be_passes_whole(door: Door) -> None:
    body = b"x" * SMALL
    assert door.request("POST", "/hooks/claude-code", body=body)[0] == 200
    assert door.hooks[-1] == ("claude-code", body)
    assert door.request("POST", "/hooks/claude-code", body=iter([body[:1000], body[1000:]]))[0] == 200
    assert door.hooks[-1] == ("claude-code", body)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost"},
        {"Host": "LOCALHOST:1"},
        {"Host": "[::1]"},
        {"Host": "[::1]:8767"},
        {"Host": "127.0.0.1:65535"},
        {"Host": "memory.example"},
        {"Host": "memory.example:443"},
        {"Host": "proxy.example:8443"},
        {"Origin": "http://localhost:6274"},
        {"Origin": "http://[::1]:5173"},
        {"Origin": "https://memory.example"},
        {"Authorization": "bearer {token}"},
    ],
    ids=lambda headers: " ".join(*headers.items()),
)
def test_what_is_ours_passes(door: Door, headers: dict[str, str]) -> None:
    sent = {name: value.format(token=door.token) for name, value in headers.items()}
    assert door.request("GET", "/health", sent)[0] == 200


@pytest.mark.parametrize("host", ["proxy.example", "proxy.example:8444", "", "127.0.0.1:x", "::1", "[::1", "127.1", "2130706433"])
def test_what_only_looks_like_ours_does_not(door: Door, host: str) -> None:
    """A host that was named with its port is let in with that port only; a request without any host is not."""
    assert raw(door, f"GET /health HTTP/1.0\r\n{f'Host: {host}' if host else 'X: y'}\r\n") == 421


@pytest.mark.parametrize(("name", "status"), [("Host", 400), ("Origin", 403), ("Authorization", 401)])
def test_a_header_that_comes_twice_is_refused(door: Door, name: str, status: int) -> None:
    """Nobody can say which of the two another program on the way has looked at."""
    values = {"Host": "127.0.0.1", "Origin": "http://127.0.0.1", "Authorization": f"Bearer {door.token}"}
    lines = [f"{n}: {v}\r\n" * (2 if n == name else 1) for n, v in values.items()]
    assert raw(door, f"GET /health HTTP/1.1\r\n{''.join(lines)}", token=False) == status


def test_a_body_whose_length_is_told_twice_is_refused_and_what_follows_is_not_read(door: Door) -> None:
    """A proxy may end the body at one of the two, and take what follows for a request of somebody else's."""
    told = f"Host: 127.0.0.1\r\nAuthorization: Bearer {door.token}\r\n"
    first = f"POST /hooks/claude-code HTTP/1.1\r\n{told}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    before = len(door.hooks)
    with socket.create_connection(door.door.address, timeout=PATIENCE) as connection:
        connection.sendall(f"{first}GET /health HTTP/1.1\r\n{told}\r\n".encode())
        answer = connection.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert len(door.hooks) == before


def raw(door: Door, head: str, token: bool = True) -> int:
    """The status of a request as it is spelled here."""
    own = f"Authorization: Bearer {door.token}\r\n" if token else ""
    with socket.create_connection(door.door.address, timeout=PATIENCE) as connection:
        connection.sendall(f"{head}{own}Connection: close\r\n\r\n".encode())
        return int(connection.makefile("rb").readline().split()[1])


def test_who_may_have_the_token_is_told_where_it_is(door: Door) -> None:
    _, headers, body = door.request("GET", "/health", {"Authorization": ""})
    assert "the token is in the file token in the data directory" in json.loads(body)["error"]["hint"]
    assert headers["www-authenticate"].startswith("Bearer")


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(given: bytes, own: bytes) -> bool:
        compared.append((given, own))
        return given == own

    monkeypatch.setattr("hmac.compare_digest", compare)
    scope = {"headers": [(b"host", b"localhost"), (b"authorization", b"Bearer guess")]}
    refusal = Rules("secret", "the file", 1).refuse(scope)
    assert refusal is not None
    assert refusal.status == 401
    assert compared == [(b"guess", b"secret")]


# the token's file


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        token, place = token_of("", tmp_path)
    finally:
        os.umask(old)
    file = tmp_path / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (file.read_text().strip(), len(token) >= 43, place) == (token, True, "the file token in the data directory")
    assert token_of("", tmp_path)[0] == token


def test_of_many_that_come_first_together_all_get_the_same_token(tmp_path: Path) -> None:
    found: list[str] = []
    start = threading.Barrier(8)

    def come() -> None:
        start.wait()
        found.append(token_of("", tmp_path)[0])

    threads = [threading.Thread(target=come) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["token"]


def test_a_token_file_that_others_can_read_is_closed_and_said_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    token, _ = token_of("", tmp_path)
    (tmp_path / "token").chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert token_of("", tmp_path)[0] == token
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600
    assert "others could read" in caplog.text
    assert token not in caplog.text


@pytest.mark.parametrize("content", ["", "short\n", "ü" * 50, "a b" * 20])
def test_a_token_file_without_a_usable_token_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content, encoding="utf-8")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="holds no usable token") as caught:
        token_of("", tmp_path)
    assert "the next start makes a new one" in caught.value.hint


def test_a_link_in_the_place_of_the_token_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 43)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="cannot be used"):
        token_of("", tmp_path)


def test_the_token_of_the_settings_comes_first_and_no_file_is_made(tmp_path: Path) -> None:
    assert token_of("of-the-settings", tmp_path) == ("of-the-settings", "the setting server.http_token")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigError):
        token_of("with a space", tmp_path)


# the address


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "memory.example", ""])
@pytest.mark.parametrize(
    ("token", "hosts", "missing"),
    [
        ("", "", "server.http_token and server.http_allowed_hosts"),
        ("explicit", "", "server.http_allowed_hosts"),
        ("explicit", " , ", "server.http_allowed_hosts"),
        ("", "memory.example", "server.http_token"),
    ],
)
def test_another_address_than_loopback_needs_a_token_and_hosts(host: str, token: str, hosts: str, missing: str) -> None:
    settings = ServerSettings(http_host=host, http_token=token, http_allowed_hosts=hosts)
    with pytest.raises(ConfigError) as caught:
        check_address(settings)
    assert caught.value.message.endswith(f"needs {missing}")
    assert "127.0.0.1" in caught.value.hint


def test_with_both_the_network_is_let_in_and_told(caplog: pytest.LogCaptureFixture) -> None:
    check_address(ServerSettings(http_host="0.0.0.0", http_token="explicit", http_allowed_hosts="memory.example"))
    assert "open to the network on 0.0.0.0, unencrypted" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_loopback_needs_nothing(host: str) -> None:
    check_address(ServerSettings(http_host=host))


def test_the_door_on_the_other_loopback_address_has_a_url_of_its_own(tmp_path: Path) -> None:
    try:
        bind("::1", 0).close()
    except ConfigError:
        pytest.skip("this machine has no ::1")
    with opened(tmp_path / "data", http_host="::1") as found:
        assert found.door.url == f"http://[::1]:{found.door.address[1]}/mcp"
        assert found.request("GET", "/health", {"Host": "[::1]"})[0] == 200


def test_a_port_that_is_taken_is_said_with_the_setting_that_moves_it(app: App, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        door = HttpDoor(build_server(app, ""), ServerSettings(http_port=port), tmp_path)
        with pytest.raises(AddressInUse) as caught:
            anyio.run(door.serve)
    assert str(caught.value) == f"UNAVAILABLE: port {port} of 127.0.0.1 is in use by another program. {caught.value.hint}"
    assert "server.http_port" in caught.value.hint


def test_an_address_that_is_none_is_said() -> None:
    with pytest.raises(ConfigError, match=r"server\.http_host"):
        bind("no such host.invalid", 0)
