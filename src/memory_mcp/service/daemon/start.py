"""Starts the daemon from a command line; a failure is one line on stderr, which the starting process shows."""

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.config import load
from memory_mcp.service.client import handshake, link

if TYPE_CHECKING:
    from memory_mcp.service.daemon.rpc import Execute


def start_daemon(data_dir: str, config: str, profile: str, execute: "Execute") -> int:
    """Run a data directory's daemon, then end this process (os._exit).

    Returns an exit status only where it cannot start or fails, after one line on stderr. `data_dir`, `config`
    and `profile` are "" where they are not given; `execute` runs a command line on the open memory.
    """
    try:
        flags = {"storage.data_dir": data_dir or None, "server.profile": profile or None}
        start_settings = link.Wanted("", config, {"server.profile": profile} if profile else {}).settings
        # Before anything that it is about is read.
        fingerprint = handshake.compute_fingerprint(start_settings)
        settings = load(flags=flags, file=Path(config).expanduser() if config else None)
        from memory_mcp.service.daemon.run import run_daemon

        status = run_daemon(settings, start_settings, fingerprint, execute)
        logging.shutdown()
        # Everything is closed; taking apart what the libraries have loaded would take another second.
        os._exit(status)
    except MemoryMcpError as error:
        sys.stderr.write(f"{error.sentence if sys.stderr.isatty() else error}\n")
        return error.exit_status
    except OSError as error:
        sys.stderr.write(f"UNAVAILABLE: {error}.\n")
        return 1
