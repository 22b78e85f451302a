"""Runs the daemon: takes the lock, listens, serves and ends.

Invariants
1. It holds the directory's lock before it listens and until the store is closed: there are never two.
2. It listens before it loads or opens anything, so that early callers wait for an answer instead of connecting again.
3. It ends within three seconds of a request to end; what was acknowledged is committed, the rest is derived later.
"""

import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp import __version__
from memory_mcp.base import metrics, paths
from memory_mcp.base.children import few_collections, kill_all
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.service.client import door
from memory_mcp.service.client.handing import METHOD
from memory_mcp.service.daemon import log as logs
from memory_mcp.service.daemon.clients import Client, Clients
from memory_mcp.service.daemon.process_memory import limit_free_memory, resident_bytes
from memory_mcp.storage.highwater import is_damage_noted
from memory_mcp.storage.lock import DAEMON, DirectoryLock, read_owner

if TYPE_CHECKING:
    from anyio.abc import SocketStream, TaskGroup

    from memory_mcp.app import App
    from memory_mcp.server.guard import MemoryServer
    from memory_mcp.service.daemon.http import HttpDoor
    from memory_mcp.service.daemon.protocol import HandshakeRecorder
    from memory_mcp.service.daemon.rpc import Execute, Lines
    from memory_mcp.web.asking import Pulse

log = logging.getLogger(__name__)

#: What callers are told whose memory was taken away under their connection.
DISPLACED = (
    "the memory that was here is missing: {} was moved or deleted while clients were connected, and this is a new, empty one. "
    "To get it back, stop the daemon (memory-mcp daemon stop), move the new directory away and put the other one in its place, "
    "or restore a backup"
)
#: A daemon that is ending is waited for (seconds): it takes three at most.
_SUCCESSION = 5.0
#: Ending takes at most so long, whatever hangs (seconds).
_END = 2.7
#: The interpreter hands its lock on after so long (seconds): a call beside bulk work waits this often, not five times it.
_SWITCH = 0.0005
#: How often it is looked whether the directory is still there and anybody needs this process (seconds): seldom, and more
#: often as the end of the idle time is near.
_LOOK, _LOOK_NEAR = 3.0, 0.5
#: An answer that is being written when the daemon is asked to end still goes out (seconds).
_LAST_WORDS = 0.1


def run_daemon(settings: Settings, start_settings: Mapping[str, str], fingerprint: str, execute: "Execute") -> int:
    """Run a data directory's daemon until its end; return 0.

    The end is asked for, or idleness. It locks the directory, listens, logs to a file and changes the working directory of this
    process. Where a daemon owns the directory, it is waited for `_SUCCESSION` seconds. `start_settings` are the settings of the
    start as callers spell theirs, to compare with them; `fingerprint` is what `handshake.compute_fingerprint` gave then;
    `execute` runs a command line on the open App. Raises StorageLocked where another process owns the directory, OSError where
    there is no way to listen.
    """
    directory = settings.storage.directory.absolute()
    wait = _SUCCESSION if read_owner(directory).get("kind") == DAEMON else 0.0
    lock = DirectoryLock(directory, wait, DAEMON)

    limit_free_memory()
    # DuckDB makes its log with whatever mode is left; nothing of this process is for others.
    os.umask(0o077)
    listener, secret = door.listen(str(directory), settings.server.socket)
    logs.begin_logging(paths.log_file(str(directory)), redirect=not sys.stderr.isatty())
    os.chdir(directory)
    sys.setswitchinterval(_SWITCH)
    log.info("memory-mcp %s listens", __version__)
    try:
        with few_collections():
            import anyio

            daemon = _Daemon(settings, start_settings, fingerprint, execute, lock, listener, secret)
        anyio.run(daemon.run)
    finally:
        lock.release()
        log.info("ended")
    return 0


class _Daemon:
    """The parts of the daemon, which share one event loop."""

    #: What callers are told whose memory was taken away; "" where none was.
    _displaced = ""
    #: Made for the first MCP client.
    _server: "MemoryServer | None" = None
    _recorder: "HandshakeRecorder | None" = None

    def __init__(
        self,
        settings: Settings,
        start_settings: Mapping[str, str],
        fingerprint: str,
        execute: "Execute",
        lock: DirectoryLock,
        listener: socket.socket,
        secret: str,
    ) -> None:
        import anyio

        from memory_mcp.server.service import Service
        from memory_mcp.service.daemon.doors import Doors
        from memory_mcp.service.daemon.intake import Intake
        from memory_mcp.service.daemon.methods import Methods
        from memory_mcp.service.daemon.rpc import Private
        from memory_mcp.service.daemon.settings import ActiveSettings
        from memory_mcp.service.daemon.socket import SocketDoor

        self._settings = settings
        self._lock = lock
        self._directory = str(lock.directory)
        self._listener = listener
        self._began = time.monotonic()
        self._ending = anyio.Event()
        self._why = ""
        self._service = Service(settings, lock, self._prepare_app)
        self._clients = Clients()
        metrics.provide("daemon_clients", lambda: {"": float(len(self._clients))})
        self._assembling = threading.Lock()
        self._fingerprint = fingerprint
        self._doors = Doors(settings.server, self._http_door, paths.token_file(self._directory))
        methods = Methods(self._service, self._doors, execute, self.status, self.stop)
        self._intake = Intake(paths.spool_dir(self._directory))
        self._active = ActiveSettings(lambda: self._service.settings, start_settings)
        private = Private({**methods.table(), METHOD: self._intake.keep_payload}).serve
        project = settings.server.project
        self._door = SocketDoor(self._speak, self._clients, private, self._greet_caller, project, secret)
        self._identity = paths.identity(self._directory) if lock.is_new else []

    def _greet_caller(self, hello: Mapping[str, Any]) -> dict[str, str]:
        """Return what differs for a caller, as `ActiveSettings.compare_caller`.

        Note where it was connected to a memory that is gone. That is where the store was made by this process and the caller
        comes from another directory of the same path.
        """
        if self._identity and hello.get("directory") not in (None, [], self._identity):
            self._displaced = DISPLACED.format(self._directory)
            if (app := self._service.host.opened) is not None:
                app.displaced = self._displaced
        return self._active.compare_caller(hello)

    def _prepare_app(self, app: "App") -> None:
        app.settings_file, app.displaced = self._active.file, self._displaced
        metrics.start()
        # What was loaded stays: looking through it again and again held every call up.
        gc.freeze()

    async def run(self) -> None:
        """Serve until `stop`, then close everything in order."""
        import anyio

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep_listening, tasks)
            tasks.start_soon(self._end_on_signal)
            tasks.start_soon(self._end_when_idle)
            self._service.host.start()
            self._doors.tasks = tasks
            if self._doors.lasting:
                tasks.start_soon(self._open_http)
            await self._ending.wait()
            log.info("ending: %s", self._why)
            threading.Thread(target=_give_up, name="end", daemon=True).start()
            with suppress(OSError):
                door.remove_address(self._directory)
            await anyio.sleep(_LAST_WORDS)
            tasks.cancel_scope.cancel()
        await anyio.to_thread.run_sync(self._service.close)

    async def _keep_listening(self, tasks: "TaskGroup") -> None:
        """Accept connections until cancelled.

        Listen at a new address file when the old one was removed or replaced. No other process can take over: a second daemon is
        refused while this one holds the store's lock. It looks every `_LOOK` seconds; that it cannot listen is logged once, and
        it tries again.
        """
        import anyio

        tasks.start_soon(self._door.serve, self._listener)
        door_stamp, is_logged = door.address_stamp(self._directory), False
        while True:
            await anyio.sleep(_LOOK)
            if (
                (door_stamp is not None and door.address_stamp(self._directory) == door_stamp)
                or self._ending.is_set()
                or not self._lock.is_in_place
            ):
                continue
            try:
                listener, self._door.secret = door.listen(self._directory, self._settings.server.socket)
            except OSError as error:
                if not is_logged:
                    log.warning("nobody finds this process: %s", error)
                door_stamp, is_logged = None, True
                continue
            log.warning("the file by which this process is found was taken away or replaced; it listens at a new one")
            door_stamp, is_logged = door.address_stamp(self._directory), False
            tasks.start_soon(self._door.serve, listener)

    def _assemble_server(self) -> "MemoryServer":
        """Return the MCP server, made for the first MCP client."""
        with self._assembling:
            if self._server is None:
                with few_collections():
                    from memory_mcp.server.sdk import load_sdk

                    load_sdk()
                    from memory_mcp.server.build import assemble

                    self._server = assemble(self._service.host)
                gc.freeze()
            return self._server

    async def _speak(self, stream: "SocketStream", lines: "Lines", client: Client) -> None:
        import anyio

        from memory_mcp.server.calls import make_kit
        from memory_mcp.service.daemon.protocol import HandshakeRecorder, speak

        if self._recorder is None:
            self._recorder = HandshakeRecorder(self._settings, self._directory, self._fingerprint)
        load_server = partial(anyio.to_thread.run_sync, self._assemble_server)
        await speak(make_kit(self._service.host), load_server, stream, lines, client, self._recorder)

    def stop(self, why: str) -> None:
        """Begin to end and return at once.

        Call it in the event loop's thread. The first reason that is not "" is logged.
        """
        self._why = self._why or why
        self._ending.set()

    async def _end_on_signal(self) -> None:
        from memory_mcp.server.ending import signals_of_end

        with signals_of_end() as received:
            async for number in received:
                self.stop(f"signal {signal.Signals(number).name}")

    async def _end_when_idle(self) -> None:
        """Look every few seconds whether to end, and begin that.

        It ends when nobody has used it for long and no work is left, its settings changed, or the store is
        damaged. Where the data directory was taken away the process ends at once with status 1, closing
        nothing. It also closes an unused door, and saves a store anew whose file was deleted.
        """
        import anyio

        while True:
            idle_left_s = self._settings.server.idle_exit_secs - self._idle_s()
            await anyio.sleep(min(_LOOK, max(_LOOK_NEAR, idle_left_s)))
            if not self._lock.is_in_place:
                # Closing would write into what may be another daemon's directory by now.
                log.critical("the data directory was taken away; ended without closing it")
                logging.shutdown()
                os._exit(1)
            self._doors.close_unvisited(self._settings.server.idle_exit_secs)
            # Clients take the next daemon with their next call; those of the HTTP door cannot start one.
            under_way = self._service.host.calls or self._doors.url or self._clients.commands() or self._list_work()
            if not under_way and self._active.compare_file().changed:
                self.stop("the settings file changed")
            if self._service.host.opened is not None and is_damage_noted(self._lock.directory):
                self.stop("the store is damaged; the next start saves what is whole")
            if (app := self._service.host.opened) is not None:
                await anyio.to_thread.run_sync(_save_anew, app)
            if self._idle_s() >= self._settings.server.idle_exit_secs and not self._list_work():
                await anyio.to_thread.run_sync(self._service.tidy)
                if self._idle_s() >= self._settings.server.idle_exit_secs:
                    self.stop(f"idle for {self._settings.server.idle_exit_secs} s")

    def _idle_s(self) -> float:
        """Return the seconds since the last client or page."""
        visited = self._doors.visits.idle_s()
        return self._clients.idle_s() if visited is None else min(self._clients.idle_s(), visited)

    def _http_door(self, settings: ServerSettings) -> "HttpDoor":
        """Return a door for the settings, not bound yet.

        Raises ConfigError where the address or the token cannot be used.
        """
        import anyio

        from memory_mcp.service.daemon.gauges import exposition
        from memory_mcp.service.daemon.http import HttpDoor
        from memory_mcp.web.asking import Memory

        pages = (Memory(self._service.host, partial(anyio.to_thread.run_sync, self.status), self._read_pulse), self._doors.visits)
        return HttpDoor(
            self._assemble_server(),
            settings,
            Path(self._directory),
            lambda: {"clients": len(self._clients), "events_to_file": self._service.pending},
            lambda: exposition(self._service.host.app()),
            self._take_hook,
            pages=pages,
        )

    async def _open_http(self) -> None:
        try:
            await self._doors.open(self._settings.server)
        except MemoryMcpError as error:
            log.error("HTTP is off: %s", error)  # noqa: TRY400 - the text says it all

    def _read_pulse(self) -> "Pulse":
        from memory_mcp.web.asking import Pulse

        app = self._service.host.opened
        return Pulse() if app is None else Pulse(app.storage.events.last_seq(), app.storage.toc.current_version())

    def _take_hook(self, client: str, payload: bytes) -> None:
        """Spool a payload that came over HTTP; counts as use.

        Raises OSError when it cannot be kept.
        """
        self._clients.touch()
        self._intake.take_payload(client, payload)

    def _list_work(self) -> list[str]:
        """Return, in words, the unfinished work that keeps this running."""
        if self._doors.lasting:
            return ["serves HTTP by its settings"]
        app = self._service.host.opened
        if app is None:
            return []
        looked_at = {
            "files events": self._service.pending or self._service.deriving,
            "brings an index up to date": self._service.indexing,
            "runs a job, or is about to": app.scheduler.due_soon(),
        }
        return [work for work, under_way in looked_at.items() if under_way]

    def status(self) -> dict[str, Any]:
        """Return what `daemon status` shows, always with all keys.

        `clients` and `commands` are lists as in `Clients`, `queues` holds counts, `stays_for` words as `_work`,
        `settings_changed` names. "" for nothing: `settings_unusable`, `http` (URL), `missing`, `last_error`.
        """
        from memory_mcp.search.policy.path import at_work
        from memory_mcp.service.daemon.gauges import count_spooled

        host, waiting = self._service.host, count_spooled(self._directory)
        queues = {"events_to_file": self._service.pending, "spool": waiting, "calls": host.calls, "searches": at_work()}
        return {
            "running": True,
            "pid": os.getpid(),
            "version": __version__,
            "uptime_s": round(time.monotonic() - self._began, 1),
            "rss_bytes": resident_bytes(),
            "clients": self._clients.shapes(),
            "served": self._clients.served,
            "commands": self._clients.commands(),
            "idle_exit_s": self._settings.server.idle_exit_secs,
            "stays_for": self._list_work(),
            "queues": queues,
            "deriving": self._service.deriving,
            "indexing": self._service.indexing,
            "settings_changed": list(self._active.compare_file().changed),
            "settings_unusable": self._active.compare_file().unusable,
            "http": self._doors.url,
            "http_connections": self._doors.connections,
            "missing": paths.loss_told(self._directory),
            "last_error": logs.last_error.text or host.deriver_error(),
            "data_dir": self._directory,
            "log": paths.log_file(self._directory),
        }


def _give_up() -> None:
    """Wait `_END` seconds, then end this process and its children."""
    time.sleep(_END)
    log.warning("ended without waiting any longer; the next start goes on from what is committed")
    kill_all()
    os._exit(0)


def _save_anew(app: "App") -> None:
    try:
        app.storage.rewrite_deleted_file()
    except Exception:
        log.exception("the database file was deleted and cannot be written anew; make a backup before this process ends")
