"""Checks of clients' transcripts: how many are not imported, and how many their client deletes soon."""

import time
from collections.abc import Callable, Container, Iterator, Sequence

from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.config import Settings
from memory_mcp.ingest.following import followed_names
from memory_mcp.ingest.rescue import DeletionForecast, forecast_deletions
from memory_mcp.ingest.sources import all_importers


def checks(opened: Opened) -> Iterator[Check]:
    """Yield a line for each client whose transcripts are here: how many are imported, how many it deletes soon; one if none are.

    WARN where files that are not imported are deleted soon and the client is not followed, and for tables that no reader knows.
    """
    outbox = opened.storage.outbox
    client_fates = forecast_deletions(all_importers(opened.settings.ingest), outbox.get_positions("import:"), opened.now_ms)
    yield from _describe_fates(client_fates, followed_names(outbox), opened.calendar.day_of)


def before_a_store(settings: Settings, now_ms: int) -> Iterator[Check]:
    """Yield the lines of `checks` for a data directory without a store: nothing is imported, no client is followed.

    Days are in the machine's zone; `now_ms` is in milliseconds since 1970.
    """
    client_fates = forecast_deletions(all_importers(settings.ingest), {}, now_ms)
    yield from _describe_fates(client_fates, (), lambda ms: time.strftime("%Y-%m-%d", time.localtime(ms / 1000)))


def _describe_fates(
    client_fates: Sequence[DeletionForecast], followed: Container[str], day_of: Callable[[int], str]
) -> Iterator[Check]:
    """Yield a line for each client: how many of its files are imported, how many it deletes soon; one where no client keeps any.

    `followed` are names of importers. WARN where files that are not imported are deleted soon and the client is not followed.
    """
    if not client_fates:
        yield Check(OK, "transcripts", "no client keeps any in its usual place")
    for fate in client_fates:
        is_followed = fate.importer in followed
        file_counts = f"{render.plural(fate.files, 'file')}, {f'{fate.new_files:,} not' if fate.new_files else 'all'} imported"
        words = [f"{fate.title}: {file_counts}"]
        if fate.deleted_soon:
            soon = f"{fate.deleted_soon:,} in the next days ({day_of(fate.first_deletion_ms)} the first)"
            words.append(f"it deletes them after {fate.days} days, {soon}")
            words.append(f"{fate.new_deleted_soon:,} of those are not imported")
        elif fate.days:
            words.append(f"it deletes them after {fate.days} days")
        words += ["followed"] if is_followed else []
        step = f"memory-mcp import {fate.importer}, or from now on: memory-mcp watch on {fate.importer}"
        is_lost = fate.new_deleted_soon and not is_followed
        text = "; ".join(words)
        yield Check(WARN if is_lost else OK, "transcripts", text, step if fate.new_files and not is_followed else "")
        if fate.unread_tables:
            yield _warn_of_tables(fate)


def _warn_of_tables(fate: DeletionForecast) -> Check:
    """Return the line of a client whose database has tables with conversation that no importer reads."""
    several = len(fate.unread_tables) > 1
    tables = f"{'tables' if several else 'a table'} with conversation that no reader knows: {', '.join(fate.unread_tables)}"
    text = f"{fate.title}: its database has {tables}; what is in {'them' if several else 'it'} is not imported"
    return Check(WARN, "transcripts", text, "update memory-mcp: newer versions know newer clients")
