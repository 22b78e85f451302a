"""What every command is given: arguments in common, settings, an open memory, the scope and times people write."""

import argparse
import datetime as dt
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.errors import ConfigError, InvalidQuery

if TYPE_CHECKING:
    from memory_mcp import link
    from memory_mcp.app import App
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.config import Settings
    from memory_mcp.model.calendar import Calendar, TimeWindow
    from memory_mcp.storage.values import Scope


@dataclass(frozen=True, slots=True)
class Session:
    """A command that the daemon runs on its open memory, for somebody at another terminal."""

    app: "App"
    #: The caller's working directory, and what of its environment tells about its project.
    cwd: str
    environ: Mapping[str, str]
    #: Called when what the daemon has open no longer fits the store.
    reopen: Callable[[], None]


#: Set while a command runs in the daemon.
SESSION: ContextVar[Session | None] = ContextVar("session", default=None)

Subparsers = Any
#: What runs a command: its arguments in, the exit status out.
Run = Callable[[argparse.Namespace], int]

#: With more events than this to file first, a reading command says so; in the daemon it leaves them to the deriver.
_MANY_PENDING = 2000
_FEW_PENDING = 200
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.A)
_EPOCH_MS = re.compile(r"\d{12,14}", re.A)
EMPTY_HINT = "The memory is empty. Fill it with: memory-mcp import claude-code (or try it first: memory-mcp try)"


def common() -> argparse.ArgumentParser:
    """Arguments that stand before or after any command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("everywhere")
    group.add_argument("--data-dir", metavar="DIR", help="data directory (setting storage.data_dir)")
    group.add_argument("--config", metavar="FILE", help="settings file to use")
    group.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def leaf(parsers: Subparsers, name: str, run: Run, text: str, aside: str = "") -> argparse.ArgumentParser:
    """A command that runs; `aside` is said below its arguments."""
    parser: argparse.ArgumentParser = parsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=aside, parents=[common()], allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


def family(parsers: Subparsers, name: str, text: str) -> Subparsers:
    """A command whose next word says what it does."""
    parser = parsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", parents=[common()], allow_abbrev=False
    )
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=True, dest=f"{name}_command")


def as_json(args: argparse.Namespace) -> bool:
    """Whether the answer is wanted as JSON."""
    return bool(getattr(args, "json", False))


def settings_file(args: argparse.Namespace) -> Path | None:
    """The settings file named on the command line; ConfigError when there is none at that place."""
    named = getattr(args, "config", None)
    if named is None:
        return None
    path = Path(named).expanduser()
    if not path.is_file():
        raise ConfigError(f"there is no settings file {path}", "Name an existing file, or leave --config out.")
    return path


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """Settings given as flags, by their dotted names."""
    flags = {"storage.data_dir": getattr(args, "data_dir", None), "server.profile": getattr(args, "profile", None)}
    return {key: value for key, value in flags.items() if value is not None}


def settings_of(args: argparse.Namespace) -> "Settings":
    """The settings in force for this command."""
    if (session := SESSION.get()) is not None:
        return session.app.settings
    from memory_mcp.config import load

    return load(flags=flags_of(args), file=settings_file(args))


@contextmanager
def opened(args: argparse.Namespace, catch_up: bool = True, settled: bool = False) -> Iterator["App"]:
    """The memory of this command, closed at the end; with everything stored filed in the tree, unless told otherwise.

    `settled`: also in the daemon nothing is left to file when the command begins, however long that takes.
    """
    if (session := SESSION.get()) is not None:
        # What is not filed yet is searched directly, so a long import keeps nobody waiting.
        if settled or (catch_up and 0 < session.app.segments.pending() <= _FEW_PENDING):
            session.app.catch_up()
        yield session.app
        return
    from memory_mcp.app import App

    app = App(settings_of(args))
    try:
        if catch_up:
            file_pending(app)
        yield app
    finally:
        app.close()


def wanted(args: argparse.Namespace) -> "link.Wanted":
    """The daemon of this command's data directory and settings."""
    from memory_mcp import link

    profile = flags_of(args).get("server.profile")
    directory = str(settings_of(args).storage.directory.absolute())
    return link.Wanted(directory, getattr(args, "config", None) or "", {"server.profile": profile} if profile else {})


@contextmanager
def filling(args: argparse.Namespace) -> "Iterator[Memory]":
    """The memory of a command that stores much: the daemon's, or where there is to be none, opened here."""
    from memory_mcp import link
    from memory_mcp.cli import bulk

    settings = settings_of(args)
    if settings.server.daemon and link.usable():
        with bulk.there(settings, wanted(args)) as memory:
            yield memory
        return
    with opened(args, catch_up=False) as app:
        yield bulk.Here(app)


def reopen() -> None:
    """Tell the daemon, when this command runs there, that the store is not what it opened."""
    if (session := SESSION.get()) is not None:
        session.reopen()


def file_pending(app: "App") -> None:
    """Bring the tree up to date with what an earlier process stored."""
    app.drain()
    pending = app.segments.pending()
    if pending > _MANY_PENDING:
        render.err(f"filing {pending:,} events that were stored and not yet filed ...")
    app.catch_up()


def add_scope(parser: argparse.ArgumentParser) -> None:
    """--project and --all."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--project", metavar="P", help="only this project (its identity or the last part of it)")
    group.add_argument("--all", action="store_true", help="all projects")


def scope_of(app: "App", args: argparse.Namespace, from_here: bool = False) -> str | None:
    """The project a command is bound to; None for all. With `from_here` the project of the working directory counts."""
    known = app.tree.tally().projects
    if args.project is not None:
        return _named_project(args.project, known)
    if args.all or not from_here or app.settings.server.scope != "project":
        return None
    from memory_mcp.scope import caller_project

    session = SESSION.get()
    here = caller_project(session.environ, session.cwd) if session else caller_project(os.environ, str(Path.cwd()))
    if not here or here not in known:
        return None
    render.err(f"searching {here} only; --all searches every project")
    return here


def _named_project(name: str, known: tuple[str, ...]) -> str:
    if name in known:
        return name
    session = SESSION.get()
    base = Path(session.cwd) if session else Path.cwd()
    wanted = str((base / Path(name).expanduser()).resolve()) if name.startswith((".", "~")) else name
    found = [p for p in known if p == wanted or p.rstrip("/").rsplit("/", 1)[-1] == wanted]
    if len(found) == 1:
        return found[0]
    names = ", ".join(p or '""' for p in (found or known)[:10]) or "none yet"
    raise InvalidQuery(f"{'several projects are' if found else 'no project is'} called {name!r}", f"Projects: {names}.")


def add_times(parser: argparse.ArgumentParser) -> None:
    """--since and --until."""
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-30, 2026-01-30T14:00, yesterday, 'last week'")
    parser.add_argument("--until", metavar="TIME", help="up to the end of then")


def window_of(app: "App", args: argparse.Namespace) -> "TimeWindow | None":
    """The window that --since and --until leave open."""
    since = moment(args.since, app.calendar, app.clock.now_ms(), at_end=False) if args.since else None
    until = moment(args.until, app.calendar, app.clock.now_ms(), at_end=True) if args.until else None
    return app.window(since, until)


def moment(text: str, calendar: "Calendar", now_ms: int, at_end: bool) -> int:
    """A time as people write it, in UTC milliseconds: its beginning, or its end for a day or a longer time."""
    from memory_mcp.layers.timehints import find_time

    given = text.strip()
    if _EPOCH_MS.fullmatch(given):
        return int(given)
    try:
        if _DATE.fullmatch(given):
            day = dt.date.fromisoformat(given)
            return calendar.midnight(day + dt.timedelta(days=1)) if at_end else calendar.midnight(day)
        if "T" in given or ":" in given:
            stamp = dt.datetime.fromisoformat(given)
            return round((stamp if stamp.tzinfo else stamp.replace(tzinfo=calendar.zone)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _no_time(text) from None
    for lead in ("until" if at_end else "since", "", "in"):
        hint = find_time(f"{lead} {given}", now_ms, calendar)
        if hint.window is not None and not hint.rest:
            return hint.window.end_ms if at_end else hint.window.start_ms
    raise _no_time(text)


def _no_time(text: str) -> InvalidQuery:
    return InvalidQuery(f"not a time: {text!r}", "Write 2026-01-30, 2026-01-30T14:00, yesterday, 'last week' or 'january 2026'.")


def storage_scope(app: "App", args: argparse.Namespace) -> "Scope":
    """The scope of --project, --all, --since and --until for reading the store."""
    from memory_mcp.storage.values import Scope

    return Scope(project=scope_of(app, args), window=window_of(app, args))


def stamp(calendar: "Calendar", ms: int, seconds: bool = False) -> str:
    """Local date and time, as shown in text."""
    return calendar.local(ms).strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def check_limit(limit: int, most: int) -> None:
    """InvalidQuery unless from 1 to `most` results are asked for."""
    if not 1 <= limit <= most:
        raise InvalidQuery(f"limit must be 1 to {most}, not {limit}")


def words_of(args: argparse.Namespace) -> str:
    """The query, from --query or from the words after the command; InvalidQuery when there is none or both."""
    loose = " ".join(args.words).strip()
    named = getattr(args, "query", None)
    if named is not None and loose:
        raise InvalidQuery("the query is given twice", "Use either --query WORDS or the words alone.")
    query: str = loose if named is None else named
    if not query.strip():
        raise InvalidQuery("the query is empty", "Give at least one word to look for.")
    return query


def hint_when_empty(app: "App") -> None:
    """Tell a newcomer what to do first."""
    if not app.tree.tally().events and not app.storage.events.last_seq():
        render.err(EMPTY_HINT)
