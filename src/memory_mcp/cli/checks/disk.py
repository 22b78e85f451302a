"""Check of free disk space at the data directory."""

import shutil
from collections.abc import Iterator

from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look

#: Less free disk than this is worth a warning, and less than this fails the next write (bytes).
_LOW, _NONE = 1_000_000_000, 50_000_000


def checks(look: Look) -> Iterator[Check]:
    """Yield how much of the disk of the data directory is free: WARN below 1 GB, FAIL below 50 MB."""
    folder = next(p for p in (look.directory, *look.directory.absolute().parents) if p.exists())
    free = shutil.disk_usage(folder).free
    state = OK if free >= _LOW else WARN if free >= _NONE else FAIL
    yield Check(state, "free disk", render.size(free), "" if state == OK else f"free some space on the disk of {folder}")
