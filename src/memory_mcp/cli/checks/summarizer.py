"""The summarizer's language model: which, what it may spend today, and why it has not answered."""

import os
from collections.abc import Iterator

from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.jobs.improve_summaries import left_today
from memory_mcp.model.ledger import Outcome


def checks(opened: Opened) -> Iterator[Check]:
    """Yield one line: which model is asked and what of today's tokens is spent; WARN with why it was not or cannot be asked.

    WARN where its key's variable is not set here, and where a request of today failed. OK where none is to be
    asked.
    """
    settings = opened.settings.summarizer
    if not settings.is_on:
        yield Check(OK, "summarizer", "extractive: no language model is asked")
        return
    spent = settings.daily_tokens - left_today(settings, opened.storage, opened.calendar, opened.now_ms)
    who = f"{settings.provider} {settings.name}, {spent:,} of {settings.daily_tokens:,} tokens spent today"
    if (name := settings.api_key_env) and not os.environ.get(name):
        step = f"set {name}, then: memory-mcp daemon restart"
        yield Check(WARN, "summarizer", f"{who}; the variable {name} is not set here", step)
        return
    today = opened.calendar.midnight_of(opened.calendar.to_local(opened.now_ms).date())
    failed = [attempt.reason for attempt in opened.storage.spending.list_calls(today) if attempt.outcome is Outcome.FAILED]
    if failed:
        yield Check(WARN, "summarizer", f"{who}; {failed[-1]}", "memory-mcp spend")
    else:
        yield Check(OK, "summarizer", who)
