"""`projects` and `agents`: whose sessions the memory has; two projects made one."""

import argparse
from typing import Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import (
    COMMAND_LINE,
    Subparsers,
    add_flags,
    answer_request,
    ask,
    leaf,
    open_memory,
    print_result,
    project_typed,
    read_request,
)

_NOTE = "Two that are one: memory-mcp projects alias A B; memory-mcp projects undo A takes that back."
#: Projects that a line names.
_NAMED = 4


def add_projects(parsers: Subparsers, about: str) -> None:
    from memory_mcp.requests.projects import ListProjects

    parser = leaf(parsers, "projects", run_projects, about, _NOTE)
    add_flags(parser, ListProjects)
    inner = parser.add_subparsers(title="commands", metavar="COMMAND", dest="projects_command")
    alias = leaf(inner, "alias", run_alias, "show a project under another's name: both are one")
    alias.add_argument("project", metavar="A", help="the name that is to go")
    alias.add_argument("same_as", metavar="B", help="the name that stays for both")
    undo = leaf(inner, "undo", run_undo, "take back an alias, a guess or a split, by the name it was made for")
    undo.add_argument("project", metavar="A", help="the other name that `projects` shows, or the project that was split off")


def run_projects(args: argparse.Namespace) -> int:
    from memory_mcp.requests.projects import ListProjects

    data = ask(args, read_request(args, ListProjects), hint=True)
    lines = []
    for project in data["projects"]:
        name, full_name = render.project_name(project["project"]), render.one_line(project["project"])
        here_mark = "  (here)" if project["project"] == data.get("yours") else ""
        lines.append(f"{name}{here_mark}" if name == full_name else f"{name}  {full_name}{here_mark}")
        agents = f", {render.one_line(', '.join(project['agents']))}" if project.get("agents") else ""
        lines.append(f"  {render.activity(project)}, {render.days(project['first'], project['last'])}{agents}")
        for other in project.get("aliases", ()):
            lines.append(f"  also {render.one_line(other['name'])}{' (a guess)' if other['by'] == 'guess' else ''}")
        lines += [f"  split from {render.project_name(project['split_from'])}"] if project.get("split_from") else []
    if data.get("next_cursor"):
        lines.append(f"{len(data['projects'])} of {data['total']:,}; more: --cursor {data['next_cursor']}")
    return print_result(args, data, lines)


def run_alias(args: argparse.Namespace) -> int:
    from memory_mcp.requests.projects import AliasProject

    with open_memory(args) as app:
        request = AliasProject(project_typed(app, args.project), project_typed(app, args.same_as), COMMAND_LINE)
        return _print_change(args, answer_request(app, request))


def run_undo(args: argparse.Namespace) -> int:
    from memory_mcp.requests.projects import UndoProject

    with open_memory(args) as app:
        return _print_change(args, answer_request(app, UndoProject(project_typed(app, args.project), COMMAND_LINE)))


def _print_change(args: argparse.Namespace, data: dict[str, Any]) -> int:
    count = render.plural(data["sessions"], "session")
    lines = [f"{data['shown_as']} holds {count} now"]
    if data["shown_as"] != data["project"]:
        lines = [f"{data['project']} is shown as {data['shown_as']} now, which holds {count}"]
    elif not data["sessions"]:
        lines = [f"{data['project']} is no project of its own any more"]
    if data.get("undo"):
        lines.append(f"Take it back: memory-mcp projects undo {data['undo']}")
    return print_result(args, data, lines)


def add_agents(parsers: Subparsers, about: str) -> None:
    leaf(parsers, "agents", run_agents, about)


def run_agents(args: argparse.Namespace) -> int:
    from memory_mcp.requests.projects import ListAgents

    data = ask(args, ListAgents(), hint=True)
    lines = []
    for agent in data["agents"]:
        lines.append(f"{render.one_line(agent['agent'])}: {render.activity(agent)}, {render.days(agent['first'], agent['last'])}")
        if projects := agent.get("projects", ()):
            more = f" and {len(projects) - _NAMED} more" if len(projects) > _NAMED else ""
            lines.append(f"  {render.one_line(', '.join(map(render.project_name, projects[:_NAMED])))}{more}")
    return print_result(args, data, lines)
