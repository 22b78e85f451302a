"""The sources that can be imported, one line each; the general forms, which are asked last whose a file is, at the end."""

from collections.abc import Callable

from memory_mcp.ingest.amp import AmpImporter
from memory_mcp.ingest.base import Importer
from memory_mcp.ingest.chatgpt.reader import ChatGptImporter
from memory_mcp.ingest.claude_ai import ClaudeAiImporter
from memory_mcp.ingest.claude_code.reader import ClaudeCodeImporter
from memory_mcp.ingest.continue_dev import ContinueImporter
from memory_mcp.ingest.cursor.reader import CursorImporter
from memory_mcp.ingest.jsonl import JsonlImporter
from memory_mcp.ingest.markdown.reader import MarkdownImporter
from memory_mcp.ingest.settings import IngestSettings

IMPORTERS: dict[str, Callable[[IngestSettings], Importer]] = {
    "claude-code": ClaudeCodeImporter,
    "cursor": CursorImporter,
    "amp": AmpImporter,
    "continue": ContinueImporter,
    "chatgpt": ChatGptImporter,
    "claude-ai": ClaudeAiImporter,
    "jsonl": JsonlImporter,
    "markdown": MarkdownImporter,
}
