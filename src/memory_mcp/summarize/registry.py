"""The summarizers that need nothing but this package. One line each."""

from collections.abc import Callable

from memory_mcp.summarize.base import Summarizer
from memory_mcp.summarize.extractive import ExtractiveSummarizer

SUMMARIZERS: dict[str, Callable[[], Summarizer]] = {
    "extractive": ExtractiveSummarizer,
}
