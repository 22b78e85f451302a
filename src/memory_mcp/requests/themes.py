"""Turns topics into the themes of an answer: what it is about, each with a statement and the grip that proves it. Pure."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar
from memory_mcp.requests.plain import find_fullest
from memory_mcp.search.layers.base import Theme as Found
from memory_mcp.tree.summarize.sentences import shorten
from memory_mcp.tree.summarize.vocabulary import keys_of

#: Characters of a statement, the fewest worth showing, and terms that tell what else a theme is about.
_QUOTE, _LEAST, _ABOUT = 140, 48, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What part of the memory is about."""

    theme: str
    #: Terms that its label lacks.
    about: str = ""
    #: The days on which it was talked about first and last, joined by "/" where they differ.
    when: str
    segments: int
    quote: str = ""
    #: Proves the quotation: `expand_grip` opens it.
    grip: str = ""
    topic: str


def fit_themes(candidates: Sequence[Found], calendar: Calendar, fits: Callable[[tuple[Theme, ...]], bool]) -> tuple[Theme, ...]:
    """Return as many themes as fit, with statements as they fit.

    The first have a legible statement each. A third of the themes gives up its statements before another theme is left out; ()
    where not even one fits.
    """
    all_themes = []
    for candidate in candidates:
        first, last = calendar.format_iso(candidate.first_ms)[:10], calendar.format_iso(candidate.last_ms)[:10]
        label_keys = keys_of(candidate.label)
        theme = Theme(
            theme=candidate.label,
            about=", ".join(islice((term for term in candidate.about if not keys_of(term) <= label_keys), _ABOUT)),
            when=first if first == last else f"{first}/{last}",
            segments=candidate.segments,
            quote=candidate.quote,
            grip=candidate.grip_id,
            topic=candidate.topic_id,
        )
        all_themes.append(theme)
    for count in range(len(all_themes), 0, -1):
        for quoted_count in dict.fromkeys((count, -(-2 * count // 3))):
            themes = (*all_themes[:quoted_count], *(replace(t, quote="", grip="") for t in all_themes[quoted_count:count]))
            fitted = find_fullest(functools.partial(_cut_quotes, themes), fits, _LEAST, _QUOTE)
            if fitted is not None:
                return fitted
    return ()


def _cut_quotes(themes: Sequence[Theme], width: int) -> tuple[Theme, ...]:
    return tuple(replace(t, quote=shorten(t.quote, width)) for t in themes)
