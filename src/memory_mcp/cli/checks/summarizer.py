"""The summarizer's command: which, what it may spend today, and why it gave no text."""

from collections.abc import Iterator

from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.jobs.improve_summaries import last_problem, left_today


def checks(opened: Opened) -> Iterator[Check]:
    """Yield one line: the command and today's tokens; WARN with the reason if its last answer today was none."""
    settings = opened.settings.summarizer
    if not settings.is_on:
        yield Check(OK, "summarizer", "extractive: no language model is asked")
        return
    spent = settings.daily_tokens - left_today(settings, opened.storage, opened.calendar, opened.now_ms)
    state = f"command {settings.name}, {spent:,} of {settings.daily_tokens:,} tokens spent today"
    if problem := last_problem(opened.storage, opened.calendar, opened.now_ms):
        yield Check(WARN, "summarizer", f"{state}; {problem}", "memory-mcp spend")
    else:
        yield Check(OK, "summarizer", state)
