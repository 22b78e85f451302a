"""The importers, one line each; general forms are last, because they are tried last."""

from collections.abc import Callable

from memory_mcp.ingest.amp import AmpImporter
from memory_mcp.ingest.antigravity import AntigravityImporter
from memory_mcp.ingest.base import Importer
from memory_mcp.ingest.chatgpt import ChatGptImporter
from memory_mcp.ingest.claude_ai import ClaudeAiImporter
from memory_mcp.ingest.claude_code.reader import ClaudeCodeImporter
from memory_mcp.ingest.cline import ClineImporter
from memory_mcp.ingest.codex.reader import CodexImporter
from memory_mcp.ingest.continue_dev import ContinueImporter
from memory_mcp.ingest.copilot.reader import CopilotImporter
from memory_mcp.ingest.copilot_chat import CopilotChatImporter
from memory_mcp.ingest.cursor.reader import CursorImporter
from memory_mcp.ingest.deepseek import DeepseekImporter
from memory_mcp.ingest.gemini.reader import GeminiImporter
from memory_mcp.ingest.goose import GooseImporter
from memory_mcp.ingest.grok import GrokImporter
from memory_mcp.ingest.jsonl import JsonlImporter
from memory_mcp.ingest.kimi import KimiImporter
from memory_mcp.ingest.kimi_cli import KimiCliImporter
from memory_mcp.ingest.markdown.reader import MarkdownImporter
from memory_mcp.ingest.opencode.reader import OpencodeImporter
from memory_mcp.ingest.pi import PiImporter
from memory_mcp.ingest.qwen import QwenImporter
from memory_mcp.ingest.settings import IngestSettings

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
