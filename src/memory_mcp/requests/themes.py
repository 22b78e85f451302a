"""Topics in, the themes of an answer out: what it is all about, each with a statement and the grip that proves it. Pure."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from memory_mcp.layers.base import Theme as Found
from memory_mcp.model.calendar import Calendar
from memory_mcp.requests.plain import largest
from memory_mcp.summarize.sentences import shorten

#: Characters of a statement, and the fewest worth showing.
_QUOTE, _LEAST = 140, 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What part of the memory is about."""

    theme: str
    #: The days on which it was talked about first and last.
    since: str
    until: str
    segments: int
    quote: str = ""
    #: Proves the quotation: `expand_grip` opens it.
    grip: str = ""
    topic: str


def fitting(found: Sequence[Found], calendar: Calendar, fits: Callable[[tuple[Theme, ...]], bool]) -> tuple[Theme, ...]:
    """Return as many themes as fit with a legible statement each, and as much of the statements as fits then."""
    whole = tuple(_theme(one, calendar) for one in found)
    for count in range(len(whole), 0, -1):
        width = largest(_LEAST, _QUOTE, functools.partial(_fits, fits, whole[:count]))
        if width is not None:
            return _cut(whole[:count], width)
    return ()


def _fits(fits: Callable[[tuple[Theme, ...]], bool], themes: Sequence[Theme], width: int) -> bool:
    return fits(_cut(themes, width))


def _theme(found: Found, calendar: Calendar) -> Theme:
    return Theme(
        theme=found.label,
        since=calendar.iso(found.first_ms)[:10],
        until=calendar.iso(found.last_ms)[:10],
        segments=found.segments,
        quote=found.quote,
        grip=found.grip_id,
        topic=found.topic_id,
    )


def _cut(themes: Sequence[Theme], width: int) -> tuple[Theme, ...]:
    return tuple(replace(t, quote=shorten(t.quote, width)) for t in themes)
