"""Calls over HTTP to a server process as plain requests: a client that does what no library's client would."""

import http.client
import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bench.place import Place
from tests.daemon.test_serve_http import serve, told
from tests.waiting import PATIENCE, until

MODERN = "2026-07-28"
_IDS = itertools.count(1)


@dataclass
class Caller:
    """Somebody with the token, in a session of the older revision or, without one, in the newest."""

    url: str
    token: str
    project: str = ""
    session: str = ""
    #: Headers beside the usual ones.
    more: dict[str, str] = field(default_factory=dict)

    def headers(self) -> dict[str, str]:
        own = {"Memory-Project": self.project} if self.project else {}
        session = {"Mcp-Session-Id": self.session} if self.session else {}
        usual = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        return {"Authorization": f"Bearer {self.token}", **usual, **own, **session, **self.more}

    def send(self, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request; of a stream of events, as much as comes until it ends."""
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            connection.request(method, path, body, self.headers() | {k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """What a request of the protocol is answered: its result, or {"error": ...}."""
        if not self.session:
            client = {"clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}, "protocolVersion": MODERN}
            params = {**params, "_meta": {f"io.modelcontextprotocol/{name}": value for name, value in client.items()}}
        message = {"jsonrpc": "2.0", "id": next(_IDS), "method": method, "params": params}
        status, headers, body = self.send("POST", "/mcp", json.dumps(message).encode(), **self._routing(method, params))
        if headers["content-type"].startswith("text/event-stream"):
            [body] = [line[6:] for line in body.splitlines() if line.startswith(b"data: {")]
        found = json.loads(body)
        assert status == 200 or "error" in found, (status, body)
        return dict(found["result"]) if "result" in found else {"error": found["error"], "status": status}

    def _routing(self, method: str, params: dict[str, Any]) -> dict[str, str]:
        """The headers by which the newest revision says what a body asks for."""
        if self.session:
            return {}
        name = params.get("name", params.get("uri"))
        named = {"Mcp_Name": str(name)} if method in ("tools/call", "prompts/get", "resources/read") else {}
        return {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **named}

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The result of a tool."""
        return self.ask("tools/call", name=name, arguments=arguments)

    def ok(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured answer of a tool that succeeds."""
        result = self.call(name, **arguments)
        assert result.get("isError") is False, result
        return dict(result["structuredContent"])

    def error(self, name: str, /, **arguments: Any) -> str:
        """The text of a tool that fails."""
        result = self.call(name, **arguments)
        assert result.get("isError"), result
        return str(result["content"][0]["text"])

    def node_of(self, grip: str) -> str:
        """Return the segment of a citation, as soon as its event is filed in the tree."""
        found: dict[str, Any] = {}

        def filed() -> bool:
            found.update(self.ok("expand_grip", grip_id=grip)["grip"])
            return "node_id" in found

        until(filed, f"for {grip} to be filed")
        return str(found["node_id"])

    def begin(self) -> "Caller":
        """A session of the older revision, for the same project."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        status, headers, body = self.send("POST", "/mcp", json.dumps(message).encode())
        assert status == 200, body
        begun = Caller(self.url, self.token, self.project, headers["mcp-session-id"])
        assert begun.send("POST", "/mcp", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')[0] == 202
        return begun


@contextmanager
def served(place: Place) -> Iterator[Caller]:
    """`serve --http` of a place, as the installed command, until the end of the block."""
    process = serve(place, "--http", "--port", "0", "--json")
    try:
        door = told(process)
        yield Caller(door["url"], Path(door["token_file"]).read_text().strip())
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE)
