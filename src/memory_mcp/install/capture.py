"""What makes each client hand over its sessions as they happen: hooks where it has them, a plugin where it has those."""

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import PurePath

from memory_mcp.install.base import AddItem, Client, Edit, Order, PlaceFile
from memory_mcp.install.command import hook_words

#: What Claude Code and Codex tell their hooks of, as far as it belongs into a memory.
CLAUDE_CODE = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
#: Codex tells of a failure as of any other result.
CODEX = tuple(event for event in CLAUDE_CODE if event != "PostToolUseFailure")
GEMINI = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd")
#: How long a client waits for our hook at most: seconds, but milliseconds in Gemini CLI.
_PATIENCE = {"gemini": 10_000}
_PATIENCE_S = 10
#: The line of the plugin that names the command.
_COMMAND = 'const COMMAND = ["memory-mcp", "hook", "opencode"]'


def hooks(client: Client, order: Order, file: PurePath, events: Sequence[str]) -> list[Edit]:
    """One hook for each event, in the form that Claude Code has and others took over."""
    patience = _PATIENCE.get(client.hook_client, _PATIENCE_S)
    item = {"hooks": [{"type": "command", "command": client.hook_line(order), "timeout": patience}]}
    return [AddItem(file, ("hooks", event), item, client.hook_client) for event in events]


def opencode_plugin(order: Order, folder: PurePath) -> list[Edit]:
    """Our plugin in a folder whose files opencode loads by itself."""
    text = resources.files("memory_mcp.install").joinpath("opencode_plugin.js").read_text(encoding="utf-8")
    words = json.dumps(hook_words("opencode", order.data_dir, order.config))
    return [PlaceFile(folder / "memory-mcp.js", text.replace(_COMMAND, f"const COMMAND = {words}"))]
