"""Writes one HTML file from what the memory returns day by day.

Invariants
1. One page of a day is in memory at a time, with the index of the words and the ids of the quotations so far.
2. The file has its name once it is complete; one that would be too large to open is not written.
"""

import codecs
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, Any

from memory_mcp import __version__
from memory_mcp.base.errors import ResourceExhausted
from memory_mcp.cli import render
from memory_mcp.cli.exporting import Ask, Tell, replacing
from memory_mcp.cli.html_export.cleaning import Cleaner, indexed
from memory_mcp.cli.html_export.index import Index
from memory_mcp.cli.html_export.page import Page, anchor

#: Largest file, bytes: a browser takes half a minute and 2 GB to open more.
LARGEST = 200_000_000
#: Bytes copied at once.
_CHUNK = 1 << 20
#: Periods asked for at once.
_PERIODS = 50
#: The texts of a period that holds more than was asked for: they would tell of the rest.
_UNTOLD: Mapping[str, Any] = {"title": "", "summary": "", "bullets": []}
_RANKS = {"year": 2, "month": 3, "week": 4, "day": 5}


@dataclass(slots=True)
class _Counts:
    """The counts of a period."""

    segments: int = 0
    events: int = 0


@dataclass(slots=True)
class _Written:
    """What was written of the days, and at which offsets."""

    segments: list[str] = field(default_factory=list)
    #: The element in which a quotation is shown.
    quoted: dict[str, str] = field(default_factory=dict)
    #: Where in the file aside each day begins and ends.
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, _Counts] = field(default_factory=dict)
    events: int = 0


class HtmlExport:
    """One HTML file of what `asked` names (project, agent, since, until)."""

    def __init__(self, ask: Ask, asked: Mapping[str, Any], tell: Tell, largest: int = LARGEST) -> None:
        """Prepare an export of at most `largest` bytes; nothing is asked for or written yet."""
        self._ask, self._asked, self._tell, self._largest = ask, dict(asked), tell, largest
        self._page, self._cleaner, self._index = Page(), Cleaner(), Index()
        self._done = _Written()
        self._size = 0

    def write(self, path: Path) -> dict[str, Any]:
        """Write the file, replacing one of its name once complete; to be called once.

        The days are written to a temporary file beside it first. Returns events, segments, days and bytes (counts), and left_out
        and redacted (counts by reason). Raises ResourceExhausted where the file would be too large for a browser, StorageError
        where it cannot be written; nothing is left of it then.
        """
        contents = self._ask("contents", self._asked)
        days: list[list[str]] = contents["days"]
        with replacing(path) as stream, tempfile.TemporaryFile(prefix=".memory-mcp-export-", dir=path.parent) as aside:
            for number, (day, *above) in enumerate(days, 1):
                self._day(aside, day, above)
                self._tell(number / len(days), self._done.events)
            kept = [day for day in days if day[0] in self._done.spans]
            before, after = self._page.tail()
            head, index = self._page.head(self._head(contents, kept)), self._index.lines(self._done.segments)
            for text in chain([head], self._tree(kept, aside), [before], index, [after]):
                self._count(len(text.encode()))
                stream.write(text)
        done = self._done
        counts = {"events": done.events, "segments": len(done.segments), "days": len(kept), "bytes": path.stat().st_size}
        return counts | {"left_out": dict(self._cleaner.left_out), "redacted": dict(self._cleaner.redacted)}

    def _count(self, size: int) -> None:
        """Add to the size of the file, bytes; raise ResourceExhausted where it becomes too large."""
        self._size += size
        if self._size > self._largest:
            raise ResourceExhausted(
                f"the file would be larger than {render.size(self._largest)}, which no browser opens well",
                "Export a part of it with --since and --until, or --project.",
            )

    def _day(self, aside: IO[bytes], day: str, above: Sequence[str]) -> None:
        """Write the segments of a day to the temporary file, and note where they are; a day without messages has no place.

        `above` are the ids of its year, month and week. Raises ResourceExhausted where the file becomes too large.
        """
        start = aside.tell()
        at: Sequence[int] | None = (0, 0)
        is_open = False
        while at is not None:
            found = self._ask("stretch", {**self._asked, "day": day, "at": list(at)})
            for told in found["segments"]:
                if is_open and told["begins"]:
                    self._put(aside, self._page.close_segment())
                is_open = self._segment(aside, told, is_open, [f"toc:day:{day}", *above]) or (is_open and not told["begins"])
            at = found["next"]
        if is_open:
            self._put(aside, self._page.close_segment())
        if aside.tell() > start:
            self._done.spans[day] = (start, aside.tell())

    def _segment(self, aside: IO[bytes], told: Mapping[str, Any], is_open: bool, above: Sequence[str]) -> bool:
        """Write a segment, or the next part of it, to the temporary file; return whether anything was written.

        Its words are indexed and its messages counted for the periods `above`. Nothing is written for a beginning
        without messages.
        """
        clean = self._cleaner.segment(told)
        if not clean["messages"] and (told["begins"] or not is_open):
            return False
        opens = told["begins"] or not is_open
        if opens:
            self._done.segments.append(anchor(told["id"]))
            self._put(aside, self._page.open_segment({**clean, "id": told["id"]}))
        number = len(self._done.segments) - 1
        for text in indexed(clean, opens):
            self._index.add(number, text)
        for bullet in clean["bullets"]:
            self._done.quoted |= dict.fromkeys(bullet["grips"], self._done.segments[number])
        self._put(aside, self._page.messages(clean["messages"]))
        self._done.events += len(clean["messages"])
        for node_id in above:
            counts = self._done.counts.setdefault(node_id, _Counts())
            counts.segments += opens
            counts.events += len(clean["messages"])
        return True

    def _put(self, aside: IO[bytes], text: str) -> None:
        """Append a text to the temporary file, counting its size; raise ResourceExhausted where the file becomes too large."""
        raw = text.encode()
        self._count(len(raw))
        aside.write(raw)

    def _tree(self, days: Sequence[Sequence[str]], aside: IO[bytes]) -> Iterator[str]:
        """Yield the periods around the days, with the days' segments, oldest first.

        `days` are (day as ISO date, then the node ids of its year, month and week). A period that comes again is continued
        without its texts.
        """
        ids = [f"toc:day:{day}" for day, *_ in days] + [node_id for _, *above in days for node_id in above]
        ids = list(dict.fromkeys(ids))
        texts: dict[str, Any] = {}
        for start in range(0, len(ids), _PERIODS):
            found = self._ask("periods", {**self._asked, "ids": ids[start : start + _PERIODS]})["periods"]
            texts |= {node_id: self._cleaner.period(text) for node_id, text in found.items()}
        open_now: list[str] = []
        told: set[str] = set()
        for day, *above in days:
            wanted = [*above, f"toc:day:{day}"]
            same = next((n for n, pair in enumerate(zip(open_now, wanted, strict=False)) if pair[0] != pair[1]), len(open_now))
            yield from (self._page.close_period() for _ in open_now[same:])
            for node_id in wanted[same:]:
                yield self._period(node_id, texts, days, again=node_id in told)
                told.add(node_id)
            open_now = wanted
            yield from self._read(aside, *self._done.spans[day])
        yield from (self._page.close_period() for _ in open_now)

    def _read(self, aside: IO[bytes], start: int, after: int) -> Iterator[str]:
        """Yield a day's text from the temporary file, bytes `start` to `after`; its size, counted already, is taken off again."""
        self._size -= after - start
        aside.seek(start)
        decoder = codecs.getincrementaldecoder("utf-8")()
        while start < after:
            chunk = aside.read(min(_CHUNK, after - start))
            start += len(chunk)
            yield decoder.decode(chunk)

    def _period(self, node_id: str, texts: Mapping[str, Any], days: Sequence[Sequence[str]], again: bool) -> str:
        """Return the beginning of a period; `again`: it was opened before, and is continued without its texts.

        Its statements link to the segments in which their quotations are shown.
        """
        level = node_id.split(":")[1]
        text = _UNTOLD if again else texts.get(node_id, _UNTOLD)
        places = self._done.quoted
        bullets = [{**b, "leads": next((places[g] for g in b["grips"] if g in places), "")} for b in text["bullets"]]
        segments, events = self._done.counts[node_id].segments, self._done.counts[node_id].events
        return self._page.open_period(
            {
                "id": "" if again else node_id,
                "node_id": node_id,
                "level": level,
                "rank": _RANKS[level],
                "date": _name_of(node_id) + (", continued" if again else ""),
                "title": text["title"],
                "summary": text["summary"],
                "bullets": bullets,
                "count": "" if again else f"{render.plural(segments, 'segment')}, {render.plural(events, 'message')}",
                "unfolded": level == "year" or len(days) == 1,
            }
        )

    def _head(self, contents: Mapping[str, Any], days: Sequence[Sequence[str]]) -> dict[str, Any]:
        """Return the values of the head of the page: version, name, facts (counts in words), about (pairs), now, and months.

        `about` leaves out what is "" among project, agent, from, to and zone; `months` are pairs (node id, name).
        """
        done = self._done
        whose = contents["project"]
        counts = (
            f"{render.plural(done.events, 'message')} in {render.plural(len(done.segments), 'segment')} "
            f"on {render.plural(len(days), 'day')}"
        )
        about = [
            ("project", whose),
            ("agent", self._asked.get("agent", "")),
            ("from", contents["first"]),
            ("to", contents["last"]),
            ("times in", contents["zone"]),
        ]
        months = list(dict.fromkeys(month for _, _, month, _ in days))
        return {
            "version": __version__,
            "name": contents["name"] or "All projects",
            "facts": counts,
            "about": [pair for pair in about if pair[1]],
            "now": contents["now"],
            "months": [(month, _name_of(month)) for month in months],
        }


def _name_of(node_id: str) -> str:
    """Return the name of a period (year, month, week or day) for people, by its node id."""
    from memory_mcp.model.ids import NodeId
    from memory_mcp.tree.derive.rollup import period_name

    return period_name(NodeId(node_id))
