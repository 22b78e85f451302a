"""Whether Claude Code runs our hook twice: once by the plugin, once by settings. Files are read, nothing else is asked.

What it is told twice is stored once (see `ingest/spool.py`), but each call starts a process, and a new session is told
twice where the last one left off.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from memory_mcp.install.edit import jsonc

#: The plugin under the name of the marketplace that offers it.
PLUGIN = "memory@memory-mcp"
_COMMAND = "hook claude-code"


def doubled(home: Path, project: Path | None = None) -> list[Path]:
    """The settings files that name our hook although the plugin is on; none when one of the two is off.

    `home` is the user's folder, `project` the one in which the client is started. What cannot be read counts as empty.
    """
    files = [home / ".claude/settings.json"]
    if project is not None:
        files += [project / ".claude/settings.json", project / ".claude/settings.local.json"]
    read = {file: _settings(file) for file in files}
    # A later file has the last word on what an earlier one switched on.
    on = [state for settings in read.values() if (state := _mapping(settings.get("enabledPlugins")).get(PLUGIN)) is not None]
    if not on or on[-1] is not True:
        return []
    return [file for file, settings in read.items() if any(_COMMAND in command for command in _commands(settings))]


def _settings(file: Path) -> Mapping[str, Any]:
    try:
        return _mapping(jsonc.parse(file.read_text(encoding="utf-8-sig")).value)
    except (OSError, ValueError, RecursionError):
        return {}


def _commands(settings: Mapping[str, Any]) -> Iterator[str]:
    """The command line of every hook."""
    for groups in _mapping(settings.get("hooks")).values():
        for group in groups if isinstance(groups, list) else []:
            hooks = _mapping(group).get("hooks")
            for one in hooks if isinstance(hooks, list) else []:
                words = [_mapping(one).get("command"), *_list(_mapping(one).get("args"))]
                yield " ".join(w for w in words if isinstance(w, str))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
