"""Files of an export, written by the command's own process from the pages that the memory gives.

Invariants
1. What is written has passed the gate again, so that what was stored before a rule was known leaves without its secrets.
2. Nothing is written but below the place named; a file there that is no export is not replaced unless that is asked for.
3. One page and one day are in memory at a time.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import IO, Any

from memory_mcp.base import foreign_files, machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, StorageError
from memory_mcp.capture.gate import Gate
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.draft_rows import unpack_drafts
from memory_mcp.importers.jsonl import mapping_of
from memory_mcp.importers.markdown.exported import MARK, day_page, is_exported
from memory_mcp.model.event import EventDraft

#: Returns a piece of the memory, for a method's name and its arguments.
Ask = Callable[[str, Mapping[str, Any]], dict[str, Any]]
#: Called with the share that is done (0..1) and the number of events that were written.
Tell = Callable[[float, int], None]
#: An event to write, its local day and time, and the project it is shown with.
_Out = tuple[EventDraft, str, str, str]


@dataclass(slots=True)
class Exported:
    """Counts of what was written."""

    events: int = 0
    files: int = 0
    #: Events that the gate drops now, by reason.
    left_out: Counter[str] = field(default_factory=Counter)
    redacted: Counter[str] = field(default_factory=Counter)


class Export:
    """One export of what `filters` name (project, agent, since, until)."""

    def __init__(self, ask: Ask, filters: Mapping[str, Any], tell: Tell) -> None:
        self._ask, self._asked, self._tell = ask, dict(filters), tell
        self._gate = Gate()
        self.done = Exported()

    def jsonl(self, stream: IO[str]) -> None:
        """Write every event, one JSON object a line, in order of arrival."""
        for events in self._pages():
            stream.writelines(f"{json.dumps(mapping_of(draft), ensure_ascii=False)}\n" for draft, *_ in events)

    def markdown(self, folder: Path, force: bool) -> None:
        """Write one file a day, DAY.md, linked to its neighbours.

        Raises InvalidQuery, before any file is written, where a file that is no export has the name of one and
        `force` is False; StorageError where a file cannot be written.
        """
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".memory-mcp-export-", dir=folder) as aside:
            days = self._by_day(Path(aside))
            foreign = [day for day in days if not (force or _may_replace(folder / f"{day}.md"))]
            if foreign:
                raise InvalidQuery(f"{folder / foreign[0]}.md is there and is no export", "Name another folder, or add --force.")
            for day_before, day, day_after in zip(["", *days], days, [*days[1:], ""], strict=False):
                text = self._day(Path(aside), day_before, day, day_after)
                with replacing(folder / f"{day}.md") as stream:
                    stream.write(text)
                self.done.files += 1

    def _by_day(self, aside: Path) -> list[str]:
        """A line of a file is the JSON array [event, time, project]."""
        days: set[str] = set()
        for events in self._pages():
            lines: dict[str, list[str]] = {}
            for draft, day, time, project in events:
                lines.setdefault(day, []).append(json.dumps([mapping_of(draft), time, project], ensure_ascii=False) + "\n")
            for day, several in lines.items():
                with (aside / day).open("a", encoding="utf-8", newline="\n") as stream:
                    stream.writelines(several)
            days |= lines.keys()
        return sorted(days)

    def _day(self, aside: Path, day_before: str, day: str, day_after: str) -> str:
        with foreign_files.open_text(aside / day, newline="\n") as stream:
            events = [json.loads(line) for line in stream]
        events.sort(key=lambda entry: (entry[0]["timestamp"], entry[0]["event_id"]))
        tree_words = self._ask("day", {**self._asked, "day": day})
        words = self._gate.clean_text
        for segment in tree_words["segments"]:
            segment["title"] = words(segment["title"])
            segment["bullets"] = [[words(text), grips] for text, grips in segment["bullets"]]
        tree_words["quotes"] = {grip: words(text) for grip, text in tree_words["quotes"].items()}
        return day_page(day, day_before, day_after, events, tree_words)

    def _pages(self) -> Iterator[list[_Out]]:
        """Ends at what was stored when the first page was asked for; a page may be empty."""
        after = to = 0
        while not to or after < to:
            page = self._ask("page", {**self._asked, "after": after, "to": to})
            after, to = int(page["next"]), int(page["to"])
            report, clean_drafts = ImportReport(), []
            # Rows are packed drafts.
            rows = zip(unpack_drafts(page["rows"]), page["days"], page["times"], page["projects"], strict=True)
            for draft, day, at, project in rows:
                if (clean := self._gate.clean_draft(draft, report)) is not None:
                    clean_drafts.append((clean, day, at, project))
            self.done.left_out.update(report.dropped)
            self.done.redacted.update(report.redacted)
            self.done.events += len(clean_drafts)
            yield clean_drafts
            self._tell(after / to if to else 1.0, self.done.events)
            if not to:
                return


@contextmanager
def replacing(path: Path) -> Iterator[IO[str]]:
    """Yield a private file that replaces `path` once complete.

    Raises StorageError when it cannot be written, also for any OSError of the caller's block.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with machine.Aside(path, aside, text=True) as stream:
            yield stream
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}", "Free some space, or name another.") from error


def _may_replace(path: Path) -> bool:
    if not os.path.lexists(path):
        return True
    if path.is_symlink() or not path.is_file():
        return False
    with foreign_files.open_text(path) as stream:
        return is_exported(stream.read(len(MARK) + 4096))
