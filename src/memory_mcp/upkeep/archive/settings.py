"""Settings of backups, and of a folder that several machines share.

Change here: how long backups stay.
"""

from dataclasses import field
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """When copies of the memory are made and how long they stay."""

    enabled: bool = field(
        default=True,
        metadata={"help": "A backup every day, and before the file is rewritten or repaired; false: only when asked for."},
    )
    keep_days: int = field(default=7, metadata={"help": "The last backup of so many days is kept."})
    keep_weeks: int = field(default=4, metadata={"help": "Besides, the last one of so many weeks."})
    directory: str = field(default="", metadata={"help": "Folder of the backups; empty: backups in the data directory."})

    def __post_init__(self) -> None:
        """Raise ConfigError where no backup would be kept, or a number is negative."""
        if self.keep_days < 1:
            raise ConfigError("backup.keep_days must be at least 1")
        if self.keep_weeks < 0:
            raise ConfigError("backup.keep_weeks must be 0 or more")

    def folder(self, data_dir: Path) -> Path:
        """Return the folder of backups that have no other place: the configured one, else `backups` in the data directory."""
        return Path(self.directory).expanduser() if self.directory else data_dir / "backups"


@dataclass(frozen=True, slots=True)
class SyncSettings:
    """Which folder several memories exchange their events through."""

    directory: str = field(
        default="",
        metadata={"help": "Folder that several machines share: each writes its events there and takes in the others'."},
    )
