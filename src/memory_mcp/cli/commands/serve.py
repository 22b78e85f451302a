"""`serve`: run the MCP server for one client on stdio, or for many over HTTP."""

import argparse
import sys

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.cli.commands.base import Subparsers, leaf, named_project, settings_of, wanted

_STDIO, _HTTP, _SSE = "stdio", "streamable-http", "sse"


def add(parsers: Subparsers, about: str) -> None:
    """Add the command `serve`, which `run` carries out, and its arguments; `about` is its help text."""
    parser = leaf(parsers, "serve", run, about)
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


def run(args: argparse.Namespace) -> int:
    """Serve until the client disconnects, or until stopped; return the exit status.

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
    from memory_mcp.service.client import link

    settings = settings_of(args)
    # A daemon that runs already has the store open.
    if link.usable() and not args.held:
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
    from memory_mcp.cli.http import serve_http

    settings = settings_of(args)
    for name in settings.extensions:
        serve = extensions.find(extensions.HTTP, name)
        if serve is not None and (status := serve(args, settings)) is not None:
            return int(status)
    return serve_http(args, wanted(args))
