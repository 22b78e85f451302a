"""Settings of where the memory is kept."""

from dataclasses import field
from pathlib import Path

from memory_mcp.base import extensions, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, InvalidQuery
from memory_mcp.model.calendar import Calendar
from memory_mcp.storage.lock import DirectoryLock
from memory_mcp.storage.opening import OpenOptions

#: The engine of this package.
IN_DIRECTORY = "duckdb"


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Where the memory is kept."""

    data_dir: str = field(default="", metadata={"help": "Data directory; empty: the platform's own place for user data."})
    timezone: str = field(
        default="", metadata={"help": "Zone of a new store's days, such as Europe/Berlin; empty: the system's."}
    )
    engine: str = field(
        default=IN_DIRECTORY, metadata={"help": "duckdb: a file in the data directory; postgres: a database for many machines."}
    )
    url: str = field(
        default="",
        metadata={
            "help": "Address of the database, such as postgresql://memory@db.example/memory (postgres).",
            "is_address": True,
        },
    )
    tenant: str = field(default="default", metadata={"help": "Whose memories these are in the database (postgres)."})
    space: str = field(default="default", metadata={"help": "Which of the tenant's memories is opened (postgres)."})
    pool: int = field(default=8, metadata={"help": "Connections to the database that one process opens at most (postgres)."})

    def __post_init__(self) -> None:
        if not self.is_in_directory:
            if extensions.find(extensions.STORAGE, self.engine) is None:
                engines = (IN_DIRECTORY, *extensions.names(extensions.STORAGE))
                text = f"storage.engine must be {' or '.join(engines)}, not {self.engine!r}"
                raise ConfigError(text, extensions.hint_for(self.engine))
            if not self.url:
                hint = "Name the database: postgresql://USER@HOST/NAME"
                raise ConfigError(f"storage.engine = {self.engine} needs storage.url", hint)
        if self.pool < 1:
            raise ConfigError("storage.pool must be at least 1")
        try:
            Calendar(self.timezone or "UTC").day_of(0)
        except InvalidQuery as error:
            raise ConfigError(f"storage.timezone: {error.message}", error.hint) from None

    @property
    def is_in_directory(self) -> bool:
        """Whether the memory is a file of the data directory; else it is in a database that other machines may use."""
        return self.engine == IN_DIRECTORY

    @property
    def directory(self) -> Path:
        """The data directory, absolute; the platform's default if unset."""
        return Path(paths.expand_path(self.data_dir) or paths.default_data_dir())

    def opening(self, directory: Path | None, lock: DirectoryLock | None = None) -> OpenOptions:
        """Return how the engine opens the memory of a directory.

        None: without a directory. The caller may hold the lock already.
        """
        return OpenOptions(directory, self.timezone, lock, self.url, self.tenant, self.space, self.pool)
