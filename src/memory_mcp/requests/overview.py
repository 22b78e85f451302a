"""get_overview: what a status page shows beside the retrieval status."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import extensions, machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.config import Settings
from memory_mcp.model.calendar import TimeWindow
from memory_mcp.redact.redact import MARK_BEGIN, MARK_PATTERN
from memory_mcp.requests import capturing
from memory_mcp.requests.entry import answers
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.shapes import NO_NAME, newest_first
from memory_mcp.storage.values import Scope
from memory_mcp.upkeep.archive.keeper import read_folder

if TYPE_CHECKING:
    from memory_mcp.app import App

_DAY_MS = 86_400_000
#: Sessions of the last 24 hours that are counted.
_SESSIONS = 10_000
_DATABASE = "memory.duckdb"
_INDEXES = ("bm25", "vector", "topics")


@dataclass(frozen=True, slots=True)
class GetOverview:
    """Request for the whole overview."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSeen:
    """One agent: what it recorded in all, in the last 24 hours, and when last (local time)."""

    agent: str
    events: int
    events_last_day: int
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """Marks in the place of secrets that the stored events hold now; what was never stored is not among them."""

    total: int
    #: How many by rule, the most first.
    rules: Mapping[str, int]
    #: Local time of the oldest stored event, since which they count; "" for an empty memory.
    since: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUse:
    """Bytes by part of the data directory, and what is free on its disk."""

    database: int
    #: What the database has written ahead and not yet taken in.
    database_log: int
    log: int
    indexes: Mapping[str, int] = field(default_factory=dict)
    backups: int
    spool: int
    damaged: int
    models: int
    #: Everything else in the data directory.
    other: int
    total: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One way by which something leaves this machine, or can be reached from another, as the settings say."""

    what: str
    where: str
    #: The setting that says so.
    setting: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedProject:
    """A project whose recording is paused; "*" for all."""

    project: str
    #: Local time at which that ends; "" until it is resumed.
    until: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """What is never recorded."""

    projects: Sequence[str] = ()
    paths: Sequence[str] = ()
    tools: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backups:
    """Whether backups are made daily, where, and what there is."""

    enabled: bool
    folder: str = ""
    count: int = 0
    size_bytes: int = 0
    #: Local time of the newest.
    last: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEvents:
    """Acknowledged events that are missing, and what brings them back."""

    events: int
    told: str
    way_back: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The state of a memory, apart from its layers."""

    now: str
    clients: Sequence[ClientSeen]
    redacted: Redacted
    #: None for a memory without a directory.
    disk: DiskUse | None = None
    #: Empty where nothing leaves the machine.
    outgoing: Sequence[Outgoing]
    paused: Sequence[PausedProject]
    #: Why pauses cannot be read; "" where they can.
    pauses_error: str = ""
    excluded: Excluded
    backups: Backups
    lost: LostEvents | None = None


@answers("get_overview", GetOverview)
def get_overview(app: "App", _: GetOverview, caller: Caller) -> Overview:
    """Return the state of the memory apart from its layers.

    Raises InvalidQuery for a caller that is bound to one project, as it is about all.
    """
    caller.refuse_all(app, "the overview")
    now = app.clock.now_ms()
    capture, loss = app.gate.capture, app.storage.loss
    paused, problem = _list_pauses(app, caller)
    recent: dict[str, int] = {}
    for activity in app.storage.events.list_sessions(Scope(window=TimeWindow(now - _DAY_MS, now + 1)), _SESSIONS):
        recent[activity.agent] = recent.get(activity.agent, 0) + activity.events
    agents = newest_first(app.storage.projects.list_agents())
    rules = app.storage.events.count_matches(MARK_BEGIN, MARK_PATTERN)
    span = app.storage.events.get_span(Scope())
    return Overview(
        now=app.calendar.format_iso(now),
        clients=[
            ClientSeen(
                agent=activity.name or NO_NAME,
                events=activity.events,
                events_last_day=recent.get(activity.name, 0),
                last=app.calendar.format_iso(activity.end_ms),
            )
            for activity in agents
        ],
        redacted=Redacted(
            total=sum(rules.values()),
            rules=dict(sorted(rules.items(), key=lambda item: (-item[1], item[0]))),
            since=app.calendar.format_iso(span.start_ms) if span else "",
        ),
        disk=None if app.directory is None else _disk(app.settings, app.directory),
        outgoing=list(_outgoing(app)),
        paused=paused,
        pauses_error=problem,
        excluded=Excluded(projects=capture.projects, paths=capture.paths, tools=capture.tools),
        backups=_backups(app),
        lost=None if loss is None else LostEvents(events=loss.events, told=loss.description, way_back=loss.recovery_hint),
    )


def _list_pauses(app: "App", caller: Caller) -> tuple[list[PausedProject], str]:
    """Return the visible pauses by project, and an error or ""."""
    try:
        paused = capturing.in_force(app, caller)
    except InvalidQuery as error:
        return [], error.message
    iso = app.calendar.format_iso
    return [PausedProject(project=name, until=iso(end) if end else "") for name, end in sorted(paused.items())], ""


def _backups(app: "App") -> Backups:
    folder = app.backups.folder
    if folder is None:
        return Backups(enabled=False)
    folder_state = read_folder(folder)
    last = app.calendar.format_iso(folder_state.newest_ms) if folder_state.newest_ms is not None else ""
    return Backups(
        enabled=app.backups.is_enabled,
        folder=str(folder),
        count=folder_state.count,
        size_bytes=folder_state.size_bytes,
        last=last,
    )


def _outgoing(app: "App") -> Iterator[Outgoing]:
    """Yield each way by which something can leave this machine.

    In order: the summarizer's command, the HTTP door on another address than loopback, folders
    for synchronizing and backups, and what other packages send.
    """
    settings = app.settings
    summarizer, server = settings.summarizer, settings.server
    if summarizer.is_on:
        yield Outgoing(what="texts to be summarized", where=summarizer.command, setting="summarizer.command")
    if server.http and not _is_here(server.http_host):
        where = f"{server.http_host}:{server.http_port}"
        yield Outgoing(what="the HTTP door, to whoever has its token", where=where, setting="server.http_host")
    for setting, folder in (("sync.directory", settings.sync.directory), ("backup.directory", settings.backup.directory)):
        if folder:
            yield Outgoing(what="copies of the memory, as far as that folder is shared", where=folder, setting=setting)
    for find in extensions.load_all(extensions.OUTGOING).values():
        yield from find(app)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _disk(settings: Settings, directory: Path) -> DiskUse:
    """Return the bytes of the data directory's parts, and free space.

    A keyword index or backups in another place count too, in `total` as well; `other` is the rest of the directory.
    """
    bm25_path = settings.teleport.bm25.index_path
    folders = {name: directory / "indexes" / name for name in _INDEXES}
    if bm25_path:
        folders["bm25"] = Path(bm25_path).expanduser()
    indexes = {name: machine.size_of(folder) for name, folder in folders.items()}
    backup = settings.backup.folder(directory)
    parts = {
        "database": machine.size_of(directory / _DATABASE),
        "database_log": sum(machine.size_of(file) for file in directory.glob(f"{_DATABASE}.*")),
        "log": sum(machine.size_of(file) for file in directory.glob(f"{Path(paths.log_file(str(directory))).name}*")),
        "backups": machine.size_of(backup),
        "spool": machine.size_of(paths.spool_dir(str(directory))),
        "damaged": machine.size_of(directory / "damaged"),
        "models": machine.size_of(directory / "models"),
    }
    total = sum(indexes.values()) + sum(parts.values())
    outside = sum(machine.size_of(folder) for folder in (*folders.values(), backup) if not folder.is_relative_to(directory))
    other = max(0, machine.size_of(directory) - (total - outside))
    return DiskUse(**parts, indexes=indexes, other=other, total=total + other, free=shutil.disk_usage(directory).free)
