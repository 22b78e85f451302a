"""Detect whether Claude Code runs the hook twice, by the plugin and by settings. Only reads files.

What it is told twice is stored once (see `ingest/spool.py`), but each call starts a process, and a new session is told
twice where the last one left off.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from memory_mcp import foreign_files
from memory_mcp.ingest.claude_code.blocks import as_list, as_mapping, as_mappings
from memory_mcp.install.edit import jsonc

#: The plugin under the name of the marketplace that offers it.
PLUGIN = "memory@memory-mcp"
_COMMAND = "hook claude-code"


def doubled(home: Path, project: Path | None = None) -> list[Path]:
    """Return the settings files that name our hook although the plugin is on; none when one of the two is off.

    `home` is the user's folder, `project` the one in which the client is started. Files that cannot be read count as
    empty.
    """
    files = [home / ".claude/settings.json"]
    if project is not None:
        files += [project / ".claude/settings.json", project / ".claude/settings.local.json"]
    read: dict[Path, Mapping[str, object]] = {}
    for file in files:
        with suppress(OSError, ValueError, RecursionError):
            read[file] = as_mapping(jsonc.parse(foreign_files.read_file(file).decode("utf-8-sig")).value)
    # A later file has the last word on what an earlier one switched on.
    on = [state for settings in read.values() if (state := as_mapping(settings.get("enabledPlugins")).get(PLUGIN)) is not None]
    if not on or on[-1] is not True:
        return []
    return [file for file, settings in read.items() if any(_COMMAND in command for command in _commands(settings))]


def _commands(settings: Mapping[str, object]) -> Iterator[str]:
    """Yield the command line of every hook in settings, with its arguments."""
    for groups in as_mapping(settings.get("hooks")).values():
        for group in as_mappings(groups):
            for hook in as_mappings(group.get("hooks")):
                words = [hook.get("command"), *as_list(hook.get("args"))]
                yield " ".join(w for w in words if isinstance(w, str))
