"""The clients whose hooks are supported, one line each; the hook has the same names (`hook.CLIENTS`)."""

from memory_mcp.ingest.hooks.base import Hooks
from memory_mcp.ingest.hooks.claude_code import ClaudeCodeHooks
from memory_mcp.ingest.hooks.codex import CodexHooks
from memory_mcp.ingest.hooks.gemini import GeminiHooks
from memory_mcp.ingest.hooks.opencode import OpencodeHooks
from memory_mcp.ingest.hooks.plain import PlainHooks

HOOKS: dict[str, Hooks] = {
    "claude-code": ClaudeCodeHooks(),
    "codex": CodexHooks(),
    "gemini": GeminiHooks(),
    "opencode": OpencodeHooks(),
    "json": PlainHooks(),
}
