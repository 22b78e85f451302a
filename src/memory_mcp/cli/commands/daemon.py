"""`daemon`: start, stop and look at the background process that owns a data directory; clients start it on demand."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from memory_mcp.base import machine, paths
from memory_mcp.base.errors import LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, print_result, settings_file, wanted
from memory_mcp.service.client import link

#: Seconds to wait for the end of a daemon (longer than it may take), between two looks, and for an answer of it.
_END_PATIENCE, _LOOK, _ANSWER = 8.0, 0.05, 10.0


def add(parsers: Subparsers, about: str) -> None:
    """Add `daemon` with the subcommands start, stop, restart, status and run, each with a function of its own.

    `about` is its help text. All but stop and status take --profile.
    """
    inner = family(parsers, "daemon", about)
    start = leaf(inner, "start", run_start, "start it, if it does not run already")
    leaf(inner, "stop", run_stop, "end it; the next client or command starts another")
    restart = leaf(inner, "restart", run_restart, "end it and start another, with the settings of now; clients do not notice")
    leaf(inner, "status", run_status, "show whether it runs, for whom, and how it is")
    run = leaf(inner, "run", run_here, "be it, in the foreground, until a signal comes or nobody needs it")
    for parser in (start, restart, run):
        parser.add_argument("--profile", choices=("default", "full"), help="tools offered (setting server.profile)")


def run_start(args: argparse.Namespace) -> int:
    """Start the daemon where none runs, print its process, and return 0; raise LayerUnavailable when that fails."""
    _needs_sockets()
    return _start(args, "runs")


def run_stop(args: argparse.Namespace) -> int:
    """Stop the daemon and wait for its end; return 0, also where none ran. Raises LayerUnavailable where it does not end."""
    pid = stop(wanted(args))
    data = {"running": False, "stopped": pid or None}
    return print_result(args, data, ["It did not run." if not pid else f"Stopped (process {pid})."])


def run_restart(args: argparse.Namespace) -> int:
    """End the daemon if one runs, start another, and return 0; raise LayerUnavailable when that fails."""
    _needs_sockets()
    stop(wanted(args))
    return _start(args, "runs anew")


def run_status(args: argparse.Namespace) -> int:
    """Print the state of the daemon and its connections, or that none runs; none is started. Returns 0."""
    settings_file(args)
    # All settings together take as long to load as the rest of this takes; a daemon that answers was started with good ones.
    directory = paths.data_dir(getattr(args, "data_dir", None) or "", file=getattr(args, "config", None) or "")
    try:
        data = link.call(directory, "daemon/status", {}, _ANSWER)
    except (FileNotFoundError, ConnectionError):  # none runs, or it has just ended
        data = {"running": False, "data_dir": wanted(args).directory, "missing": paths.loss_told(directory)}
    return print_result(args, data, _lines(data))


def run_here(args: argparse.Namespace) -> int:
    """Replace this process by the daemon (exec), and never return; raise LayerUnavailable where no daemon can run here."""
    _needs_sockets()
    os.execv(sys.executable, [sys.executable, *wanted(args).arguments])


def stop(which: link.Wanted) -> int:
    """Stop the daemon of a data directory and wait up to eight seconds for its end; return its process id, 0 when none ran.

    Raises LayerUnavailable where it has not ended by then, and what `link.call` raises where it does not answer.
    """
    try:
        pid = int(link.call(which.directory, "daemon/stop", {"reason": "asked to"}, _ANSWER)["pid"])
    except (FileNotFoundError, ConnectionRefusedError):
        return 0
    end = time.monotonic() + _END_PATIENCE
    while machine.lives(pid):
        if time.monotonic() > end:
            raise LayerUnavailable(f"the daemon (process {pid}) has not ended yet", "Look at it again: memory-mcp daemon status")
        time.sleep(_LOOK)
    return pid


def _needs_sockets() -> None:
    """Raise LayerUnavailable where this platform can run no daemon."""
    if not link.usable():
        raise LayerUnavailable("this platform has no Unix sockets", "Use: memory-mcp serve --in-process")


def _start(args: argparse.Namespace, what: str) -> int:
    """Connect to the daemon, starting one where none runs, print "The daemon ", `what` and its process, and return 0.

    Raises LayerUnavailable when none can be reached or started.
    """
    from memory_mcp.cli.failures import reach

    line = reach(wanted(args))
    line.close()
    data = {"running": True, "pid": line.about["pid"], "version": line.about["memory-mcp"]}
    return print_result(args, data, [f"The daemon {what} (process {data['pid']}, version {data['version']})."])


def _lines(data: dict[str, Any]) -> Iterator[str]:
    """Yield what is missing of the memory, and whether a daemon runs; of one that does its numbers, settings and clients.

    `data` is the daemon's answer to daemon/status; where none runs {"running": False, "data_dir", "missing"}.
    """
    if data["missing"]:
        yield data["missing"]
    if not data["running"]:
        yield f"No daemon runs for {data['data_dir']}; the next client or command starts one."
        return
    age, memory = _span(data["uptime_s"]), render.size(data["rss_bytes"])
    yield f"process {data['pid']}, version {data['version']}, up {age}, {memory} of memory"
    queues = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in data["queues"].items())
    yield f"queues: {queues}{' (filing)' if data['deriving'] else ''}"
    http = f"{data['http']} ({render.plural(data['http_connections'], 'connection')})" if data["http"] else "off"
    yield f"http: {http}"
    yield f"data directory: {data['data_dir']}, log: {data['log']}"
    if data["settings_changed"]:
        names = ", ".join(data["settings_changed"])
        yield f"settings: the file changed since the start ({names}); memory-mcp daemon restart, or any command, applies it"
    elif data["settings_unusable"]:
        yield f"settings: those of the start hold on, because the file cannot be used now: {data['settings_unusable']}"
    yield f"last error: {data['last_error'] or 'none'}"
    stays = " and ".join(data["stays_for"])
    yield f"ends {_span(data['idle_exit_s'])} after its last client{f'; stays meanwhile, as it {stays}' if stays else ''}"
    yield f"clients: {len(data['clients'])}"
    for client in data["clients"]:
        name = " ".join(filter(None, (client["name"] or "not introduced yet", client["version"])))
        how = f"process {client['pid']}, {client['kind']} {client['era']}, {_span(client['connected_s'])}"
        yield f"  {name} ({how}) {client['cwd']}"


def _span(seconds: float) -> str:
    """Return a duration in words: "90 s" below two minutes, "5 min" below two hours, else hours with a decimal, "2.5 h"."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
