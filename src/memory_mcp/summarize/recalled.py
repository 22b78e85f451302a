"""Select the statements of a client's recap that belong to a stretch.

A recap covers everything since the one before it, ten segments or more. A statement belongs to the stretches that name most
of what it names.
"""

from dataclasses import dataclass
from functools import lru_cache

from memory_mcp.model.event import Event
from memory_mcp.summarize.base import Source
from memory_mcp.summarize.recap import Part, Statement, statements_of
from memory_mcp.summarize.stretch import Stretch
from memory_mcp.summarize.vocabulary import words

#: Least share, by rarity, and least number of a statement's telling words that a stretch must hold.
MIN_SHARE, MIN_WORDS = 0.6, 3
#: Least weight of a telling word.
_TELLS = 0.3
#: Least share of a statement's words in the sentence cited beside the recap.
_PROOF = 0.4


@dataclass(frozen=True, slots=True)
class Recalled:
    """A statement that belongs to the stretch, and where it is: in the recap, and in the sentence that shares most words."""

    statement: Statement
    sources: tuple[Source, ...]


@lru_cache(maxsize=32)
def _read(text: str) -> list[tuple[Statement, dict[str, float], float]]:
    """Return the statements of a recap with the rarity of their telling words by key, and its sum; the last 32 are kept."""
    statements = [(s, {w.key: w.rarity for w in words(s.text) if w.key and w.weight >= _TELLS}) for s in statements_of(text)]
    return [(statement, told, sum(told.values())) for statement, told in statements]


def recalled(stretch: Stretch, recap: Event, own: bool) -> list[Recalled]:
    """Return at most 12 statements that belong to the stretch, best first.

    A statement belongs if the stretch holds at least 3 of its telling words and 60 % of their rarity. What was done last
    and what was left open belong only to the stretch that holds the recap: `own`.
    """
    found = []
    for statement, told, whole in _read(recap.text):
        last = statement.part in (Part.OPEN, Part.NOW)
        if last and not own:
            continue
        named = [key for key in told if key in stretch.counts]
        share = sum(told[key] for key in named) / whole if whole else 0.0
        if not last and (share < MIN_SHARE or len(named) < MIN_WORDS):
            continue
        about = sum(stretch.salience[key] for key in named) / (6.0 + len(told)) ** 0.75
        found.append((-about * share, statement, frozenset(told)))
    found.sort(key=lambda f: (f[0], f[1].start))
    chosen = []
    sentences = [(sentence, sentence.keys) for sentence in stretch.sentences] if found else []
    for _, statement, keys in found[:12]:
        sources = [Source(recap.event_id, statement.start, statement.end)]
        # The sentence of the stretch that shares most words is cited too.
        shared = [len(keys & others) for _, others in sentences]
        if keys and shared and (most := max(shared)) >= _PROOF * len(keys):
            best, _ = sentences[shared.index(most)]
            sources.append(Source(best.event.event_id, best.start, best.end))
        chosen.append(Recalled(statement, tuple(sources)))
    return chosen
