"""The pages of docs/reference, made from the program itself: settings, commands, tools, events, errors.

`python docs/reference.py` writes them; mkdocs calls the same before it builds (`hooks` in mkdocs.yml). They are kept in the
repository so that links from the README work without a site; a test says when they are out of date.
"""

import argparse
import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from mcp import Client
from mcp.types import Tool

from memory_mcp.app import App
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.cli.commands.base import common
from memory_mcp.cli.commands.registry import FIRST, GROUPS, group_further
from memory_mcp.cli.main import build_parser
from memory_mcp.config import PREFIX, REMOVED, ServerSettings, Settings, StorageSettings, iter_keys
from memory_mcp.importers.base import Importer
from memory_mcp.importers.jsonl import FIELDS, draft_of
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import DEFAULT_TYPES, EventType, Role
from memory_mcp.server.build import build_server
from memory_mcp.server.errors import hint_of
from memory_mcp_team import errors as team_errors

#: Of each source: the client's versions whose files were seen, what is read of them, and what is not. What the client wrote in
#: the user's place is kept as its own note everywhere, images are named, and thoughts are read where
#: `ingest.include_thinking` is on.
READINGS = {
    "claude-code": (
        "1.0 to 2.1.332",
        "prompts, answers, tool calls, results (also those saved beside it), answers to tools, subagents, recaps, titles",
        "file snapshots, queues, progress and other bookkeeping",
    ),
    "pi": (
        "session formats 1 to 3; Oh My Pi and OpenClaw of the same form",
        "every branch of a session, tool calls and results, summaries",
        "copies under the names of checkpoints and trajectories",
    ),
    "cline": (
        "Cline (tasks of the extension, sessions of the command), Roo Code",
        "the conversation as the model has it, tool calls of both forms",
        "the list of what the screen shows, checkpoints",
    ),
    "antigravity": (
        "one made sample and public descriptions",
        "steps of the full transcript; the short one where it is alone",
        "what the client keeps in other files than transcripts",
    ),
    "deepseek": (
        "session logs of generations 1 to 3, uncompressed",
        "prompts, answers, calls and results, summaries",
        "logs packed with Zstandard (the default), chunks of answers",
    ),
    "goose": (
        "the database, and the files of lines before it",
        "prompts, answers, calls and results",
        "use of tokens, settings",
    ),
    "grok": (
        "one made sample and public descriptions",
        "words, calls and their outcome, recaps",
        "other updates, which are counted",
    ),
    "kimi": (
        "wire protocol 1.5",
        "prompts, answers, calls and results, summaries, every agent",
        "steps, requests to the model, settings",
    ),
    "kimi-cli": (
        "contexts, with a wire of protocol 1.2 beside them",
        "the context that the model sees, and contexts that were set aside",
        "system prompts, checkpoints, use of tokens",
    ),
    "codex": (
        "rollouts without an envelope to 0.171.0",
        "prompts, answers, calls and results, other agents' messages, summaries",
        "the events for the screen that repeat an item, encrypted reasoning",
    ),
    "qwen": (
        "0.18.1, and the older form of Gemini CLI's files",
        "prompts, answers, calls and results",
        "telemetry and other bookkeeping",
    ),
    "gemini": (
        "session files, their lines, and the log of prompts before them",
        "prompts, answers, calls and results",
        "progress, use of tokens",
    ),
    "copilot": (
        "1.0.71 to 1.0.102, and the sessions before",
        "prompts, answers, calls and results",
        "progress, use of tokens",
    ),
    "copilot-chat": (
        "sessions of version 3, as an object or a log of changes (extension 0.33.0)",
        "prompts, answers, calls and results, also where only the answer shows them",
        "requests that are still being answered, and what exists on the server alone",
    ),
    "opencode": (
        "0.9 to 1.18, and the database of 2",
        "prompts, answers, calls and results, subagents, commands, summaries",
        "snapshots and patches",
    ),
    "cursor": (
        "0.43 to 3.20, agents' transcripts of 2026",
        "conversations of the editor and of agents",
        "checkpoints, and conversations in the cloud",
    ),
    "amp": (
        "0.0.1755 to 0.0.1773",
        "threads that lie on this machine, and exported ones",
        "threads of later clients, which are kept on the server",
    ),
    "continue": (
        "up to the command's 1.5.47",
        "prompts, answers, calls and results",
        "items of context, times of single messages (the client keeps none)",
    ),
    "chatgpt": (
        "exports of 2023 to 2026",
        "every branch of a conversation",
        "pictures and sound",
    ),
    "claude-ai": (
        "exports of 2024 to 2026",
        "conversations with edited messages, artifacts, attached texts",
        "pictures",
    ),
    "jsonl": ("the form above", "every field of it", "what it does not name, which is refused"),
    "markdown": (
        "Obsidian, Logseq, Foam, Zettlr, or by hand",
        "sections of notes, front matter, tags",
        "folders of code and of tools, attachments",
    ),
}
FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Made by docs/reference.py from the program; changes by hand are lost. -->"
#: Places of a source that are told; the others are those of further editions of an editor.
_MOST_PLACES = 4
#: Arguments of every command, which are told once.
COMMON = {option for action in common()._actions for option in action.option_strings} | {"-h", "--help"}


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table; a bar inside a cell would end it."""
    names = list(head)
    yield "| " + " | ".join(names) + " |"
    yield "|" + "---|" * len(names)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"


# settings


def settings() -> Iterator[str]:
    """Every setting with its default, and what became of those that were removed."""
    yield "# Settings"
    yield ""
    yield "`config.toml` (its place: `memory-mcp config path`), then the environment, then flags. A setting `section.key` is"
    yield f"the variable `{PREFIX}SECTION__KEY`, with two underscores for each dot. An unknown key is an error that names the"
    yield "nearest known one. `memory-mcp config show` tells every value in force and where it comes from."
    yield ""
    rows = ((f"`{k}`", f"`{json.dumps(f.default)}`", f.metadata["help"]) for k, f in iter_keys())
    yield from table(("Setting", "Default", "Meaning"), rows)
    yield ""
    yield "## Removed"
    yield ""
    yield from table(("Setting", "What holds instead"), ((f"`{key}`", text) for key, text in REMOVED.items()))


# commands


def commands() -> Iterator[str]:
    """Every command, in the order of `--help`: a table each, whose rows are its arguments and the commands below it."""
    listed = commands_of(build_parser())
    yield "# Commands"
    yield ""
    usual = ((_signature(a), _help_of(common(), a)) for a in _actions(common()) if a.help is not argparse.SUPPRESS)
    options = (f"`{signature}` ({meaning.replace(' (', ', ').rstrip(')')})" for signature, meaning in usual)
    yield f"Each works while clients are connected, and takes {', '.join(options)}."
    for title, names in {"to begin with": FIRST, **GROUPS, **group_further()}.items():
        yield ""
        yield f"## {title.capitalize()}"
        for name in names:
            yield ""
            yield f"### memory-mcp {name}"
            yield ""
            parser = listed[name]
            yield from table((_usage(name, parser), _purpose(parser)), [*_arguments(parser), *_rows_below("", parser)])


def _rows_below(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for name, inner in commands_of(parser).items():
        full = f"{path}{name}"
        arguments = (f"<br>{signature}: {meaning}" for signature, meaning in _arguments(inner))
        yield _usage(full, inner), _purpose(inner) + "".join(arguments)
        yield from _rows_below(f"{full} ", inner)


def _purpose(parser: argparse.ArgumentParser) -> str:
    return " ".join(f"{parser.description or ''} {parser.epilog or ''}".split())


def _usage(path: str, parser: argparse.ArgumentParser) -> str:
    arguments = [a for a in _actions(parser) if COMMON.isdisjoint(a.option_strings)]
    words = [path, *(_positional(a) for a in arguments if not a.option_strings)]
    return f"`{' '.join(words)}{' [OPTIONS]' if any(a.option_strings for a in arguments) else ''}`"


def options_of(parser: argparse.ArgumentParser) -> set[str]:
    """Every option that a command takes, as it is written."""
    return {option for action in parser._actions for option in action.option_strings}


def commands_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The commands below one by their names."""
    found = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return {name: inner for action in found for name, inner in action.choices.items()}


def _actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [a for a in parser._actions if not isinstance(a, argparse._SubParsersAction | argparse._HelpAction)]


def _arguments(parser: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
    for action in _actions(parser):
        if COMMON.isdisjoint(action.option_strings) and action.help is not argparse.SUPPRESS:
            yield f"`{_signature(action)}`", _help_of(parser, action)


def _help_of(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return parser._get_formatter()._expand_help(action) if action.help else ""


def _value(action: argparse.Action) -> str:
    if action.metavar:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()


def _positional(action: argparse.Action) -> str:
    optional = action.nargs in ("?", "*")
    repeated = "..." if action.nargs in ("*", "+") else ""
    return f"[{_value(action)}{repeated}]" if optional else f"{_value(action)}{repeated}"


def _signature(action: argparse.Action) -> str:
    if not action.option_strings:
        return _positional(action)
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {_value(action)}"


# tools


def tools() -> Iterator[str]:
    """Every tool, prompt and resource of the server."""
    default, full, prompts, resources = _served()
    usual = _usual_arguments(full)
    yield "# MCP tools"
    yield ""
    yield f'{len(default)} tools are offered by default, {len(full)} with `server.profile = "full"`. A tool answers twice: as'
    yield "structured content by its schema, and as text. What changes something is marked *writes*."
    yield ""
    yield "## Arguments of many tools"
    yield ""
    yield "Where a tool takes one of these and its own table says nothing else, it means this."
    yield ""
    yield from table(ARGUMENT_HEAD, ((f"`{name}`", *meaning) for name, meaning in usual.items()))
    yield ""
    yield "## By default"
    for tool in default:
        yield from _tool(tool, usual)
    yield ""
    yield "## With the full profile"
    yield ""
    names = {tool.name for tool in default}
    yield from table(("Tool", "For", "Arguments"), (_tool_row(tool, usual) for tool in full if tool.name not in names))
    yield ""
    yield "## Prompts and resources"
    yield ""
    yield from table(
        ("Prompt", "For", "Arguments"),
        ((f"`{p.name}`", p.description or "", ", ".join(f"`{a.name}`" for a in p.arguments or ())) for p in prompts),
    )
    yield ""
    yield from table(("Address", "What it is"), ((f"`{uri}`", text) for uri, text in resources))


Meaning = tuple[str, str, str]
ARGUMENT_HEAD = ("Argument", "Kind", "Default", "Meaning")
#: Tools that an argument is taken by, in the same sense, before it is described once for all.
_MANY = 4


def _arguments_of(tool: Tool) -> dict[str, Meaning]:
    """Kind, default and meaning of each argument of a tool."""
    required = tool.input_schema.get("required", ())
    return {
        name: (_kind(schema), _default(name, schema, required), schema.get("description", ""))
        for name, schema in tool.input_schema.get("properties", {}).items()
    }


def _usual_arguments(tools: Iterable[Tool]) -> dict[str, Meaning]:
    """Arguments that many tools take, with their most frequent meaning."""
    counts = Counter(pair for tool in tools for pair in _arguments_of(tool).items())
    usual: dict[str, Meaning] = {}
    for (name, meaning), count in counts.most_common():
        if count >= _MANY and meaning[2]:
            usual.setdefault(name, meaning)
    return usual


def _purpose_of(tool: Tool) -> str:
    reads = tool.annotations is not None and tool.annotations.read_only_hint
    return f"{(tool.description or '').strip()}{'' if reads else ' *Writes.*'}"


def _tool(tool: Tool, usual: dict[str, Meaning]) -> Iterator[str]:
    yield ""
    yield f"### {tool.name}"
    yield ""
    arguments = _arguments_of(tool)
    shared = [f"`{name}`" for name, meaning in arguments.items() if usual.get(name) == meaning]
    yield f"{_purpose_of(tool)}{' Takes also ' + ', '.join(shared) + '.' if shared else ''}"
    if rows := [(f"`{name}`", *meaning) for name, meaning in arguments.items() if usual.get(name) != meaning]:
        yield ""
        yield from table(ARGUMENT_HEAD, rows)


def _tool_row(tool: Tool, usual: dict[str, Meaning]) -> tuple[str, str, str]:
    arguments = []
    for name, (kind, default, meaning) in _arguments_of(tool).items():
        if usual.get(name) == (kind, default, meaning):
            arguments.append(f"`{name}`")
        else:
            details = "; ".join(filter(None, (kind, f"default {default}" if default.startswith("`") else default, meaning)))
            arguments.append(f"`{name}` ({details})")
    return f"`{tool.name}`", _purpose_of(tool), ", ".join(arguments)


_KINDS = {"string": "text", "integer": "whole number", "boolean": "true or false", "array": "list"}


def _kind(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    kind = _KINDS.get(schema.get("type", ""), schema.get("type", ""))
    inner = f" of {_kind(schema['items'])}" if "items" in schema else ""
    span = f", {schema['minimum']:,} to {schema['maximum']:,}" if {"minimum", "maximum"} <= set(schema) else ""
    return f"{kind}{inner}{span}"


def _default(name: str, schema: dict[str, Any], required: Iterable[str]) -> str:
    if name in required:
        return "needed"
    return f"`{json.dumps(schema['default'])}`" if schema.get("default") not in (None, "", []) else ""


def _served() -> tuple[list[Tool], list[Tool], list[Any], list[tuple[str, str]]]:
    async def asked(client: Client) -> tuple[list[Tool], list[Any], list[tuple[str, str]]]:
        listed = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        fixed = [(str(r.uri), r.description or r.name) for r in (await client.list_resources()).resources]
        shaped = [(r.uri_template, r.description or r.name) for r in (await client.list_resource_templates()).resource_templates]
        return listed, prompts, sorted(fixed + shaped)

    async def connected(app: App) -> tuple[list[Tool], list[Any], list[tuple[str, str]]]:
        async with Client(build_server(app, "")) as client:
            return await asked(client)

    found = []
    for profile in ("default", "full"):
        app = App(Settings(storage=StorageSettings(timezone="UTC"), server=ServerSettings(profile=profile)), in_memory=True)
        try:
            found.append(asyncio.run(connected(app)))
        finally:
            app.close()
    return found[0][0], *found[1]


# events

_FIELDS = {
    "session_id": "Which session it belongs to; a text of your own.",
    "timestamp": "When: ISO 8601 with a zone, or milliseconds since 1970 (UTC).",
    "role": f"Who spoke: {', '.join(f'`{role}`' for role in Role)}.",
    "text": "What was said. Secrets in it are replaced before it is stored.",
    "id": "The source's own id of this message. The same id again changes nothing; without one the words themselves count.",
    "speaker": "A person's or character's name.",
    "type": "What kind of moment it is (below); left out, it follows from the role.",
    "agent": "The program that had the session, such as `claude-code`.",
    "project": "The project it belongs to, such as a repository's path; searches are scoped by it.",
    "thread": "The subagent inside the session; left out for the main thread.",
    "metadata": "An object of texts: whatever else should be kept with it.",
}
_NEEDED = ("session_id", "timestamp", "role", "text")
_EXAMPLE = (
    {
        "session_id": "s-1",
        "timestamp": "2026-01-30T12:00:00Z",
        "role": "user",
        "text": "Which lock do we keep?",
        "project": "~/code/harbor",
    },
    {
        "session_id": "s-1",
        "timestamp": "2026-01-30T12:00:40Z",
        "role": "assistant",
        "text": "The advisory lock in Postgres.",
        "id": "m-2",
    },
)


def events() -> Iterator[str]:
    """The JSONL form of an event, and the sources that are read."""
    yield "# Events and sources"
    yield ""
    yield "## One event a line"
    yield ""
    yield "`memory-mcp ingest FILE`, `memory-mcp import jsonl PATH`, `memory-mcp hook json` and the tool `ingest_events` take"
    yield "events in this form. Unknown fields, roles and types are refused by name."
    yield ""
    yield "```json"
    for one in _EXAMPLE:
        draft_of(one)
        yield json.dumps(one)
    yield "```"
    yield ""
    yield from table(("Field", "Needed", "Meaning"), ((f"`{n}`", "yes" if n in _NEEDED else "", _FIELDS[n]) for n in FIELDS))
    yield ""
    usual = {type_: role for role, type_ in DEFAULT_TYPES.items()}
    yield "Types: " + ", ".join(f"`{t}`{f' (of role {usual[t]})' if t in usual else ''}" for t in EventType) + "."
    yield ""
    yield "## Sources that are imported"
    yield ""
    yield "Locations are those of Linux; on macOS and Windows it is the client's location there. Each source is read from where"
    yield "the last one ended. What a client wrote in the user's name is kept as the client's own note, images are named and not"
    yield "stored, and thoughts are read if `ingest.include_thinking` is on. What no reader knows is counted and reported."
    yield ""
    rows = ((f"`{name}` ({made(IngestSettings()).title})", _locations(made), *READINGS[name]) for name, made in IMPORTERS.items())
    yield from table(("Source", "Where it is looked for", "Versions seen", "Read", "Not read"), rows)
    yield ""
    yield "## Hooks that are understood"
    yield ""
    yield from table(("Client", "What it tells"), ((f"`{name}`", _first(type(hooks))) for name, hooks in HOOKS.items()))


class _Environ(dict[str, str]):
    """An environment that remembers which variables it was asked for."""

    def __init__(self, home: Path) -> None:
        super().__init__(HOME=str(home), USERPROFILE=str(home))
        self.asked: dict[str, None] = {}

    def get(self, key: str, default: Any = None) -> Any:
        self.asked[key] = None
        return super().get(key, default)


def _locations(made: Callable[[IngestSettings], Importer]) -> str:
    """Where an importer looks on Linux in an empty home, and the variables that name another location."""
    home = Path("/home/nobody")
    environ = _Environ(home)
    with mock.patch.object(os, "environ", environ), mock.patch.object(sys, "platform", "linux"):
        found = made(IngestSettings()).default_paths()
    names = [f"`~/{path.relative_to(home).as_posix()}`" for path in found]
    more = f" and {len(names) - _MOST_PLACES} more" if len(names) > _MOST_PLACES else ""
    locations = ", ".join(names[:_MOST_PLACES]) + more if names else "nowhere: name a file or folder"
    variables = ", ".join(f"`{name}`" for name in environ.asked if name not in environ)
    return f"{locations}; or {variables}" if variables else locations


def _first(thing: Any) -> str:
    return (thing.__doc__ or "").strip().split("\n")[0]


# errors


def errors() -> Iterator[str]:
    """Every error with what it means for a caller."""
    yield "# Errors"
    yield ""
    yield "An error says its code first, then what is wrong, then a next step. Tools send it as an error result; commands write"
    yield "it to standard error and end with its exit status (0: done, 130: stopped)."
    yield ""
    rows = (
        (f"`{e.code}`", e.__name__, _first(e), str(e.exit_status), "helps" if e.retryable else "does not help", hint_of(e("")))
        for e in _errors(MemoryMcpError)
    )
    yield from table(
        ("Code", "Error", "Meaning", "Exit status", "A retry", "Next step, where the error names none of its own"), rows
    )


def _errors(kind: type[MemoryMcpError]) -> Iterator[type[MemoryMcpError]]:
    yield kind
    # A program that runs this may have loaded errors that neither package declares.
    for inner in (found for found in kind.__subclasses__() if found.__module__ in (kind.__module__, team_errors.__name__)):
        yield from _errors(inner)


PAGES: dict[str, Callable[[], Iterator[str]]] = {
    "settings": settings,
    "commands": commands,
    "tools": tools,
    "events": events,
    "errors": errors,
}


def pages() -> dict[Path, str]:
    """Every page's place, and what it must say."""
    return {FOLDER / f"{name}.md": "\n".join([NOTE, "", *page()]) + "\n" for name, page in PAGES.items()}


def write() -> None:
    """Bring the pages up to date; one that is stays untouched, so that `mkdocs serve` does not see a change in its own."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def on_pre_build(config: Any) -> None:
    """Called by mkdocs."""
    del config
    write()


if __name__ == "__main__":
    write()
