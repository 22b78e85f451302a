"""One measured thing, its bar and what was measured beside it; and the table of all."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.place import quantile


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured: values of one unit by their names, in the order they are shown."""

    name: str
    unit: str
    values: Mapping[str, float]
    #: What values may be at most; at least, for a rate.
    bars: Mapping[str, float] = field(default_factory=dict)
    least: bool = False
    #: What else was measured the same way in the same run, to be compared with the first value.
    beside: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether every bar holds."""
        return all((self.values[k] >= bar) if self.least else (self.values[k] <= bar) for k, bar in self.bars.items())


def spread(name: str, unit: str, values: Sequence[float], **more: Any) -> Row:
    """Median, 95th and 99th percentile of what was measured often."""
    shares = {"p50": statistics.median(values), "p95": quantile([*values], 0.95), "p99": quantile([*values], 0.99)}
    return Row(name, unit, shares, **more)


def slower(runs: Sequence[Sequence[Row]]) -> list[Row]:
    """Of several runs of the same rows each time the one that did worse."""
    return [
        max(same, key=lambda row: next(iter(row.values.values())) * (-1 if row.least else 1)) for same in zip(*runs, strict=True)
    ]


def number(value: float) -> str:
    """Three figures that say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def told(row: Row) -> tuple[str, str, str, str]:
    """Name, values, bars with what became of them, and what is beside it."""
    values = ", ".join(f"{name} {number(value)}".strip() for name, value in row.values.items())
    bars = ", ".join(f"{name} {number(bar)}".strip() for name, bar in row.bars.items())
    if bars:
        bars = f"{'>=' if row.least else '<='} {bars}{'' if row.kept else ' NOT KEPT'}"
    first = next(iter(row.values.values()), 0.0)
    beside = [f"{name} {number(v)} ({first / v:.1f}x)" if v else f"{name} {number(v)}" for name, v in row.beside.items()]
    return row.name, f"{values} {row.unit}".strip(), bars, "; ".join([*beside, *filter(None, [row.note])])


def lines(rows: Iterable[Row]) -> list[str]:
    """In markdown."""
    return markdown(("what", "measured", "bar", "beside it, in the same run"), [told(row) for row in rows])


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose columns line up."""
    widths = [max(len(line[n]) for line in (head, *rows)) for n in range(len(head))]
    drawn = [" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in (head, *rows)]
    return [f"| {drawn[0]} |", f"|{'|'.join('-' * (w + 2) for w in widths)}|", *(f"| {line} |" for line in drawn[1:])]
