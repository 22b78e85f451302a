"""The newest events whose texts hold some words, letter by letter.

Signatures of groups of events (`storage.ngrams`) say where they may be; these groups are read newest first until no older one
can matter. Without a keyed copy, for words of less than four
letters and for words that most groups may hold, the engine reads every text.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memory_mcp.model.event import Event, stream_key
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
#: Share of these where every text may be read at once, which takes as long.
_SHARE = 0.5
#: Groups that are read as they are, not asked first whether they have events of some stretches (40 us of CPU for each stretch).
_FEW_GROUPS = 60
#: Rows that are kept of reading every text.
_MOST_KEPT = 100
#: ASCII but white space and what JSON escapes.
_PLAIN_PIECE = re.compile(r"[!#-\[\]-~]{2,}")


#: A group's number, and the time of its newest event.
Group = tuple[int, int]


class DuckWordReading:
    """Searches for some words in one scope; a group of events, or all texts, are read once."""

    def __init__(
        self,
        con: Connection,
        keyed: KeyedRows,
        scope: Scope,
        names: ProjectNames,
        words: Sequence[str],
        conditions: tuple[list[str], list[Any]],
        parse_event: Callable[[Row], Event],
        is_small: bool,
    ) -> None:
        """`conditions` are those of `make_conditions` and that an event is shown; `is_small`: all texts may be read at once."""
        self._con = con
        self._keyed = keyed
        self._scope = scope
        self._words = words
        self._conditions = conditions
        self._parse_event = parse_event
        self._is_small = is_small
        self._is_match = make_row_filter(scope, names, words)
        # These characters are the same in the form in which a row is stored; the longest first, as they are the rarest.
        pieces = {piece.lower().encode() for word in words for piece in _PLAIN_PIECE.findall(word)}
        self._probes = sorted(pieces, key=lambda piece: (-len(piece), piece))
        #: Groups of the scope that may hold all words, newest first, once they were listed; and those that were read.
        self._groups: list[Group] | None = None
        self._read: set[int] = set()
        #: The shown rows (`EVENT`) with all words in what was read, and whether that is every text, up to `_MOST_KEPT` rows.
        self._rows: list[Row] = []
        self._is_whole = False
        #: Keys of rows among these that were read by number, being in no group yet; None until then.
        self._late_keys: frozenset[int] | None = None

    def list_newest(self, limit: int, segments: Sequence[Segment] | None = None, *, is_followed: bool = False) -> list[Event]:
        spans = None if segments is None else list_spans(segments)
        is_rare = is_followed and self._is_rare(limit)
        groups = self._groups if is_rare else self._list_groups(spans)
        rows = None if groups is None or is_rare else self._search_groups(groups, limit, spans, is_followed)
        if rows is None and groups is not None and spans is not None and self._is_small and limit <= _MOST_KEPT:
            # Of all texts: it takes no longer than of some stretches, and what follows needs them.
            self._rows, self._is_whole = self._scan_texts(_MOST_KEPT, None), True
            rows = self._find_read(limit, spans)
        return list(map(self._parse_event, self._scan_texts(limit, segments) if rows is None else rows))

    def find_all(self, limit: int) -> list[Event] | None:
        """Return events also if every text is read for it, unless they are very many."""
        groups = self._list_groups(None)
        rows = None if groups is None else self._search_groups(groups, limit, None, is_followed=False)
        if rows is None and groups is not None and self._is_small:
            rows = self._scan_texts(limit, None)
        return None if rows is None or len(rows) == limit else list(map(self._parse_event, rows))

    def _is_rare(self, limit: int) -> bool:
        """Read the newest groups of the scope; return whether at their rate reading every text is faster."""
        groups = self._list_groups(None) if self._is_small else None
        if groups is None or not self._is_too_much(len(groups), len(groups), is_followed=False):
            return False
        self._search_groups(groups[:_TRIAL], limit, None, is_followed=False)
        return self._is_too_much(len(groups), _TRIAL * limit // max(len(self._rows), 1), is_followed=False)

    def _list_groups(self, spans: Sequence[Span] | None) -> list[Group] | None:
        """Return the groups that may hold all words, newest first, those of some stretches at least; None if not known."""
        if spans is None or self._is_small:
            if self._groups is None:
                window = self._scope.window
                times = None if window is None else (window.start_ms, window.end_ms)
                self._groups = self._find_groups(None, times)
            if spans is None or self._groups is None or len(self._groups) <= _FEW_GROUPS:
                return self._groups
        return self._find_groups(spans, None)

    def _find_groups(self, spans: Sequence[Span] | None, times: tuple[int, int] | None) -> list[Group] | None:
        """Return groups that may hold all words; what is in none yet is read the first time that something is missing."""
        answer = self._keyed.find_groups(self._words, spans, times)
        if answer is None:
            return None
        groups, after = answer
        if after is not None and self._late_keys is None:
            late_rows = self._fetch_texts("event", ["seq > ?"], [after])
            self._late_keys = frozenset(row[0] for row in late_rows)
            self._rows = [*(row for row in self._rows if row[0] not in self._late_keys), *late_rows]
        return groups

    def _search_groups(
        self, groups: Sequence[Group], limit: int, spans: Sequence[Span] | None, is_followed: bool
    ) -> list[Row] | None:
        """Return up to `limit` rows of stretches, newest first; None if all texts have to be read.

        If `is_followed`, fewer than `limit` are looked for everywhere.
        """
        if self._is_whole:
            return self._find_read(limit, spans)
        is_inside = _SpanFilter(spans)
        rows = self._sort_read(limit, is_inside)
        start, size = 0, _FIRST_ROUND
        while start < len(groups) and not (len(rows) == limit > 0 and groups[start][1] < rows[-1][1]):
            if start >= _TRIAL and self._is_too_much(len(groups), start * limit // max(len(rows), 1), is_followed):
                return None
            numbers = [number for number, _ in groups[start : start + size] if number not in self._read]
            candidates = self._keyed.read_groups(numbers, self._probes)
            matching = [row for row in candidates or () if self._is_match(row)]
            hidden = self._keyed.read_pairs([row[0] for row in matching])
            if candidates is None or hidden is None:
                return None
            hidden_keys = {key for key, _ in hidden}
            self._read.update(numbers)
            left_out = hidden_keys | (self._late_keys or frozenset())
            self._rows += [row for row in matching if row[0] not in left_out]
            rows = self._sort_read(limit, is_inside)
            start, size = start + size, 2 * size
        return rows

    def _is_too_much(self, count: int, expected: int, is_followed: bool) -> bool:
        """Return whether reading every text is faster than groups, of which at the rate so far `expected` would be read."""
        if is_followed and self._groups is not None and expected > count:
            count = len(self._groups)
        return min(count, expected) > _MOST_GROUPS * (_SHARE if self._is_small else 1)

    def _find_read(self, limit: int, spans: Sequence[Span] | None) -> list[Row] | None:
        """Return rows of all texts that were read; None if older ones than were kept may be among them."""
        rows = self._sort_read(limit, _SpanFilter(spans))
        return rows if len(rows) == limit or len(self._rows) < _MOST_KEPT else None

    def _sort_read(self, limit: int, is_inside: Callable[[Row], bool]) -> list[Row]:
        return sorted(filter(is_inside, self._rows), key=lambda row: (row[1], row[0]), reverse=True)[:limit]

    def _scan_texts(self, limit: int, segments: Sequence[Segment] | None) -> list[Row]:
        """Return rows by reading every text, or those of segments."""
        table, spans = ("event", list[Any]()) if segments is None else (_WITHIN, span_columns(segments))
        return self._fetch_texts(table, [], spans, "ORDER BY ts DESC, event_id DESC LIMIT ?", [limit])

    def _fetch_texts(
        self, table: str, conditions: Sequence[str], leading: Sequence[Any], order: str = "", trailing: Sequence[Any] = ()
    ) -> list[Row]:
        """Return the shown rows of a table that hold all words and meet `conditions`.

        `leading` are the parameters of table and conditions, `trailing` those of `order`.
        """
        where, parameters = self._conditions
        patterns = [make_text_condition(word) for word in self._words]
        condition = make_where([*conditions, *where, *(condition for condition, _ in patterns)])
        sql = f"SELECT {EVENT} FROM {table} {condition} {order}"
        return self._con.fetch_rows(sql, [*leading, *parameters, *(pattern for _, pattern in patterns), *trailing])


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
