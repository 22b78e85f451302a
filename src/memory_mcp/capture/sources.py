"""Choose the importer of a source by name, and what follows the session files of clients."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import paths
from memory_mcp.base.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.capture.exclusions import CaptureRules
    from memory_mcp.capture.following import StoreDrafts
    from memory_mcp.capture.hooks.base import Hooks
    from memory_mcp.capture.pipeline import MarkStore
    from memory_mcp.importers.base import Importer
    from memory_mcp.importers.settings import IngestSettings


def make_importer(name: str, settings: "IngestSettings") -> "Importer":
    """Return an importer by its name; raises InvalidQuery."""
    from memory_mcp.importers.registry import IMPORTERS

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
    from memory_mcp.capture.following import Follower

    return Follower(lambda: all_importers(settings), marks, Path(paths.spool_dir(str(directory))), store, capture).run_round


def make_capture(settings: "IngestSettings", directory: Path | None) -> "CaptureRules":
    """Return what is never recorded, by the settings and pauses."""
    from memory_mcp.capture.exclusions import CaptureRules

    return CaptureRules.from_settings(settings, directory)


def client_hooks() -> "Mapping[str, Hooks]":
    """Return what reads the hooks' payloads, by client; "json" is plain."""
    from memory_mcp.capture.hooks.registry import HOOKS

    return HOOKS


def all_importers(settings: "IngestSettings") -> "list[Importer]":
    """Return an importer of every kind, in the order of asking."""
    from memory_mcp.importers.registry import IMPORTERS

    return [make(settings) for make in IMPORTERS.values()]
