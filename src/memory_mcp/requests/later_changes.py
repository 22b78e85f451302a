"""Adds to what is shown what the repository says since of the code that it is about."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from memory_mcp.model.frozen import copy_with
from memory_mcp.model.toc import MemoryKind, TocBullet
from memory_mcp.requests.scope import Caller
from memory_mcp.search.layers.base import Hit
from memory_mcp.tree.outcomes.mentions import names_file
from memory_mcp.tree.summarize.text_kind import read_kind

if TYPE_CHECKING:
    from memory_mcp.app import App


def add_later_changes(app: "App", hits: Sequence[Hit], caller: Caller, further: int = 0) -> tuple[Hit, ...]:
    """Return hits with what became of their code; the kind of the last `further`, which are lines, is taken as it is known."""
    results = len(hits) - further
    kinds = (hit.kind if place >= results else _kind_of(hit) for place, hit in enumerate(hits))
    since = app.later_changes.tell(
        ((_grip_of(hit), hit.quote, kind) for hit, kind in zip(hits, kinds, strict=True)), caller.directory
    )
    return tuple(copy_with(hit, since=since[grip]) if (grip := _grip_of(hit)) in since else hit for hit in hits)


def find_later_changes(app: "App", bullets: Iterable[TocBullet], caller: Caller) -> Mapping[str, str]:
    """Return what became of the code of bullets, by their first grip."""
    return app.later_changes.tell(((b.grip_ids[0], b.text, b.kind) for b in bullets if b.grip_ids), caller.directory)


def find_later_change(app: "App", grip_id: str, quote: str, kind: MemoryKind | str, caller: Caller) -> str:
    """Return what became of the code of one quotation."""
    return app.later_changes.tell([(grip_id, quote, kind)], caller.directory).get(grip_id, "")


def _kind_of(hit: Hit) -> str:
    """Return the kind of a hit's words: of a segment of plain observations it was not read."""
    return hit.kind or (read_kind(hit.quote) if names_file(hit.quote) else "")


def _grip_of(hit: Hit) -> str:
    return hit.grip_id or (hit.grip_ids[0] if hit.grip_ids else "")
