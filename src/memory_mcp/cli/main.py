"""The argument tree and the exit status: 0 done, 1 the store or this program failed, 2 asked wrongly, 3 not now, 130 stopped."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from memory_mcp import __version__
from memory_mcp.cli import render
from memory_mcp.cli.commands import registry
from memory_mcp.cli.commands.base import common
from memory_mcp.errors import InvalidQuery, MemoryMcpError

INTERRUPTED = 130
_DEBUG = "MEMORY_MCP_DEBUG"
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are errors like all others."""

    def error(self, message: str) -> NoReturn:
        """InvalidQuery with the nearest known word, and where to read on."""
        hint = f"See: {self.prog} --help"
        if choice := _CHOICE.search(message):
            from difflib import get_close_matches

            near = get_close_matches(choice[1], [c.strip(" '") for c in choice[2].split(",")], n=1)
            message = f"unknown: {choice[1]!r}"
            hint = f"Did you mean {near[0]}? {hint}" if near else hint
        raise InvalidQuery(message, hint)


def build_parser(argv: Sequence[str] | None = None) -> Parser:
    """The argument tree: of the commands that `argv` may mean, the others by name only; None: all of it."""
    parser = Parser(
        prog="memory-mcp",
        description="Long-term memory for coding agents. On a pipe, without a command, this is the MCP server on stdio.",
        epilog="New here? memory-mcp try",
        parents=[common()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"memory-mcp {__version__}")
    parsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for name, about in registry.COMMANDS.items():
        if argv is None or name in argv:
            registry.add(parsers, name)
        else:
            parsers.add_parser(name, help=about, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status. Errors of ours end as one line on stderr."""
    render.prepare_streams()
    # What is stored and written beside it is for this user alone.
    os.umask(os.umask(0o077) | 0o077)
    try:
        status = perform(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read the answer has enough; nothing more may be written, not even at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        render.err("stopped")
        return INTERRUPTED
    return status


def perform(argv: Sequence[str]) -> int:
    """As `main`, for whichever terminal `render` is set to; BrokenPipeError when nobody reads there."""
    try:
        return _run(list(argv))
    except BrokenPipeError:
        raise
    except MemoryMcpError as error:
        return _failed(str(error), error.exit_status)
    except OSError as error:
        return _failed(f"INTERNAL: {error}. {_DEBUG}=1 shows where.", 1)
    except Exception as error:
        render.trace()
        return _failed(f"INTERNAL: {type(error).__name__}: {error}. This is a defect of memory-mcp.", 1)


def _failed(text: str, status: int) -> int:
    if os.environ.get(_DEBUG) == "1" and sys.exc_info()[0] is not None:
        render.trace()
    render.err(render.one_line(text))
    return status


def _run(argv: list[str]) -> int:
    parser = build_parser(argv)
    try:
        args = parser.parse_args(argv)
    except SystemExit as asked:
        # --help and --version: what was asked for is printed.
        return int(asked.code or 0)
    if args.command is None:
        if sys.stdin is None or sys.stdin.isatty():
            parser.print_help()
            return 0
        from memory_mcp.cli.commands import serve

        return serve.run(build_parser(["serve"]).parse_args(["serve", *argv]))
    status: int = args.run(args)
    return status
