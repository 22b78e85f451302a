"""The sources that can be imported, one line each; the general forms, which are asked last whose a file is, at the end."""

from collections.abc import Callable

from memory_mcp.ingest.base import Importer
from memory_mcp.ingest.claude_code.reader import ClaudeCodeImporter
from memory_mcp.ingest.cline import ClineImporter
from memory_mcp.ingest.jsonl import JsonlImporter
from memory_mcp.ingest.pi import PiImporter
from memory_mcp.ingest.settings import IngestSettings

IMPORTERS: dict[str, Callable[[IngestSettings], Importer]] = {
    "claude-code": ClaudeCodeImporter,
    "pi": PiImporter,
    "cline": ClineImporter,
    "jsonl": JsonlImporter,
}
