"""The table of private methods over the daemon's parts."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.daemon.doors import Doors
from memory_mcp.daemon.rpc import Conversation, Execute, Method, Pipe
from memory_mcp.errors import StorageError
from memory_mcp.ingest.frames import unpack
from memory_mcp.server.service import Service

if TYPE_CHECKING:
    from memory_mcp.storage.values import Appended

#: Events of an import that are committed at once: some milliseconds of work that nobody notices.
_SLICE = 100
#: Where a packed draft has its time.
_TIME = 4
#: An import waits while more events than this are not in the tree yet.
_MOST_WAITING = 800
_TURN, _TURNS = 0.01, 10
#: How often a waiting import looks at how much is left (seconds).
_LOOK = 0.1


class Methods:
    """What each method does."""

    def __init__(
        self, service: Service, doors: Doors, execute: Execute, status: Callable[[], dict[str, Any]], stop: Callable[[str], None]
    ) -> None:
        self._doors = doors
        self._service = service
        self._host = service.host
        self._execute = execute
        self._status = status
        self._stop = stop

    def table(self) -> dict[str, Method]:
        """By name."""
        return {
            "daemon/status": self.status,
            "daemon/stop": self.stop,
            "cli/run": self.run,
            "import/append": self.append,
            "import/marks": self.marks,
            "import/mark": self.mark,
            "import/derive": self.derive,
            "hook/recall": self.recall,
            "http/open": self._doors.hold,
        }

    async def status(self, _: Conversation, __: Mapping[str, Any]) -> Mapping[str, Any]:
        """How the daemon is."""
        return await anyio.to_thread.run_sync(self._status)

    async def stop(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """End soon after this answer."""
        self._stop(str(params.get("reason", "asked to")))
        return {"pid": os.getpid(), "version": __version__}

    async def run(self, talk: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """A command line, its words going to the caller's terminal as they come."""
        argv = [str(word) for word in params["argv"]]
        encoding = str(params.get("encoding", "utf-8"))
        out = Pipe(talk, "out", bool(params.get("out_tty")), encoding)
        err = Pipe(talk, "err", bool(params.get("err_tty")), encoding)
        columns = int(params.get("columns", 0))

        def work(app: App) -> int:
            status = self._execute(app, argv, talk, out, err, columns, self._stop)
            out.flush()
            err.flush()
            return status

        return {"status": await self._host.read(work)}

    async def append(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Events of an import, read and cleaned by the caller's process; acknowledged by the answer."""
        source, rows = str(params["source"]), params["rows"]
        # A draft without a time gets it from the others of its batch, so such a batch is never taken apart.
        size = _SLICE if all(row[_TIME] is not None for row in rows) else max(len(rows), 1)
        self._service.filling()
        new: list[str] = []
        known: list[str] = []
        for start in range(0, len(rows), size):
            await self._give_way()
            part = rows[start : start + size]
            stored = await self._host.write(partial(_append, part, source))
            new += stored.new
            known += stored.known
        # The deriver keeps up with what is stored, so that few events are searched without the tree.
        while self._service.pending > _MOST_WAITING and self._service.deriving and not self._host.deriver_error():
            await anyio.sleep(_TURN)
        return {"new": new, "known": known}

    async def _give_way(self) -> None:
        """Whoever searches goes first, as long as that is no standstill."""
        for _ in range(_TURNS):
            if not self._host.calls:
                return
            await anyio.sleep(_TURN)

    async def marks(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """The high-water marks of an importer."""
        return {"marks": await self._host.read(lambda app: app.storage.outbox.marks(str(params["prefix"])))}

    async def mark(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """How far a file was read."""
        await self._host.write(lambda app: app.storage.outbox.mark(str(params["name"]), str(params["value"])))
        return {}

    async def derive(self, talk: Conversation, _: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait until everything stored is in the tree, telling how many events are left."""
        # Opens the store where it is not open yet.
        await self._host.write(lambda app: app)
        self._service.filled()
        before = -1
        while (left := self._service.pending) or self._service.deriving:
            if error := self._host.deriver_error():
                raise StorageError(f"filing what was stored failed: {error}", "It is stored; run: memory-mcp doctor")
            if left != before:
                await talk.tell({"left": left})
                before = left
            await anyio.sleep(_LOOK)
        return {"holdings": await self._host.read(lambda app: app.holdings())}

    async def recall(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the memory holds that fits a prompt well."""
        from memory_mcp.server.recall import recall_text

        prompt, project, session = (str(params.get(name, "")) for name in ("prompt", "project", "session_id"))
        return {"text": await self._host.read(lambda app: recall_text(app, prompt, project, session))}


def _append(rows: list[list[Any]], source: str, app: App) -> "Appended":
    return app.append(unpack(rows), source)
