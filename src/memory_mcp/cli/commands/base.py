"""What every command is given: arguments in common, settings, an open memory, the scope and times people write."""

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from memory_mcp.cli import render
from memory_mcp.errors import ConfigError, InvalidQuery

if TYPE_CHECKING:
    from pathlib import Path

    from memory_mcp import link
    from memory_mcp.app import App
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.config import Settings
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.requests.scope import Scoped


class Session(NamedTuple):
    """A command that the daemon runs on its open memory, for somebody at another terminal."""

    app: "App"
    #: The caller's working directory, and what of its environment tells about its project.
    cwd: str
    environ: Mapping[str, str]
    #: Called when what the daemon has open no longer fits the store.
    reopen: Callable[[], None]


#: Set while a command runs in the daemon.
SESSION: ContextVar[Session | None] = ContextVar("session", default=None)
#: Who acts upon the memory by a command, as the list of acts names them.
COMMAND_LINE = "command line"

Subparsers = Any
#: What runs a command: its arguments in, the exit status out.
Run = Callable[[argparse.Namespace], int]

#: With more events than this to file first, a reading command says so; in the daemon it leaves them to the deriver.
_MANY_PENDING = 2000
_FEW_PENDING = 200
EMPTY_HINT = (
    "The memory is empty. Fill it with: memory-mcp import, or set everything up: memory-mcp setup"
    " (or try it first: memory-mcp try)"
)


def common() -> argparse.ArgumentParser:
    """Arguments that stand before or after any command."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("everywhere")
    group.add_argument("--data-dir", metavar="DIR", help="data directory (setting storage.data_dir; MEMORY_MCP_DATA_DIR)")
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


def settings_file(args: argparse.Namespace) -> "Path | None":
    """The settings file named on the command line; ConfigError when there is none at that place."""
    named = getattr(args, "config", None)
    if named is None:
        return None
    from pathlib import Path

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
        if settled or (catch_up and 0 < session.app.derivation.pending() <= _FEW_PENDING):
            session.app.derivation.run()
        _tell_loss(session.app)
        yield session.app
        return
    from memory_mcp.app import App
    from memory_mcp.forgetting.act import resume
    from memory_mcp.storage.lock import read_only

    app = App(settings_of(args))
    app.settings_file = settings_file(args) or app.settings_file
    try:
        writable = not read_only(app.directory)
        if writable:
            resume(app)
        if catch_up and writable:
            file_pending(app)
        _tell_loss(app)
        yield app
    finally:
        app.close()


def _tell_loss(app: "App") -> None:
    if app.storage.loss:
        from memory_mcp.requests.response import loss_notice

        render.err(f"Note: {loss_notice(app.storage.loss)}")


def named_project(args: argparse.Namespace) -> str:
    """Return the project that `serve` is told to serve for; "" for every other command."""
    return str(getattr(args, "serve_project", ""))


def wanted(args: argparse.Namespace) -> "link.Wanted":
    """The daemon of this command's data directory and settings."""
    from memory_mcp import link

    profile = flags_of(args).get("server.profile")
    directory = str(settings_of(args).storage.directory.absolute())
    return link.Wanted(
        directory, getattr(args, "config", None) or "", {"server.profile": profile} if profile else {}, named_project(args)
    )


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
    pending = app.derivation.pending()
    if pending > _MANY_PENDING:
        render.err(f"filing {pending:,} events that were stored and not yet filed ...")
    app.derivation.run()


def add_scope(parser: argparse.ArgumentParser) -> None:
    """--project and --all."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--project", metavar="P", help="only this project (its identity or the last part of it)")
    group.add_argument("--all", action="store_true", help="all projects")


def add_who(parser: argparse.ArgumentParser) -> None:
    """--role and --speaker."""
    parser.add_argument("--role", metavar="R", default="", help="only what this role said: user, assistant or tool")
    parser.add_argument("--speaker", metavar="S", default="", help="only what this person said")


def scope_of(app: "App", args: argparse.Namespace) -> "Scoped":
    """Return what a command is bound to: the project of the working directory where none is named and the memory knows it."""
    from memory_mcp.requests import scope

    name = project_typed(app, args.project or "")
    found = scope.scope_of(app, name, scope.ScopeName.ALL if args.all else "", scope.Caller(project_here(app)))
    if found.widened_from:
        render.err(f"nothing is stored of project {found.widened_from} yet: searching every project")
    if found.by_default:
        render.err(f"searching {found.project} only; --all searches every project")
    return found


def whose(app: "App", args: argparse.Namespace) -> dict[str, Any]:
    """Return the project and scope of a request, and say on stderr when the working directory bounds it."""
    from memory_mcp.requests.scope import ScopeName

    scope_of(app, args)
    return {"project": project_typed(app, args.project or ""), "scope": ScopeName.ALL.value if args.all else ""}


def answered(app: "App", request: Any) -> dict[str, Any]:
    """Return the response of a request, as JSON knows it."""
    from memory_mcp.requests.registry import answer
    from memory_mcp.requests.scope import Caller

    return answer(app, request, Caller(project_here(app)))


def project_here(app: "App") -> str:
    """Return the project of the working directory; "" where that tells none."""
    from pathlib import Path

    from memory_mcp.scope import caller_project

    session = SESSION.get()
    environ, cwd = (session.environ, session.cwd) if session else (os.environ, str(Path.cwd()))
    return caller_project(environ, cwd, configured=app.settings.server.project)


def project_typed(app: "App", name: str) -> str:
    """Return a project's name; one that is written as a relative path is that of the directory there."""
    from pathlib import Path

    from memory_mcp.scope import caller_project

    if not name.startswith((".", "~")):
        return name
    session = SESSION.get()
    place = str((Path(session.cwd if session else Path.cwd()) / Path(name).expanduser()).resolve())
    here = app.storage.projects.names.of(caller_project({}, place))
    return here if here in app.tree.tally().projects else place


def add_times(parser: argparse.ArgumentParser) -> None:
    """--since and --until."""
    parser.add_argument("--since", metavar="TIME", help="from then on: 2026-01-30, 2026-01-30T14:00, yesterday, 'last week'")
    parser.add_argument("--until", metavar="TIME", help="up to the end of then")


def stamp(calendar: "Calendar", ms: int, seconds: bool = False) -> str:
    """Local date and time, as shown in text."""
    return calendar.local(ms).strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def words_of(args: argparse.Namespace) -> str:
    """The query, from --query or from the words after the command; InvalidQuery when there is none or both."""
    loose = " ".join(args.words).strip()
    named = getattr(args, "query", None)
    if named is not None and loose:
        raise InvalidQuery("the query is given twice", "Use either --query WORDS or the words alone.")
    from memory_mcp.requests.limits import words

    return words(loose if named is None else named)


def hint_when_empty(app: "App") -> None:
    """Tell a newcomer what to do first."""
    if not app.tree.tally().events and not app.storage.events.last_seq():
        render.err(EMPTY_HINT)
