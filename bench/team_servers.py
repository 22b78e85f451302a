"""Team servers as processes, what they and the database take, and callers that keep their connections."""

import http.client
import json
import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.place import PATIENCE, PROC, Place, anonymous, proportional

_VERSION = "2026-07-28"
_CLIENT = {"clientInfo": {"name": "bench", "version": "1"}, "clientCapabilities": {}, "protocolVersion": _VERSION}
_META = {f"io.modelcontextprotocol/{name}": value for name, value in _CLIENT.items()}
_TICKS = os.sysconf("SC_CLK_TCK")
#: No tenant of a bench is told to wait.
_LIMITS = ("CALLS_PER_MINUTE", "MEMBER_CALLS_PER_MINUTE", "SEARCHES_PER_MINUTE", "EVENTS_PER_DAY", "MEGABYTES_PER_DAY")


class Refused(Exception):
    """A call that the server did not answer as it should."""


class Caller:
    """One member of a tenant at one server, over one connection. Used by one thread."""

    def __init__(self, address: str, key: str) -> None:
        self._netloc, self._key = urlsplit(address).netloc, key
        self._connection: http.client.HTTPConnection | None = None

    def tool(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool."""
        params = {"name": name, "arguments": arguments, "_meta": _META}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        routing = {"MCP-Protocol-Version": _VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}
        status, body = self._post("/mcp", message, routing)
        if body.startswith((b"event:", b"data:", b":")):
            body = next(line[6:] for line in body.splitlines() if line.startswith(b"data: {"))
        answer = json.loads(body)
        result = answer.get("result")
        if status != 200 or result is None or result.get("isError"):
            raise Refused(f"{name}: {status} {str(answer)[:300]}")
        return dict(result["structuredContent"])

    def hook(self, payload: dict[str, Any], key: str) -> None:
        """Hand in a payload of Claude Code's hooks; committed when this returns."""
        status, body = self._post("/hooks/claude-code", payload, {"Idempotency-Key": key})
        if status not in (200, 202, 204):
            raise Refused(f"hook: {status} {body[:300]!r}")

    def _post(self, path: str, content: dict[str, Any], headers: dict[str, str]) -> tuple[int, bytes]:
        usual = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        known = {**usual, **headers, "Authorization": f"Bearer {self._key}"}
        for again in (True, False):
            if self._connection is None:
                self._connection = http.client.HTTPConnection(self._netloc, timeout=PATIENCE)
            try:
                self._connection.request("POST", path, json.dumps(content).encode(), known)
                answer = self._connection.getresponse()
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if not again:
                    raise
        raise AssertionError

    def close(self) -> None:
        """Let go of the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Server:
    """One process of `serve --http`, with a data directory of its own."""

    def __init__(self, root: Path, url: str, more: dict[str, str] | None = None) -> None:
        """Start it, and wait until it can be asked."""
        limits = {f"MEMORY_MCP_TEAM__LIMITS__LARGE__{name}": "0" for name in _LIMITS}
        engine = {"MEMORY_MCP_STORAGE__ENGINE": "postgres", "MEMORY_MCP_STORAGE__URL": url, "MEMORY_MCP_TEAM__AUTH": "keys"}
        self.place = Place(root, more=engine | limits | dict(more or {}))
        self.began = time.monotonic()
        self._log = (root / "stderr").open("w", encoding="utf-8")
        self._process = subprocess.Popen(
            [*self.place.command, "serve", "--http", "--port", "0", "--json"],
            env=self.place.environment(),
            cwd=self.place.home,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        lines: list[str] = []
        for line in self._process.stdout:
            lines.append(line)
            if line.startswith("}"):
                break
        self.url = str(json.loads("".join(lines))["url"])
        #: Seconds from its start until it could be asked.
        self.started = time.monotonic() - self.began

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def memory(self) -> tuple[int, int]:
        """Bytes that are its own, and its fair share with mapped files."""
        return anonymous(self.pid), proportional(self.pid)

    def cpu(self) -> float:
        """Processor seconds so far, of children that have ended as well."""
        return cpu_of(self.pid)

    def stop(self) -> None:
        """End it in order."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        if self._process.poll() is None:
            self._process.kill()
        self._log.close()


def cpu_of(pid: int) -> float:
    """Processor seconds of a process and its ended children; 0 when it is gone."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS


def cpu_of_database(postmaster: int) -> float:
    """Processor seconds of a database's processes, the ended ones among them."""
    total = cpu_of(postmaster)
    for path in PROC.glob("[0-9]*/stat"):
        with suppress(OSError, IndexError, ValueError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == postmaster:
                total += cpu_of(int(path.parent.name))
    return total
