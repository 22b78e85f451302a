"""What an engine needs to know to open a memory."""

from dataclasses import dataclass
from pathlib import Path

from memory_mcp.storage.lock import DirectoryLock


@dataclass(frozen=True, slots=True)
class Opening:
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
