"""One owner for each data directory: a lock of the system, and a note of who holds it."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from memory_mcp.base import foreign_files, machine, ownership, paths
from memory_mcp.base.errors import ConfigError, StorageError, StorageLocked

#: File systems of other machines, where a lock may be held twice and a log written back late.
_REMOTE = ("nfs", "cifs", "smb", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")
_MOUNTS = Path("/proc/self/mountinfo")
#: Who holds a directory: one process of many clients, or one that serves itself alone.
DAEMON, ALONE = "daemon", "alone"


class DirectoryLock:
    """Lock of a data directory, held from construction to `release`.

    The system releases it when the process dies. Makes the directory if it is missing. Raises StorageLocked when another process
    holds it for longer than `wait` seconds; StorageError when it cannot be written, or is on another machine.
    """

    def __init__(self, directory: Path, wait: float = 0.0, kind: str = ALONE) -> None:
        """Lock within `wait` seconds, and write `owner.json`.

        The note holds pid, command line (200 characters) and `kind` (`DAEMON`, `ALONE`). Raises ConfigError for a folder of
        something else.
        """
        from filelock import FileLock, Timeout

        prepare_directory(directory)
        self.directory = directory
        #: Whether there was no store yet.
        self.is_new = not (directory / "memory.duckdb").exists()
        self._note = directory / "owner.json"
        self._file = directory / "lock"
        self._lock = FileLock(str(self._file), mode=0o600)
        try:
            self._lock.acquire(timeout=wait, poll_interval=0.02)
        except Timeout:
            raise make_locked_error(directory) from None
        self._lock_identity = _file_identity(self._file)
        descriptor = os.open(self._note, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | machine.PRIVATE, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as note:
            command = " ".join(["memory-mcp", *sys.argv[1:]])[:200]
            json.dump({"pid": os.getpid(), "command": command, "kind": kind}, note)

    @property
    def is_in_place(self) -> bool:
        """Whether the directory is still the one that was locked."""
        return _file_identity(self._file) == self._lock_identity

    def release(self) -> None:
        """Release the lock; idempotent. The note stays."""
        self._lock.release()


def _file_identity(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


class SharedLock:
    """Shared lock of a directory that is only read, without a write.

    Any number of readers hold it at once. Raises StorageLocked when a process that writes holds it. If nobody ever locked
    the directory there is nothing to hold, and if the platform has no such lock, the engine's own lock decides.
    """

    def __init__(self, directory: Path) -> None:
        """Share the lock of the directory's existing file `lock`.

        Raises ConfigError for links, pipes or devices in the directory. Holds nothing on Windows or without that
        file.
        """
        self._descriptor = -1
        require_no_links(directory, is_written=False)
        file = directory / "lock"
        if machine.WINDOWS or not file.exists():
            return
        self._descriptor = os.open(file, os.O_RDONLY | machine.PRIVATE)
        try:
            machine.lock(self._descriptor, shared=True)
        except OSError:
            self.release()
            raise make_locked_error(directory) from None

    def release(self) -> None:
        """Release the lock; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def make_locked_error(directory: Path) -> StorageLocked:
    """Return the error for a directory that another process holds."""
    note = read_owner(directory)
    is_living = isinstance(pid := note.get("pid"), int) and machine.lives(pid)
    holder = f"`{note['command']}` (process {pid})" if is_living else "another memory-mcp process"
    return StorageLocked(
        f"the data directory {directory} is in use by {holder}",
        "Wait for it to end or use its tools; with storage.data_dir another directory can be used meanwhile.",
    )


def read_owner(directory: Path) -> dict[str, object]:
    """Return pid, command and kind of the last owner, or {}."""
    try:
        note = json.loads(foreign_files.read_file(directory / "owner.json"))
        return {"pid": int(note["pid"]), "command": str(note["command"]), "kind": str(note.get("kind", ALONE))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def prepare_directory(directory: Path) -> None:
    """Make the directory, if it is missing, for this user alone.

    Raises ConfigError for one into which others may write, a folder of something else, or one that holds a link, a pipe or a
    device; StorageError when it cannot be made, is read-only, or is on a network file system, where a lock cannot be trusted.
    """
    if why := ownership.unfit(str(directory)):
        raise ConfigError(why, "Name a new or an empty folder: --data-dir DIR, or MEMORY_MCP_DATA_DIR.")
    require_no_links(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as e:
        why = "it is a file, not a folder" if directory.is_file() else e.strerror or str(e)
        raise StorageError(f"the data directory {directory} cannot be used: {why}", "Choose another: --data-dir DIR") from e
    if is_read_only(directory):
        raise StorageError(f"the data directory {directory} is read-only", "Choose another: --data-dir DIR")
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        mounts = []
    system = find_file_system(directory, mounts)
    if system.startswith(_REMOTE):
        raise StorageError(
            f"the data directory {directory} lies on another machine ({system}), where a lock cannot be trusted",
            "Choose a directory on a disk of this machine: --data-dir DIR",
        )


def is_read_only(directory: Path | None) -> bool:
    """Return whether a data directory exists and may only be read."""
    return directory is not None and directory.is_dir() and not os.access(directory, os.W_OK)


def require_no_links(directory: Path, is_written: bool = True) -> None:
    """Raise ConfigError for a link, pipe or device in a directory.

    With `is_written` False hard links are allowed: what is only read may share its files, as snapshots made of hard
    links do.
    """
    odd, kind = paths.planted(str(directory))
    if odd and (is_written or kind != paths.HARD_LINK):
        raise ConfigError(f"{odd} is {kind}, and nothing inside a data directory may be one", paths.remedy(odd, kind))


def find_file_system(directory: Path, mounts: Iterable[str]) -> str:
    """Return a directory's file system (such as ext4), or "".

    From lines of /proc/self/mountinfo: the longest mount point that holds it decides, of equally long ones the last.
    """
    path = str(directory.resolve())
    best, kind = "", ""
    for line in mounts:
        mount_part, _, type_part = line.partition(" - ")
        fields = mount_part.split()
        if len(fields) < 5 or not type_part:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, type_part.split()[0]
    return kind
