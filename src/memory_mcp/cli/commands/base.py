"""What commands share: common arguments, settings, the open memory, scope and times.

Change here: a flag of a command, or how it prints.
"""

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from memory_mcp.base.errors import ConfigError, InvalidQuery, MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.commands.registry import STATE_COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

    from memory_mcp.app import App
    from memory_mcp.capture.running import CallerProcess
    from memory_mcp.cli.bulk import Memory
    from memory_mcp.cli.checks.base import Look
    from memory_mcp.config import Settings
    from memory_mcp.service.client import link


class Session(NamedTuple):
    """A command that the daemon runs for a caller elsewhere."""

    app: "App"
    #: The caller's working directory, and the environment variables that tell its project.
    cwd: str
    environ: Mapping[str, str]
    #: Called when the daemon must open the store again.
    reopen: Callable[[], None]
    connection: "CallerProcess | None" = None


#: Set while a command runs in the daemon.
SESSION: ContextVar[Session | None] = ContextVar("session", default=None)
#: Who acts upon the memory by a command, as the list of acts names them.
COMMAND_LINE = "command line"

T = TypeVar("T")
Subparsers = Any
#: What runs a command: its arguments in, the exit status out.
Run = Callable[[argparse.Namespace], int]

#: With more events than this to file first, a reading command says so; in the daemon it leaves them to the deriver.
_MANY_PENDING, _FEW_PENDING = 2000, 200
_TO_FILL = "Fill it with: memory-mcp import, or set everything up: memory-mcp setup (or try it first: memory-mcp try)"
EMPTY_HINT = f"The memory is empty. {_TO_FILL}"


class EmptyMemory(MemoryMcpError):
    """An empty memory, which a command reports without failing."""

    exit_status = 0


def common() -> argparse.ArgumentParser:
    """Return a parser of --data-dir, --config and --json."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("everywhere")
    group.add_argument("--data-dir", metavar="DIR", help="data directory (setting storage.data_dir; MEMORY_MCP_DATA_DIR)")
    group.add_argument("--config", metavar="FILE", help="settings file to use")
    group.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def leaf(parsers: Subparsers, name: str, run: Run, text: str, aside: str = "") -> argparse.ArgumentParser:
    """Add a command that `run` carries out; `note` follows its arguments."""
    parser: argparse.ArgumentParser = parsers.add_parser(
        name, help=text, description=text[0].upper() + text[1:] + ".", epilog=aside, parents=[common()], allow_abbrev=False
    )
    parser.set_defaults(run=run)
    return parser


def family(parsers: Subparsers, name: str, text: str, state_command: str = "") -> Subparsers:
    """Add a command with subcommands; return its subparsers.

    The chosen one is in the argument NAME_command, None only for a command that has a `state_command`, by default
    that of `registry.STATE_COMMANDS`.
    """
    state_command = STATE_COMMANDS.get(name, state_command)
    about = text[0].upper() + text[1:] + "." + (f" Alone: memory-mcp {state_command}." if state_command else "")
    parser = parsers.add_parser(name, help=text, description=about, parents=[common()], allow_abbrev=False)
    return parser.add_subparsers(title="commands", metavar="COMMAND", required=not state_command, dest=f"{name}_command")


def as_json(args: argparse.Namespace) -> bool:
    """Whether --json is given."""
    return bool(getattr(args, "json", False))


def print_result(args: argparse.Namespace, data: Mapping[str, Any], lines: Iterable[str], recalled: bool = False) -> int:
    """Print a result as JSON or lines; return the status 0.

    `recalled`: it contains stored text.
    """
    render.emit(as_json(args), data, lines, recalled)
    return 0


def settings_file(args: argparse.Namespace) -> "Path | None":
    """Return the settings file of --config; ConfigError for a missing one."""
    config = getattr(args, "config", None)
    if config is None:
        return None
    from pathlib import Path

    path = Path(config).expanduser()
    if not path.is_file():
        raise ConfigError(f"there is no settings file {path}", "Name an existing file, or leave --config out.")
    return path


def flags_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings given as flags, by dotted name."""
    flags = {"storage.data_dir": getattr(args, "data_dir", None), "server.profile": getattr(args, "profile", None)}
    return {key: value for key, value in flags.items() if value is not None}


def settings_of(args: argparse.Namespace) -> "Settings":
    """Return the settings of this command; ConfigError for unusable ones."""
    if (session := SESSION.get()) is not None:
        return session.app.settings
    from memory_mcp.config import load

    return load(flags=flags_of(args), file=settings_file(args))


def look_of(args: argparse.Namespace) -> "Look":
    """Return this command's side for checks."""
    from dataclasses import replace
    from pathlib import Path

    from memory_mcp.base import paths
    from memory_mcp.cli.checks.base import Look

    config = str(settings_file(args) or "")
    look = Look(config, Path(paths.data_dir(getattr(args, "data_dir", None) or "", file=config)), None, os.environ, Path.home())
    with suppress(MemoryMcpError):
        return replace(look, settings=settings_of(args))
    return look


@contextmanager
def open_memory(args: argparse.Namespace, catch_up: bool = True, settled: bool = False) -> Iterator["App"]:
    """Yield the memory of this command.

    In the daemon that is the one it has open, which stays open. `catch_up`: file stored events in the tree first, in the daemon
    only if they are at most 200; `settled`: there all of them. Opened here, an interrupted forgetting is finished first; in a
    read-only directory nothing is written. Lost events are reported on stderr. Raises what opening it raises, as StorageLocked.
    """
    if (session := SESSION.get()) is not None:
        # Events that are not filed yet are searched directly, so no caller waits for a long import.
        if settled or (catch_up and 0 < session.app.derivation.count_pending() <= _FEW_PENDING):
            session.app.derivation.run()
        _tell_loss(session.app)
        yield session.app
        return
    from memory_mcp.app import App
    from memory_mcp.forgetting.act import resume
    from memory_mcp.storage.lock import is_read_only

    app = App(settings_of(args))
    app.settings_file = settings_file(args) or app.settings_file
    try:
        writable = not is_read_only(app.directory)
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
    """Return the project of `serve --project`; "" for every other command."""
    return str(getattr(args, "serve_project", ""))


def wanted(args: argparse.Namespace) -> "link.Wanted":
    """Return the daemon of this command; ConfigError for unusable settings."""
    from memory_mcp.service.client import link

    profile = flags_of(args).get("server.profile")
    directory = str(settings_of(args).storage.directory.absolute())
    return link.Wanted(
        directory, getattr(args, "config", None) or "", {"server.profile": profile} if profile else {}, named_project(args)
    )


@contextmanager
def open_bulk_memory(args: argparse.Namespace) -> "Iterator[Memory]":
    """Yield the memory of a bulk command; raises LayerUnavailable."""
    from memory_mcp.cli import bulk
    from memory_mcp.service.client import link

    settings = settings_of(args)
    if settings.server.daemon and link.can_run_daemon():
        with bulk.there(settings, wanted(args)) as memory:
            yield memory
        return
    with open_memory(args, catch_up=False) as app:
        yield bulk.Here(app)


def run_in_daemon(args: argparse.Namespace, argv: Sequence[str]) -> int | None:
    """Run `argv` in the daemon; return its status, None without one."""
    from memory_mcp.service.client import forward, link

    if SESSION.get() is not None or not settings_of(args).server.daemon or not link.can_run_daemon():
        return None
    return forward.run(wanted(args), [*argv, "--json"] if as_json(args) else [*argv])


def reopen() -> None:
    """Have the daemon, if this is it, open the store again."""
    if (session := SESSION.get()) is not None:
        session.reopen()


def file_pending(app: "App") -> None:
    """Store what hooks left, and file all stored events."""
    app.drain()
    pending = app.derivation.count_pending()
    if pending > _MANY_PENDING:
        render.err(f"filing {pending:,} events that were stored and not yet filed ...")
    app.derivation.run()


def add_scope(parser: argparse.ArgumentParser) -> None:
    """Add --project and --all, which `whose` reads."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--project", metavar="P", help="only this project (its identity or the last part of it)")
    group.add_argument("--all", action="store_true", help="all projects")


def whose(app: "App", args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments `project` and `scope` of a request.

    Where neither is given the working directory bounds the request, which is reported on stderr; raises InvalidQuery
    for an unknown project.
    """
    from memory_mcp.requests import scope

    name, scope_name = project_typed(app, args.project or ""), scope.ScopeName.ALL.value if args.all else ""
    resolved = scope.scope_of(app, name, scope_name, scope.Caller(project_here(app)))
    if resolved.widened_from:
        render.err(f"nothing is stored of project {resolved.widened_from} yet: searching every project")
    if resolved.by_default:
        render.err(f"searching {resolved.project} only; --all searches every project")
    return {"project": name, "scope": scope_name}


def ask(
    args: argparse.Namespace,
    request: Any,
    *,
    catch_up: bool = True,
    hint: bool = False,
    prepare: "Callable[[App], object] | None" = None,
) -> dict[str, Any]:
    """Return the response of a request as JSON values.

    Where --all is among `args`, `whose` sets the request's project and scope. `catch_up`: file stored events first, see
    `opened`; `hint`: `refuse_empty`; `prepare` is called with the open memory before the request. Raises a MemoryMcpError
    where the memory cannot be opened or the request fails.
    """
    from dataclasses import replace

    with open_memory(args, catch_up) as app:
        if prepare is not None:
            prepare(app)
        if hint:
            refuse_empty(app, args)
        if hasattr(args, "all"):
            request = replace(request, **whose(app, args))
        return answer_request(app, request)


def answer_request(app: "App", request: Any) -> dict[str, Any]:
    """Return the response of a request to an open memory."""
    from memory_mcp.requests.registry import answer
    from memory_mcp.requests.scope import Caller

    session = SESSION.get()
    response = answer(app, request, Caller(project_here(app), connection=session.connection if session else None))
    render.PROJECT_NAMES.set(app.tree.short_names())
    return response


def caller_directory() -> "Path":
    """Return the working directory of the caller, at any terminal."""
    from pathlib import Path

    session = SESSION.get()
    return Path(session.cwd if session else Path.cwd())


def project_here(app: "App") -> str:
    """Return the project of the caller; "" for none."""
    from memory_mcp.base.scope import caller_project

    session = SESSION.get()
    environ = session.environ if session else os.environ
    return caller_project(environ, str(caller_directory()), configured=app.settings.server.project)


def project_typed(app: "App", name: str) -> str:
    """Return the project that a user named; paths are resolved.

    What does not begin with . or ~ is returned as it is. Else the project of that directory of the caller if the memory knows
    it, or the absolute path.
    """
    from pathlib import Path

    from memory_mcp.base.scope import caller_project

    if not name.startswith((".", "~")):
        return name
    folder = str((caller_directory() / Path(name).expanduser()).resolve())
    project = app.storage.projects.names.resolve_alias(caller_project({}, folder))
    return project if project in app.tree.tally().projects else folder


def add_words(parser: argparse.ArgumentParser) -> None:
    """Add the positional words and --query, of which `words_of` takes one."""
    parser.add_argument("words", nargs="*", metavar="WORDS", help="what to look for (or --query)")
    parser.add_argument("--query", metavar="WORDS", help="what to look for")


def add_flags(parser: argparse.ArgumentParser, request: type[Any], names: str = "") -> None:
    """Add flags of a request's fields: of those named, in this order, else of all that the parser does not have yet."""
    from memory_mcp.requests.arguments import list_arguments

    present = {action.dest for action in parser._actions}
    flags = {name: (kind, argument.flag) for name, kind, argument in list_arguments(request) if argument.flag is not None}
    for name in names.split() or [name for name in flags if name not in present]:
        kind, flag = flags[name]
        settings: dict[str, Any] = {"metavar": flag.metavar, "type": kind}
        if kind is bool:
            settings = {"action": "store_true"}
        elif kind is tuple:
            settings = {"metavar": flag.metavar, **({"type": _split_words} if flag.has_commas else {"action": "append"})}
        option = flag.name or f"--{name.replace('_', '-')}"
        parser.add_argument(option, dest=name, default=None, help=flag.help, **settings)


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def read_request(args: argparse.Namespace, request: type[T], **values: Any) -> T:
    """Return the request that flags describe, with `values` besides; a flag that is not given leaves the default."""
    from memory_mcp.requests.arguments import list_arguments

    flags = {name: getattr(args, name, None) for name, _, argument in list_arguments(request) if argument.flag is not None}
    field_values = {name: tuple(flag) if isinstance(flag, list) else flag for name, flag in flags.items() if flag is not None}
    return request(**{**field_values, **values})


def words_of(args: argparse.Namespace) -> str:
    """Return the query; InvalidQuery for none, two, or too long a one."""
    loose = " ".join(args.words).strip()
    query = getattr(args, "query", None)
    if query is not None and loose:
        raise InvalidQuery("the query is given twice", "Use either --query WORDS or the words alone.")
    from memory_mcp.requests.limits import check_query

    return check_query(loose if query is None else query)


def note_lines(data: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each notice of a response."""
    for notice in data.get("notices", ()):
        yield f"Note: {notice}"


def refuse_empty(app: "App", args: argparse.Namespace) -> None:
    """Raise EmptyMemory without events; nothing for answers in JSON."""
    if not as_json(args) and app.is_empty:
        raise EmptyMemory("The memory is empty", _TO_FILL)
