"""The settings file: each room's settings put together, checked, unknown keys refused by their nearest known name.

Order: defaults, then config.toml, then environment (MEMORY_MCP_<SECTION>__<KEY>), then flags.
"""

import dataclasses
import difflib
import os
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import platformdirs

from memory_mcp.errors import ConfigError
from memory_mcp.ingest.settings import IngestSettings
from memory_mcp.layers.budget import StopConditions
from memory_mcp.segments import SegmentSettings

PREFIX = "MEMORY_MCP_"
APP = "memory-mcp"


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Where the truth is kept."""

    data_dir: str = field(default="", metadata={"help": "Data directory; empty: the platform's own place for user data."})
    timezone: str = field(
        default="", metadata={"help": "Zone of a new store's days, such as Europe/Berlin; empty: the system's."}
    )
    memory_limit_mb: int = field(default=256, metadata={"help": "Memory DuckDB may use, in MB."})

    def __post_init__(self) -> None:
        """DuckDB cannot open its tables in less than 64 MB."""
        if self.memory_limit_mb < 64:
            raise ConfigError("storage.memory_limit_mb must be at least 64")

    @property
    def directory(self) -> Path:
        """The data directory."""
        return Path(self.data_dir).expanduser() if self.data_dir else Path(platformdirs.user_data_dir(APP, appauthor=False))


@dataclass(frozen=True, slots=True)
class SwitchSettings:
    """A layer that can be switched off."""

    enabled: bool = field(default=True, metadata={"help": "Whether this layer may be used once it is built."})


@dataclass(frozen=True, slots=True)
class TeleportSettings:
    """Jumping to a place by an index."""

    enabled: bool = field(default=True, metadata={"help": "Master switch of the keyword and vector layers."})
    bm25: SwitchSettings = field(default_factory=SwitchSettings)
    vector: SwitchSettings = field(default_factory=SwitchSettings)


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """How far a search goes by default."""

    bounds: StopConditions = field(default_factory=StopConditions)
    strong_match: float = field(default=0.5, metadata={"help": "Share of the query from which a tree match counts as strong."})
    token_factor: float = field(default=1.0, metadata={"help": "Multiplies estimated tokens wherever a budget is kept."})

    def __post_init__(self) -> None:
        """A share lies between 0 and 1, a factor above 0."""
        if not 0 < self.strong_match <= 1 or not 0.1 <= self.token_factor <= 10:
            raise ConfigError("retrieval.strong_match must be in (0, 1] and retrieval.token_factor in [0.1, 10]")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What clients of the server see."""

    profile: str = field(default="default", metadata={"help": "Tools offered: default (nine) or full."})
    scope: str = field(
        default="project", metadata={"help": "Default scope of a search: project (the caller's, when known) or all."}
    )

    def __post_init__(self) -> None:
        """Known words only."""
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
    teleport: TeleportSettings = field(default_factory=TeleportSettings)
    topics: SwitchSettings = field(default_factory=SwitchSettings)
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    server: ServerSettings = field(default_factory=ServerSettings)


def config_path(environ: Mapping[str, str] | None = None) -> Path:
    """Where the settings file is looked for: MEMORY_MCP_CONFIG, else the platform's configuration directory."""
    named = (os.environ if environ is None else environ).get(PREFIX + "CONFIG")
    return Path(named).expanduser() if named else Path(platformdirs.user_config_dir(APP, appauthor=False)) / "config.toml"


def load(environ: Mapping[str, str] | None = None, flags: Mapping[str, Any] | None = None, file: Path | None = None) -> Settings:
    """The settings in force; ConfigError names what is wrong and the nearest known key.

    `flags` are dotted keys with values, such as {"storage.data_dir": "/srv/memory"}.
    """
    env = os.environ if environ is None else environ
    path = file or config_path(env)
    values = _read(path) if path.exists() else {}
    for name, text in env.items():
        if name.startswith(PREFIX) and "__" in name:
            _put(values, name.removeprefix(PREFIX).lower().split("__"), text)
    for key, value in (flags or {}).items():
        if value is not None:
            _put(values, key.split("."), value)
    return typing.cast("Settings", _build(Settings, values, ""))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise ConfigError(f"{path} cannot be read: {e}", "Check it with: memory-mcp config check") from e


def _put(values: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = values.setdefault(key, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"{'.'.join(keys)} is below a value, not a section")
        values = inner
    values[keys[-1]] = value


def _build(kind: type[Any], values: Mapping[str, Any], prefix: str) -> Any:
    hints = typing.get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind)}
    for key in values:
        if key not in known:
            raise _unknown(prefix + key)
    made = {}
    for name, value in values.items():
        made[name] = _convert(hints[name], value, prefix + name)
    return kind(**made)


def _convert(kind: Any, value: Any, key: str) -> Any:
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{key} is a section, not a value")
        return _build(typing.cast("type[Any]", kind), value, key + ".")
    if isinstance(kind, types.UnionType):
        kind = next(a for a in typing.get_args(kind) if a is not type(None))
    if kind is bool:
        return _bool(value, key)
    try:
        if kind is str and not isinstance(value, str):
            raise TypeError
        if kind is int and (isinstance(value, bool) or (isinstance(value, float) and not value.is_integer())):
            raise TypeError
        return kind(value)
    except (TypeError, ValueError):
        raise ConfigError(f"{key} must be {_named(kind)}, not {value!r}") from None


def _named(kind: Any) -> str:
    return {int: "a whole number", float: "a number", str: "a text"}.get(kind, str(kind))


def _bool(value: Any, key: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ConfigError(f"{key} must be true or false, not {value!r}")


def _unknown(key: str) -> ConfigError:
    names = [k for k, _ in iter_keys()]
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.4) or difflib.get_close_matches(
        key.rsplit(".", 1)[-1], [n.rsplit(".", 1)[-1] for n in names], n=1
    )
    full = next((n for n in names if near and n.endswith(near[0])), "")
    return ConfigError(
        f"unknown setting: {key}", f"Did you mean {full}?" if full else "memory-mcp config show lists all settings."
    )


def iter_keys(kind: type[Any] = Settings, prefix: str = "") -> Iterator[tuple[str, "dataclasses.Field[Any]"]]:
    """Every setting's dotted name with its field (default, help)."""
    hints = typing.get_type_hints(kind)
    for item in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[item.name]):
            yield from iter_keys(typing.cast("type[Any]", hints[item.name]), f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, item


def value_of(settings: Settings, key: str) -> Any:
    """The value in force of a dotted name."""
    found: Any = settings
    for part in key.split("."):
        found = getattr(found, part)
    return found
