"""A team server from its start to its end: many tenants and spaces over one database, with only their indexes on its own disk.

Invariants
1. What it acknowledged is committed; killed at any moment it loses nothing, and others finish its work.
2. Asked to end, it says that it is not ready, takes no more calls, lets those under way finish, and leaves its work to others.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from memory_mcp.app import App, Callbacks
from memory_mcp.base import metrics
from memory_mcp.base.children import few_collections
from memory_mcp.base.errors import ConfigError
from memory_mcp.capture import sources
from memory_mcp.config import Settings
from memory_mcp.model.event import EventDraft
from memory_mcp.server.build import assemble
from memory_mcp.server.ending import signals_of_end
from memory_mcp.service.daemon.http import MAX_BODY, Uvicorn, bind, hosts_of
from memory_mcp.service.daemon.routes import Connection
from memory_mcp.service.daemon.security import LOOPBACK, Rules
from memory_mcp.service.daemon.security import Guard as HostGuard
from memory_mcp.storage.lock import DirectoryLock
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.directory import Directory
from memory_mcp_team.access.quotas import SEARCHES, Quotas
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.postgres.store import PostgresStorage
from memory_mcp_team.postgres.work import WorkTable
from memory_mcp_team.server import routes
from memory_mcp_team.server.authentication import AuthenticationLayer, Authenticator
from memory_mcp_team.server.follow import Follower
from memory_mcp_team.server.host import CALL, Replica, TeamHost, check_tool, get_call
from memory_mcp_team.server.intake import Intake, Payload, PayloadResult
from memory_mcp_team.server.open_memories import MEGABYTE, MemoryKey, OpenLimits, OpenMemories
from memory_mcp_team.server.routes import Handlers, HealthLayer, make_application, name_route
from memory_mcp_team.server.tools import make_space_tools
from memory_mcp_team.server.worker import Workers
from memory_mcp_team.settings import team_settings
from memory_mcp_team.sharing.wire import MAX_BODY as MAX_BATCH

log = logging.getLogger(__name__)

#: What a data directory is locked as.
KIND = "team"
#: Threads that keep the indexes of open memories.
_MAINTAINERS = 2
#: How long ending may take beyond the calls under way (seconds).
_END = 10.0
#: The interpreter hands its lock on after so long (seconds).
_SWITCH = 0.0005

#: What this server counts, times and states in addition to what every process does.
_COUNTERS: metrics.Metrics = {
    "team_requests_total": ("Requests to a team server by the caller's class of tenant and status.", ("tenant_class", "status")),
    "team_work_total": ("Work that a team server did for spaces, by kind: ok or failed.", ("work", "outcome")),
}
_HISTOGRAMS: metrics.Metrics = {
    "team_request_seconds": ("Requests to a team server by the caller's class of tenant.", ("tenant_class",)),
    "team_work_seconds": ("Work that a team server did for spaces, by kind.", ("work",)),
}
_GAUGES: metrics.Gauges = {
    "team_calls": ("Calls that a team server answers now.", ""),
    "team_database_connections": ("Connections of a team server to the database: open, idle, and callers who wait.", "state"),
    "team_disk_bytes": ("Disk that the indexes of a team server take, as measured last.", ""),
    "team_memory_bytes": ("Memory that open spaces of a team server take, as estimated.", ""),
    "team_spaces": ("Spaces of a team server: open now, opened and closed since it began.", "state"),
    "team_work_waiting": ("Spaces that wait for work, by kind, over all servers.", "work"),
}


class TeamServer:
    """The parts of one server, and its life."""

    def __init__(self, settings: Settings) -> None:
        """Connect to the database and make the parts; `run` starts them.

        Raises ConfigError for a role that row-level security does not bind, and what `migrate_schema` raises.
        """
        metrics.declare(_COUNTERS, _HISTOGRAMS, _GAUGES)
        self._team = team = team_settings(settings.extensions)
        self._settings, storage = settings, settings.storage
        self.database = Database(storage.url, storage.pool)
        with migrations.log_long_wait(self.database):
            migrations.require_bound_role(self.database)
            migrations.migrate_schema(self.database)
        self._replica = Replica(self.database, Database(team.replica_url, storage.pool)) if team.replica_url else None
        self.directory = Directory(self.database)
        self.quotas = Quotas(team)
        server_settings = team.server
        limits = OpenLimits(
            server_settings.open_spaces,
            server_settings.memory_mb * MEGABYTE,
            server_settings.disk_mb * MEGABYTE,
            server_settings.idle_secs,
        )
        cache = storage.directory / "cache"
        # The workers are made below.
        self.opened = OpenMemories(self._open_space, cache, limits, on_open=lambda memory: self.workers.plan_upkeep(memory))  # noqa: PLW0108
        self.host = TeamHost(settings, self.opened, self._replica)
        self._work = WorkTable(self.database)
        self.workers = Workers(self._work, self.opened, server_settings.workers)
        databases = {False: self.database, **({True: self._replica.database} if self._replica else {})}
        self.follower = Follower(databases, self.opened, _MAINTAINERS, self.workers.wake_threads)
        self._intake = Intake(self.host, sources.client_hooks())
        #: Whether a signal asked this server to end.
        self.draining = False
        self.address: tuple[str, int] = ("", 0)

    # memories

    def _open_space(self, memory_key: MemoryKey, folder: Path) -> App:
        settings = self._settings
        memory_settings = replace(
            settings,
            storage=replace(settings.storage, data_dir=str(folder)),
            # One folder for all would mix what different spaces hold.
            teleport=replace(settings.teleport, bm25=replace(settings.teleport.bm25, index_path="")),
        )
        replica = self._replica.database if memory_key.is_replica and self._replica else None
        memory = self.directory.get_memory(memory_key.tenant, memory_key.space)
        callbacks = Callbacks(
            before_write=self._count_drafts, on_write=self.workers.wake_threads, give_way=self.host.give_way, tends_indexes=True
        )
        storage = PostgresStorage(self.database, memory, replica=replica)
        self.opened.drop_stale_indexes(memory_key, storage.connection.get_head().resets)
        with few_collections():
            return App(memory_settings, callbacks=callbacks, storage=storage)

    def _count_drafts(self, drafts: Sequence[EventDraft]) -> None:
        caller = CALL.get()
        if caller is None:
            return
        who = caller.principal
        bounded = self._team.limits_of(who.tenant_class).stored_events
        stored = self.directory.count_stored_events(who.tenant) if bounded else 0
        self.quotas.count_records(who, len(drafts), sum(len(draft.text.encode("utf-8", "replace")) for draft in drafts), stored)

    def _check_tool(self, tool: str) -> None:
        check_tool(tool)
        if tool in SEARCHES:
            self.quotas.count_search(get_call().principal)

    # requests

    async def _take_hook(self, payload: Payload) -> PayloadResult:
        check_tool("hooks")
        return await self._intake.store_payload(payload)

    def _find_unready_reason(self) -> str:
        if self.draining:
            return "the server is ending"
        with self.database.lend_connection(None) as raw:
            version = migrations.read_version(raw)
        return "" if version == migrations.CURRENT else f"the database has schema {version}, this server {migrations.CURRENT}"

    def _make_exposition(self) -> str:
        memories = self.opened.list_open()
        pool = self.database.pool_stats
        counts = {"open": len(memories), "opened": self.opened.opened_total, "closed": self.opened.closed_total}
        states = {"open": "pool_size", "idle": "pool_available", "waiting": "requests_waiting"}
        readings: dict[str, Mapping[str, float]] = {
            "team_calls": {"": self.host.calls},
            "team_database_connections": {state: pool.get(name, 0) for state, name in states.items()},
            "team_disk_bytes": {"": self.opened.disk_bytes},
            "team_memory_bytes": {"": sum(memory.memory_bytes for memory in memories)},
            "team_spaces": counts,
            "team_work_waiting": self._work.count_due(),
        }
        return metrics.exposition(readings)

    # life

    async def run(self, announce: Callable[[str], None]) -> None:
        """Serve until a signal comes, then drain and close.

        `announce` gets the address once requests are answered.
        """
        server = self._settings.server
        listener = bind(server.http_host, server.http_port)
        self.address = listener.getsockname()[:2]
        handlers = Handlers(self._take_hook, self._find_unready_reason, self._make_exposition, self._team.server.metrics_token)
        uvicorn, connection = self._assemble_server(handlers)
        self.workers.start()
        self.follower.start()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._drain_on_signal, uvicorn, connection)
                tasks.start_soon(self._announce_address, uvicorn, announce)
                await uvicorn.serve([listener])
                tasks.cancel_scope.cancel()
        finally:
            listener.close()
        await anyio.to_thread.run_sync(self.close)

    def _assemble_server(self, handlers: Handlers) -> tuple[Uvicorn, Connection]:
        settings = self._settings
        with few_collections():
            server = assemble(self.host, more=[make_space_tools])
        server.allow = self._check_tool
        inner = make_application(server, handlers, MAX_BODY, routes.make_routes(self.host.lend_as))
        connection = Connection(inner)
        door = Authenticator(self._team, self.directory, Administration(self.database, "join"))
        public = urlsplit(self._team.audience).netloc
        hosts = (*hosts_of(settings.server), *([public] if public else []))
        # Nothing of a body is read before it is known who calls.
        checked = HostGuard(connection, Rules(None, "", max(MAX_BODY, MAX_BATCH), hosts), name_route)
        front = HealthLayer(AuthenticationLayer(checked, door, self._team, self.quotas), handlers)
        return Uvicorn(front, anyio.TASK_STATUS_IGNORED, self._team.server.drain_secs), connection

    async def _announce_address(self, uvicorn: Uvicorn, announce: Callable[[str], None]) -> None:
        while not uvicorn.started:
            await anyio.sleep(0.01)
        host, port = self.address
        announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def _drain_on_signal(self, uvicorn: Uvicorn, connection: Connection) -> None:
        with signals_of_end() as received:
            async for _ in received:
                break
        server_settings = self._team.server
        log.warning(
            "asked to end: no new calls in %d s, those under way may take %d s more",
            server_settings.notice_secs,
            server_settings.drain_secs,
        )
        self.draining = True
        threading.Thread(target=self.workers.stop, args=(server_settings.drain_secs or 1,), name="draining", daemon=True).start()
        await anyio.sleep(server_settings.notice_secs)
        uvicorn.end()
        connection.end_streams()
        with anyio.move_on_after(server_settings.drain_secs):
            while self.host.calls:
                await anyio.sleep(0.02)
        connection.end_calls()

    def close(self) -> None:
        """Stop workers and follower, close the memories, then the databases."""
        self.workers.stop(_END / 2)
        self.follower.stop(2.0)
        self.opened.close()
        if self._replica is not None:
            self._replica.database.close()
        self.database.close()


def serve_team(settings: Settings, announce: Callable[[str], None]) -> int:
    """Serve a team, then end this process.

    Locks the data directory while it runs. Raises ConfigError for settings that cannot serve a team, and what locking, binding
    and connecting raise.
    """
    check_settings(settings)
    directory = settings.storage.directory.absolute()
    lock = DirectoryLock(directory, kind=KIND)
    os.umask(0o077)
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(name)s: %(levelname)s: %(message)s")
    sys.setswitchinterval(_SWITCH)
    metrics.start()
    try:
        anyio.run(partial(TeamServer(settings).run, announce))
    finally:
        lock.release()
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads that wait for a database which does not answer hold up no caller.
    os._exit(0)


def check_settings(settings: Settings) -> None:
    """Raise ConfigError unless the settings can serve a team."""
    team = team_settings(settings.extensions)
    if settings.storage.engine != "postgres" or not team.auth:
        hint = "Set storage.engine = postgres, storage.url and team.auth."
        raise ConfigError("a team is served from PostgreSQL, to callers who prove who they are", hint)
    host_names = hosts_of(settings.server) or team.audience
    if settings.server.http_host not in LOOPBACK and not host_names:
        hint = "Set server.http_allowed_hosts to the names by which clients reach this server, or team.audience."
        raise ConfigError(f"server.http_host = {settings.server.http_host} needs the names by which it is reached", hint)
