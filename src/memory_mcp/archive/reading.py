"""Reads a backup: its own file and the shared files that it names, undamaged blocks as rows, and damage by name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.archive.backup import Backup, SharedFile, backups
from memory_mcp.archive.blocks import Archive
from memory_mcp.archive.frames import Block, Damaged
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.storage.archive import TableRows

#: Tables without which cuts cannot be believed: they and how far they go belong together.
_CUTS = frozenset({"segment_cut", "checkpoint"})


@dataclass(frozen=True, slots=True)
class Missing:
    """Rows that a backup held and that cannot be read; times are UTC ms, 0 where they are not known."""

    file: str
    what: str
    table: str
    #: -1 where the number is not known.
    rows: int
    from_ms: int = 0
    to_ms: int = 0
    sources: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Verified:
    """Outcome of reading a backup from end to end."""

    about: dict[str, Any]
    #: Whole rows, by table.
    rows: dict[str, int]
    missing: list[Missing]
    #: Damaged places that cost nothing.
    harmless: list[str]

    @property
    def cuts_lost(self) -> bool:
        """Whether the cuts that are left cannot be used: rows of cuts, positions or of an unknown table are missing."""
        return any(m.table in _CUTS or not m.table for m in self.missing)


def verify(backup: Backup, step: Callable[[], None] = lambda: None) -> Verified:
    """Read all of a backup, calling `step` between blocks; return its rows by table, what is missing, and harmless damage.

    Nothing is compared with the store. Raises SourceUnreadable when it is none, or cannot be read at all.
    """
    rows: dict[str, int] = {}
    missing: list[Missing] = []
    harmless: list[str] = []
    about = about_of(backup)
    for file, part in parts(backup):
        step()
        if isinstance(part, Missing):
            missing.append(part)
        elif isinstance(part, Block):
            rows[part.head.table] = rows.get(part.head.table, 0) + part.head.rows
        else:
            harmless.append(f"{file}: {part.why}")
    return Verified(about, rows, missing, harmless)


def rows_of(backup: Backup, step: Callable[[], None] = lambda: None, missing: list[Missing] | None = None) -> Iterator[TableRows]:
    """Yield the rows of a backup's whole blocks; the rest is added to `missing`. Raises SourceUnreadable for no backup."""
    for _, part in parts(backup):
        if isinstance(part, Block):
            yield TableRows(part.head.table, part.head.columns, part.rows)
            step()
        elif missing is not None and isinstance(part, Missing):
            missing.append(part)


def damaged(folder: Path) -> Iterator[tuple[str, Missing]]:
    """Yield (file name, Missing) for each loss in the backups of a folder; each shared file is read once.

    A backup that cannot be read at all is one entry of an unknown number of rows (-1).
    """
    seen: set[str] = set()
    for backup in backups(folder):
        try:
            told = about_of(backup)["files"]
        except SourceUnreadable as error:
            yield backup.path.name, Missing(backup.path.name, error.message, "", -1)
            continue
        shared = (one for file in told if file["name"] not in seen for one in _shared(folder, SharedFile(**file)))
        yield from ((name, part) for name, part in chain(shared, _own(backup)) if isinstance(part, Missing))
        seen |= {file["name"] for file in told}


def about_of(backup: Backup) -> dict[str, Any]:
    """Return what a backup says of itself: kind, at_ms, why, store_id, schema, timezone, store_bytes, last_seq and files (dicts).

    Raises SourceUnreadable when it is none, or cannot be read.
    """
    try:
        with Archive(backup.path) as archive:
            if archive.about.get("kind") != "backup":
                raise ValueError(f"{backup.path} is no backup, or its beginning and its end are both damaged")
            return archive.about
    except (OSError, ValueError) as error:
        raise SourceUnreadable(str(error), "Choose another one: memory-mcp backup --list") from error


def parts(backup: Backup) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    """Yield (file name, part) of a backup, events and grips first: a Block, Missing for lost rows, or Damaged that costs none.

    Raises SourceUnreadable if it is none.
    """
    for told in about_of(backup)["files"]:
        yield from _shared(backup.path.parent, SharedFile(**told))
    yield from _own(backup)


def _own(backup: Backup) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    """Yield (file name, part) of a backup's own file, as `parts` does. Raises OSError or ValueError as `Archive` does."""
    with Archive(backup.path) as archive:
        for part in archive:
            yield backup.path.name, _missing(backup.path.name, part)


def _shared(folder: Path, file: SharedFile) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    """Yield (file name, part) of a shared file, as `parts` does; one Missing where it is gone or cannot be read."""
    try:
        archive = Archive(folder / file.name)
    except (OSError, ValueError) as error:
        what = "the file is not there" if isinstance(error, FileNotFoundError) else "the file cannot be read"
        yield file.name, Missing(file.name, what, file.table, file.rows, file.from_ms, file.to_ms, dict(file.sources))
        return
    with archive:
        for part in archive:
            yield file.name, _missing(file.name, part)


def _missing(file: str, part: Block | Damaged) -> Block | Damaged | Missing:
    """Return what a part costs, by its head, or of unknown number (-1) between its neighbours; the part if it costs no rows."""
    if isinstance(part, Block) or not part.lost:
        return part
    if (head := part.head) is not None:
        return Missing(file, part.why, head.table, head.rows, head.from_ms, head.to_ms, dict(head.sources))
    before, behind = part.between
    # Between blocks of two tables it can be either's.
    table = before.table if before and behind and before.table == behind.table else ""
    return Missing(file, part.why, table, -1, before.to_ms if before else 0, behind.from_ms if behind else 0)
