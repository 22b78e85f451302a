"""The summarizers by name."""

from collections.abc import Callable

from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer

SUMMARIZERS: dict[str, Callable[[], Summarizer]] = {
    "extractive": ExtractiveSummarizer,
}
