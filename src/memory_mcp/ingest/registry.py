"""The sources that can be imported. One line each."""

from collections.abc import Callable

from memory_mcp.ingest.base import Importer
from memory_mcp.ingest.claude_code.reader import ClaudeCodeImporter
from memory_mcp.ingest.jsonl import JsonlImporter
from memory_mcp.ingest.settings import IngestSettings

IMPORTERS: dict[str, Callable[[IngestSettings], Importer]] = {
    "claude-code": ClaudeCodeImporter,
    "jsonl": JsonlImporter,
}
