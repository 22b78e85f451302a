"""Importer of folders of Markdown notes (Obsidian, Logseq, Foam, Zettlr or by hand).

Invariants
1. A note is a session, a section of it a note event; an id follows from the note's place and the section's words, so
   that a changed section is a new event and the others are known.
2. When a note was written is in its front matter, its headings or its name. When its file was written last is the
   last resort, and the event says so.
3. A day of an export of this program gives the events it was made from, with their ids; nothing else of it is read.
4. A folder of code is never taken for notes by itself; named as notes, everything is read.
"""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import project_of
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.client_importer import ClientImporter, find_files
from memory_mcp.importers.jsonl import exported_draft_of
from memory_mcp.importers.markdown.exported import is_exported, iter_messages
from memory_mcp.importers.markdown.note import DATE_KEYS, Section, day_of, front_matter, iter_sections, time_of
from memory_mcp.importers.parts import Part, Session, Tally, content_id, file_time
from memory_mcp.model.event import EventDraft, EventType, Role

AGENT = "markdown"
_ENDINGS = (".md", ".markdown")
#: Folders that hold no notes; those of programs begin with a dot.
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", "venv", "vendor", "target", "dist", "build", "logseq"})
#: Folders that a notes program keeps at the root of its notes.
_VAULTS = (".obsidian", ".logseq", ".foam", ".zk", ".trilium", ".dendron")
#: Files at the root of a tree of code.
_CODE = "package.json pyproject.toml setup.py Cargo.toml go.mod pom.xml build.gradle CMakeLists.txt Gemfile".split()
#: Names of documents that any repository has.
_DOCUMENTS = re.compile(
    r"(?:README|CHANGELOG|CHANGES|LICENSE|CONTRIBUTING|SECURITY|AGENTS|CLAUDE|GEMINI|CODE_OF_CONDUCT)\b", re.I
)
_NOTE_KEYS = frozenset({*DATE_KEYS, "tags", "aliases"})
_LINK = re.compile(r"(?<!!)\[\[[^\[\]\n]{1,200}\]\]")
#: Lines of front matter, and of one line's characters, that are read at once.
_FRONT, _LINE = 400, 1024 * 1024


class MarkdownImporter(ClientImporter):
    """Reads notes as they are kept in folders of Markdown files."""

    name = AGENT
    title = "Markdown notes"
    growth = Growth.REWRITTEN

    def iter_files(self, path: Path) -> Iterator[Path]:
        """Return the notes below a folder, or the file itself.

        Without hidden folders and those of packages. Raises SourceUnreadable when there is nothing at `path`.
        """
        return _iter_notes(path) if path.is_dir() else find_files(path, _ENDINGS)

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is a note or an export's day.

        Never in a source tree, and not a document such as README.
        """
        if file.suffix.lower() not in _ENDINGS or _DOCUMENTS.match(file.stem):
            return False
        if is_exported(beginning.decode("utf-8", "replace")):
            return True
        vault, code = _kind_of(file.absolute().parent)
        if vault or code:
            return vault
        text = beginning.decode("utf-8", "replace").removeprefix("\ufeff")
        front, _ = front_matter(text.splitlines())
        return bool(_NOTE_KEYS & front.keys()) or _LINK.search(text) is not None or day_of(file.stem) is not None

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each section, or message of an export."""
        del offset  # what is written again as a whole is read from its start
        with foreign_files.open_text(file) as stream:
            exported = is_exported(stream.read(_LINE))
        if exported:
            yield from _read_exported(file, report)
            return
        tally = Tally(report, file)
        with foreign_files.open_text(file, "utf-8-sig") as stream:
            lines = (line.replace("\0", "").rstrip("\r\n") for line in iter(lambda: stream.readline(_LINE), ""))
            first = list(islice(lines, _FRONT))
            front, skipped = front_matter(first)
            note = _Note(file, front)
            for section in iter_sections(chain(first[skipped:], lines), skipped + 1):
                yield ReadStep(note.make_drafts(section, tally), 0)


def _read_exported(file: Path, report: ImportReport) -> Iterator[ReadStep]:
    with foreign_files.open_text(file, "utf-8-sig", "\n") as stream:
        for number, form, line in iter_messages(stream):
            report.lines += 1
            drafts: tuple[EventDraft, ...] = ()
            try:
                if form is None:
                    raise InvalidQuery("broken message of an export")
                drafts = (exported_draft_of(form),)
                report.lines_used += 1
            except InvalidQuery as error:
                report.skip_record(error.message, file, number, line)
            yield ReadStep(drafts, 0)


class _Note:
    def __init__(self, file: Path, front: Mapping[str, list[str]]) -> None:
        filled = {key: value for key, value in front.items() if value}
        path, home = file.absolute(), Path.home()
        metadata = {
            "title": filled["title"][0] if "title" in filled else file.stem,
            "tags": ", ".join(tag for key in ("tags", "tag", "keywords") for tag in filled.get(key, ())),
            "aliases": ", ".join(filled.get("aliases", ())),
            "files": str(path),
        }
        own_time = next((t for key in DATE_KEYS for t in map(time_of, filled.get(key, ())) if t is not None), None)
        self._time = own_time if own_time is not None else day_of(file.stem)
        # Below the home directory it is the same name on other machines.
        name = f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else path.as_posix()
        written = file_time(file) if self._time is None else ""
        self._session = Session(AGENT, name, _project_of(path.parent), metadata, file_time=written)
        self._text_counts: Counter[str] = Counter()
        self._day: int | None = None

    def make_drafts(self, section: Section, tally: Tally) -> tuple[EventDraft, ...]:
        """Return the event of a section, counted in `tally`.

        Only the first one, and those of a day of their own, have a time: the others follow them, so that a section put in
        between moves no id.
        """
        text = section.text
        part = Part(Role.USER, EventType.NOTE, text, {"heading": " > ".join(section.headings)})
        words = content_id(text)
        self._text_counts[words] += 1
        day = next((d for heading in reversed(section.headings) if (d := day_of(heading)) is not None), None)
        if day is not None and day != self._day:
            self._time = self._day = day
        self._session.last_time = None
        drafts = self._session.make_drafts([part], f"{self._session.session_id}:{words}:{self._text_counts[words]}", self._time)
        self._time = None
        return tally.count_record(drafts, [part], section.line, text)


def _iter_notes(path: Path) -> Iterator[Path]:
    """Yield notes, and folders that cannot be listed, to be counted."""
    closed: list[Path] = []
    for folder, folders, names in os.walk(path, onerror=lambda error: closed.append(Path(error.filename))):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        yield from closed
        closed.clear()
        yield from (Path(folder, name) for name in sorted(names) if name.lower().endswith(_ENDINGS))
    yield from closed


@lru_cache(maxsize=4096)
def _project_of(folder: Path) -> str:
    """Return the notes' repository, vault, or highest folder with notes.

    Between that and the notes' own there is never more than one folder without notes; home and the root are not projects.
    """
    project = project_of(str(folder))
    if project != str(folder):
        return project
    if vault := next((above for above in (folder, *folder.parents) if _is_vault(above)), None):
        return str(vault)
    highest, missed = folder, 0
    for above in folder.parents:
        if missed > 1 or above in (Path.home(), Path(folder.anchor)):
            break
        highest, missed = (above, 0) if _has_notes(above) else (highest, missed + 1)
    return str(highest)


def _has_notes(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            return any(entry.name.lower().endswith(_ENDINGS) for entry in entries)
    except OSError:
        return False


def _is_vault(folder: Path) -> bool:
    return any((folder / name).is_dir() for name in _VAULTS)


@lru_cache(maxsize=4096)
def _kind_of(folder: Path) -> tuple[bool, bool]:
    """Return (inside a vault, inside a source tree), by the nearest folder."""
    if _is_vault(folder):
        return True, False
    if any((folder / name).is_file() for name in _CODE):
        return False, True
    return (False, False) if folder.parent == folder else _kind_of(folder.parent)
