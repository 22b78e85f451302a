"""The private methods of the daemon, which this program's commands and hooks call.

Change here: add a private method.
"""

import binascii
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from memory_mcp import __version__
from memory_mcp.app import App
from memory_mcp.base import paths
from memory_mcp.base.errors import StorageError
from memory_mcp.capture import handover
from memory_mcp.server.service import Awaited, Service
from memory_mcp.service.client.handing import CONFIRMS, HINT, HINT_METHOD, HINT_TIME, READ_METHOD
from memory_mcp.service.daemon.doors import Doors
from memory_mcp.service.daemon.rpc import Conversation, Execute, Method, Pipe

if TYPE_CHECKING:
    from memory_mcp.server.hinting import HintGiver

#: An import waits while more events than this are not in the tree yet: as many as are searched beside it.
_MOST_WAITING = 2000
#: How often it is looked whether the tree has more of what is stored (seconds).
_TURN = 0.01
#: Hooks that are answered at once; threads of their own, since those for all else may be at work for long.
_HINTS_AT_ONCE = 2
#: Functions of `requests` that exports, merges and setups call, by module, which the first of them loads.
_CARRIED: Mapping[str, Sequence[str]] = {
    "carrying": ("page", "day"),
    "merging": ("known", "rules", "records"),
    "portable": ("contents", "periods", "stretch"),
    "first_questions": ("questions",),
}
#: How often a waiting import looks at how much is left (seconds).
_LOOK = 0.1


class Methods:
    """The private methods of the daemon.

    Each takes the caller's conversation and the parameters, and returns the result as JSON values.
    """

    def __init__(
        self, service: Service, doors: Doors, execute: Execute, status: Callable[[], dict[str, Any]], stop: Callable[[str], None]
    ) -> None:
        """Make the methods of one memory."""
        self._doors = doors
        self._service = service
        self._host = service.host
        self._execute = execute
        self._status = status
        self._stop = stop
        self._hints: HintGiver | None = None
        self._hint_limiter = anyio.CapacityLimiter(_HINTS_AT_ONCE)
        self._spool = Path(paths.spool_dir(str(service.host.settings.storage.directory)))

    def table(self) -> dict[str, Method]:
        """Return every method by the name that callers send."""
        return {
            "daemon/status": self.status,
            "daemon/stop": self.stop,
            "cli/run": self.run,
            "memory/sources": self.list_sources,
            "import/marks": self.read_marks,
            "import/store": self.store_file,
            "import/finish": self.finish_import,
            **{f"carry/{name}": partial(self.carry, module, name) for module, names in _CARRIED.items() for name in names},
            "hook/recall": self.recall,
            HINT_METHOD: self.hint,
            READ_METHOD: self.note_read,
            "http/open": self._doors.hold,
            "pages/open": self._doors.visit,
        }

    async def status(self, _: Conversation, __: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what `daemon status` shows, made in a thread."""
        return await anyio.to_thread.run_sync(self._status)

    async def stop(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """End the daemon soon after this answer.

        Returns its `pid` and `version`. The parameter `reason` is logged.
        """
        self._stop(str(params.get("reason", "asked to")))
        return {"pid": os.getpid(), "version": __version__}

    async def run(self, talk: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Run a command line in a thread, its output streamed.

        Return its exit status as `status`. It is cancelled as a reading call when the caller disconnects. Parameters:
        argv (required), encoding, out_tty, err_tty, columns, plain, confirmed.
        """
        argv = [str(word) for word in params["argv"]]
        encoding = str(params.get("encoding", "utf-8"))
        out = Pipe(talk, "out", bool(params.get("out_tty")), encoding)
        err = Pipe(talk, "err", bool(params.get("err_tty")), encoding)
        look = (int(params.get("columns", 0)), bool(params.get("plain")), bool(params.get("confirmed")))

        def work(app: App) -> int:
            status = self._execute(app, argv, talk, out, err, look, self._stop)
            out.flush()
            err.flush()
            return status

        return {"status": await self._host.read(work)}

    async def store_file(self, talk: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store a file of cleaned events.

        Return how many were `new` and how many `known` already. The parameter `name` is the file's name in the spool's folder of
        imports. It is stored in slices, each when searches have had their turn and few events wait for the tree, then the
        positions of its importer. Raises what `handover.slices` raises for a wrong name or file; slices stored before that stay.
        """
        # An import lasts as long as its connection; what can wait, waits.
        if self._service.import_goes_on(id(talk)):
            talk.at_end.append(partial(self._service.import_ended, id(talk)))
        source, slices = await anyio.to_thread.run_sync(handover.read_slices, self._spool, str(params["name"]))
        new_count = known_count = 0
        marks: dict[str, str] = {}
        while (piece := await anyio.to_thread.run_sync(next, slices, None)) is not None:
            await self._give_way()
            # The deriver keeps up with what is stored, so that few events are searched without the tree.
            while self._service.pending > _MOST_WAITING and self._service.deriving and not self._host.deriver_error():
                await anyio.sleep(_TURN)
            stored = await self._host.write(partial(App.append, drafts=piece.drafts, source=source))
            self._service.note_import(id(talk))
            new_count, known_count = new_count + len(stored.new_ids), known_count + len(stored.known_ids)
            marks |= piece.marks
        if marks:
            # Behind everything of the file: a mark that is missing after a crash costs reading, one too many would lose.
            await self._host.write(lambda app: app.storage.outbox.set_positions(marks))
        return {"new": new_count, "known": known_count}

    async def _give_way(self) -> None:
        """Wait for the searches that run now, see `Host.give_way`."""
        if self._host.calls:
            await anyio.to_thread.run_sync(self._host.give_way)

    async def list_sources(self, _: Conversation, __: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return {"sources": names} of all stored events."""
        return {"sources": list(await self._host.look(lambda app: app.storage.latest_times()))}

    async def read_marks(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return {"marks": {name: position}} of importers by `prefix`."""
        return {"marks": await self._host.look(lambda app: app.storage.outbox.get_positions(str(params["prefix"])))}

    async def finish_import(self, talk: Conversation, _: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait until all that is stored is indexed and on disk.

        Return `holdings`, see `App.holdings`. The caller gets a message with each change: `events_left` (events), `indexed` and
        `to_index` (documents). It also ends the caller's import. Raises StorageError when filing fails twice; what was stored
        stays.
        """
        # Opens the store where it is not open yet.
        awaited = Awaited(await self._host.write(lambda app: app.storage.events.last_seq()))
        self._service.import_ended(id(talk))
        last_counts: tuple[int, int, int] | None = None
        while True:
            now = self._service.upkeep(awaited)
            if now is None:
                break
            if error := self._service.failure(awaited):
                raise StorageError(f"filing what was stored failed: {error}", "It is stored; run: memory-mcp doctor")
            if now != last_counts:
                events_left, indexed, to_index = last_counts = now
                await talk.tell({"left": events_left, "indexed": indexed, "to_index": to_index})
            await anyio.sleep(_LOOK)
        # A small import may be in memory alone: it is on disk before the command ends.
        await self._host.write(lambda app: app.accelerators.commit())
        return {"holdings": await self._host.read(lambda app: app.holdings())}

    async def carry(self, module: str, name: str, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the result of a function of an export or merge.

        Waits first for the searches that run; what the function raises passes.
        """

        def work(app: App) -> Mapping[str, Any]:
            response: Mapping[str, Any] = getattr(import_module(f"memory_mcp.requests.{module}"), name)(app, params)
            return response

        await self._give_way()
        return await self._host.read(work)

    async def recall(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return in `text` fenced quotations that fit a prompt.

        For a model; "" for none. What is missing of the memory comes first, also where nothing fits. Parameters: prompt,
        project, session_id.
        """
        from memory_mcp.server.recall import recall_text

        prompt, project, session = (str(params.get(name, "")) for name in ("prompt", "project", "session_id"))
        return {"text": await self._host.read(lambda app: recall_text(app, prompt, project, session))}

    async def note_read(self, talk: Conversation, _: Mapping[str, Any]) -> Mapping[str, Any]:
        """Note that the caller has read the hint that it was sent."""
        talk.has_read = True
        return {}

    async def hint(self, talk: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return in `output`, in base 64, what a hook prints of a call; "" for silence.

        Nothing is opened or derived for it. Parameters: client, the `payload` in base 64, in `told` project_dir and cwd, and
        `confirms`: whether the caller says when it has read a hint, which counts as given only then.
        """
        deadline = time.monotonic() + HINT_TIME
        from memory_mcp.server.hinting import HintGiver

        if (app := self._host.opened) is None:
            return {HINT: ""}
        self._hints = self._hints or HintGiver()
        payload, told = binascii.a2b_base64(str(params["payload"])), params.get("told")
        fields = told if isinstance(told, dict) else {}
        answer = partial(self._hints.answer_hook, app, str(params["client"]), payload, fields, deadline)
        output, pending = await anyio.to_thread.run_sync(answer, limiter=self._hint_limiter)
        if pending is not None:
            talk.on_sent.append(pending.confirm_sent)
            must_confirm = bool(params.get(CONFIRMS))
            talk.at_end.append(partial(pending.settle, lambda: talk.has_read if must_confirm else not talk.lines.is_reset))
        return {HINT: binascii.b2a_base64(output.encode(), newline=False).decode("ascii")}
