"""Parses a command line and runs its command.

Exit statuses: 0 done, 1 the store or this program failed, 2 the request was wrong, 3 it cannot be answered now, 130 stopped.
"""

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, cast

from memory_mcp import __version__
from memory_mcp.cli import render
from memory_mcp.cli.commands import registry
from memory_mcp.cli.commands.base import common
from memory_mcp.errors import DiskFull, InvalidQuery, MemoryMcpError

INTERRUPTED = 130
_DEBUG = "MEMORY_MCP_DEBUG"
_CHOICE = re.compile(r"argument ([^:]+): invalid choice: '([^']*)' \(choose from (.*)\)")
_VALUE = re.compile(r"argument ([^:]+): invalid (\w+) value: (.*)")
_NO_VALUE = re.compile(r"argument ([^:]+): expected (?:one|at least one) argument")
_MISSING, _UNKNOWN = "the following arguments are required: ", "unrecognized arguments: "
#: What people type here because other programs call it so.
HABITS = {
    **dict.fromkeys(("list", "ls", "log", "history", "recent"), "timeline"),
    **dict.fromkeys(("find", "recall", "question"), "ask"),
    **dict.fromkeys(("get", "cat", "view"), "show"),
    **dict.fromkeys(("add", "remember", "save", "store", "put"), "ingest"),
    **dict.fromkeys(("init", "index", "load"), "import"),
    **dict.fromkeys(("status", "check", "health", "info"), "doctor"),
    **dict.fromkeys(("start", "stop", "restart"), "daemon"),
    **dict.fromkeys(("mcp", "server", "run"), "serve"),
    **dict.fromkeys(("tui", "ui", "explore", "tree"), "browse"),
    "grep": "search",
    "settings": "config",
    "set": "config",
    "version": "--version",
    "help": "--help",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidQuery."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidQuery with the mistake, the nearest known word or all of them, and the help to read; it never returns."""
        see = f"See: {self.prog} --help"
        if choice := _CHOICE.search(message):
            raise self._unknown_word(choice[1], choice[2], [c.strip(" '") for c in choice[3].split(",")])
        if message.startswith(_MISSING):
            names = message.removeprefix(_MISSING)
            known = f", one of {', '.join(self.choices())}" if names == "COMMAND" else ""
            raise InvalidQuery(f"{names} is missing", f"Write: {self.prog} {names}{known}. {see}")
        if message.startswith(_UNKNOWN):
            raise self._unknown_option(message.removeprefix(_UNKNOWN).split()[0])
        if value := _VALUE.search(message):
            kinds = {"int": "a whole number", "float": "a number"}
            raise InvalidQuery(f"{value[1]} must be {kinds.get(value[2], f'a {value[2]}')}, not {value[3]}", see)
        if nothing := _NO_VALUE.search(message):
            raise InvalidQuery(f"{nothing[1]} needs a value", see)
        raise InvalidQuery(message, see)

    def _unknown_word(self, argument: str, given: str, known: list[str]) -> InvalidQuery:
        """Return the error for a word that an argument does not take, with the nearest one that it does, else all of them.

        For a command also what people call so elsewhere; for SOURCE that it is a path, or why it cannot be read.
        """
        from difflib import get_close_matches

        from memory_mcp.cli.mistakes import UNREADABLE

        see = f"See: {self.prog} --help"
        if argument == "SOURCE" and re.search(r"[\\/]|^[.~]", given):
            return InvalidQuery(f"{given} is a path, and a source comes before it", f"Write: {self.prog} auto {given}. {see}")
        near = get_close_matches(given, known, n=1)
        listed = f"Known: {', '.join(known)}. "
        if isinstance(self, _Front):
            near = [HABITS[given]] if given in HABITS else near
            listed = "" if near else f"The everyday ones are {', '.join(registry.GROUPS['everyday'])}. "
        about = f" ({registry.COMMANDS[near[0]]})" if near and not listed and near[0] in registry.COMMANDS else ""
        said = f"Did you mean {near[0]}{about}? " if near else ""
        if argument == "SOURCE" and given in UNREADABLE:
            said = f"{UNREADABLE[given]} "
        return InvalidQuery(f"unknown {argument.lower()}: {given!r}", f"{said}{listed}{see}")

    def _unknown_option(self, given: str) -> InvalidQuery:
        """Return the error for an option or word that no parser of the command line knows.

        Its hint names the nearest option of the commands that the command line names, and their help.
        """
        from difflib import get_close_matches

        parser, options = self, set[str]()
        while True:
            options |= set(parser._option_string_actions)
            deeper = next((parser.choices()[word] for word in self.given if word in parser.choices()), None)
            if deeper is None:
                break
            parser = deeper
        near = get_close_matches(given.partition("=")[0], sorted(options), n=1)
        said = f"Did you mean {near[0]}? " if near else ""
        kind = "option" if given.startswith("-") else "word"
        return InvalidQuery(f"unknown {kind}: {given!r}", f"{said}See: {parser.prog} --help")

    #: The command line that is parsed, for error messages.
    given: Sequence[str] = ()

    def choices(self) -> "dict[str, Parser]":
        """Return the parsers of the subcommands, by their names; empty without any."""
        return dict(self._subparsers._group_actions[0].choices or {}) if self._subparsers else {}


class _Front(Parser):
    """The whole program's parser, whose help shows the commands in groups."""

    def format_help(self) -> str:
        """Return the help with the commands in groups, those of `registry.GROUPS`, instead of one list."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        assert self._subparsers is not None
        rows = {row.dest: row for row in cast("Any", self._subparsers._group_actions[0])._get_subactions()}
        for title, names in registry.GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([rows[name] for name in names if name in rows])
            formatter.end_section()
        for group in self._action_groups:
            if group is not self._subparsers:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def build_parser(argv: Sequence[str] | None = None) -> Parser:
    """Return the parser of the commands that `argv` holds as words, the others by name only; None: of all commands in full.

    Only the modules of commands in full are loaded.
    """
    parser = _Front(
        prog="memory-mcp",
        description="Long-term memory for coding agents. On a pipe, without a command, this is the MCP server on stdio.",
        epilog="New here? memory-mcp try",
        parents=[common()],
        allow_abbrev=False,
    )
    parser.given = argv or ()
    parser.add_argument("--version", action="version", version=f"memory-mcp {__version__}")
    parsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for name, about in registry.COMMANDS.items():
        if argv is None or name in argv:
            registry.add(parsers, name)
        else:
            parsers.add_parser(name, help=about, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (None: of the process's own arguments) and return the exit status; any error becomes one line on stderr.

    0 where the reader of the output has gone, 130 when interrupted. Changes the process's umask, so that its
    files are private.
    """
    render.prepare_streams()
    # What is stored and written beside it is for this user alone.
    os.umask(os.umask(0o077) | 0o077)
    try:
        status = perform(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe; nothing more may be written, not even at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        render.err("stopped")
        return INTERRUPTED
    return status


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt at a signal that asks the process to end, so that it ends its children and removes its files.

    Signals that are ignored, as by nohup, stay so. A second one ends the process at once. In a thread of the daemon, whose
    signals are its own, nothing changes.
    """
    from memory_mcp import machine

    def interrupt(number: int, _: FrameType | None) -> None:
        """Raise KeyboardInterrupt; the next such signal ends the process."""
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    main_thread = threading.current_thread() is threading.main_thread()
    heard = [n for n in machine.ending_signals() if main_thread and signal.getsignal(n) is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, signal.SIG_DFL)


def perform(argv: Sequence[str]) -> int:
    """Run one command on the terminal that `render` is set to; return the exit status.

    Errors, ours or not, are printed as one line on stderr and become a status; KeyboardInterrupt, and BrokenPipeError where the
    reader of the output has gone, are passed on.
    """
    try:
        return _run(list(argv))
    except BrokenPipeError:
        raise
    except MemoryMcpError as error:
        return _failed(str(error), error.exit_status)
    except OSError as error:
        if full := DiskFull.of(error):
            return _failed(str(full), full.exit_status)
        return _failed(f"INTERNAL: {error}. {_DEBUG}=1 shows where.", 1)
    except Exception as error:
        render.trace()
        return _failed(f"INTERNAL: {type(error).__name__}: {error}. This is a defect of memory-mcp.", 1)


def _failed(text: str, status: int) -> int:
    """Print an error as one line on stderr, with MEMORY_MCP_DEBUG=1 also where it was raised; return `status`."""
    if os.environ.get(_DEBUG) == "1" and sys.exc_info()[0] is not None:
        render.trace()
    render.err(render.one_line(text))
    return status


def _run(argv: list[str]) -> int:
    """Parse the words and run the command that they name; return its exit status, and raise what it raises.

    --help and --version return 0. Without a command: help on a terminal, else the stdio server. A variable
    MEMORY_MCP_... that is none of ours raises ConfigError, except for doctor.
    """
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
    from memory_mcp import paths

    if args.command != "doctor" and paths.unknown_variable():
        from memory_mcp.config import load

        # It raises with the nearest name.
        load()
    with _interrupted_by_signals():
        status: int = args.run(args)
    return status
