"""The newest events whose texts hold some words, letter by letter.

Signatures of groups of events (`storage.ngrams`) say where they may be; these groups are read newest first until no older one
can matter. Without a keyed copy, for words of less than four
letters and for words that most groups may hold, the engine reads every text.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.model.event import stream_key
from memory_mcp.model.ids import event_key
from memory_mcp.model.project import ProjectNames
from memory_mcp.model.segment import Segment
from memory_mcp.storage.duckdb.conditions import make_row_filter, make_text_condition, make_where
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.keyed_file import Span
from memory_mcp.storage.duckdb.keyed_rows import KeyedRows
from memory_mcp.storage.rows import EVENT
from memory_mcp.storage.values import Scope

#: Parameters: see `span_columns`.
SPANS = """unnest(?::BIGINT[]) AS own, unnest(?::BIGINT[]) AS from_ts, unnest(?::HUGEINT[]) AS from_id,
             unnest(?::BIGINT[]) AS to_ts, unnest(?::HUGEINT[]) AS to_id"""
INSIDE = """(e.ts > s.from_ts OR (e.ts = s.from_ts AND e.event_id >= s.from_id))
  AND (e.ts < s.to_ts OR (e.ts = s.to_ts AND e.event_id <= s.to_id))"""
_WITHIN = f"(SELECT {SPANS}) s JOIN event e ON e.stream = s.own AND {INSIDE}"
#: The same with the key of each stretch, and a last event number or None.
IN_SEGMENTS = f"""
SELECT s.key, {", ".join("e." + c for c in EVENT.split(", "))}
FROM (SELECT unnest(?::BIGINT[]) AS key, {SPANS}) s
JOIN event e ON e.stream = s.own
WHERE {INSIDE}
  AND (? IS NULL OR e.seq <= ?) {{which}}
ORDER BY s.key, e.ts, e.event_id"""
#: Groups that are read in the first round, in each later one twice as many; after how many it is judged; and in all.
_FIRST_ROUND, _TRIAL, _MOST_GROUPS = 8, 24, 400
#: ASCII but white space and what JSON escapes.
_PLAIN_PIECE = re.compile(r"[!#-\[\]-~]{2,}")


#: A group's number, and the time of its newest event.
Group = tuple[int, int]


class TextSearch:
    """Searches the texts of one store."""

    def __init__(self, con: Connection, keyed: KeyedRows) -> None:
        self._con = con
        self._keyed = keyed

    def find_groups(self, scope: Scope, words: Sequence[str], segments: Sequence[Segment] | None) -> list[Group] | None:
        """Return the groups that may hold all words, newest first; None if that is not known.

        With `segments` only those that have events of these.
        """
        spans, window = None if segments is None else list_spans(segments), scope.window
        return self._keyed.find_groups(words, spans, None if window is None else (window.start_ms, window.end_ms))

    def search_groups(
        self,
        groups: Sequence[Group],
        scope: Scope,
        names: ProjectNames,
        words: Sequence[str],
        limit: int,
        segments: Sequence[Segment] | None = None,
    ) -> list[Row] | None:
        """Return up to `limit` shown rows (`EVENT`) with all words, newest first; None if all texts have to be read.

        With `segments` only their events are searched.
        """
        spans = None if segments is None else list_spans(segments)
        # These characters are the same in the form in which a row is stored.
        probes = list({piece.lower().encode() for word in words for piece in _PLAIN_PIECE.findall(word)})
        is_match, is_inside = make_row_filter(scope, names, words), _SpanFilter(spans)
        rows: list[Row] = []
        start, size = 0, _FIRST_ROUND
        while start < len(groups) and not (len(rows) == limit > 0 and groups[start][1] < rows[-1][1]):
            # At the rate so far it would take so many: reading every text is faster.
            if start >= _TRIAL and min(len(groups), start * limit // max(len(rows), 1)) > _MOST_GROUPS:
                return None
            candidates = self._keyed.read_groups([number for number, _ in groups[start : start + size]], probes)
            matching = [row for row in candidates or () if is_match(row) and is_inside(row)]
            hidden = self._keyed.read_pairs([row[0] for row in matching])
            if candidates is None or hidden is None:
                return None
            hidden_keys = {key for key, _ in hidden}
            rows += [row for row in matching if row[0] not in hidden_keys]
            rows = sorted(rows, key=lambda row: (row[1], row[0]), reverse=True)[:limit]
            start, size = start + size, 2 * size
        return rows

    def scan_texts(
        self, conditions: tuple[list[str], list[Any]], words: Sequence[str], limit: int, segments: Sequence[Segment] | None = None
    ) -> list[Row]:
        """Return the same by reading every text; `conditions` are those of `make_conditions` and that an event is shown."""
        where, parameters = conditions
        table, spans = ("event", list[Any]()) if segments is None else (_WITHIN, span_columns(segments))
        patterns = [make_text_condition(word) for word in words]
        condition = make_where([*where, *(condition for condition, _ in patterns)])
        sql = f"SELECT {EVENT} FROM {table} {condition} ORDER BY ts DESC, event_id DESC LIMIT ?"
        return self._con.fetch_rows(sql, [*spans, *parameters, *(pattern for _, pattern in patterns), limit])


class _SpanFilter:
    """Whether a row is in one of some stretches of streams; in any, without stretches."""

    def __init__(self, spans: Sequence[Span] | None) -> None:
        self._by_stream: dict[int, list[Span]] | None = None if spans is None else {}
        for span in spans or ():
            assert self._by_stream is not None
            self._by_stream.setdefault(span[0], []).append(span)

    def __call__(self, row: Row) -> bool:
        if self._by_stream is None:
            return True
        spans = self._by_stream.get(stream_key(row[2], row[4], row[5]), ())
        return any(first <= (row[1], row[0]) <= last for _, first, last in spans)


def span_columns(segments: Sequence[Segment]) -> list[Any]:
    """Return the columns of segments' streams and ends for `SPANS`."""
    ends = [_list_ends(s) for s in segments]
    return [[s.stream for s in segments], *([end[i][j] for end in ends] for i in (0, 1) for j in (0, 1))]


def list_spans(segments: Iterable[Segment]) -> list[Span]:
    """Return segments' stretches of their streams."""
    return [(s.stream, *_list_ends(s)) for s in segments]


def _list_ends(segment: Segment) -> tuple[tuple[int, int], tuple[int, int]]:
    return (segment.start[0], event_key(segment.start[1])), (segment.end[0], event_key(segment.end[1]))
