"""The plugin's documents, and what of the running program their words may name: read from the program, never listed here."""

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import jsonschema
import yaml
from mcp.types import Tool

from memory_mcp.base import errors
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli.main import build_parser
from memory_mcp.config import iter_keys
from memory_mcp.model.ids import parse_node_id
from memory_mcp.requests.registry import all_requests, load_entry

ROOT = Path(__file__).resolve().parents[2]
#: The Claude Code plugin.
FOLDER = ROOT / "plugin"
#: The tools of the plugin's own server, and of one that a user configured by hand with the same command.
PREFIXES = ("mcp__plugin_memory_memory__", "mcp__memory__")

_SPAN = re.compile(r"```[a-z]*\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_CALL = re.compile(r"[a-z_]+\(.*\)\Z", re.DOTALL)
_SETTING = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_]+)+ = \S+\Z")
_ARGUMENT = re.compile(r"([a-z_]+)=(\S+)\Z")
_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
#: A value that stands for one of the user's.
_OPEN = ("...", "$ARGUMENTS")


@dataclass(frozen=True, slots=True)
class Document:
    """A skill, an agent, a command or a reference."""

    name: str
    meta: Mapping[str, Any]
    body: str

    def spans(self) -> Iterator[str]:
        """Everything written as code, line by line; a block of plain text is prose."""
        for found in _SPAN.finditer(self.body):
            if found[2]:
                yield found[2]
            elif not found[0].startswith("```text"):
                yield from (line for line in found[1].splitlines() if line.strip())

    def prose(self) -> str:
        """The rest."""
        return _SPAN.sub(" ", self.body)

    def called(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Tool and arguments of every call that is written out."""
        for span in self.spans():
            if _CALL.match(span):
                yield call_of(span)


def read(path: Path) -> Document:
    """A document with its front matter; a reference has none."""
    text = path.read_text(encoding="utf-8")
    name = path.relative_to(FOLDER).as_posix()
    if not text.startswith("---\n"):
        return Document(name, {}, text)
    front, _, body = text.removeprefix("---\n").partition("\n---\n")
    return Document(name, yaml.safe_load(front), body)


def documents(pattern: str) -> list[Document]:
    """All of a kind, by name."""
    return [read(p) for p in sorted(FOLDER.glob(pattern))]


SKILLS = documents("skills/*/SKILL.md")
AGENTS = documents("agents/*.md")
COMMANDS = documents("commands/*.md")
REFERENCES = documents("skills/*/references/*.md")
ALL = [*SKILLS, *AGENTS, *COMMANDS, *REFERENCES]


def call_of(span: str) -> tuple[str, dict[str, Any]]:
    """A call as it is written: `tool(name="value")`."""
    call = ast.parse(span, mode="eval").body
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
        raise ValueError(f"not a call with named arguments: {span}")
    return call.func.id, {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}


class Program:
    """What the running program has: tools with arguments and answers, commands with flags, settings, error codes."""

    def __init__(self, tools: list[Tool], default: list[Tool]) -> None:
        self.tools = {t.name: t for t in tools}
        #: Tools that only the full profile offers.
        self.fuller = set(self.tools) - {t.name for t in default}
        self.arguments: dict[str, list[dict[str, Any]]] = {}
        for one in tools:
            for name, schema in _properties(one.input_schema):
                self.arguments.setdefault(name, []).append(schema)
        self.fields = {name for one in tools for name, _ in _properties(one.output_schema or {})} | set(_fields())
        self.values = {v for schemas in self.arguments.values() for s in schemas for v in s.get("enum", ())}
        self.settings = {key: field.default for key, field in iter_keys()}
        self.codes = {kind.code for kind in _kinds(MemoryMcpError)}
        assert errors.InvalidQuery.code in self.codes

    def asks(self, tool: str) -> bool:
        """Whether a tool searches: it takes a question."""
        return "query" in self.tools[tool].input_schema["properties"]

    def reads(self, tool: str) -> bool:
        """Whether a tool only reads."""
        hints = self.tools[tool].annotations
        return hints is not None and hints.read_only_hint is True

    def names(self, word: str) -> bool:
        """Whether a plain word names something of the program."""
        known = (self.tools, self.arguments, self.fields, self.values, self.settings)
        return any(word in names for names in known)

    def objection(self, span: str) -> str:
        """What is wrong with something written as code; "" when the program has it."""
        if span.split(maxsplit=1)[0] == "memory-mcp":
            return self._command(span)
        if _CALL.match(span):
            return self._called(span)
        if _SETTING.match(span):
            return self._setting(span)
        if (given := _ARGUMENT.match(span)) is not None:
            return self._argument(given[1], ast.literal_eval(given[2]))
        if _NAME.match(span):
            return "" if self.names(span) else f"no tool, argument, field or value {span}"
        return "" if span in self.settings else f"nothing of this program: {span}"

    def _command(self, span: str) -> str:
        try:
            build_parser().parse_args(shlex.split(span)[1:])
        except MemoryMcpError as error:
            return f"{span}: {error}"
        return ""

    def _called(self, span: str) -> str:
        name, given = call_of(span)
        if name not in self.tools:
            return f"no tool {name}"
        try:
            jsonschema.validate(given, self.tools[name].input_schema)
            for argument in ("node_id", "parent_id"):
                if given.get(argument, "...") not in _OPEN:
                    parse_node_id(given[argument])
        except jsonschema.ValidationError as error:
            return f"{span}: {error.message}"
        except MemoryMcpError as error:
            return f"{span}: {error}"
        return ""

    def _setting(self, span: str) -> str:
        key, _, value = span.partition(" = ")
        if key not in self.settings:
            return f"no setting {key}"
        given = tomllib.loads(f"value = {value}")["value"]
        return "" if isinstance(given, type(self.settings[key])) else f"{span}: of another type"

    def _argument(self, name: str, value: object) -> str:
        schemas = self.arguments.get(name, [])
        fits = any(jsonschema.Draft202012Validator(s).is_valid(value) for s in schemas)
        return "" if fits else f"no tool takes {name}={value!r}"


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of a schema, of its definitions and of what lies inside them."""
    for name, inner in schema.get("properties", {}).items():
        yield name, inner
        yield from _properties(inner)
    for inner in schema.get("$defs", {}).values():
        yield from _properties(inner)


def _fields() -> Iterator[str]:
    """Fields of all answers, also of those that only the full detail has."""
    left: list[Any] = [load_entry(name).response for name in all_requests()]
    seen = set()
    while left:
        kind = left.pop()
        left += get_args(kind)
        if is_dataclass(kind) and kind not in seen:
            seen.add(kind)
            left += get_type_hints(kind).values()
            yield from (field.name for field in fields(kind))


def _kinds(kind: type[MemoryMcpError]) -> Iterator[type[MemoryMcpError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
