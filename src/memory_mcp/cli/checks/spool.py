"""What hooks left and nobody has stored yet."""

import time
from collections.abc import Iterator
from pathlib import Path

from memory_mcp import paths
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Look

#: A payload waits for the next start of a session or of the daemon; one this old waits for something that does not come.
_OLD_S = 86_400


def checks(look: Look) -> Iterator[Check]:
    """Payloads of hooks that wait, and those that could not be read."""
    spool = Path(paths.spool_dir(str(look.directory)))
    waiting = sorted(_files(spool / "new"))
    if waiting:
        # A payload's name begins with its time in nanoseconds.
        first = waiting[0].name.partition("-")[0]
        hours = (time.time() - int(first) / 1e9) / 3600 if first.isdecimal() else 0.0
        text = f"{render.plural(len(waiting), 'payload')} to be stored, the oldest {hours:.0f} h old"
        state = WARN if hours * 3600 > _OLD_S else OK
        yield Check(state, "left by hooks", text, "memory-mcp daemon start" if state == WARN else "")
    if bad := _files(spool / "bad"):
        text = f"{render.plural(len(bad), 'payload')} could not be read and lie in {spool / 'bad'}"
        yield Check(WARN, "unreadable payloads", text, "they are kept; report them with a copy of one")


def _files(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_file()] if folder.is_dir() else []
