"""Choose the keywords of a stretch: the words and phrases that distinguish it."""

from collections.abc import Sequence

from memory_mcp.model.event import Event, EventType, Role, Trust
from memory_mcp.model.ids import event_id
from memory_mcp.tree.summarize.stretch import Stretch, read_stretch
from memory_mcp.tree.summarize.vocabulary import Word

MAX_KEYWORDS = 12
#: Occurrences from which a pair of words is one term.
PAIR_TIMES = 2
MAX_PHRASE = 32
#: Pairs are searched among this many best words.
_CANDIDATES = 40


def choose_keywords(stretch: Stretch) -> tuple[str, ...]:
    """Return at most 12 telling terms as written, best first.

    Two words that go together are one term; no word is in two.
    """
    shown = stretch.word_of_key
    starts = {s.words[0] for s in stretch.sentences if s.words}
    worth = []
    for key, salience in stretch.salience.items():
        if salience > 0:
            word = shown[key]
            appeal = word.appeal
            # A capital inside a sentence marks a name.
            if word.capital:
                appeal *= 0.8 if word in starts else 1.3
            worth.append((-salience * appeal, key))
    # Sorting all of some hundred is faster than `nsmallest`, whose loop is Python's.
    ranked = [key for _, key in sorted(worth)[:_CANDIDATES]]
    phrases = _best_phrases(stretch, set(ranked))
    chosen: list[str] = []
    used: set[str] = set()
    for key in ranked:
        if len(chosen) >= MAX_KEYWORDS:
            break
        if key in used:
            continue
        pair = phrases.get(key)
        if pair and not used & set(pair[:2]):
            chosen.append(pair[2])
            used.update(pair[:2])
        else:
            chosen.append(stretch.word_of_key[key].spelling)
            used.add(key)
    return tuple(chosen)


def keywords_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return the telling terms of texts that are not events."""
    text = "\n".join(texts)
    message = Event(event_id(0, "", text), "", 0, EventType.ASSISTANT_MESSAGE, Role.ASSISTANT, Trust.ASSISTANT, text, "")
    return choose_keywords(read_stretch([message]))


def _best_phrases(stretch: Stretch, candidate_keys: set[str]) -> dict[str, tuple[str, str, str]]:
    """Two plain words adjacent at least twice, seldom apart, found as written."""
    best: dict[str, tuple[float, tuple[str, str, str]]] = {}
    texts: list[str] = []
    for (left_word, right_word), times in _count_pairs(stretch, candidate_keys).items():
        first, second = left_word.key, right_word.key
        if times < PAIR_TIMES or first == second or left_word.code or right_word.code:
            continue
        strength = times / min(stretch.counts[first], stretch.counts[second])
        phrase = f"{left_word.spelling} {right_word.spelling}"
        if strength < 0.4 or len(phrase) > MAX_PHRASE:
            continue
        texts = texts or list({s.event.event_id: s.event.text for s in stretch.sentences}.values())
        if not any(phrase in text for text in texts):
            continue
        for key in (first, second):
            if key not in best or (strength, phrase) > (best[key][0], best[key][1][2]):
                best[key] = (strength, (first, second, phrase))
    return {key: phrase_parts for key, (_, phrase_parts) in best.items()}


def _count_pairs(stretch: Stretch, candidate_keys: set[str]) -> dict[tuple[Word, Word], int]:
    pairs: dict[tuple[Word, Word], int] = {}
    for spoken_words in stretch.tally.values():
        candidates = {word for word in set(spoken_words) if word.key in candidate_keys}
        # A byte search finds adjacent wanted words without a Python loop over all others.
        flags = bytes(map(candidates.__contains__, spoken_words))
        at = flags.find(b"\1\1")
        while at >= 0:
            pair = spoken_words[at], spoken_words[at + 1]
            pairs[pair] = pairs.get(pair, 0) + 1
            at = flags.find(b"\1\1", at + 1)
    return pairs
