"""Exchanges a store with others through a folder; what comes in and goes out passes the gate."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.importers.base import ImportReport
from memory_mcp.upkeep.archive.exchange import Exchange

if TYPE_CHECKING:
    from memory_mcp.capture.following import StoreDrafts
    from memory_mcp.capture.gate import Gate
    from memory_mcp.model.event import EventDraft
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.values import AppendResult
    from memory_mcp.upkeep.archive.exchange import Exchange, SyncReport
    from memory_mcp.upkeep.archive.shared import SyncSettings


def make_exchange(storage: "Storage", data_dir: Path, folder: Path, gate: "Gate", store: "StoreDrafts") -> "Exchange":
    """Return a store's exchange with others through a folder."""
    report = ImportReport()

    def take(drafts: "Sequence[EventDraft]") -> "AppendResult":
        return store([clean for draft in drafts if (clean := gate.clean_draft(draft, report)) is not None], "sync")

    def clean(draft: "EventDraft") -> "EventDraft | None":
        return gate.clean_draft(draft, ImportReport())

    return Exchange(storage, data_dir, folder, take, clean)


def make_syncer(
    settings: "SyncSettings", storage: "Storage", data_dir: Path | None, gate: "Gate", store: "StoreDrafts"
) -> "Callable[[Callable[[], bool]], SyncReport | None]":
    """Return a function that exchanges once through the settings' folder.

    It returns None where no folder is set or the store is in memory, ends early when its argument says so, and raises what the
    exchange raises.
    """

    def work(should_stop: Callable[[], bool]) -> "SyncReport | None":
        if not settings.directory or data_dir is None:
            return None
        return make_exchange(storage, data_dir.absolute(), Path(settings.directory).expanduser(), gate, store).run(should_stop)

    return work
