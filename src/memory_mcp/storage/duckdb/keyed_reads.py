"""Reads of the keyed file that take several statements: what is shown of a stream."""

from collections.abc import Callable, Sequence

from memory_mcp.storage.duckdb.connection import Row
from memory_mcp.storage.duckdb.keyed_file import KeyedFile, Span

#: Returns those of some rows that are shown, in their order; None if it cannot tell.
SelectRows = Callable[[KeyedFile, list[Row]], list[Row] | None]
#: Neighbours read at once beyond those asked for: some may be hidden.
_SPARE = 4


def read_shown_neighbours(
    file: KeyedFile, stream: int, position: tuple[int, int], limits: tuple[int, int], select_shown: SelectRows
) -> tuple[list[Row], list[Row]] | None:
    """Return up to so many shown rows before and after a position (time, key), nearest first; None if `select_shown` does."""
    sides = [
        file.read_neighbours(stream, position, bool(later), limit + _SPARE, 0) if limit else []
        for later, limit in enumerate(limits)
    ]
    # Asked once for both sides: mostly none is hidden.
    if (shown := select_shown(file, [*sides[0], *sides[1]])) is None:
        return None
    rows = [row for row in shown if (row[1], row[0]) < position], [row for row in shown if (row[1], row[0]) > position]
    for later, limit in enumerate(limits):
        offset = len(sides[later])
        while len(rows[later]) < limit and (more := file.read_neighbours(stream, position, bool(later), limit + _SPARE, offset)):
            if (shown := select_shown(file, more)) is None:
                return None
            rows[later].extend(shown)
            offset += len(more)
    return rows[0][: limits[0]], rows[1][: limits[1]]


def read_shown_spans(file: KeyedFile, spans: Sequence[Span]) -> list[list[Row]]:
    """Return the rows of stretches of streams, in order, none of one with a hidden event."""
    stretches = list(map(file.read_span, spans))
    hidden = file.read_hidden(row[0] for rows in stretches for row in rows)
    return [[] if any(row[0] in hidden for row in rows) else rows for rows in stretches]
