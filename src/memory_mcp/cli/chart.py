"""Draws counts as lines of cells or bars for a terminal, in ASCII where it has no block characters. Pure."""

import math
from collections.abc import Sequence

#: Nothing, then ever more.
BLOCKS, ASCII = "·░▒▓█", ".:+*#"
#: Columns, by eighths.
_HEIGHTS = "·▁▂▃▄▅▆▇█"
#: Parts of a bar, by eighths.
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def heat(counts: Sequence[int], blocks: bool) -> str:
    """Return one cell for each count, in one of four shades.

    By the root of its share of the largest; 0 has a cell of its own. `blocks` chooses block characters or ASCII.
    """
    shades = BLOCKS if blocks else ASCII
    most = max(counts, default=0)
    return "".join(shades[math.ceil((len(shades) - 1) * math.sqrt(count / most))] if count else shades[0] for count in counts)


def spark(counts: Sequence[int], blocks: bool) -> str:
    """Return one column for each count, visible above 0."""
    if not blocks:
        return heat(counts, blocks)
    most = max(counts, default=0)
    return "".join(_HEIGHTS[math.ceil(8 * count / most)] if count else _HEIGHTS[0] for count in counts)


def bar(count: int, most: int, width: int, blocks: bool) -> str:
    """Return a padded bar of count / most; visible above 0."""
    share = count / most if most else 0.0
    if not blocks:
        return ("#" * max(round(share * width), 1 if count else 0)).ljust(width)
    eighths = max(round(share * width * 8), 1 if count else 0)
    full_blocks, eighth = divmod(eighths, 8)
    return (_EIGHTHS[8] * full_blocks + (_EIGHTHS[eighth] if eighth else "")).ljust(width)


def ruler(names: Sequence[tuple[int, str]], width: int) -> str:
    """Return a line with each name (cell, name) at its cell.

    One that would touch the one before or pass `width` is left out.
    """
    line = ""
    for column, name in names:
        if column >= len(line) + bool(line) and column + len(name) <= width:
            line = line.ljust(column) + name
    return line
