"""The clients whose hooks are supported, one line each; the hook has the same names (`hook.CLIENTS`).

Change here: take payloads of another client's hooks.
"""

from memory_mcp.capture.hooks.base import Hooks
from memory_mcp.capture.hooks.claude_code import ClaudeCodeHooks
from memory_mcp.capture.hooks.codex import CodexHooks
from memory_mcp.capture.hooks.gemini import GeminiHooks
from memory_mcp.capture.hooks.opencode import OpencodeHooks
from memory_mcp.capture.hooks.plain import PlainHooks

HOOKS: dict[str, Hooks] = {
    "claude-code": ClaudeCodeHooks(),
    "codex": CodexHooks(),
    "gemini": GeminiHooks(),
    "opencode": OpencodeHooks(),
    "json": PlainHooks(),
}
