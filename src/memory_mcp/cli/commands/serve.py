"""`serve`: the MCP server on stdio."""

import argparse

from memory_mcp.cli.commands.base import Subparsers, leaf, settings_of


def add(parsers: Subparsers) -> None:
    """Arguments of `serve`."""
    parser = leaf(parsers, "serve", run, "run the MCP server for one client on stdin and stdout")
    parser.add_argument("--profile", choices=("default", "full"), help="tools offered (setting server.profile)")
    parser.add_argument("--transport", choices=("stdio",), default="stdio", help="how the client talks to it")


def run(args: argparse.Namespace) -> int:
    """Serve until the client goes."""
    settings = settings_of(args)
    from memory_mcp.server.build import serve_stdio

    serve_stdio(settings)
    return 0
