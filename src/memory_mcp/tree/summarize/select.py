"""Select the sentences of a stretch for its bullets and its title."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile
from operator import itemgetter
from typing import TypeVar

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.tree.summarize.kinds import Cue, cues_of, is_errand
from memory_mcp.tree.summarize.lines import is_dense
from memory_mcp.tree.summarize.sentences import Shape, is_bracketed
from memory_mcp.tree.summarize.stretch import MIN_TELLING_WEIGHT, NAMING_RECORDS, Sentence, Stretch, Voice
from memory_mcp.tree.summarize.vocabulary import Word, is_vague

Item = TypeVar("Item")
MAX_BULLETS = 8
#: Share of telling words from which two bullets say the same.
ALIKE_SHARE = 0.5
#: Characters of the shortest bullet.
MIN_BULLET = 12
#: Sentences whose text is read: the most informative ones, those that may have a cue before others.
MAX_READ = 28
#: Least information of a bullet, whatever its cues.
MIN_INFORMATION = 0.3
# Looking up a member of an enum takes longer than comparing it.
_HEADING, _LEAD, _ERROR = Shape.HEADING, Shape.LEAD, Shape.ERROR
_TOOL, _AGENT, _USER = Voice.TOOL, Voice.AGENT, Voice.USER

#: What a cue adds to a sentence's score (a good plain sentence has about 2).
_CUE_WORTH = (
    (Cue.DECISION, 1.6),
    (Cue.CAUSE, 1.6),
    (Cue.FIX, 1.4),
    (Cue.OUTCOME, 1.1),
    (Cue.RULE, 0.7),
    (Cue.PREFERENCE, 0.8),
    (Cue.OPEN, 0.7),
)
#: In dialogues of people cues count less, and facts about the speaker count.
_DIALOGUE_WORTH = (*((cue, worth * 0.4) for cue, worth in _CUE_WORTH), (Cue.FACT, 0.6))
_STRONG = Cue.DECISION | Cue.CAUSE | Cue.FIX | Cue.OUTCOME
# Openings of sentences that refer to the one before.
_LEANING = lazy_pattern(
    r"(?:it|this|that|these|those|they|he|she|there|here|which|both|same|but|and|or|so|then|because|"
    r"all (?:of )?(?:these|those))\b",
    re.I,
)


def bullets_of(stretch: Stretch) -> list[Sentence]:
    """Return the best sentences for bullets, in order; no two say the same."""
    last = {voice: count - 1 for voice, count in stretch.messages.items()}
    dialogue = stretch.is_dialogue
    bounded = []
    for at, s in _choose_candidates(stretch):
        # An upper bound of the score without reading the text: every possible cue counts.
        is_exact = s.shape is _ERROR or s.information <= MIN_INFORMATION
        bound = _score_bullet(s, dialogue, last) if is_exact else _add_cue_scores(s, s.information, s.cues, dialogue, last)
        bounded.append((bound, at, s))
    best = takewhile(lambda ranked: ranked[0] > 0, _best_first(bounded, lambda s, _: _score_bullet(s, dialogue, last)))
    chosen = drop_repeats(best, lambda ranked: ranked[2].keys, MAX_BULLETS)
    return [s for _, _, s in sorted(chosen, key=itemgetter(1))]


def drop_repeats(items: Iterable[Item], keys: Callable[[Item], set[str]], limit: int) -> list[Item]:
    """Return the first `limit` items with distinct `keys`."""
    distinct_items: list[Item] = []
    earlier_keys: list[set[str]] = []
    for item in items:
        item_keys = keys(item)
        if not any(are_alike(item_keys, other) for other in earlier_keys):
            distinct_items.append(item)
            earlier_keys.append(item_keys)
            if len(distinct_items) == limit:
                break
    return distinct_items


def are_alike(keys: set[str], other_keys: set[str]) -> bool:
    """Return whether two statements share most telling words."""
    return bool(keys and other_keys) and len(keys & other_keys) >= ALIKE_SHARE * min(len(keys), len(other_keys))


def _choose_candidates(stretch: Stretch) -> list[tuple[int, Sentence]]:
    cued = stretch.cue_words
    strong = {word for word in cued if word.cues & _STRONG}
    first: dict[tuple[Word, ...], tuple[int, Sentence]] = {}
    for at, s in enumerate(stretch.sentences):
        if not s.is_chatter and s.end - s.start >= MIN_BULLET and s.shape is not _HEADING and s.shape is not _LEAD:
            first.setdefault(tuple(s.words), (at, s))
    ranked = []
    for at, s in first.values():
        worth = s.information + (0.0 if strong.isdisjoint(s.words) else 0.8)
        ranked.append((-worth - (0.6 if s.voice is _USER or s.shape is _ERROR else 0.0), at, s))
    ranked.sort(key=itemgetter(0))
    candidates = [(at, s) for _, at, s in ranked[:MAX_READ]]
    for _, s in candidates:
        for word in cued.intersection(s.words):
            s.cues |= word.cues
    return candidates


def _best_first(
    bounded: list[tuple[float, int, Sentence]], score: Callable[[Sentence, float], float]
) -> Iterator[tuple[float, int, Sentence]]:
    """Yield (score, index, sentence), best first.

    `bounded` are (upper bound, index, sentence); `score` gets a sentence and its bound, and is called only when none of
    the others could be better.
    """
    heap = [(-bound, False, at, s) for bound, at, s in bounded]
    heapify(heap)
    while heap:
        negative, scored, at, s = heap[0]
        if scored:
            heappop(heap)
            yield -negative, at, s
        else:
            heapreplace(heap, (-score(s, -negative), True, at, s))


def headlines_of(stretch: Stretch, limit: int = 3) -> list[Sentence]:
    """Return sentences that name the stretch, best first, half in new words."""
    dialogue, records = stretch.is_dialogue, stretch.records
    request_keys = {key for s in stretch.sentences if s.voice is _USER for key in s.keys} if stretch.has_session_name else set()
    eager = []
    for index, s in enumerate(stretch.sentences):
        if s.is_chatter or s.information <= 0 or (records and records.get(s.event.event_id) == "pull request"):
            continue
        is_scored = (s.voice is not _AGENT or request_keys) and not dialogue
        eager.append((s.information + (_request_score(s, request_keys, records) if is_scored else 0.0), index, s))
    eager.sort(key=itemgetter(0), reverse=True)
    ranked = _best_first(eager[:MAX_READ], lambda s, bound: bound + _wording_penalty(s, dialogue))
    chosen: list[Sentence] = []
    chosen_keys: set[str] = set()
    for _, _, s in islice(ranked, 4 * limit):
        keys = s.keys
        if 2 * len(keys & chosen_keys) <= len(keys) and not _is_listing(s):
            chosen.append(s)
            chosen_keys |= keys
            if len(chosen) == limit:
                break
    return chosen


def _is_listing(s: Sentence) -> bool:
    return all(word.code for word in s.words if word.key)


def _request_score(s: Sentence, request_keys: set[str], records: Mapping[str, str]) -> float:
    if s.voice is _AGENT:
        return 4.0 if records.get(s.event.event_id) in NAMING_RECORDS and not request_keys.isdisjoint(s.keys) else 0.0
    if s.voice is _USER:
        score = 2.0 / (1 + s.message_index) + 1.0 / (1 + s.index) + 0.5
        if is_vague(s.words):
            score *= 0.3
        return score + (2.0 if s.index < 3 else 0.3) if s.shape is _HEADING else score
    return -4.0 if s.voice is _TOOL else 0.0


def _wording_penalty(s: Sentence, dialogue: bool) -> float:
    score = 0.0
    text = s.event.text
    words = s.words
    if len({word for word in words if word.weight > MIN_TELLING_WEIGHT}) < 2:
        score -= 4.0
    if text[s.start] in "/@" or is_bracketed(text, s.start, s.end) or is_dense(text[s.start : s.end]):
        score -= 2.0
    if s.shape is _LEAD:
        score -= 1.5
    if words and words[0].code and s.index > 0:
        score -= 0.5
    if _LEANING.match(text, s.start, s.end):
        score -= 0.8
    if dialogue:
        addressed = any(word.cues & Cue.ADDRESS for word in words)
        return score - (0.5 if text[s.end - 1] in "?？" else 0.0) - (0.8 if addressed else 0.0)
    return score - 5.0 if is_errand(text, s.start, s.end) else score


def _score_bullet(s: Sentence, dialogue: bool, last: dict[Voice, int]) -> float:
    if s.shape is _ERROR:
        return s.information * 0.5 + 0.8
    if s.information <= MIN_INFORMATION:
        return 0.0
    # Facts about the speaker count only in dialogues of people.
    cues = s.cues = cues_of(s.text, s.cues if dialogue else s.cues & ~Cue.FACT)
    score = _add_cue_scores(s, s.information - (0.6 if is_bracketed(s.event.text, s.start, s.end) else 0.0), cues, dialogue, last)
    if dialogue:
        return score - (1.0 if cues & Cue.QUESTION else 0.0) - (0.7 if cues & Cue.ADDRESS else 0.0)
    return score - 0.6 if _LEANING.match(s.text) else score


def _add_cue_scores(s: Sentence, score: float, cues: int, dialogue: bool, last: dict[Voice, int]) -> float:
    if cues:
        for cue, worth in _DIALOGUE_WORTH if dialogue else _CUE_WORTH:
            if cues & cue:
                score += worth
    if dialogue:
        return score
    if s.voice is _USER:
        return score + 1.2 / (1 + s.index)
    return score + 0.6 if s.message_index == last.get(s.voice) else score
