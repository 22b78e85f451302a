"""The edits that make each client record its sessions as they happen: hooks or a plugin."""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import PurePath

from memory_mcp.install.base import AddItem, Client, Edit, Order, PlaceFile
from memory_mcp.install.command import hook_words

#: The events of Claude Code and Codex that are recorded.
CLAUDE_CODE = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
#: Codex reports a failure as any other result.
CODEX = tuple(event for event in CLAUDE_CODE if event != "PostToolUseFailure")
GEMINI = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
#: How long a client waits for our hook at most, seconds; Gemini CLI takes milliseconds.
_PATIENCE_S, _PATIENCE_MS = 10, 10_000
#: The line of the plugin that names the command.
_COMMAND = 'const COMMAND = ["memory-mcp", "hook", "opencode"]'


def hooks(client: Client, order: Order, file: PurePath, events: Sequence[str]) -> list[Edit]:
    """Return one edit per event, each adding our hook.

    The format is Claude Code's, which other clients share; the client is told to end a hook after 10 seconds.
    """
    patience = _PATIENCE_MS if client.hook_client == "gemini" else _PATIENCE_S
    item = {"hooks": [{"type": "command", "command": client.hook_line(order), "timeout": patience}]}
    return [AddItem(file, ("hooks", event), item, client.hook_client) for event in events]


def opencode_plugin(order: Order, folder: PurePath) -> list[Edit]:
    """Return the edit that places our plugin, memory-mcp.js.

    The plugin's text is the packaged one with the hook command of this machine put in.
    """
    text = resources.files("memory_mcp.install").joinpath("opencode_plugin.js").read_text(encoding="utf-8")
    words = json.dumps(hook_words("opencode", order.data_dir, order.config))
    return [PlaceFile(folder / "memory-mcp.js", text.replace(_COMMAND, f"const COMMAND = {words}"))]
