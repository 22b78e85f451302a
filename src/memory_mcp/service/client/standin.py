"""Starts the process that answers a client while another process has the store, or its directory cannot be used.

Standard library only.

Invariants
1. It never opens the store: it greets the client, and says to each call why the store cannot be had.
"""

import json
import socket
import subprocess
import sys
from pathlib import Path

from memory_mcp.base import foreign_files, machine
from memory_mcp.service.client import link


def read_owner_process(directory: str) -> int:
    """Return the process id in owner.json, the store's last owner.

    0 where that was a daemon or cannot be read; whether the process lives is not looked at.
    """
    try:
        note = json.loads(foreign_files.read_file(Path(directory) / "owner.json"))
        return 0 if note.get("kind") == "daemon" else int(note["pid"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


def is_needed(daemon: link.Wanted, error: Exception) -> bool:
    """Return whether another process keeps the daemon from the store."""
    return isinstance(error, link.Unusable) or ("is in use by" in str(error) and read_owner_process(daemon.directory) > 0)


def start_stand_in(daemon: link.Wanted) -> link.Line:
    """Start a child (`serve --held`) that answers without the store.

    Returns the connection to it, without a hello. The child ends with this process. Raises OSError where it cannot be started.
    """
    words = ["serve", "--held", "--data-dir", daemon.directory, *(["--config", daemon.config] if daemon.config else [])]
    words += ["--profile", profile] if (profile := daemon.flags.get("server.profile")) else []
    ours, theirs = socket.socketpair()
    subprocess.Popen(
        [sys.executable, "-P", "-m", "memory_mcp", *words],
        stdin=theirs.fileno(),
        stdout=theirs.fileno(),
        **machine.group_options(),
    )
    theirs.close()
    return link.Line(ours)
