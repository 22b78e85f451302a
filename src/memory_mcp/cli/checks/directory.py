"""Whether the data directory is there, private and writable."""

import os
from collections.abc import Iterator

from memory_mcp.base import environment, ownership, paths
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look

_OPEN_TO_OTHERS = 0o077


def checks(look: Look) -> Iterator[Check]:
    """Yield whether the directory is named, a data directory, private, and writable, and what is passed over in naming it.

    One that does not exist yet is OK, one with other things in it FAIL, and either ends the check. Open to others
    to read is WARN, to write FAIL, read-only FAIL.
    """
    directory = look.directory
    setting = look.settings.storage.data_dir if look.settings else ""
    spares = paths.spare_dirs(str(directory), look.environ)
    for text in environment.report_unusable(look.environ, setting, str(directory), spares):
        yield Check(WARN, "data directory", text, "name the folder in full where the client starts memory-mcp")
    if not directory.is_dir():
        first = "memory-mcp setup (or try it first: memory-mcp try)"
        yield Check(OK, "data directory", f"{directory} does not exist yet", first)
        return
    if why := paths.foreign(str(directory)):
        # It is not a data directory: no advice about its mode.
        yield Check(FAIL, "data directory", why, "name a new or an empty folder: --data-dir DIR, or MEMORY_MCP_DATA_DIR")
        return
    yield Check(OK, "data directory", str(directory))
    if why := ownership.open_to_others(str(directory)):
        yield Check(FAIL, "permissions", why, "it is refused until then")
        return
    mode = directory.stat().st_mode & 0o777
    if mode & _OPEN_TO_OTHERS:
        yield Check(WARN, "permissions", f"{directory} is open to others ({mode:o})", f"chmod 700 {directory}")
    else:
        yield Check(OK, "permissions", f"{directory} is yours alone ({mode:o})")
    if os.access(directory, os.W_OK):
        yield Check(OK, "writable", "yes")
    else:
        next_step = f"chmod u+w {directory}, or choose another: --data-dir DIR"
        yield Check(FAIL, "writable", f"{directory} is read-only", next_step)
