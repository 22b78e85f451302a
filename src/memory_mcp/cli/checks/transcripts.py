"""Clients' own transcripts: what is not imported, and what its client is about to delete."""

from collections.abc import Iterator

from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.ingest.following import agreed
from memory_mcp.ingest.rescue import Fate, fates
from memory_mcp.sources import all_importers


def checks(opened: Opened) -> Iterator[Check]:
    """One line per client whose files lie on this machine."""
    outbox = opened.storage.outbox
    followed = agreed(outbox)
    found = fates(all_importers(opened.settings.ingest), outbox.marks("import:"), opened.now_ms)
    if not found:
        yield Check(OK, "transcripts", "no client keeps any in its usual place")
    for fate in found:
        yield _check(fate, fate.importer in followed, opened)


def _check(fate: Fate, followed: bool, opened: Opened) -> Check:
    kept = f"{fate.new_files:,} of {fate.files:,} files not imported" if fate.new_files else f"all {fate.files:,} files imported"
    words = [f"{fate.title}: {kept}"]
    if fate.going:
        day = opened.calendar.day_of(fate.first_ms)
        words.append(f"it deletes them after {fate.days} days, {fate.going:,} in the next days ({day} the first)")
        words.append(f"{fate.going_new:,} of those are not imported")
    elif fate.days:
        words.append(f"it deletes them after {fate.days} days")
    words += ["followed"] if followed else []
    step = ""
    if fate.new_files and not followed:
        step = f"memory-mcp import {fate.importer}, or from now on: memory-mcp watch on {fate.importer}"
    return Check(WARN if fate.going_new and not followed else OK, "transcripts", "; ".join(words), step)
