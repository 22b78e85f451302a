"""Payloads of hooks that are not stored yet."""

import time
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import foreign_files, paths
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Look

#: A payload waits for the next start of a session or of the daemon; one this old waits for something that does not come.
_OLD_S = 86_400
#: Files whose first line is read, and how much of it (bytes).
_MOST, _HEAD = 1_000, 4_096


def checks(look: Look) -> Iterator[Check]:
    """Yield a line for each kind of payload there is: waiting (WARN if older than a day), raw, and unreadable (both WARN).

    Raw ones, with their secrets, are looked for in the first 1000. Nothing where there is none.
    """
    spool = Path(paths.spool_dir(str(look.directory)))
    waiting = sorted(_files(spool / "new"))
    if waiting:
        # A payload's name begins with its time in nanoseconds.
        first = waiting[0].name.partition("-")[0]
        hours = (time.time() - int(first) / 1e9) / 3600 if first.isdecimal() else 0.0
        text = f"{render.plural(len(waiting), 'payload')} to be stored, the oldest {hours:.0f} h old"
        state = WARN if hours * 3600 > _OLD_S else OK
        yield Check(state, "left by hooks", text, "memory-mcp daemon start" if state == WARN else "")
    if raw := sum(_is_raw(file) for file in waiting[:_MOST]):
        text = f"{render.plural(raw, 'payload')} with any secrets still there: the rules about secrets could not be used"
        yield Check(WARN, "left raw by hooks", text, "install memory-mcp anew, then: memory-mcp daemon start")
    if bad := _files(spool / "bad"):
        text = f"{render.plural(len(bad), 'payload')} could not be read and lie in {spool / 'bad'}"
        yield Check(WARN, "unreadable payloads", text, "they are kept; report them with a copy of one")


def _is_raw(file: Path) -> bool:
    """Whether the first line of a payload says that its secrets were not redacted; False where it cannot be read."""
    try:
        with foreign_files.open_file(file) as stream:
            return b',"raw":true' in stream.read(_HEAD).partition(b"\n")[0]
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    """Return the regular files directly in a folder, in no order; empty where the folder does not exist."""
    return [p for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
