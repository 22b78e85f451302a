"""A source's name in, its importer out; and what follows the clients that somebody wants followed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp import paths
from memory_mcp.errors import InvalidQuery

if TYPE_CHECKING:
    from memory_mcp.ingest.base import Importer
    from memory_mcp.ingest.capture import Capture
    from memory_mcp.ingest.following import Marks, Store
    from memory_mcp.ingest.settings import IngestSettings


def importer_named(name: str, settings: "IngestSettings") -> "Importer":
    """An importer by its registered name; InvalidQuery for an unknown one."""
    from memory_mcp.ingest.registry import IMPORTERS

    if name not in IMPORTERS:
        raise InvalidQuery(f"unknown source: {name!r}", f"Known sources: {', '.join(sorted(IMPORTERS))}.")
    return IMPORTERS[name](settings)


def follower(
    settings: "IngestSettings", marks: "Marks", directory: Path | None, store: "Store"
) -> Callable[[Callable[[], bool]], int]:
    """What a round of following is, for a store in `directory`; a store in memory alone follows nobody."""
    if directory is None:
        return lambda _: 0
    from memory_mcp.ingest.following import Follower

    capture = captured(settings, directory)
    return Follower(all_importers(settings), marks, Path(paths.spool_dir(str(directory))), store, capture).round


def captured(settings: "IngestSettings", directory: Path | None) -> "Capture":
    """What is never recorded in the store of `directory`."""
    from memory_mcp.ingest.capture import Capture

    return Capture.of(settings, directory)


def all_importers(settings: "IngestSettings") -> "list[Importer]":
    """Every registered importer, in the order in which they are asked whose a file is."""
    from memory_mcp.ingest.registry import IMPORTERS

    return [make(settings) for make in IMPORTERS.values()]
