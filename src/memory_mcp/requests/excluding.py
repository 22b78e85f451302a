"""Excludes projects, paths and tools from recording; exclusions are in the settings file and in force at once."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError, InvalidQuery, ReadOnly
from memory_mcp.capture.exclusions import CaptureRules, split_rules
from memory_mcp.config import load, store, variables
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import MAX_PATTERN
from memory_mcp.requests.scope import Caller
from memory_mcp.storage.lock import is_read_only

if TYPE_CHECKING:
    from memory_mcp.app import App

#: The setting of each kind.
_SETTINGS = {"project": "exclude_projects", "path": "exclude_paths", "tool": "exclude_tools"}


@dataclass(frozen=True, slots=True)
class ListExcluded:
    """Request for everything that is excluded."""


@dataclass(frozen=True, slots=True)
class Exclude:
    """Exactly one of a project, a path and a tool, as a pattern; `by` is who asks."""

    project: str = ""
    path: str = ""
    tool: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Include(Exclude):
    """The opposite of `Exclude`: the pattern is excluded no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """What is never recorded now, and where that is written."""

    projects: Sequence[str]
    paths: Sequence[str]
    tools: Sequence[str]
    settings_file: str
    #: Whether the request changed anything.
    changed: bool = False
    #: Events that are stored already of a project that was excluded; they stay until they are forgotten.
    stored: int = 0
    #: Variables of the environment that go before the settings file.
    overridden_by: Sequence[str] = ()


@answers("list_excluded", ListExcluded)
def list_excluded(app: "App", _: ListExcluded, caller: Caller) -> Exclusions:
    """Return all exclusions; InvalidQuery for a caller bound to one project."""
    caller.refuse_all(app, "what is excluded")
    return _make_response(app)


@answers("exclude", Exclude)
def exclude(app: "App", request: Exclude, caller: Caller) -> Exclusions:
    """Exclude a project, path or tool from recording; return all exclusions.

    What is stored stays. In force at once, and written into the settings file and the audit log; a pattern that is excluded
    already changes nothing. Raises InvalidQuery when not exactly one is named, or the pattern is empty, holds a comma or a
    secret, or is too long; ConfigError when a variable of the environment overrides the settings file, or that cannot be read
    or written; ReadOnly for a read-only data directory.
    """
    kind, pattern = _read_pattern(app, request, caller)
    exclusions = _change_exclusions(app, kind, pattern, on=True, by=request.by)
    stored_count = app.tree.tally(pattern).events if kind == "project" else 0
    return replace(exclusions, stored=stored_count)


@answers("include", Include)
def include(app: "App", request: Include, caller: Caller) -> Exclusions:
    """Take back the exclusion of exactly this pattern; return the others.

    An unknown one changes nothing. In force at once, and written into the settings file and the audit log. Raises InvalidQuery,
    ConfigError, ReadOnly.
    """
    return _change_exclusions(app, *_read_pattern(app, request, caller), on=False, by=request.by)


def _read_pattern(app: "App", request: Exclude, caller: Caller) -> tuple[str, str]:
    """Return the kind that is named, and its pattern, stripped.

    Raises InvalidQuery unless exactly one is named, for a pattern that is too long, holds a comma, a control
    character or a secret, and for a caller bound to one project.
    """
    caller.refuse_all(app, "excluding")
    named_patterns = [(kind, text.strip()) for kind in _SETTINGS if (text := getattr(request, kind)).strip()]
    if len(named_patterns) != 1:
        raise InvalidQuery("name exactly one project, path or tool", "Patterns: acme/harbour, acme-*, ~/private, mcp__mail__*.")
    [(kind, pattern)] = named_patterns
    if len(pattern) > MAX_PATTERN:
        raise InvalidQuery(f"the pattern is too long: at most {MAX_PATTERN} characters")
    if "," in pattern or not pattern.isprintable():
        raise InvalidQuery(f"invalid pattern: {pattern!r}", "Patterns are separated by commas; write ? in the place of one.")
    # It is written into the settings file and into the audit log, which hold no secrets.
    if app.gate.clean_name(pattern) != pattern:
        raise InvalidQuery("the pattern holds a secret, which is not written down", "Write * in its place.")
    return kind, pattern


def _change_exclusions(app: "App", kind: str, pattern: str, *, on: bool, by: str) -> Exclusions:
    """Add a pattern to the settings (`on`) or remove it.

    The new lists are in force before the file is written, and the old ones again if that fails. Where nothing changes, the
    file and the audit log are left alone. Raises InvalidQuery without a data directory, ReadOnly, and ConfigError where a
    variable of the environment goes first or the file cannot be read or written.
    """
    if app.directory is None:
        raise InvalidQuery("a memory without a directory has no settings file")
    if is_read_only(app.directory):
        raise ReadOnly(f"the data directory {app.directory} is read-only", ReadOnly.HINT)
    name = _SETTINGS[kind]
    if overriding := _find_variables(name):
        hint = "Set that instead, or take it out of the environment and run: memory-mcp daemon restart"
        raise ConfigError(f"{overriding[0]} is set, which goes before the settings file", hint)
    file_settings = load(file=app.settings_file).ingest
    old_rules = split_rules(getattr(file_settings, name))
    if (pattern in old_rules) is on:
        _record_by(app, file_settings)
        return _make_response(app)
    new_rules = (*old_rules, pattern) if on else tuple(rule for rule in old_rules if rule != pattern)
    changes: dict[str, Any] = {name: ", ".join(new_rules)}
    now = replace(file_settings, **changes)
    old_settings = app.settings.ingest
    # Applied before it is written, so that a watcher of the file finds nothing new.
    _record_by(app, now)
    try:
        store(app.settings_file, f"ingest.{name}", getattr(now, name))
    except ConfigError:
        _record_by(app, old_settings)
        raise
    app.storage.audit.record_entry(AuditEntry("exclude" if on else "include", app.clock.now_ms(), by, f"{kind} {pattern}"))
    return replace(_make_response(app), changed=True)


def _record_by(app: "App", settings: IngestSettings) -> None:
    lists: dict[str, Any] = {name: getattr(settings, name) for name in _SETTINGS.values()}
    app.settings = replace(app.settings, ingest=replace(app.settings.ingest, **lists))
    app.gate.capture = CaptureRules.from_settings(app.settings.ingest, app.directory)


def _find_variables(name: str = "") -> list[str]:
    settings_by_variable = variables()
    setting_names = [f"ingest.{setting}" for setting in ((name,) if name else _SETTINGS.values())]
    return sorted(variable for variable in os.environ if settings_by_variable.get(variable.upper()) in setting_names)


def _make_response(app: "App") -> Exclusions:
    capture = app.gate.capture
    return Exclusions(
        projects=capture.projects,
        paths=capture.paths,
        tools=capture.tools,
        settings_file=str(app.settings_file),
        overridden_by=_find_variables(),
    )
