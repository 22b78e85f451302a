"""Find importable files on this machine, and choose the importer of a file.

Invariants
1. Only the beginning of a file is read, and nothing is written.
2. A file that an importer has read before is its own; of any other, the first importer in the order of the registry that
   recognises it reads it, and one that no importer recognises is left to the importer that was named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.importers.base import Growth, Importer
from memory_mcp.importers.beginnings import iter_beginnings
from memory_mcp.importers.marks import Mark, mark_name, stamp_of


@dataclass(frozen=True, slots=True)
class FileSummary:
    """The files of one kind at a path (bytes, UTC ms)."""

    importer: str
    title: str
    path: Path
    files: int
    size: int
    #: Files that changed since they were imported, or never were, and what there is to read of them.
    new_files: int
    new_size: int
    #: When the file that was left alone longest, and the one written last, were written; 0 where there is no file.
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's last change (UTC milliseconds), size and unread bytes."""

    changed_ms: int
    size: int
    unread_bytes: int


def summarize_files(importer: Importer, path: Path, marks: Mapping[str, str]) -> FileSummary:
    """Return number, sizes, times and unread bytes of the files.

    `marks` holds all importers' marks by name. Files that vanish meanwhile are left out. Raises SourceUnreadable when there is
    no such path.
    """
    files = list(iter_file_states(importer, path, marks))
    unread_sizes = [file.unread_bytes for file in files if file.unread_bytes]
    written = [file.changed_ms for file in files]
    size, oldest, newest = sum(file.size for file in files), min(written, default=0), max(written, default=0)
    return FileSummary(
        importer.name, importer.title, path, len(files), size, len(unread_sizes), sum(unread_sizes), oldest, newest
    )


def iter_file_states(importer: Importer, path: Path, marks: Mapping[str, str]) -> Iterator[FileState]:
    """Yield the state of each file of one kind.

    `marks` holds all importers' marks by name. Files that vanish meanwhile are left out. Raises SourceUnreadable when there is
    no such path.
    """
    elsewhere = marks_by_file(marks)
    for file in importer.iter_files(path):
        with suppress(OSError):
            state = file.stat()
            yield FileState(int(state.st_mtime * 1000), state.st_size, count_unread_bytes(importer, file, marks, elsewhere))


def marks_by_file(marks: Mapping[str, str]) -> dict[str, str]:
    """Return marks as text by the hash of their file's path."""
    return {_file_hash(name): text for name, text in marks.items()}


def _file_hash(name: str) -> str:
    return name.rpartition(":")[2]


def count_unread_bytes(importer: Importer, file: Path, marks: Mapping[str, str], elsewhere: Mapping[str, str]) -> int:
    """Return bytes to read: 0 if unchanged, else at least 1.

    What another client's importer read of a file that grows counts too (`elsewhere`, see `marks_by_file`). Raises OSError if
    the file is missing.
    """
    size, stamp = stamp_of(file, importer.growth)
    name = mark_name(importer.name, file)
    mark = Mark.from_text(marks.get(name, ""))
    if mark is None and importer.growth is Growth.APPENDED:
        mark = Mark.from_text(elsewhere.get(_file_hash(name), ""))
    if mark is not None and mark.size == stamp:
        return 0
    goes_on = mark is not None and importer.growth is Growth.APPENDED and mark.size <= size
    return max(1, size - mark.offset if mark is not None and goes_on else size)


def summarize_usual_paths(importers: Iterable[Importer], marks: Mapping[str, str]) -> list[FileSummary]:
    """Return a summary of each usual path that has files."""
    findings = [summarize_files(i, path, marks) for i in importers for path in i.default_paths() if path.exists()]
    return [finding for finding in findings if finding.files]


def find_owners(importers: Sequence[Importer], files: Iterable[Path]) -> Iterator[tuple[Path, str | None]]:
    """Yield (file, importer's name): "" for none, None if unreadable."""
    for file in files:
        try:
            names = (i.name for beginning in iter_beginnings(file) for i in importers if i.recognises_file(file, beginning))
            owner = next(names, "")
        except OSError:
            owner = None
        yield file, owner


def assign_files(
    importers: Sequence[Importer], importer_name: str, path: Path, marks: Mapping[str, str]
) -> dict[str, list[Path]]:
    """Return the files at `path` by the importer that reads them.

    `importer_name` is whose files they are said to be: it keeps those it read before and gets those that none recognises or
    that cannot be read. If it is "", the former are left out and the latter go to the first importer. Raises SourceUnreadable
    when there is no such path.
    """
    order = sorted(importers, key=lambda importer: importer.name != importer_name)
    listed: dict[Path, None] = {}
    for importer in order[:1] if importer_name else order:
        listed |= dict.fromkeys(importer.iter_files(path))
    candidates = (file for file in listed if not importer_name or mark_name(importer_name, file) not in marks)
    owner_names = dict(find_owners(order, candidates))
    sorted_out: dict[str, list[Path]] = {importer_name: []} if importer_name else {}
    for file in listed:
        if owner := owner_names.get(file, importer_name) or importer_name:
            sorted_out.setdefault(owner, []).append(file)
    if closed := [file for file, owner in owner_names.items() if owner is None and not importer_name]:
        # Their importer reports that they could not be read.
        sorted_out.setdefault(next(iter(sorted_out), order[0].name), []).extend(closed)
    return {name: files for name, files in sorted_out.items() if files}


def no_files_error(path: Path, titles: Iterable[str]) -> SourceUnreadable:
    """Return the error for a path without any importable file."""
    return SourceUnreadable(
        f"no conversations and no events were found in {path}",
        f"Name another file or folder. What can be read: {', '.join(titles)}.",
    )
