"""Reads a backup: its own file and the shared files that it names, undamaged blocks as rows, and damage by name."""

from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import chain
from pathlib import Path
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.storage.archive import TableRows
from memory_mcp.upkeep.archive.backup import Backup, SharedFile, list_backups
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Block, Damaged

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
        """Whether remaining cuts are unusable: related rows are missing."""
        return any(m.table in _CUTS or not m.table for m in self.missing)


def verify_backup(backup: Backup) -> Verified:
    """Read all of a backup; return rows by table and what is damaged.

    Nothing is compared with the store. Raises SourceUnreadable when it is no backup, or
    cannot be read at all.
    """
    rows: dict[str, int] = {}
    missing: list[Missing] = []
    harmless: list[str] = []
    about = read_about(backup)
    for file, part in iter_parts(backup):
        if isinstance(part, Missing):
            missing.append(part)
        elif isinstance(part, Block):
            rows[part.head.table] = rows.get(part.head.table, 0) + part.head.rows
        else:
            harmless.append(f"{file}: {part.why}")
    return Verified(about, rows, missing, harmless)


def iter_rows(
    backup: Backup, step: Callable[[], None] = lambda: None, missing: list[Missing] | None = None
) -> Iterator[TableRows]:
    """Yield the rows of a backup's whole blocks.

    The rest is added to `missing`. Raises SourceUnreadable for no backup.
    """
    for _, part in iter_parts(backup):
        if isinstance(part, Block):
            yield TableRows(part.head.table, part.head.columns, part.rows)
            step()
        elif missing is not None and isinstance(part, Missing):
            missing.append(part)


def iter_losses(folder: Path) -> Iterator[tuple[str, Missing]]:
    """Yield (file name, Missing) for each loss in a folder's backups.

    Each shared file is read once. A backup that cannot be read at all is one entry of an unknown number of rows (-1).
    """
    read_files: set[str] = set()
    for backup in list_backups(folder):
        try:
            shared_files = read_about(backup)["files"]
        except SourceUnreadable as error:
            yield backup.path.name, Missing(backup.path.name, error.message, "", -1)
            continue
        shared = (
            entry for file in shared_files if file["name"] not in read_files for entry in _iter_shared(folder, SharedFile(**file))
        )
        yield from ((name, part) for name, part in chain(shared, _iter_own(backup)) if isinstance(part, Missing))
        read_files |= {file["name"] for file in shared_files}


def read_about(backup: Backup) -> dict[str, Any]:
    """Return what a backup says of itself (see `backup`).

    Raises SourceUnreadable when it is none, or cannot be read.
    """
    try:
        with Archive(backup.path) as archive:
            if archive.about.get("kind") != "backup":
                raise ValueError(f"{backup.path} is no backup, or its beginning and its end are both damaged")
            return archive.about
    except (OSError, ValueError) as error:
        raise SourceUnreadable(str(error), "Choose another one: memory-mcp backup --list") from error


def iter_parts(backup: Backup) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    """Yield (file name, part) of a backup, events and grips first.

    A Block, Missing for lost rows, or Damaged that costs none. Raises SourceUnreadable if it is none.
    """
    for fields in read_about(backup)["files"]:
        yield from _iter_shared(backup.path.parent, SharedFile(**fields))
    yield from _iter_own(backup)


def _iter_own(backup: Backup) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    with Archive(backup.path) as archive:
        for part in archive:
            yield backup.path.name, _assess_part(backup.path.name, part)


def _iter_shared(folder: Path, file: SharedFile) -> Iterator[tuple[str, Block | Damaged | Missing]]:
    try:
        archive = Archive(folder / file.name)
    except (OSError, ValueError) as error:
        what = "the file is not there" if isinstance(error, FileNotFoundError) else "the file cannot be read"
        yield file.name, Missing(file.name, what, file.table, file.rows, file.from_ms, file.to_ms, dict(file.sources))
        return
    with archive:
        for part in archive:
            yield file.name, _assess_part(file.name, part)


def _assess_part(file: str, part: Block | Damaged) -> Block | Damaged | Missing:
    """Return what a damaged part costs; the part if it costs no rows."""
    if isinstance(part, Block) or not part.lost:
        return part
    if (head := part.head) is not None:
        return Missing(file, part.why, head.table, head.rows, head.from_ms, head.to_ms, dict(head.sources))
    previous, following = part.between
    # Between blocks of two tables it can be either's.
    table = previous.table if previous and following and previous.table == following.table else ""
    return Missing(file, part.why, table, -1, previous.to_ms if previous else 0, following.from_ms if following else 0)
