"""The settings file: each room's settings put together, checked, unknown keys refused by their nearest known name.

Order: defaults, then config.toml, then environment (MEMORY_MCP_<SECTION>__<KEY>; MEMORY_MCP_DATA_DIR for storage.data_dir),
then flags.

Change here: add a setting, or change a default.
Change here: when the daemon ends by itself.
"""

import dataclasses
import difflib
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import Any

from memory_mcp.base import extensions, foreign_files, machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.importers.settings import HooksSettings, IngestSettings
from memory_mcp.indexes.settings import TeleportSettings, TopicsSettings
from memory_mcp.search.layers.budget import StopConditions
from memory_mcp.search.policy.rank import RankingSettings
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.derive.segments import SegmentSettings
from memory_mcp.tree.llm.settings import SummarizerSettings
from memory_mcp.upkeep.archive.settings import BackupSettings, SyncSettings
from memory_mcp.upkeep.jobs.schedule import SchedulerSettings

PREFIX = paths.PREFIX

#: The password of a database's address, as a URI or as words.
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^/@\s:]*:)[^/@\s]+(?=@)|(?P<word>password\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^\s&]+)")

#: Settings and sections that there were, with what holds instead.
REMOVED: Mapping[str, str] = {
    "storage.memory_limit_mb": "DuckDB may use 40 MB, and 256 MB while it writes or reads much.",
    "ingest.max_text_bytes": "The longest text of one event is 1 MiB; of a longer one head and tail are kept.",
    "ingest.tool_result_bytes": "The longest text of one tool result is 64 KiB; of a longer one head and tail are kept.",
    "ingest.redact": "Secrets are always replaced before anything is stored.",
    "toc.overlap_minutes": "Context before a segment reaches back 5 minutes at most.",
    "toc.overlap_tokens": "Context before a segment is at most 500 tokens.",
    "teleport.vector.index_path": "The vector index is kept below the data directory.",
    "teleport.vector.memory_budget_mb": "teleport.bm25.memory_budget_mb holds for both indexes.",
    "teleport.vector.commit_interval_secs": "teleport.bm25.commit_interval_secs holds for both indexes.",
    "teleport.vector.retention_days": "teleport.bm25.retention_days holds for both indexes.",
    "teleport.vector.retention_min_docs": "teleport.bm25.retention_min_docs holds for both indexes.",
    "teleport.vector.graph_from": "A part of the vector index has a graph from 100,000 distinct texts.",
    "teleport.hybrid": "Words and meaning are fused into one list by their calibrated scores.",
    "retrieval.strong_match": "Half of the query counts as a strong match.",
    "ranking.salience_weight": "ranking.preset chooses the weights.",
    "ranking.recency_weight": "ranking.preset chooses the weights.",
    "ranking.relevance_weight": "ranking.preset chooses the weights.",
    "ranking.usage_weight": "ranking.preset chooses the weights.",
    "server.http_max_body_bytes": "The HTTP door takes request bodies of up to 4 MiB.",
    "hooks.briefing_tokens": "A briefing has at most 400 tokens.",
    "summarizer.provider": "Set summarizer.command to a command line that asks the model; without it none is asked.",
    "summarizer.url": "summarizer.command asks the endpoint; docs/language-model.md has a recipe for Ollama.",
    "summarizer.api_key_env": "summarizer.command reads keys from the environment itself.",
    "summarizer.allow_http": "summarizer.command chooses the address and the way to it.",
}


_T = typing.TypeVar("_T")


def setting(default: _T, text: str) -> _T:
    """Return a setting's dataclass field, with `text` as its help."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """How far a search goes by default."""

    bounds: StopConditions = field(default_factory=StopConditions)
    token_factor: float = setting(1.0, "Multiplies estimated tokens wherever a budget is kept.")
    repository_ms: int = setting(
        100, "An answer waits so long for what git says became of code that its statements are about; 0: git is not asked."
    )

    def __post_init__(self) -> None:
        if not 0.1 <= self.token_factor <= 10:
            raise ConfigError("retrieval.token_factor must lie between 0.1 and 10")
        if not 0 <= self.repository_ms <= 5000:
            raise ConfigError("retrieval.repository_ms must lie between 0 and 5000")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What clients of the server see."""

    profile: str = setting("default", "Tools offered: default (ten) or full.")
    scope: str = setting("project", "Default scope of a search: project (the caller's, when known) or all.")
    scope_lock: bool = setting(
        False, "Bind each connection to its project: others are refused, and their ids do not exist. Not for commands."
    )
    project: str = setting("", "Project of callers that nothing else tells one of: its identity or its directory.")
    forget_by_tool: bool = setting(False, "Whether the tool forget may do it; false: it tries out, a person runs the command.")
    daemon: bool = setting(True, "One background process serves all clients and commands; false: each opens the store itself.")
    idle_exit_secs: int = setting(600, "The background process ends after so long without a client and without work.")
    socket: bool = setting(True, "The local door is a Unix socket; false, or where there is none: loopback TCP with a secret.")
    http: bool = setting(False, "Also serve streamable HTTP and SSE; see the file token in the data directory.")
    http_host: str = setting(
        "127.0.0.1", "Address of the HTTP door; another than loopback needs http_token and http_allowed_hosts."
    )
    http_port: int = setting(8767, "Port of the HTTP door; 0: any free one.")
    http_token: str = setting("", "Bearer token of the HTTP door; empty: one is made and kept in the data directory.")
    http_allowed_hosts: str = setting("", "Further values of the Host header that are let in, separated by commas.")

    def __post_init__(self) -> None:
        if self.idle_exit_secs < 1:
            raise ConfigError("server.idle_exit_secs must be at least 1")
        if not 0 <= self.http_port <= 65535:
            raise ConfigError("server.http_port must lie between 0 and 65535")
        if self.profile not in ("default", "full"):
            raise ConfigError(f"server.profile must be default or full, not {self.profile!r}")
        if self.scope not in ("project", "all"):
            raise ConfigError(f"server.scope must be project or all, not {self.scope!r}")


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set, section by section."""

    storage: StorageSettings = field(default_factory=StorageSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    toc: SegmentSettings = field(default_factory=SegmentSettings)
    summarizer: SummarizerSettings = field(default_factory=SummarizerSettings)
    teleport: TeleportSettings = field(default_factory=TeleportSettings)
    embedder: EmbedderSettings = field(default_factory=EmbedderSettings)
    topics: TopicsSettings = field(default_factory=TopicsSettings)
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    ranking: RankingSettings = field(default_factory=RankingSettings)
    server: ServerSettings = field(default_factory=ServerSettings)
    hooks: HooksSettings = field(default_factory=HooksSettings)
    scheduler: SchedulerSettings = field(default_factory=SchedulerSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    sync: SyncSettings = field(default_factory=SyncSettings)
    #: The sections of other packages that are set, by name.
    extensions: Mapping[str, Any] = field(default_factory=dict)

    def section(self, name: str) -> Any:
        """Return a section, with defaults where it is not set.

        AttributeError for an unknown one.
        """
        if name in _SECTIONS:
            return getattr(self, name)
        kind = extensions.find(extensions.SETTINGS, name)
        if kind is None:
            raise AttributeError(name)
        return self.extensions.get(name) or kind()


#: The sections of this package.
_SECTIONS = frozenset(item.name for item in dataclasses.fields(Settings)) - {"extensions"}


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Return where the settings file is, existing or not."""
    return Path(paths.config_file(environ))


def load(environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """Return the settings in force.

    Defaults, then the file, then the environment, then `flags`; no file is no error. `flags` are dotted keys with values, such
    as {"storage.data_dir": "/srv/memory"}; None is not given. Raises ConfigError for an unreadable file, an unknown or removed
    key or variable (with the nearest known one), and an invalid value.
    """
    env = os.environ if environ is None else environ
    path = file or config_path(env)
    try:
        values = tomllib.loads(foreign_files.read_file(path.resolve()).decode()) if path.exists() else {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}", "Check it with: memory-mcp config check") from e
    for key, text in _of_environment(env).items():
        _put_value(values, key.split("."), text)
    for key, value in (flags or {}).items():
        if value is not None:
            _put_value(values, key.split("."), value)
    added = {
        name: _convert(kind, values.pop(name), name)
        for name in sorted(values.keys() - _SECTIONS)
        if (kind := extensions.find(extensions.SETTINGS, name)) is not None
    }
    return typing.cast("Settings", dataclasses.replace(_build(Settings, values, ""), extensions=added))


def variables() -> dict[str, str]:
    """Return the settings' environment variables with dotted names.

    MEMORY_MCP_DATA_DIR and MEMORY_MCP_STORAGE__DATA_DIR stand for the same one: the later in this
    order, the second, wins.
    """
    return {paths.DATA_DIR: "storage.data_dir"} | _variables_of(iter_keys())


def _variables_of(keys: Iterable[tuple[str, "dataclasses.Field[Any]"]]) -> dict[str, str]:
    return {PREFIX + key.upper().replace(".", "__"): key for key, _ in keys}


def _of_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return settings given as variables, by dotted name, as text.

    A removed setting stays among them. Only names that begin with MEMORY_MCP_ count; what follows may be in any case. Raises
    ConfigError for such a variable that is neither a setting's nor one of ours.
    """
    texts = {name.upper(): text for name, text in env.items() if name.startswith(PREFIX)}
    keys_by_name = {paths.DATA_DIR: "storage.data_dir"} | _variables_of(_section_keys(Settings, ""))
    if any("__" in name and name not in keys_by_name for name in texts):
        # Of another package, removed, or mistyped.
        keys_by_name = variables()
    values = {key: texts[name] for name, key in keys_by_name.items() if name in texts}
    for name, text in texts.items():
        plain = name.removeprefix(PREFIX)
        key = plain.lower().replace("__", ".")
        if any(key == gone or key.startswith(gone + ".") for gone in REMOVED):
            values[key] = text
        elif name not in keys_by_name and plain not in paths.VARIABLES:
            if plain in (added := extensions.names(extensions.VARIABLES)):
                continue
            # One underscore for two is the mistake made most: without them the words are compared.
            names = (*keys_by_name, *(PREFIX + v for v in (*paths.VARIABLES, *added)))
            words = {variable.replace("__", "_"): variable for variable in names}
            near = difflib.get_close_matches(name.replace("__", "_"), words, n=1, cutoff=0.7)
            hint = f"Did you mean {words[near[0]]}?" if near else "memory-mcp config show lists all settings."
            raise ConfigError(f"unknown variable: {name}", extensions.hint_for(key.partition(".")[0]) or hint)
    return values


def store(path: Path, key: str, value: str) -> None:
    """Write one setting into a file, which keeps everything else.

    Its line ends and its mode too. `key` is section and name; the file, its folder and its section are made where there is none.
    The file is replaced whole and followed if it is a link. Raises ConfigError when it cannot be read or written.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    real = path.resolve()
    section, _, name = key.rpartition(".")
    new_file = real.with_name(f".{real.name}.{os.getpid()}")
    try:
        # As bytes: line ends stay what they are.
        text = foreign_files.read_file(real).decode() if real.exists() else ""
        document = tomlkit.parse(text)
        if section not in document:
            document[section] = tomlkit.table()
        typing.cast("dict[str, Any]", document[section])[name] = value
        real.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        with machine.Aside(real, new_file) as f:
            f.write(tomlkit.dumps(document).encode("utf-8"))
            new_file.chmod(mode)
    except (OSError, TOMLKitError, UnicodeError, TypeError) as e:
        raise ConfigError(f"{path} cannot be changed: {e}", f"Write {key} = {value!r} into it by hand.") from e


def _put_value(values: dict[str, Any], keys: list[str], value: Any) -> None:
    """Set `values[key1][key2]...` in place, making sections.

    Raises ConfigError where one of the keys but the last holds a value, no section.
    """
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(keys)} is below a value, not a section")
        values = inner
    values[keys[-1]] = value


def _build(kind: type[Any], values: Mapping[str, Any], prefix: str) -> Any:
    """Return the settings dataclass `kind` made of a section's values.

    `prefix` is the section's dotted name. Raises ConfigError for an unknown key or an invalid value, and what the section itself
    checks.
    """
    hints = typing.get_type_hints(kind)
    field_names = _SECTIONS if kind is Settings else {f.name for f in dataclasses.fields(kind)}
    for key in values:
        if key not in field_names:
            raise _unknown(prefix + key)
    return kind(**{name: _convert(hints[name], value, prefix + name) for name, value in values.items()})


def _convert(kind: Any, value: Any, key: str) -> Any:
    """Return a value as its field's type, read from text.

    Raises ConfigError, which names the key and its meaning, for a value of another type.
    """
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} is a section, not a value")
        return _build(typing.cast("type[Any]", kind), value, key + ".")
    if isinstance(kind, types.UnionType):
        kind = next(a for a in typing.get_args(kind) if a is not type(None))
    if kind is bool:
        words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in words:
            return words[value.lower()]
        raise ConfigError(f"{key} must be true or false, not {value!r}", _meaning(key))
    try:
        if kind is str and not isinstance(value, str):
            raise TypeError
        if kind is int and (isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())):
            raise TypeError
        return kind(value)
    except (TypeError, ValueError):
        type_name = {int: "a whole number", float: "a number", str: "a text"}.get(kind, str(kind))
        raise ConfigError(f"{key} must be {type_name}, not {value!r}", _meaning(key)) from None


def _meaning(key: str) -> str:
    """Return "It means: HELP Without it: DEFAULT." as a hint."""
    item = next((item for name, item in iter_keys() if name == key), None)
    return "" if item is None else f"It means: {item.metadata.get('help', '')} Without it: {item.default!r}."


def _unknown(key: str) -> ConfigError:
    """Return the error for a key that is no setting.

    Its hint says what holds instead of a removed one. For any other key the hint asks for the nearest known name, or names the
    command that lists all.
    """
    if key in REMOVED:
        return ConfigError(f"the setting {key} was removed", f"{REMOVED[key]} Take it out of the settings.")
    if hint := "" if key.partition(".")[0] in _SECTIONS else extensions.hint_for(key.partition(".")[0]):
        return ConfigError(f"unknown setting: {key}", hint)
    names = [k for k, _ in iter_keys()]
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.4) or difflib.get_close_matches(
        key.rsplit(".", 1)[-1], [n.rsplit(".", 1)[-1] for n in names], n=1
    )
    full = next((n for n in names if near and n.endswith(near[0])), "")
    return ConfigError(
        f"unknown setting: {key}", f"Did you mean {full}?" if full else "memory-mcp config show lists all settings."
    )


def iter_keys() -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Yield every setting's dotted name and dataclass field."""
    yield from _section_keys(Settings, "")
    for name, kind in extensions.load_all(extensions.SETTINGS).items():
        yield from _section_keys(kind, f"{name}.")


def _section_keys(kind: type[Any], prefix: str) -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    hints = typing.get_type_hints(kind)
    for item in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[item.name]):
            yield from _section_keys(typing.cast("type[Any]", hints[item.name]), f"{prefix}{item.name}.")
        elif kind is not Settings:
            yield prefix + item.name, item


def shown_value(settings: Settings, key: str, item: "dataclasses.Field[Any]") -> Any:
    """Return a setting's value, a database's password as stars."""
    value = value_of(settings, key)
    return without_password(value) if item.metadata.get("is_address") else value


def without_password(text: str) -> str:
    """Return a text with passwords of addresses as stars."""
    return _PASSWORD.sub(lambda m: f"{m['user'] or m['word']}***", text)


def value_of(settings: Settings, key: str) -> Any:
    """Return the value in force of a dotted name.

    Raises AttributeError for an unknown one.
    """
    section, _, name = key.partition(".")
    return attrgetter(name)(settings.section(section))
