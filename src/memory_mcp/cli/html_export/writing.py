"""Writes one HTML file from what the memory returns day by day.

Invariants
1. One page of a day is in memory at a time, with the index of the words and the ids of the quotations so far.
2. The file gets its name once it is complete; one that would be too large to open is not written.
"""

import codecs
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, takewhile
from pathlib import Path
from typing import IO, Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.cli import render
from memory_mcp.cli.exporting import Ask, Tell, replacing
from memory_mcp.cli.html_export.cleaning import Cleaner, searched_texts
from memory_mcp.cli.html_export.index import SearchIndex
from memory_mcp.web.file_page import FilePage, anchor

#: Largest file, bytes: a browser takes half a minute and 2 GB to open more.
LARGEST = 200_000_000
#: Bytes copied at once.
_CHUNK = 1 << 20
#: Periods asked for at once.
_PERIODS = 50
#: The texts of a period that holds more than was asked for: they would tell of the rest.
_WITHOUT_TEXTS: Mapping[str, Any] = {"title": "", "summary": "", "bullets": []}
_RANKS = {"year": 2, "month": 3, "week": 4, "day": 5}


@dataclass(slots=True)
class _Counts:
    """The counts of a period."""

    segments: int = 0
    events: int = 0


@dataclass(slots=True)
class _WrittenDays:
    """What was written of the days, and at which offsets."""

    segment_anchors: list[str] = field(default_factory=list)
    #: The element in which a quotation is shown, by its grip.
    quoted: dict[str, str] = field(default_factory=dict)
    #: Where in the temporary file each day begins and ends.
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, _Counts] = field(default_factory=dict)
    events: int = 0


class HtmlExport:
    """One HTML file of what `filters` name."""

    def __init__(self, ask: Ask, filters: Mapping[str, Any], tell: Tell, largest: int = LARGEST) -> None:
        self._ask, self._filters, self._tell, self._largest = ask, dict(filters), tell, largest
        self._written = _WrittenDays()
        self._page, self._cleaner, self._index = FilePage(self._written.quoted), Cleaner(), SearchIndex()
        self._size = 0

    def write(self, path: Path) -> dict[str, Any]:
        """Write the file, replacing one of its name once complete; call it once.

        Returns events, segments, days and bytes (counts), and left_out and redacted (counts by reason). Raises
        ResourceExhausted where the file would be too large for a browser, StorageError where it cannot be written; nothing
        is left of it then.
        """
        contents = self._ask("contents", self._filters)
        days: list[list[str]] = contents["days"]
        with replacing(path) as stream, tempfile.TemporaryFile(prefix=".memory-mcp-export-", dir=path.parent) as days_file:
            for number, (day, *period_ids) in enumerate(days, 1):
                self._write_day(days_file, day, period_ids)
                self._tell(number / len(days), self._written.events)
            written_days = [day for day in days if day[0] in self._written.spans]
            index_head, page_end = self._page.render_tail()
            head = self._page.render_head(self._head_values(contents, written_days))
            index = self._index.json_lines(self._written.segment_anchors)
            for text in chain([head], self._iter_tree(written_days, days_file), [index_head], index, [page_end]):
                self._add_size(len(text.encode()))
                stream.write(text)
        counts = {
            "events": self._written.events,
            "segments": len(self._written.segment_anchors),
            "days": len(written_days),
            "bytes": path.stat().st_size,
        }
        return counts | {"left_out": dict(self._cleaner.left_out), "redacted": dict(self._cleaner.redacted)}

    def _add_size(self, size: int) -> None:
        """Raises ResourceExhausted where the file becomes too large."""
        self._size += size
        if self._size > self._largest:
            raise ResourceExhausted(
                f"the file would be larger than {render.size(self._largest)}, which no browser opens well",
                "Export a part of it with --since and --until, or --project.",
            )

    def _write_day(self, days_file: IO[bytes], day: str, period_ids: Sequence[str]) -> None:
        start = days_file.tell()
        position: Sequence[int] | None = (0, 0)
        is_open = False
        while position is not None:
            stretch = self._ask("stretch", {**self._filters, "day": day, "at": list(position)})
            for segment in stretch["segments"]:
                if is_open and segment["begins"]:
                    self._put(days_file, self._page.close_segment())
                is_written = self._write_segment(days_file, segment, is_open, [f"toc:day:{day}", *period_ids])
                is_open = is_written or (is_open and not segment["begins"])
            position = stretch["next"]
        if is_open:
            self._put(days_file, self._page.close_segment())
        if days_file.tell() > start:
            self._written.spans[day] = (start, days_file.tell())

    def _write_segment(self, days_file: IO[bytes], segment: Mapping[str, Any], is_open: bool, period_ids: Sequence[str]) -> bool:
        """Return whether anything was written: nothing is for a beginning without messages."""
        clean = self._cleaner.clean_segment(segment)
        if not clean["events"] and (segment["begins"] or not is_open):
            return False
        is_beginning = segment["begins"] or not is_open
        if is_beginning:
            self._written.segment_anchors.append(anchor(segment["id"]))
            self._put(days_file, self._page.open_segment({**clean, "id": segment["id"]}))
        number = len(self._written.segment_anchors) - 1
        for text in searched_texts(clean, is_beginning):
            self._index.add_text(number, text)
        for bullet in clean["bullets"]:
            self._written.quoted.update(dict.fromkeys(bullet["grips"], self._written.segment_anchors[number]))
        self._put(days_file, self._page.render_messages(clean["events"]))
        self._written.events += len(clean["events"])
        for node_id in period_ids:
            counts = self._written.counts.setdefault(node_id, _Counts())
            counts.segments += is_beginning
            counts.events += len(clean["events"])
        return True

    def _put(self, days_file: IO[bytes], text: str) -> None:
        raw = text.encode()
        self._add_size(len(raw))
        days_file.write(raw)

    def _iter_tree(self, days: Sequence[Sequence[str]], days_file: IO[bytes]) -> Iterator[str]:
        """A period that comes again is continued without its texts.

        The last week of a month is also the first of the next. `days`: day as ISO date, then ids of its year, month and week.
        """
        texts = self._period_texts(days)
        open_ids: list[str] = []
        shown_ids: set[str] = set()
        for day, *period_ids in days:
            node_ids = [*period_ids, f"toc:day:{day}"]
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(open_ids, node_ids, strict=False)))
            yield from (self._page.close_period() for _ in open_ids[shared:])
            for node_id in node_ids[shared:]:
                is_continued = node_id in shown_ids
                text = _WITHOUT_TEXTS if is_continued else texts.get(node_id, _WITHOUT_TEXTS)
                yield self._open_period(node_id, text, is_continued, is_only_day=len(days) == 1)
                shown_ids.add(node_id)
            open_ids = node_ids
            yield from self._iter_day(days_file, *self._written.spans[day])
        yield from (self._page.close_period() for _ in open_ids)

    def _period_texts(self, days: Sequence[Sequence[str]]) -> dict[str, Any]:
        node_ids = [f"toc:day:{day}" for day, *_ in days] + [node_id for _, *period_ids in days for node_id in period_ids]
        node_ids = list(dict.fromkeys(node_ids))
        texts: dict[str, Any] = {}
        for start in range(0, len(node_ids), _PERIODS):
            periods = self._ask("periods", {**self._filters, "ids": node_ids[start : start + _PERIODS]})["periods"]
            texts |= {node_id: self._cleaner.clean_period(period) for node_id, period in periods.items()}
        return texts

    def _iter_day(self, days_file: IO[bytes], start: int, end: int) -> Iterator[str]:
        """Its size, counted already, is taken off again."""
        self._size -= end - start
        days_file.seek(start)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while start < end:
            chunk = days_file.read(min(_CHUNK, end - start))
            start += len(chunk)
            yield decoder.decode(chunk)

    def _open_period(self, node_id: str, text: Mapping[str, Any], is_continued: bool, is_only_day: bool) -> str:
        level = node_id.split(":")[1]
        counts = self._written.counts[node_id]
        in_words = f"{render.plural(counts.segments, 'segment')}, {render.plural(counts.events, 'message')}"
        return self._page.open_period(
            {
                **text,
                "anchor": "" if is_continued else anchor(node_id),
                "node_id": node_id,
                "level": level,
                "rank": _RANKS[level],
                "date": _period_name(node_id) + (", continued" if is_continued else ""),
                "count": "" if is_continued else in_words,
                "unfolded": level == "year" or is_only_day,
            }
        )

    def _head_values(self, contents: Mapping[str, Any], days: Sequence[Sequence[str]]) -> dict[str, Any]:
        written = self._written
        about = [
            ("project", contents["project"]),
            ("agent", self._filters.get("agent", "")),
            ("from", contents["first"]),
            ("to", contents["last"]),
            ("times in", contents["zone"]),
        ]
        month_ids = dict.fromkeys(month for _, _, month, _ in days)
        return {
            "name": contents["name"] or "All projects",
            "facts": f"{render.plural(written.events, 'message')} in {render.plural(len(written.segment_anchors), 'segment')} "
            f"on {render.plural(len(days), 'day')}",
            "about": [pair for pair in about if pair[1]],
            "now": contents["now"],
            "months": [(anchor(month_id), _period_name(month_id)) for month_id in month_ids],
        }


def _period_name(node_id: str) -> str:
    from memory_mcp.model.ids import NodeId
    from memory_mcp.tree.derive.rollup import period_name

    return period_name(NodeId(node_id))
