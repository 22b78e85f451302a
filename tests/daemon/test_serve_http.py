"""`serve --http` and `server.http` as the installed command does them: a door with a lock, gone with whoever opened it."""

import asyncio
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from bench.place import Place, wait_for
from tests.daemon.places import DAEMON, look, needs_proc
from tests.waiting import PATIENCE, until

pytestmark = needs_proc


def serve(place: Place, *words: str) -> "subprocess.Popen[str]":
    command = [*place.command, "serve", *words]
    return subprocess.Popen(
        command, env=place.environment(), cwd=place.home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """The first JSON answer of the command."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("}"):
            break
    answer: dict[str, Any] = json.loads("".join(lines))
    return answer


def ask(url: str, path: str, token: str = "") -> tuple[int, str]:
    place = urlsplit(url)
    assert place.hostname is not None
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def search(url: str, token: str) -> set[str]:
    async def main() -> set[str]:
        headers = {"Authorization": f"Bearer {token}", "Memory-Project": "/some/project"}
        async with (
            asyncio.timeout(PATIENCE),
            httpx2.AsyncClient(headers=headers, timeout=30) as plain,
            Client(streamable_http_client(f"{url}/mcp", http_client=plain)) as client,
        ):
            status = await client.call_tool("get_retrieval_status", {})
            assert isinstance(status.structured_content, dict)
            assert status.structured_content["project"] == "/some/project"
            return {tool.name for tool in (await client.list_tools()).tools}

    return asyncio.run(main())


def test_the_command_opens_a_door_that_needs_the_token_and_closes_it_when_it_ends(place: Place) -> None:
    process = serve(place, "--http", "--port", "0", "--json")
    try:
        door = told(process)
        token = Path(door["token_file"]).read_text().strip()
        assert Path(door["token_file"]).stat().st_mode & 0o777 == 0o600
        for path in ("/mcp", "/health", "/metrics", "/nothing"):
            assert ask(door["url"], path)[0] == 401
            assert token not in ask(door["url"], path)[1]
        assert json.loads(ask(door["url"], "/health", token)[1])["status"] == "ok"
        assert "agentic_search_latency_seconds" in ask(door["url"], "/metrics", token)[1]
        assert "intelligent_search" in search(door["url"], token)
        assert place.status()["http"] == door["url"]
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    until(lambda: look(place)["http"] == "")
    with pytest.raises(ConnectionRefusedError):
        ask(door["url"], "/health", token)


def test_the_door_is_opened_again_by_the_next_daemon(place: Place) -> None:
    process = serve(place, "--transport", "streamable-http", "--port", "0", "--json")
    try:
        first = told(process)
        token = Path(first["token_file"]).read_text().strip()
        os.kill(int(look(place)["pid"]), signal.SIGKILL)
        second = told(process)
        assert ask(second["url"], "/health", token)[0] == 200
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)


def test_by_the_settings_the_door_is_open_and_the_daemon_stays_for_it(tmp_path: Path) -> None:
    own = {
        **DAEMON,
        "MEMORY_MCP_SERVER__HTTP": "true",
        "MEMORY_MCP_SERVER__HTTP_PORT": "0",
        "MEMORY_MCP_SERVER__HTTP_TOKEN": "t" * 40,
    }
    with Place(tmp_path, idle=1, more=own) as place:
        place.ok("daemon", "start")
        until(lambda: bool(place.status()["http"]))
        url = place.status()["http"]
        pid = place.status()["pid"]
        assert ask(url, "/health", "t" * 40)[0] == 200
        assert not wait_for(lambda: place.processes() == {}, 3)
        assert place.status()["pid"] == pid
        assert not (place.directory / "token").exists()


def test_another_address_than_loopback_is_refused_without_a_token_and_hosts(place: Place) -> None:
    done = place.run("serve", "--http", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "server.http_token" in done.stderr
    assert "server.http_allowed_hosts" in done.stderr
    assert place.run("serve", "--port", "1").returncode == 2


def test_two_hundred_requests_that_are_half_sent_do_not_stay(place: Place) -> None:
    serving = serve(place, "--http", "--port", "0", "--json")
    try:
        url = told(serving)["url"]
        address = (urlsplit(url).hostname, urlsplit(url).port)
        slow = [socket.create_connection(address, timeout=PATIENCE) for _ in range(200)]
        for number, one in enumerate(slow):
            one.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"a" * (number % 3))
        assert ask(url, "/health")[0] in (200, 401), "it goes on answering"
        for one in slow:
            with contextlib.suppress(ConnectionError):
                # What comes meanwhile does not give it more time.
                one.sendall(b"b")
                assert one.recv(100) == b""
            one.close()
        assert ask(url, "/health")[0] in (200, 401)
    finally:
        serving.send_signal(signal.SIGTERM)
        serving.communicate(timeout=PATIENCE)
