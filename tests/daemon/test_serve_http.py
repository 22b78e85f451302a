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

from bench.place import Place
from tests.daemon.places import NO_INDEXES, look, needs_proc
from tests.waiting import PATIENCE, until

pytestmark = needs_proc
PLACES = NO_INDEXES


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
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)
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
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as plain,
            Client(streamable_http_client(f"{url}/mcp", http_client=plain)) as client,
        ):
            status = await client.call_tool("get_retrieval_status", {})
            assert isinstance(status.structured_content, dict)
            assert status.structured_content["project"] == "/some/project"
            return {tool.name for tool in (await client.list_tools()).tools}

    return asyncio.run(main())


def test_the_command_opens_a_door_that_needs_the_token_again_at_the_next_daemon_and_closes_it_when_it_ends(
    lasting: Place,
) -> None:
    process = serve(lasting, "--http", "--port", "0", "--json")
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
        assert lasting.status()["http"] == door["url"]
        # The next daemon opens it again.
        os.kill(int(look(lasting)["pid"]), signal.SIGKILL)
        door = told(process)
        assert ask(door["url"], "/health", token)[0] == 200
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
    until(lambda: look(lasting)["http"] == "")
    with pytest.raises(ConnectionRefusedError):
        ask(door["url"], "/health", token)


def test_another_address_than_loopback_is_refused_without_a_token_and_hosts(lasting: Place) -> None:
    done = lasting.run("serve", "--http", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 2
    assert "server.http_token" in done.stderr
    assert "server.http_allowed_hosts" in done.stderr
    assert lasting.run("serve", "--port", "1").returncode == 2


def test_many_requests_that_are_half_sent_do_not_stay(lasting: Place, request: pytest.FixtureRequest) -> None:
    serving = serve(lasting, "--transport", "streamable-http", "--port", "0", "--json")
    try:
        url = told(serving)["url"]
        address = (urlsplit(url).hostname, urlsplit(url).port)
        count = 200 if request.config.getoption("--slow") else 50
        slow = [socket.create_connection(address, timeout=PATIENCE) for _ in range(count)]
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
