"""A real process that serves the routes of a team's spaces over DuckDB, for tests: `python -m tests.team.sharing.server FOLDER`.

Keys are `NAME-ROLE`, such as `alice-writer`; an address begins with a team's name, whose spaces are the folders of FOLDER/TEAM.
It prints its port. What is to go wrong from now on is told by `/fail/HOW`: at a failpoint it is killed, and `cut` ends the
connection of the next batch behind its commit, before the answer.
"""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_mcp.app import App
from memory_mcp.base.failpoints import VARIABLE
from memory_mcp.config import Settings
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp_team.access.permissions import Grant, Principal, Role
from memory_mcp_team.server.routes import make_routes
from tests.ports import free_port
from tests.waiting import PATIENCE


class Door:
    """Who a key belongs to; and, once, an answer that never comes."""

    def __init__(self, app: ASGIApp) -> None:
        self._app, self._fault = app, ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"].startswith("/fail/"):
            self._fault = scope["path"].removeprefix("/fail/")
            os.environ |= {VARIABLE: self._fault} if self._fault != "cut" else {}
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        bearer = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        name, _, role = bearer.partition("-")
        if role not in {one.value for one in Role}:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"{}"})
            return
        # Nobody has a grant for the space `other` but its admin.
        seen = [(1, "team"), *([(2, "other")] if role == "admin" else [])]
        grants = tuple(Grant(space, named, "team" if space == 1 else "project", Role(role)) for space, named in seen)
        team, _, path = scope["path"].removeprefix("/").partition("/")
        scope["principal"] = Principal(int(team), "standard", 1, name, False, grants, Role.ADMIN)
        scope["path"] = f"/{path}"
        if self._fault == "cut" and scope["method"] == "POST":
            self._fault = ""

            async def swallow(_: Any) -> None:
                return None

            await self._app(scope, receive, swallow)
            # uvicorn would answer for an application that did not begin to.
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"99")]})
            await send({"type": "http.response.body", "body": b"{", "more_body": True})
            raise ConnectionError("cut behind the commit")
        await self._app(scope, receive, send)


def main(folder: Path) -> None:
    import uvicorn

    apps: dict[Path, App] = {}
    lock = threading.Lock()

    @contextmanager
    def lend(principal: Principal, grant: Grant, _: bool) -> Iterator[App]:
        place = folder / str(principal.tenant) / grant.name
        with lock:
            if place not in apps:
                storage = StorageSettings(data_dir=str(place), timezone="UTC")
                apps[place] = App(Settings(storage=storage, teleport=TeleportSettings(enabled=False)))
            yield apps[place]

    listening = socket.create_server(("127.0.0.1", int(os.environ["SHARE_TEST_PORT"])))
    sys.stdout.write(f"{listening.getsockname()[1]}\n")
    sys.stdout.flush()
    door = Door(Starlette(routes=make_routes(lend)))
    server = uvicorn.Server(uvicorn.Config(door, log_level="critical", lifespan="off"))
    asyncio.run(server.serve([listening]))


class Server:
    """The process; `url` is the address of a team there, the same after `start`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._port = folder, free_port()
        #: By number, from 1.
        self.team = 1
        #: Whether it runs, and nothing is to go wrong in it.
        self.is_sound = False
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        environ = {k: v for k, v in os.environ.items() if not k.startswith("MEMORY_MCP_")}
        environ |= {"SHARE_TEST_PORT": str(self._port), "MEMORY_MCP_TELEPORT__ENABLED": "false", "HOME": str(self.folder)}
        self.is_sound = True
        words = [sys.executable, "-m", "tests.team.sharing.server", str(self.folder)]
        self._process = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())

    def fail(self, how: str) -> None:
        """Let that go wrong at its next visit."""
        self.is_sound = False
        urllib.request.urlopen(f"http://127.0.0.1:{self._port}/fail/{how}").close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/{self.team}"

    def kill(self) -> None:
        self.is_sound = False
        if self._process is not None:
            self._process.kill()
            self.wait()

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait(PATIENCE)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None


if __name__ == "__main__":
    main(Path(sys.argv[1]))
