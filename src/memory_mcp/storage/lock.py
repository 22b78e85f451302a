"""One owner for each data directory: a lock of the operating system, and a note beside it that says who holds it."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from filelock import FileLock, Timeout

from memory_mcp.base import foreign_files, machine, ownership, paths
from memory_mcp.base.errors import ConfigError, StorageError, StorageLocked

#: File systems of other machines, where a lock may be held twice and a log written back late.
_REMOTE = ("nfs", "cifs", "smb", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")
_MOUNTS = Path("/proc/self/mountinfo")
#: Who holds a directory: one process of many clients, or one that serves itself alone.
DAEMON, ALONE = "daemon", "alone"


class DirectoryLock:
    """The lock of a data directory, held from construction to `release`, and released by the system when the process dies.

    Makes the directory where it is missing. Raises StorageLocked when another process holds it for longer than `wait`
    seconds; StorageError when it cannot be written, or lies on another machine.
    """

    def __init__(self, directory: Path, wait: float = 0.0, kind: str = ALONE) -> None:
        """Make the directory, lock it within `wait` seconds, and write `owner.json` into it.

        The note holds pid, command line (200 characters) and `kind` (`DAEMON`, `ALONE`). Raises what the class says,
        ConfigError for a folder of something else.
        """
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
        """Whether the directory is still the one that was locked: one that was removed and made anew is another's."""
        return _file_identity(self._file) == self._lock_identity

    def release(self) -> None:
        """Release the lock; a second call does nothing. The note `owner.json` stays."""
        self._lock.release()


def _file_identity(file: Path) -> tuple[int, int]:
    """Return device and inode of a file, (0, 0) where it is missing or cannot be looked at."""
    try:
        found = file.stat()
    except OSError:
        return (0, 0)
    return (found.st_dev, found.st_ino)


class SharedLock:
    """The shared lock of a directory that is only read: held from construction to `release`, without a write.

    Any number of readers hold it at once. Raises StorageLocked when a process that writes holds it. Where nobody ever locked
    the directory there is nothing to hold, and where the platform has no such lock, the engine's own lock decides.
    """

    def __init__(self, directory: Path) -> None:
        """Share the lock of the directory's existing file `lock` without writing; raise StorageLocked if a writer holds it.

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
        """Release the lock; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def make_locked_error(directory: Path) -> StorageLocked:
    """Return, not raise, the error for a directory that another process holds, named by its note if that process lives."""
    note = read_owner(directory)
    is_living = isinstance(pid := note.get("pid"), int) and machine.lives(pid)
    holder = f"`{note['command']}` (process {pid})" if is_living else "another memory-mcp process"
    return StorageLocked(
        f"the data directory {directory} is in use by {holder}",
        "Wait for it to end or use its tools; with storage.data_dir another directory can be used meanwhile.",
    )


def read_owner(directory: Path) -> dict[str, object]:
    """Return pid, command and kind of the process that holds the directory, or held it last; {} without a readable note."""
    try:
        note = json.loads(foreign_files.read_file(directory / "owner.json"))
        return {"pid": int(note["pid"]), "command": str(note["command"]), "kind": str(note.get("kind", ALONE))}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def prepare_directory(directory: Path) -> None:
    """Make the directory where it is missing, for this user alone; an existing one into which others may write is refused.

    Raises ConfigError for such a one, a folder of something else, or one that holds a link, a pipe or a device; StorageError
    when it cannot be made, is read-only, or lies on a network file system, where a lock cannot be trusted.
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
    """Return whether a data directory exists and this process may only read it; False for None."""
    return directory is not None and directory.is_dir() and not os.access(directory, os.W_OK)


def require_no_links(directory: Path, is_written: bool = True) -> None:
    """Raise ConfigError where a link, a pipe or a device lies inside a data directory; see `paths.planted`.

    With `is_written` False hard links are allowed: what is only read may share its files, as snapshots made of hard
    links do.
    """
    odd, kind = paths.planted(str(directory))
    if odd and (is_written or kind != paths.HARD_LINK):
        raise ConfigError(f"{odd} is {kind}, and nothing inside a data directory may be one", paths.remedy(odd, kind))


def find_file_system(directory: Path, mounts: Iterable[str]) -> str:
    """Return the kind of file system of a directory (such as ext4) from lines of /proc/self/mountinfo; "" if unknown.

    The mount point with the longest path that holds the directory decides, of equally long ones the last.
    """
    place = str(directory.resolve())
    best, kind = "", ""
    for line in mounts:
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if (place == point or place.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            best, kind = point, after.split()[0]
    return kind
