"""The clients, in the order in which they are shown."""

from memory_mcp.install.base import Client
from memory_mcp.install.claude_code import ClaudeCode
from memory_mcp.install.claude_desktop import ClaudeDesktop
from memory_mcp.install.codex import Codex
from memory_mcp.install.copilot import Copilot
from memory_mcp.install.cursor import Cursor
from memory_mcp.install.gemini import Gemini
from memory_mcp.install.opencode import OpenCode
from memory_mcp.install.vscode import VSCode
from memory_mcp.install.windsurf import Windsurf
from memory_mcp.install.zed import Zed

CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        ClaudeCode(),
        ClaudeDesktop(),
        Codex(),
        Cursor(),
        VSCode(),
        Gemini(),
        OpenCode(),
        Copilot(),
        Windsurf(),
        Zed(),
    )
}
