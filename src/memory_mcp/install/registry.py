"""The clients, in the order in which they are shown."""

from memory_mcp.install.base import Client
from memory_mcp.install.claude_code import ClaudeCode

CLIENTS: dict[str, Client] = {client.name: client for client in (ClaudeCode(),)}
