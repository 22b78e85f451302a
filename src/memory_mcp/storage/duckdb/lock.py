"""One owner per data directory: an OS lock, and a note beside it that says who holds it."""

import json
import os
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from memory_mcp.errors import StorageLocked


class DirectoryLock:
    """Held from construction to `release`; the operating system lets go of it when the process dies."""

    def __init__(self, directory: Path) -> None:
        self._note = directory / "owner.json"
        self._lock = FileLock(str(directory / "lock"), mode=0o600)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise StorageLocked(
                f"the data directory {directory} is in use by {self._holder()}",
                "Wait for it to end or use its tools; with storage.data_dir another directory can be used meanwhile.",
            ) from None
        descriptor = os.open(self._note, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as note:
            json.dump({"pid": os.getpid(), "command": _command()}, note)

    def _holder(self) -> str:
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            return f"`{note['command']}` (process {note['pid']})"
        except (OSError, ValueError, KeyError, TypeError):
            return "another memory-mcp process"

    def release(self) -> None:
        """Let go; releasing twice is nothing."""
        self._lock.release()


def _command() -> str:
    return " ".join(["memory-mcp", *sys.argv[1:]])[:200]
