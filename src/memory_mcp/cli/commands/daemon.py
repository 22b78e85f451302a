"""`daemon` and `serve`: the background process of a data directory, and servers for clients."""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.base import machine, paths
from memory_mcp.base.errors import InvalidQuery, LayerUnavailable
from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, family, leaf, named_project, print_result, settings_file, settings_of, wanted
from memory_mcp.service.client import link

if TYPE_CHECKING:
    pass

#: Seconds to wait for the end of a daemon (longer than it may take), between two looks, and for an answer of it.
_END_PATIENCE, _LOOK, _ANSWER = 8.0, 0.05, 10.0


_STDIO, _HTTP, _SSE = "stdio", "streamable-http", "sse"

#: Seconds between the end of a daemon and the next connection.
_RETRY_S = 0.5


def add_daemon(parsers: Subparsers, about: str) -> None:
    inner = family(parsers, "daemon", about)
    start = leaf(inner, "start", run_start, "start it, if it does not run already")
    leaf(inner, "stop", run_stop, "end it; the next client or command starts another")
    restart = leaf(inner, "restart", run_restart, "end it and start another, with the settings of now; clients do not notice")
    leaf(inner, "status", run_status, "show whether it runs, for whom, and how it is")
    run = leaf(inner, "run", run_here, "be it, in the foreground, until a signal comes or nobody needs it")
    for parser in (start, restart, run):
        parser.add_argument("--profile", choices=("default", "full"), help="tools offered (setting server.profile)")


def run_start(args: argparse.Namespace) -> int:
    _needs_sockets()
    return _start(args, "runs")


def run_stop(args: argparse.Namespace) -> int:
    pid = stop(wanted(args))
    data = {"running": False, "stopped": pid or None}
    return print_result(args, data, ["It did not run." if not pid else f"Stopped (process {pid})."])


def run_restart(args: argparse.Namespace) -> int:
    _needs_sockets()
    stop(wanted(args))
    return _start(args, "runs anew")


def run_status(args: argparse.Namespace) -> int:
    """Print the state of the daemon; none is started."""
    settings_file(args)
    # All settings together take as long to load as the rest of this takes; a daemon that answers was started with good ones.
    directory = paths.data_dir(getattr(args, "data_dir", None) or "", file=getattr(args, "config", None) or "")
    try:
        data = link.call_method(directory, "daemon/status", {}, _ANSWER)
    except (FileNotFoundError, ConnectionError):  # none runs, or it has just ended
        data = {"running": False, "data_dir": wanted(args).directory, "missing": paths.loss_told(directory)}
    return print_result(args, data, _lines(data))


def run_here(args: argparse.Namespace) -> int:
    """Replace this process by the daemon (exec)."""
    _needs_sockets()
    os.execv(sys.executable, [sys.executable, *wanted(args).arguments])


def stop(which: link.Wanted) -> int:
    """Stop a daemon; return its process id, 0 if none ran.

    Raises LayerUnavailable if it has not ended within eight seconds, and what `link.call_method` raises if it does not answer.
    """
    try:
        pid = int(link.call_method(which.directory, "daemon/stop", {"reason": "asked to"}, _ANSWER)["pid"])
    except (FileNotFoundError, ConnectionRefusedError):
        return 0
    end = time.monotonic() + _END_PATIENCE
    while machine.lives(pid):
        if time.monotonic() > end:
            raise LayerUnavailable(f"the daemon (process {pid}) has not ended yet", "Look at it again: memory-mcp daemon status")
        time.sleep(_LOOK)
    return pid


def _needs_sockets() -> None:
    if not link.can_run_daemon():
        raise LayerUnavailable("this platform has no Unix sockets", "Use: memory-mcp serve --in-process")


def _start(args: argparse.Namespace, what: str) -> int:
    from memory_mcp.cli.failures import reach

    line = reach(wanted(args))
    line.close()
    data = {"running": True, "pid": line.about["pid"], "version": line.about["memory-mcp"]}
    return print_result(args, data, [f"The daemon {what} (process {data['pid']}, version {data['version']})."])


def _lines(data: dict[str, Any]) -> Iterator[str]:
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
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def add_serve(parsers: Subparsers, about: str) -> None:
    parser = leaf(parsers, "serve", run_serve, about)
    parser.add_argument("--profile", choices=("default", "full"), help="tools offered (setting server.profile)")
    parser.add_argument("--transport", choices=(_STDIO, _HTTP, _SSE), default=_STDIO, help="how clients talk to it (stdio)")
    parser.add_argument("--http", action="store_true", help="the same as --transport streamable-http; SSE is served beside it")
    parser.add_argument("--host", metavar="HOST", help="address of the HTTP door (setting server.http_host)")
    parser.add_argument("--port", metavar="PORT", type=int, help="port of the HTTP door (setting server.http_port)")
    text = "project of the client: its identity or its directory (MEMORY_MCP_PROJECT comes first)"
    parser.add_argument("--project", dest="serve_project", default="", metavar="P", help=text)
    parser.add_argument(
        "--in-process", action="store_true", help="open the store in this process, unless a background process has it open"
    )
    # What a relay starts while another process has the store.
    parser.add_argument("--held", action="store_true", help=argparse.SUPPRESS)


def run_serve(args: argparse.Namespace) -> int:
    """Serve until the client disconnects, or until stopped.

    On stdio through a daemon that runs already (not with --held), else in this process; over HTTP through the daemon, or by the
    server of another package whose section of the settings asks for it.

    Raises InvalidQuery for arguments that exclude each other, or a terminal.
    """
    http = args.http or args.transport != _STDIO
    if not http and (args.host or args.port is not None):
        raise InvalidQuery("--host and --port belong to the HTTP door", "Add --http, or leave them out.")
    if http and args.serve_project:
        raise InvalidQuery("--project belongs to one client", "Over HTTP each client says its own in the header Memory-Project.")
    if http:
        return _serve_http(args)
    if sys.stdin is not None and sys.stdin.isatty():
        hint = "memory-mcp try shows what to put into a client's configuration; memory-mcp serve --http serves many over HTTP."
        raise InvalidQuery("a client starts this and talks to it on a pipe; in a terminal nobody does", hint)
    settings = settings_of(args)
    # A daemon that runs already has the store open.
    if link.can_run_daemon() and not args.held:
        from memory_mcp.service.client import pump

        if (status := pump.run(wanted(args), start=False)) is not None:
            return status
    from memory_mcp.base.children import few_collections

    with few_collections():
        from memory_mcp.server.build import serve_stdio

    serve_stdio(settings, named_project(args), args.held)
    return 0


def _serve_http(args: argparse.Namespace) -> int:
    from memory_mcp.base import extensions

    settings = settings_of(args)
    for name in settings.extensions:
        serve = extensions.find(extensions.HTTP, name)
        if serve is not None and (status := serve(args, settings)) is not None:
            return int(status)
    return _keep_http_open(args, wanted(args))


def _keep_http_open(args: argparse.Namespace, target: link.Wanted) -> int:
    """Return only when the daemon refuses; where one ends, the server is opened in the next.

    Raises LayerUnavailable where no daemon can run here or none could be started.
    """
    if not link.can_run_daemon():
        raise LayerUnavailable("this platform has no Unix sockets for the daemon that serves HTTP", "Use stdio.")
    from memory_mcp.cli.failures import reach

    printed_url = ""
    while True:
        line = reach(target)
        try:
            answer = link.call_on_line(line, "http/open", {"host": args.host or "", "port": args.port}, lambda _: None)
            if answer["url"] != printed_url:
                printed_url = answer["url"]
                lines = [
                    f"Streamable HTTP: {answer['url']}/mcp",
                    f"SSE (for older clients): {answer['url']}/sse",
                    f"Every request needs: Authorization: Bearer <the text of {answer['token_file']}>"
                    if answer["token_file"]
                    else "Every request needs: Authorization: Bearer <server.http_token>",
                    "Open until this command is stopped.",
                ]
                render.emit(bool(getattr(args, "json", False)), answer, lines)
                render.flush()
            line.receive()
        except link.Refused as error:
            render.err(str(error))
            return error.status
        except (OSError, ValueError):
            time.sleep(_RETRY_S)
        finally:
            line.close()
