"""The summarizers by name."""

from collections.abc import Callable

from memory_mcp.summarize.base import Summarizer
from memory_mcp.summarize.extractive import ExtractiveSummarizer

SUMMARIZERS: dict[str, Callable[[], Summarizer]] = {
    "extractive": ExtractiveSummarizer,
}
