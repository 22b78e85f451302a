"""Choose the keywords of a stretch: the words and phrases that distinguish it."""

from collections.abc import Sequence

from memory_mcp.model.event import Event, EventType, Role, Trust
from memory_mcp.model.ids import event_id
from memory_mcp.summarize.stretch import Stretch, read
from memory_mcp.summarize.vocabulary import Word

MAX_KEYWORDS = 12
#: Occurrences from which a pair of words is one term.
PAIR_TIMES = 2
MAX_PHRASE = 32
#: Pairs are searched among this many best words.
_CANDIDATES = 40


def keywords(stretch: Stretch, limit: int = MAX_KEYWORDS) -> tuple[str, ...]:
    """Return at most `limit` telling terms as written, best first; two words that go together are one, no word is in two."""
    shown = stretch.shown
    starts = {s.words[0] for s in stretch.sentences if s.words}
    worth = []
    for key, told in stretch.salience.items():
        if told > 0:
            word = shown[key]
            appeal = word.appeal
            # A capital inside a sentence marks a name.
            if word.capital:
                appeal *= 0.8 if word in starts else 1.3
            worth.append((-told * appeal, key))
    # Sorting all of some hundred is faster than `nsmallest`, whose loop is Python's.
    ranked = [key for _, key in sorted(worth)[:_CANDIDATES]]
    phrases = _phrases(stretch, set(ranked))
    chosen: list[str] = []
    used: set[str] = set()
    for key in ranked:
        if len(chosen) >= limit:
            break
        if key in used:
            continue
        pair = phrases.get(key)
        if pair and not used & set(pair[:2]):
            chosen.append(pair[2])
            used.update(pair[:2])
        else:
            chosen.append(stretch.shown[key].shown)
            used.add(key)
    return tuple(chosen)


def keywords_of(texts: Sequence[str], limit: int = MAX_KEYWORDS) -> tuple[str, ...]:
    """Return at most `limit` telling terms, best first, of texts that are not events, such as a refined summary."""
    told = "\n".join(texts)
    message = Event(event_id(0, "", told), "", 0, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, Trust.ASSISTANT, told, "")
    return keywords(read([message]), limit)


def _phrases(stretch: Stretch, wanted: set[str]) -> dict[str, tuple[str, str, str]]:
    """Return by a word's key its best phrase: key of the first word, key of the second, both as written.

    Two plain words adjacent at least twice, seldom apart, and found as written in a text.
    """
    best: dict[str, tuple[float, tuple[str, str, str]]] = {}
    texts: list[str] = []
    for (left, right), times in _pairs(stretch, wanted).items():
        first, second = left.key, right.key
        if times < PAIR_TIMES or first == second or left.code or right.code:
            continue
        strength = times / min(stretch.counts[first], stretch.counts[second])
        phrase = f"{left.shown} {right.shown}"
        if strength < 0.4 or len(phrase) > MAX_PHRASE:
            continue
        texts = texts or list({s.event.event_id: s.event.text for s in stretch.sentences}.values())
        if not any(phrase in text for text in texts):
            continue
        for key in (first, second):
            if key not in best or (strength, phrase) > (best[key][0], best[key][1][2]):
                best[key] = (strength, (first, second, phrase))
    return {key: found for key, (_, found) in best.items()}


def _pairs(stretch: Stretch, wanted: set[str]) -> dict[tuple[Word, Word], int]:
    """Return how often two wanted words are adjacent, the first before the second; `wanted` holds their keys."""
    pairs: dict[tuple[Word, Word], int] = {}
    for held in stretch.tally.values():
        among = {word for word in set(held) if word.key in wanted}
        # A byte search finds adjacent wanted words without a Python loop over all others.
        flags = bytes(map(among.__contains__, held))
        at = flags.find(b"\1\1")
        while at >= 0:
            pair = held[at], held[at + 1]
            pairs[pair] = pairs.get(pair, 0) + 1
            at = flags.find(b"\1\1", at + 1)
    return pairs
