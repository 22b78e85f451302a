"""Select the statements of a client's recap that belong to a stretch.

A recap covers everything since the one before it, ten segments or more. A statement belongs to the stretches that name most
of what it names.
"""

from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event
from memory_mcp.tree.summarize.base import Source
from memory_mcp.tree.summarize.recap import RecapSection, Statement, statements_of
from memory_mcp.tree.summarize.stretch import Stretch
from memory_mcp.tree.summarize.vocabulary import read_words

#: Least share, by rarity, and least number of a statement's telling words that a stretch must hold.
MIN_SHARE, MIN_WORDS = 0.6, 3
#: Least weight of a telling word.
_MIN_TELLING_WEIGHT = 0.3
#: Least share of a statement's words in the sentence cited in addition to the recap.
_MIN_PROOF = 0.4


@dataclass(frozen=True, slots=True)
class RecalledStatement:
    """A recap's statement about the stretch, with its sources.

    They are the recap, and the sentence of the stretch that shares most words.
    """

    statement: Statement
    sources: tuple[Source, ...]


@lru_cache(maxsize=32)
def _weigh_statements(text: str) -> list[tuple[Statement, dict[str, float], float]]:
    """Return statements, their words' rarities and the sums."""
    statements = [
        (s, {w.key: w.rarity for w in read_words(s.text) if w.key and w.weight >= _MIN_TELLING_WEIGHT})
        for s in statements_of(text)
    ]
    return [(statement, rarities, sum(rarities.values())) for statement, rarities in statements]


def recall_statements(stretch: Stretch, recap: Event, is_own_recap: bool) -> list[RecalledStatement]:
    """Return at most 12 statements about the stretch.

    A statement belongs if the stretch holds at least 3 of its telling words and 60 % of their rarity. What was done last
    and what was left open belong only to the stretch that holds the recap: `is_own_recap`.
    """
    ranked = []
    for statement, rarities, total_rarity in _weigh_statements(recap.text):
        last = statement.section in (RecapSection.OPEN, RecapSection.NOW)
        if last and not is_own_recap:
            continue
        shared_keys = [key for key in rarities if key in stretch.counts]
        share = sum(rarities[key] for key in shared_keys) / total_rarity if total_rarity else 0.0
        if not last and (share < MIN_SHARE or len(shared_keys) < MIN_WORDS):
            continue
        about = sum(stretch.salience[key] for key in shared_keys) / (6.0 + len(rarities)) ** 0.75
        ranked.append((-about * share, statement, frozenset(rarities)))
    ranked.sort(key=lambda f: (f[0], f[1].start))
    chosen = []
    sentences = [(sentence, sentence.keys) for sentence in stretch.sentences] if ranked else []
    for _, statement, keys in ranked[:12]:
        sources = [Source(recap.event_id, statement.start, statement.end)]
        # The sentence of the stretch that shares most words is cited too.
        shared = [len(keys & sentence_keys) for _, sentence_keys in sentences]
        if keys and shared and (most := max(shared)) >= _MIN_PROOF * len(keys):
            best, _ = sentences[shared.index(most)]
            sources.append(Source(best.event.event_id, best.start, best.end))
        chosen.append(RecalledStatement(statement, tuple(sources)))
    return chosen
