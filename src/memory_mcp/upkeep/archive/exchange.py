"""Keeps memories in step through a folder that any program may copy: files of events, never the database.

Invariants
1. A machine writes only into a folder of its own (see `outgoing`), so whatever copies the folder has nothing to join; copies
   that such a program made of a file or a folder under another name are read like any other.
2. Half a file gives its whole blocks, and is read again by every run until it is whole. An event that is known is known by
   its id: any order, and any repetition, ends in the same memory.
3. What was read is kept in the store, beside what came of it, so that a store that was brought back from a backup reads
   again what came after it.
4. What was forgotten here is refused by `take`; what was forgotten elsewhere stays here, since nothing of that is exchanged.
5. What is no file of ours, whatever its name and its checksums say, costs itself alone: it is refused, and told.
6. When the folder of a machine is gone, everything is written once more: nobody else may have shared what came from it.
"""

import json
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import StorageError
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import EventDraft
from memory_mcp.storage.archive import READ_ELSEWHERE, TableRows
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import AppendResult
from memory_mcp.upkeep.archive.blocks import MALFORMED, Archive
from memory_mcp.upkeep.archive.frames import LONGEST_EVENT, Block, Damaged
from memory_mcp.upkeep.archive.others import parse_drafts, select_unknown
from memory_mcp.upkeep.archive.outgoing import MACHINE, Clean, FolderWriter, was_used_before
from memory_mcp.upkeep.archive.settings import SyncSettings

if TYPE_CHECKING:
    from memory_mcp.capture.following import StoreDrafts
    from memory_mcp.capture.gate import Gate

log = logging.getLogger(__name__)
_WHOLE, _TORN, _REFUSED = "whole", "torn", "refused"
#: Fields of an event that are texts.
_TEXTS = ("session_id", "text", "source_id", "agent", "project", "thread", "speaker")
#: One run at a time: a job and a command may come together.
_TURN = threading.Lock()


class MalformedFile(Exception):
    """A shared file whose content is none of this program's."""


@dataclass(slots=True)
class SyncReport:
    """Outcome of a run, in events, files and machines."""

    written: int = 0
    new: int = 0
    known: int = 0
    #: Files that are not whole yet.
    waiting: int = 0
    #: Files that are no files of this program: links, pipes, what unpacks to more than it may, rows of another form.
    refused: list[str] = field(default_factory=list)
    #: Other machines there are.
    machines: int = 0


class Exchange:
    """One memory's part in a shared folder."""

    def __init__(
        self, storage: Storage, data_dir: Path, folder: Path, take: Callable[[Sequence[EventDraft]], AppendResult], clean: Clean
    ) -> None:
        """`take` stores drafts; `clean` returns a draft as it may go out.

        None where it may not.
        """
        self._storage, self._data_dir, self._folder = storage, data_dir, folder
        self._take, self._clean = take, clean

    def run(self, should_stop: Callable[[], bool] = lambda: False) -> SyncReport:
        """Write new events of this store and take in those of others.

        Runs of this process wait for each other. Everything is written once more when another machine's folder is gone.
        `should_stop` is asked before each file of others; what was taken in until then stays. Raises StorageError when the
        folder cannot be used.
        """
        report = SyncReport()
        with _TURN:
            try:
                self._ensure_folder()
                writer = FolderWriter(self._storage, self._data_dir, self._folder, self._clean)
                folders = [p for p in sorted(self._folder.iterdir()) if p.name.startswith(MACHINE)]
                other_folders = [p for p in folders if p.is_dir() and not p.is_symlink() and p.name != writer.machine]
                marks = self._read_positions(writer)
                missing_names = marks.keys() - {folder.name for folder in other_folders}
                report.written, written = writer.write_events(rewrite_all=bool(missing_names))
                self._storage.outbox.set_positions({self._position_name(writer, name): "" for name in missing_names})
                for folder in other_folders:
                    report.machines += 1
                    self._read_machine(folder, writer, marks.get(folder.name, {}), report, should_stop)
            except OSError as error:
                text = f"the shared folder {self._folder} cannot be used: {error.strerror or error}"
                raise StorageError(text, "Look whether it is there and can be written, or name another one.") from error
            # What came from others need not go back to them; where somebody else wrote meanwhile it does, and is known there.
            reached = self._storage.events.last_seq()
            if report.new and reached - written == report.new:
                writer.note_position(reached)
        return report

    def _ensure_folder(self) -> None:
        """Make the folder if it was never used, else raise StorageError."""
        if not self._folder.is_dir():
            if was_used_before(self._storage, self._folder):
                text = f"the shared folder {self._folder} is not there"
                raise StorageError(text, "Connect the disk or start the program that brings it; nothing is lost meanwhile.")
            self._folder.mkdir(mode=0o700)

    def _position_name(self, writer: FolderWriter, machine: str = "") -> str:
        return f"{READ_ELSEWHERE}{writer.machine}:{machine}"

    def _read_positions(self, writer: FolderWriter) -> dict[str, dict[str, str]]:
        """Return the states of other machines' files, by folder and name.

        A state is "whole:SIZE:MTIME_NS", "refused:SIZE:MTIME_NS" or "torn".
        """
        prefix, states = self._position_name(writer), {}
        for name, text in self._storage.outbox.get_positions(prefix).items():
            with suppress(ValueError):
                states[name.removeprefix(prefix)] = dict(json.loads(text))
        return states

    def _read_machine(
        self, folder: Path, writer: FolderWriter, old_states: dict[str, str], report: SyncReport, should_stop: Callable[[], bool]
    ) -> None:
        """Take in the new files of one machine, noting each in the store.

        One that is not whole is read again by the next run, and counted as waiting. One that is refused is read again once
        it is another.
        """
        try:
            entries = sorted(folder.iterdir())
        except FileNotFoundError:
            # Taken away after it was listed: the next run finds it gone.
            return
        files = [file for file in entries if file.suffix == ".archive" and file.name.startswith("events-")]
        states = {f.name: old_states[f.name] for f in files if f.name in old_states}
        for file in files:
            if should_stop():
                return
            # It may be joined with others by its machine at this moment.
            with suppress(FileNotFoundError):
                state = file.lstat()
                stamp = f":{state.st_size}:{state.st_mtime_ns}"
                if states.get(file.name) not in (_WHOLE + stamp, _REFUSED + stamp):
                    outcome = self._take_file(file, report)
                    states[file.name] = outcome if outcome == _TORN else outcome + stamp
                    self._storage.outbox.set_positions({self._position_name(writer, folder.name): json.dumps(states)})
            report.waiting += states.get(file.name) == _TORN
            if states.get(file.name, "").startswith(_REFUSED):
                report.refused.append(str(file))
        if states.keys() != old_states.keys() or not old_states:
            self._storage.outbox.set_positions({self._position_name(writer, folder.name): json.dumps(states)})

    def _take_file(self, file: Path, report: SyncReport) -> str:
        """Store a file's unknown events; return "whole", "torn" or "refused"."""
        try:
            with Archive(file, LONGEST_EVENT) as archive:
                # Many blocks together unpack no further than the one member of another archive may.
                most = foreign_files.unpacked_limit(file.lstat().st_size)
                outcome = _WHOLE
                for part in archive:
                    if archive.unpacked_bytes > most or (isinstance(part, Damaged) and part.malformed):
                        raise foreign_files.TooLarge(f"{file} is packed like no file of this program")
                    if isinstance(part, Damaged):
                        outcome = _TORN if part.lost else outcome
                    elif part.head.table == "event":
                        self._take_rows(part, report)
                return outcome
        except (foreign_files.NotAFile, foreign_files.TooLarge, MalformedFile) as error:
            log.warning("shared file refused", extra={"file": str(file), "reason": str(error)})
            return _REFUSED
        except ValueError:
            return _TORN

    def _take_rows(self, block: Block, report: SyncReport) -> None:
        """Store the unknown events of a block. Raises for other rows."""
        try:
            drafts = parse_drafts(TableRows("event", block.head.columns, block.rows))
        except MALFORMED as error:
            raise MalformedFile(f"rows that are no events: {error}") from None
        if not all(map(_well_formed, drafts)):
            raise MalformedFile("rows that are no events: a value of another kind")
        fresh = select_unknown(self._storage, drafts)
        report.known += len(drafts) - len(fresh)
        if fresh:
            stored = self._take(fresh)
            report.new += len(stored.new_ids)
            report.known += len(stored.known_ids)


def _well_formed(draft: EventDraft) -> bool:
    """Return whether the values of an event have their kinds."""
    texts = all(isinstance(getattr(draft, name), str) for name in _TEXTS)
    source = draft.original.source if draft.original else ""
    return texts and type(draft.timestamp) is int and isinstance(draft.metadata, dict) and isinstance(source, str)


def make_exchange(storage: Storage, data_dir: Path, folder: Path, gate: "Gate", store: "StoreDrafts") -> Exchange:
    """Return a store's exchange with others through a folder."""
    report = ImportReport()

    def take(drafts: Sequence[EventDraft]) -> AppendResult:
        return store([clean for draft in drafts if (clean := gate.clean_draft(draft, report)) is not None], "sync")

    def clean(draft: EventDraft) -> EventDraft | None:
        return gate.clean_draft(draft, ImportReport())

    return Exchange(storage, data_dir, folder, take, clean)


def make_syncer(
    settings: SyncSettings, storage: Storage, data_dir: Path | None, gate: "Gate", store: "StoreDrafts"
) -> Callable[[Callable[[], bool]], SyncReport | None]:
    """Return a function that exchanges once through the settings' folder.

    It returns None where no folder is set or the store is in memory, ends early when its argument says so, and raises what the
    exchange raises.
    """

    def work(should_stop: Callable[[], bool]) -> SyncReport | None:
        if not settings.directory or data_dir is None:
            return None
        return make_exchange(storage, data_dir.absolute(), Path(settings.directory).expanduser(), gate, store).run(should_stop)

    return work
