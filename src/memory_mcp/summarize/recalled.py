"""A read stretch and the recap that tells of it in, the statements of the recap that belong to this stretch out.

A recap tells of everything since the one before it, ten segments or more. A statement belongs to those whose words name most
of what it names.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from memory_mcp.model.event import Event
from memory_mcp.summarize.base import Source
from memory_mcp.summarize.recap import Part, Statement, statements_of
from memory_mcp.summarize.stretch import Sentence, Stretch
from memory_mcp.summarize.vocabulary import Word, words

#: A statement belongs to a stretch that names this share of what it names, by rarity, and so many of its telling words.
MIN_SHARE, MIN_WORDS = 0.6, 3
#: A word tells that weighs this much.
_TELLS = 0.3
#: The sentence that proves it beside the recap shares this much of it.
_PROOF = 0.4


@dataclass(frozen=True, slots=True)
class Recalled:
    """A statement that belongs to the stretch; `worth` grows with how much of both is in the other."""

    statement: Statement
    worth: float
    keys: frozenset[str]
    sources: tuple[Source, ...]


@lru_cache(maxsize=8)
def _read(text: str) -> list[tuple[Statement, dict[str, Word]]]:
    read = []
    for statement in statements_of(text):
        read.append((statement, {w.key: w for w in words(statement.text) if w.key and w.weight >= _TELLS}))
    return read


def recalled(stretch: Stretch, recap: Event, own: bool) -> list[Recalled]:
    """The statements that belong to the stretch, best first.

    What was done last and what was left open belong to the stretch whose `own` the recap is, whatever their words.
    """
    found = []
    for statement, told in _read(recap.text):
        last = statement.part in (Part.OPEN, Part.NOW)
        if last and not own:
            continue
        named = [key for key in told if key in stretch.counts]
        whole = sum(w.rarity for w in told.values())
        share = sum(told[key].rarity for key in named) / whole if whole else 0.0
        if not last and (share < MIN_SHARE or len(named) < MIN_WORDS):
            continue
        about = sum(stretch.salience[key] for key in named) / (6.0 + len(told)) ** 0.75
        found.append((-about * share, statement, frozenset(told)))
    found.sort(key=lambda f: (f[0], f[1].start))
    return [
        Recalled(
            statement, -worth, keys, (Source(recap.event_id, statement.start, statement.end), *_proof(stretch.sentences, keys))
        )
        for worth, statement, keys in found[:12]
    ]


def _proof(sentences: Sequence[Sentence], keys: frozenset[str]) -> list[Source]:
    """The sentence of the stretch that says most of it; none where none says enough."""
    best = max(sentences, key=lambda s: len(keys & s.keys), default=None)
    if not keys or best is None or len(keys & best.keys) < _PROOF * len(keys):
        return []
    return [Source(best.event.event_id, best.start, best.end)]
