"""`share`: publish chosen projects to a space of a team's server, and pull what others published there."""

import argparse
import os
from collections.abc import Iterator
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    COMMAND_LINE,
    SESSION,
    Subparsers,
    answer_request,
    as_json,
    ask,
    family,
    leaf,
    open_memory,
    print_result,
    project_typed,
)

_KEY_ASIDE = "Without --key the key is taken from MEMORY_MCP_SHARE_KEY. It is kept in a file for you alone."
_REMOVE_ASIDE = "What was published stays there until it is forgotten: memory-mcp forget takes it out there, too."


def add(parsers: Subparsers, about: str) -> None:
    """Add `share` with its subcommands."""
    inner = family(parsers, "share", about, "share status")
    to = leaf(inner, "to", run_to, "remember a team's server and its key, and pull what is published there", _KEY_ASIDE)
    to.add_argument("url", metavar="URL", help="the server, such as https://memory.example.org")
    to.add_argument("--key", default="", metavar="KEY", help="the key that an administrator of the team gave you")
    to.add_argument("--space", default="", metavar="S", help="the space to pull from (default: the team's)")
    to.add_argument("--insecure", action="store_true", help="allow http:// to another machine")
    published = leaf(inner, "add", run_add, "publish a project, with what is stored of it and what comes")
    published.add_argument("project", metavar="PROJECT", help="as `projects` shows it, its last part, or . for this directory")
    published.add_argument("--space", default="", metavar="S", help="publish it to this space (default: the server's)")
    removed = leaf(inner, "remove", run_remove, "stop publishing a project", _REMOVE_ASIDE)
    removed.add_argument("project", metavar="PROJECT", help="as `share status` shows it")
    now = leaf(inner, "now", run_now, "publish and pull at once, instead of within two minutes")
    now.add_argument("--forget", action="store_true", help="also take out events of yours that others forgot, however many")
    leaf(inner, "status", run_status, "show what left, what would leave next, and what came")
    leaf(inner, "off", run_off, "forget the server and its key: nothing is published or pulled any longer")


def run_to(args: argparse.Namespace) -> int:
    from memory_mcp_team.sharing.files import KEY_VARIABLE
    from memory_mcp_team.sharing.requests import ShareTo

    session = SESSION.get()
    key = args.key or (session.environ if session else os.environ).get(KEY_VARIABLE, "")
    data = ask(args, ShareTo(args.url, key, args.space, args.insecure, COMMAND_LINE))
    role = f" as {data['member']}, {data['role']}" if data.get("member") else ""
    lines = [f"Server {data['url']}, space {data['space']}{role}. What is published there comes by itself."]
    if data.get("role") != "reader":
        lines.append("Publish a project: memory-mcp share add PROJECT")
    return print_result(args, data, [*lines, *_list_notes(data)])


def run_add(args: argparse.Namespace) -> int:
    from memory_mcp_team.sharing.requests import ShareProject

    with open_memory(args) as app:
        data = answer_request(app, ShareProject(project_typed(app, args.project), args.space, COMMAND_LINE))
    return _print_projects(args, data)


def run_remove(args: argparse.Namespace) -> int:
    from memory_mcp_team.sharing.requests import UnshareProject

    with open_memory(args) as app:
        data = answer_request(app, UnshareProject(project_typed(app, args.project), COMMAND_LINE))
    return _print_projects(args, data)


def run_off(args: argparse.Namespace) -> int:
    from memory_mcp_team.sharing.requests import ShareOff

    data = ask(args, ShareOff(COMMAND_LINE), catch_up=False)
    return print_result(args, data, ["Nothing is shared.", *_list_notes(data)])


def run_now(args: argparse.Namespace) -> int:
    """Publish and pull at once; 1 if that failed."""
    from memory_mcp_team.sharing.requests import ShareNow

    data = ask(args, ShareNow(args.forget))
    lines = [f"Published {render.plural(data['left'], 'event')}, took in {data['came']:,}"]
    lines += [f"offline: {data['offline']}; it is tried again by itself"] if data.get("offline") else []
    lines += [data["error"]] if data.get("error") else []
    render.emit(as_json(args), data, lines)
    return 1 if data.get("error") else 0


def run_status(args: argparse.Namespace) -> int:
    from memory_mcp_team.sharing.requests import ShareStatus

    data = ask(args, ShareStatus())
    return print_result(args, data, _iter_lines(data))


def _print_projects(args: argparse.Namespace, data: dict[str, Any]) -> int:
    shared = ", ".join(map(render.one_line, data["projects"])) or "none"
    return print_result(args, data, [f"Projects published to {data['url']}: {shared}", *_list_notes(data)])


def _list_notes(data: dict[str, Any]) -> list[str]:
    return [f"Note: {note}" for note in data.get("notes", ())]


def _iter_lines(data: dict[str, Any]) -> Iterator[str]:
    if not data["url"]:
        yield data.get("error") or "Nothing is shared. Name a server: memory-mcp share to URL --key KEY"
        return
    role = f" as {data['member']}, {data['role']}" if data.get("member") else ""
    yield f"server {data['url']}, space {data['space']}{role}" + ("" if data["has_key"] else ", without a key")
    last = f"last run that did all: {data['last']}" if data.get("last") else "nothing was exchanged yet"
    yield f"offline since {data['offline_since']}; {last}" if data.get("offline_since") else last
    if data.get("error"):
        yield f"error: {data['error']}"
    for entry in data["projects"]:
        yield _project_line(entry)
    for entry in data["came"]:
        yield f"came: {render.one_line(entry['project'])}: {render.plural(entry['came'], 'event')}, last {entry['last']}"
    for name, count in data["people"].items():
        yield f"  from {render.one_line(name)}: {count:,}"
    for why, count in data["kept_back"].items():
        yield f"kept back: {render.plural(count, 'event')} ({why})"
    if data.get("forgotten_there") or data.get("forgotten_here"):
        yield f"forgotten there for you: {data['forgotten_there']:,}; here because others forgot: {data['forgotten_here']:,}"
    if data.get("held"):
        yield f"{data['held']:,} events of yours were forgotten by others and are still here: memory-mcp share now --forget"
    for entry in data["refused"]:
        yield f"refused: {entry['what']} {entry['event']}: that takes the role {entry['needs']} in the space; ask who has it"


def _project_line(project: dict[str, Any]) -> str:
    name, sent_events = render.one_line(project["project"]), render.plural(project["left"], "event")
    last = f", last {project['last']}" if project.get("last") else ""
    if not project.get("space"):
        return f"no longer published: {name}: {sent_events} left{last}"
    waits = f"; {project['waits']:,} of other names wait for: memory-mcp share add {name}" if project.get("waits") else ""
    published = f"published: {name} to {project['space']}: {sent_events} left{last}"
    if project.get("needs"):
        return f"{published}; nothing leaves without the role {project['needs']}{waits}"
    return f"{published}; {project['would_leave']:,} would leave next{waits}"
