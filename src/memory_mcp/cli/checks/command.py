"""Whether the command is found: by this shell, and by a client that was started from a desktop, whose PATH is another."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.cli.checks.base import OK, WARN, Check, Look

_NAME = "memory-mcp"
#: What a program started from a desktop finds without a shell's start files: macOS's launchd gives the first four (and
#: Homebrew's folders are not among them), a Linux session the first six.
_DESKTOP = ("/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/sbin", "/usr/local/bin")


def checks(look: Look) -> Iterator[Check]:
    """Yield whether the command is on this shell's PATH; it is a warning if not.

    Off Windows also a hint, which is OK, if clients started from a desktop may not find it.
    """
    path_command = shutil.which(_NAME, path=look.environ.get("PATH", os.defpath))
    sibling_command = Path(sys.executable).with_name(_NAME)
    absolute = path_command or (str(sibling_command) if sibling_command.exists() else f"{sys.executable} -m memory_mcp")
    if path_command is None:
        step = f'put its folder on PATH (pipx ensurepath does), or give clients the whole path: "command": "{absolute}"'
        yield Check(WARN, "command", f"{_NAME} is not on this shell's PATH; it is {absolute}", step)
    else:
        yield Check(OK, "command", f"{path_command} is on this shell's PATH")
    if sys.platform == "win32":
        # Every program of a user has the same PATH there.
        return
    if shutil.which(_NAME, path=os.pathsep.join(_DESKTOP[:4] if sys.platform == "darwin" else _DESKTOP)) is None:
        text = "clients started from a desktop have a shorter PATH and may not find it"
        yield Check(OK, "command for desktop clients", text, f'in their configuration write "command": "{absolute}"')
