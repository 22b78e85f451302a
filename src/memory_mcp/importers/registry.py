"""The importers, one line each; general forms are last, because they are tried last."""

from collections.abc import Callable

from memory_mcp.importers.amp import AmpImporter
from memory_mcp.importers.antigravity import AntigravityImporter
from memory_mcp.importers.base import Importer
from memory_mcp.importers.chatgpt import ChatGptImporter
from memory_mcp.importers.claude_ai import ClaudeAiImporter
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.cline import ClineImporter
from memory_mcp.importers.codex.reader import CodexImporter
from memory_mcp.importers.continue_dev import ContinueImporter
from memory_mcp.importers.copilot import CopilotImporter
from memory_mcp.importers.copilot_chat import CopilotChatImporter
from memory_mcp.importers.cursor.reader import CursorImporter
from memory_mcp.importers.deepseek import DeepseekImporter
from memory_mcp.importers.gemini.reader import GeminiImporter
from memory_mcp.importers.goose import GooseImporter
from memory_mcp.importers.grok import GrokImporter
from memory_mcp.importers.jsonl import JsonlImporter
from memory_mcp.importers.kimi import KimiImporter
from memory_mcp.importers.kimi_cli import KimiCliImporter
from memory_mcp.importers.markdown.reader import MarkdownImporter
from memory_mcp.importers.opencode.reader import OpencodeImporter
from memory_mcp.importers.pi import PiImporter
from memory_mcp.importers.qwen import QwenImporter
from memory_mcp.importers.settings import IngestSettings

IMPORTERS: dict[str, Callable[[IngestSettings], Importer]] = {
    "claude-code": ClaudeCodeImporter,
    "pi": PiImporter,
    "cline": ClineImporter,
    "antigravity": AntigravityImporter,
    "deepseek": DeepseekImporter,
    "goose": GooseImporter,
    "grok": GrokImporter,
    "kimi": KimiImporter,
    "kimi-cli": KimiCliImporter,
    "codex": CodexImporter,
    "qwen": QwenImporter,
    "gemini": GeminiImporter,
    "copilot": CopilotImporter,
    "copilot-chat": CopilotChatImporter,
    "opencode": OpencodeImporter,
    "cursor": CursorImporter,
    "amp": AmpImporter,
    "continue": ContinueImporter,
    "chatgpt": ChatGptImporter,
    "claude-ai": ClaudeAiImporter,
    "jsonl": JsonlImporter,
    "markdown": MarkdownImporter,
}
