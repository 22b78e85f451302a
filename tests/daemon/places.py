"""What the tests with real processes share: the setting that lets the background process be used, and a look at it."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, stdio_client

from bench.place import VISIBLE, Place
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.service.client import link
from tests.waiting import PATIENCE, UNHURRIED, until

DAEMON = {"MEMORY_MCP_SERVER__DAEMON": "true"} | UNHURRIED
#: For what no index has a part in: the daemon builds none.
NO_INDEXES = {"MEMORY_MCP_TELEPORT__ENABLED": "false", "MEMORY_MCP_TOPICS__ENABLED": "false"}

needs_proc = pytest.mark.skipif(not VISIBLE, reason="processes are looked at through /proc")


def look(place: Place) -> dict[str, Any]:
    """What the daemon says of itself; OSError when none runs."""
    return link.call_method(str(place.directory), "daemon/status", {}, PATIENCE)


def node_of(place: Place, grip: str) -> str:
    """Return the segment of a citation, as soon as its event is filed in the tree."""
    found: dict[str, Any] = {}

    def filed() -> bool:
        found.update(json.loads(place.ok("query", "expand-grip", grip, "--json"))["grip"])
        return "node_id" in found

    until(filed, f"for {grip} to be filed")
    return str(found["node_id"])


def said(project: str, text: str, hour: int) -> str:
    """A line for `ingest`: what a user said in the one session of a project."""
    stamp = f"2026-01-05T{hour:02d}:00:00Z"
    return json.dumps({"session_id": project, "timestamp": stamp, "role": "user", "text": text, "project": project}) + "\n"


@contextmanager
def copied(
    origin: Path, root: Path, more: Mapping[str, str] = DAEMON, idle: int = 600, kind: type[Place] = Place
) -> Iterator[Place]:
    """A place whose memory is a copy of one that nobody has open."""
    with kind(root, idle=idle, more=more) as made:
        shutil.copytree(origin, made.directory)
        yield made


def killed(place: Place, point: str, *words: str, stdin: str = "") -> None:
    """Run a command that is killed at a failpoint."""
    place.settings[VARIABLE] = point
    try:
        assert place.run(*words, stdin=stdin).returncode == -signal.SIGKILL
    finally:
        del place.settings[VARIABLE]


def typed(place: Place, key: str, *words: str) -> tuple[int, str]:
    """Exit status and output of a command at a terminal, where somebody answers its question so."""
    ours, theirs = os.openpty()
    command = [*place.command, *words]
    done = subprocess.Popen(command, stdin=theirs, stderr=theirs, stdout=subprocess.PIPE, env=place.environment(), cwd=place.home)
    try:
        os.close(theirs)
        os.write(ours, key.encode())
        out, _ = done.communicate(timeout=PATIENCE)
    finally:
        os.close(ours)
    return done.returncode, out.decode()


def call(place: Place, words: tuple[str, ...], more: dict[str, str], *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What a client that starts the server so is answered."""
    given = place.server(*words)
    given.env = {**(given.env or {}), **more}

    async def main() -> list[dict[str, Any]]:
        with anyio.fail_after(PATIENCE):
            async with Client(stdio_client(given)) as client:
                return [dict((await client.call_tool(n, a)).structured_content or {}) for n, a in calls]

    return anyio.run(main)
