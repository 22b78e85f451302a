"""An engine, and what it needs to know to open a memory."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.base import Storage
from memory_mcp.storage.lock import DirectoryLock

log = logging.getLogger(__name__)
#: The file that is the system's own zone.
_SYSTEM_ZONE = "/etc/localtime"


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """A memory to open."""

    #: Data directory; None: in memory, or nothing beside the database.
    directory: Path | None
    #: Zone of a new store's days; "": the system's.
    timezone: str = ""
    #: The directory's lock when it is held already; released when the store is closed.
    lock: DirectoryLock | None = None
    #: Address of the database, for engines that have one.
    url: str = ""
    tenant: str = "default"
    space: str = "default"
    #: Connections at most.
    pool: int = 8


@dataclass(frozen=True, slots=True)
class Engine:
    """A storage engine."""

    open: Callable[[OpenOptions], Storage]
    #: How a backup comes into a memory of this engine; "": the command `restore` does it.
    restore_hint: str = ""


def find_zone(environ: Mapping[str, str]) -> str:
    """Return the zone that TZ names, also by its file's path, or "".

    Raises InvalidQuery for a zone or a file that does not exist.
    """
    name = environ.get("TZ", "").strip().removeprefix(":")
    if not name or name == _SYSTEM_ZONE:
        return ""
    if name.startswith("/"):
        # Zones are named by where their files are below a folder of this name.
        _, separator, zone_path = name.rpartition("/zoneinfo/")
        if not separator:
            raise InvalidQuery(f"TZ names a file that names no zone: {name}", "Name the zone, as in Europe/Berlin.")
        name = zone_path.removeprefix("posix/").removeprefix("right/")
    Calendar(name).day_of(0)
    return name


def get_system_zone() -> str:
    """Return the zone of a new store: TZ's, else the system's, else UTC.

    A TZ that names no zone is passed over, which is logged, and which `doctor` reports: an environment that cannot be used must
    not keep a memory from beginning.
    """
    from tzlocal import get_localzone_name

    try:
        if configured := find_zone(os.environ):
            return configured
    except InvalidQuery as error:
        log.warning("TZ is passed over: %s", error.message)
    try:
        zone = get_localzone_name() or "UTC"
        Calendar(zone).day_of(0)
    except (InvalidQuery, KeyError, ValueError, OSError) as error:
        log.warning("days are counted in UTC: the system's time zone cannot be read: %s", error)
        return "UTC"
    return zone
