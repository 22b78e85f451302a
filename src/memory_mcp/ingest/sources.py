"""Choose the importer of a source by name, and what follows the session files of clients."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import paths
from memory_mcp.base.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.archive.exchange import Exchange, SyncReport
    from memory_mcp.archive.shared import SyncSettings
    from memory_mcp.ingest.base import Importer
    from memory_mcp.ingest.capture import CaptureRules
    from memory_mcp.ingest.following import StoreDrafts
    from memory_mcp.ingest.gate import Gate
    from memory_mcp.ingest.hooks.base import Hooks
    from memory_mcp.ingest.pipeline import MarkStore
    from memory_mcp.ingest.settings import IngestSettings
    from memory_mcp.model.event import EventDraft
    from memory_mcp.storage.base import Storage
    from memory_mcp.storage.values import AppendResult


def make_importer(name: str, settings: "IngestSettings") -> "Importer":
    """Return an importer by its name; raises InvalidQuery."""
    from memory_mcp.ingest.registry import IMPORTERS

    if name not in IMPORTERS:
        raise InvalidQuery(f"unknown source: {name!r}", f"Known sources: {', '.join(sorted(IMPORTERS))}.")
    return IMPORTERS[name](settings)


def make_follower(
    settings: "IngestSettings",
    marks: "MarkStore",
    directory: Path | None,
    store: "StoreDrafts",
    capture: "Callable[[], CaptureRules]",
) -> Callable[[Callable[[], bool]], int]:
    """Return a function that runs one round of following.

    Its argument says whether to stop; it returns the number of new events and raises what reading and storing raise. For a
    store in memory (no directory) it does nothing and returns 0. `capture` returns what is never recorded.
    """
    if directory is None:
        return lambda _: 0
    from memory_mcp.ingest.following import Follower

    return Follower(lambda: all_importers(settings), marks, Path(paths.spool_dir(str(directory))), store, capture).run_round


def make_capture(settings: "IngestSettings", directory: Path | None) -> "CaptureRules":
    """Return what is never recorded, by the settings and pauses."""
    from memory_mcp.ingest.capture import CaptureRules

    return CaptureRules.from_settings(settings, directory)


def make_exchange(storage: "Storage", data_dir: Path, folder: Path, gate: "Gate", store: "StoreDrafts") -> "Exchange":
    """Return a store's exchange with others through a folder."""
    from memory_mcp.archive.exchange import Exchange
    from memory_mcp.ingest.base import ImportReport

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


def client_hooks() -> "Mapping[str, Hooks]":
    """Return what reads the hooks' payloads, by client; "json" is plain."""
    from memory_mcp.ingest.hooks.registry import HOOKS

    return HOOKS


def all_importers(settings: "IngestSettings") -> "list[Importer]":
    """Return an importer of every kind, in the order of asking."""
    from memory_mcp.ingest.registry import IMPORTERS

    return [make(settings) for make in IMPORTERS.values()]
