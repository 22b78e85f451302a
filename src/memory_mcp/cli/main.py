"""Parses a command line and runs its command.

Exit statuses: 0 done, 1 the store or this program failed, 2 the request was wrong, 3 it cannot be answered now, 130 stopped.
"""

import argparse
import itertools
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
from memory_mcp.base.errors import DiskFull, InvalidQuery, MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.commands import registry
from memory_mcp.cli.commands.base import common, run_in_daemon

INTERRUPTED = 130
_DEBUG = "MEMORY_MCP_DEBUG"
_CHOICE = re.compile(r"argument ([^:]+): invalid choice: '([^']*)' \(choose from (.*)\)")
_VALUE = re.compile(r"argument ([^:]+): invalid (\w+) value: (.*)")
_NO_VALUE = re.compile(r"argument ([^:]+): expected (?:one|at least one) argument")
_EXCLUDED = re.compile(r"argument (\S+): not allowed with argument (\S+)")
#: Options of every command.
_EVERYWHERE = ("--help", "--data-dir", "--config", "--json")
_MISSING, _UNKNOWN = "the following arguments are required: ", "unrecognized arguments: "
#: A word that is meant as an option, and no negative number.
_OPTION = re.compile(r"-{1,2}[A-Za-z]")
#: What people type here because other programs call it so.
HABITS = {
    **dict.fromkeys(("list", "ls", "log", "history", "recent", "tree"), "timeline"),
    **dict.fromkeys(("find", "recall", "question"), "ask"),
    **dict.fromkeys(("get", "cat", "view"), "show"),
    **dict.fromkeys(("add", "remember", "save", "store", "put"), "ingest"),
    **dict.fromkeys(("init", "index", "load"), "import"),
    **dict.fromkeys(("status", "check", "health", "info"), "doctor"),
    **dict.fromkeys(("start", "stop", "restart"), "daemon"),
    **dict.fromkeys(("mcp", "server", "run"), "serve"),
    **dict.fromkeys(("tui", "ui", "explore"), "open"),
    "grep": "search",
    "settings": "config",
    "set": "config",
    "version": "--version",
}


class Parser(argparse.ArgumentParser):
    """An argument parser that raises InvalidQuery."""

    def error(self, message: str) -> NoReturn:
        """Raise InvalidQuery with the mistake, the nearest word and help."""
        see = f"See: {self.prog} --help"
        _, options = self._find_named_parser()
        words = itertools.takewhile(lambda word: word != "--", self.given)
        if misspelt := next((w for w in words if _OPTION.match(w) and w.partition("=")[0] not in options), ""):
            raise self._unknown_option(misspelt)
        if choice := _CHOICE.search(message):
            raise self._unknown_word(choice[1], choice[2], [c.strip(" '") for c in choice[3].split(",")])
        if message.startswith(_MISSING):
            names = message.removeprefix(_MISSING).split(", ")
            known_words = f", one of {', '.join(self.choices() or self._values(names[0]))}"
            usage = " ".join((self.prog, *self._list_required_words()))
            are = f"{' and '.join(names)} {'are' if len(names) > 1 else 'is'} missing"
            raise InvalidQuery(are, f"Write: {usage}{known_words if known_words != ', one of ' else ''}. {see}")
        if message.startswith(_UNKNOWN):
            raise self._unknown_option(message.removeprefix(_UNKNOWN).split()[0])
        if value := _VALUE.search(message):
            kinds = {"int": "a whole number", "float": "a number"}
            raise InvalidQuery(f"{value[1]} must be {kinds.get(value[2], f'a {value[2]}')}, not {value[3]}", see)
        if nothing := _NO_VALUE.search(message):
            raise InvalidQuery(f"{nothing[1]} needs a value", see)
        if conflict := _EXCLUDED.search(message):
            raise InvalidQuery(f"{conflict[2]} and {conflict[1]} do not go together", f"Leave one out. {see}")
        raise InvalidQuery(message, see)

    def _unknown_word(self, argument: str, word: str, known_words: list[str]) -> InvalidQuery:
        """For a command also what people call so elsewhere; for SOURCE that it is a path, or why it cannot be read."""
        from memory_mcp.base.extensions import hint_for
        from memory_mcp.cli.mistakes import SOURCE_HABITS, UNREADABLE, client_habits, nearest

        see = f"See: {self.prog} --help"
        if isinstance(self, _Front) and (extra := hint_for(word)):
            return InvalidQuery(f"unknown command: {word!r}", extra)
        if instead := registry.REMOVED.get(f"{self.prog} {word}".removeprefix("memory-mcp ")):
            return InvalidQuery(f"{self.prog} {word} was removed", f"{instead}.")
        if argument == "SOURCE" and re.search(r"[\\/]|^[.~]", word):
            return InvalidQuery(f"{word} is a path, and a source comes before it", f"Write: {self.prog} auto {word}. {see}")
        habits = HABITS if isinstance(self, _Front) else SOURCE_HABITS if argument == "SOURCE" else client_habits()
        near = habits.get(word.casefold(), "")
        near = near if near in known_words or (near and isinstance(self, _Front)) else nearest(word, known_words)
        listed = f"Known: {', '.join(known_words)}. "
        if isinstance(self, _Front):
            listed = "" if near else f"The everyday ones are {', '.join(registry.FIRST)}. All: {self.prog} --help --all. "
        descriptions = registry.describe_commands() if near and not listed else {}
        about = f" ({descriptions[near]})" if near in descriptions else ""
        suggestion = f"Did you mean {near}{about}? " if near else ""
        if argument == "SOURCE" and word in UNREADABLE:
            suggestion = f"{UNREADABLE[word]} "
        return InvalidQuery(f"unknown {argument.lower()}: {word!r}", f"{suggestion}{listed}{see}")

    def _unknown_option(self, option: str) -> InvalidQuery:
        from memory_mcp.cli.mistakes import nearest

        parser, options = self._find_named_parser()
        near = nearest(option.partition("=")[0], sorted(options, key=lambda name: (len(name) < 3, name)))
        if not option.startswith("-"):
            text, positions = parser._takes_text(), [a for a in parser._actions if not a.option_strings]
            names = [name for name in parser._option_string_actions if name.startswith("--") and name not in _EVERYWHERE]
            suggestion = f'Put {text} in quotes: {parser.prog} "... {option} ...". ' if text else ""
            suggestion = f"It takes options alone: {', '.join(names)}. " if names and not positions else suggestion
            return InvalidQuery(f"unknown word: {option!r}", f"{suggestion}See: {parser.prog} --help")
        suggestion = f"Did you mean {near}? " if near else ""
        return InvalidQuery(f"unknown option: {option!r}", f"{suggestion}See: {parser.prog} --help")

    def _find_named_parser(self) -> "tuple[Parser, set[str]]":
        parser, options = self, set(self._option_string_actions)
        while deeper := next((parser.choices()[word] for word in self.given if word in parser.choices()), None):
            parser, options = deeper, options | set(deeper._option_string_actions)
        return parser, options

    def _list_required_words(self) -> list[str]:
        return [str(a.metavar or a.dest) for a in self._actions if not a.option_strings and a.nargs not in ("?", "*", 0)]

    def _values(self, name: str) -> list[str]:
        return [str(value) for a in self._actions if a.metavar == name for value in a.choices or ()]

    def _takes_text(self) -> str:
        words = [a for a in self._actions if not a.option_strings and not a.choices]
        return str(words[-1].metavar) if words and words[-1].metavar in ("TEXT", "ID") else ""

    #: The command line that is parsed, for error messages.
    given: Sequence[str] = ()

    def give(self, argv: Sequence[str]) -> None:
        """Set the command line here and in the subcommands' parsers."""
        self.given = argv
        for parser in self.choices().values():
            parser.give(argv)

    def choices(self) -> "dict[str, Parser]":
        """Return the parsers of the subcommands by name."""
        return dict(self._subparsers._group_actions[0].choices or {}) if self._subparsers else {}


class _Front(Parser):
    """The parser of the whole program, with help in groups."""

    def format_help(self) -> str:
        """Return the help: some commands, or with --all the rest."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        assert self._subparsers is not None
        rows = {row.dest: row for row in cast("Any", self._subparsers._group_actions[0])._get_subactions()}
        is_whole = "--all" in self.given
        for title, names in {"to begin with": registry.FIRST, **(registry.GROUPS if is_whole else {})}.items():
            formatter.start_section(title)
            formatter.add_arguments([rows[name] for name in names])
            formatter.end_section()
        for title, others in registry.group_further().items() if is_whole else ():
            formatter.add_text(f"{title}: {', '.join(others)}")
        for group in self._action_groups:
            if group is not self._subparsers:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def build_parser(argv: Sequence[str] | None = None) -> Parser:
    """Return the parser of the commands that `argv` names.

    The others are there by name only, and their modules are not loaded. None: of all commands in full.
    """
    parser = _Front(
        prog="memory-mcp",
        description="Long-term memory for coding agents. On a pipe, without a command, this is the MCP server on stdio.",
        epilog="All commands: memory-mcp --help --all. New here? memory-mcp try",
        parents=[common()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"memory-mcp {__version__}")
    parsers = parser.add_subparsers(title="commands", metavar="COMMAND", dest="command", parser_class=Parser)
    for name, about in registry.describe_commands(argv).items():
        if argv is None or name in argv:
            registry.add_command(parsers, name)
        else:
            parsers.add_parser(name, help=about, add_help=False)
    parser.give(argv or ())
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; any error becomes one line on stderr.

    Returns the exit status: 0 where the reader of the output has gone, 130 when interrupted. Changes the process's umask, so
    that its files are private.
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
    """Raise KeyboardInterrupt at a signal that asks the process to end.

    Signals that are ignored, as by nohup, stay so. A second one ends the process at once. In a thread of the daemon, whose
    signals are its own, nothing changes.
    """
    from memory_mcp.base import machine

    def interrupt(number: int, _: FrameType | None) -> None:
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
    """Run one command on the terminal of `render`; errors are printed.

    KeyboardInterrupt, and BrokenPipeError where the reader of the output has gone, are passed on.
    """
    is_json = "--json" in argv
    try:
        return _run(list(argv))
    except BrokenPipeError:
        raise
    except MemoryMcpError as error:
        return _print_failure(error, is_json)
    except OSError as error:
        return _print_failure(DiskFull.of(error) or MemoryMcpError(str(error), f"{_DEBUG}=1 shows where."), is_json)
    except Exception as error:
        render.trace()
        return _print_failure(MemoryMcpError(f"{type(error).__name__}: {error}", "This is a defect of memory-mcp."), is_json)


def _print_failure(error: MemoryMcpError, is_json: bool) -> int:
    if os.environ.get(_DEBUG) == "1" and sys.exc_info()[0] is not None:
        render.trace()
    render.err(render.one_line(str(error) if is_json else error.sentence))
    return error.exit_status


def _run(argv: list[str]) -> int:
    """A variable MEMORY_MCP_... that is none of ours raises ConfigError, except for doctor."""
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
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
        from memory_mcp.cli.commands import daemon

        return daemon.run_serve(build_parser(["serve"]).parse_args(["serve", *argv]))
    if getattr(args, f"{args.command}_command", "") is None and registry.state_command_of(args.command):
        return _run_state_command(parser, args.command, argv)
    from memory_mcp.base import paths

    if args.command != "doctor" and paths.unknown_variable():
        from memory_mcp.config import load

        # It raises with the nearest name.
        load()
    if getattr(args, "is_forwarded", False) and (forwarded_status := run_in_daemon(args, argv)) is not None:
        return forwarded_status
    with _interrupted_by_signals():
        status: int = args.run(args)
    return status


def _run_state_command(parser: Parser, command: str, argv: list[str]) -> int:
    state_command = registry.state_command_of(command)
    arguments = list(argv)
    arguments.remove(command)
    status = _run([*state_command.split(), *arguments])
    if "--json" not in argv:
        words = [word for word in parser.choices()[command].choices() if word not in state_command.split()]
        render.flush()
        render.err(f"Also: memory-mcp {command} {' | '.join(words)}")
    return status
