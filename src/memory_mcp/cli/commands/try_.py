"""`try`."""

from memory_mcp.cli.commands.base import Subparsers


def add(parsers: Subparsers) -> None:
    """Arguments of `try`."""
