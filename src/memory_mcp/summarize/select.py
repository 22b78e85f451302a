"""Select the sentences of a stretch for its bullets and its title."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace
from itertools import islice, takewhile
from operator import itemgetter
from typing import TypeVar

from memory_mcp.summarize.kinds import Cue, cues_of, is_errand
from memory_mcp.summarize.lines import is_dense
from memory_mcp.summarize.sentences import Shape, is_bracketed
from memory_mcp.summarize.stretch import NAMES, TELLS, Sentence, Stretch, Voice
from memory_mcp.summarize.vocabulary import Word, is_vague

Item = TypeVar("Item")
MAX_BULLETS = 8
#: Share of telling words from which two bullets say the same.
SAME = 0.5
#: Characters of the shortest bullet.
MIN_BULLET = 12
#: Sentences whose text is read: the most informative ones, those that may have a cue before others.
CLOSELY = 28
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
_LEANING = re.compile(
    r"(?:it|this|that|these|those|they|he|she|there|here|which|both|same|but|and|or|so|then|because|"
    r"all (?:of )?(?:these|those))\b",
    re.I,
)


def bullets_of(stretch: Stretch, limit: int = MAX_BULLETS) -> list[Sentence]:
    """Return at most `limit` of the best sentences that score above 0, without near-duplicates, in the order of the text."""
    last = {voice: count - 1 for voice, count in stretch.messages.items()}
    dialogue = stretch.is_dialogue
    bounded = []
    for at, s in _candidates(stretch):
        # An upper bound of the score without reading the text: every possible cue counts.
        is_exact = s.shape is _ERROR or s.information <= MIN_INFORMATION
        bound = _score(s, dialogue, last) if is_exact else _praise(s, s.information, s.cues, dialogue, last)
        bounded.append((bound, at, s))
    best = takewhile(lambda one: one[0] > 0, _best_first(bounded, lambda s, _: _score(s, dialogue, last)))
    chosen = distinct(best, lambda one: one[2].keys, limit)
    return [s for _, _, s in sorted(chosen, key=itemgetter(1))]


def distinct(items: Iterable[Item], keys: Callable[[Item], set[str]], limit: int) -> list[Item]:
    """Return the first items, at most `limit` (above 0), without those that say the same as an earlier one by their `keys`."""
    kept: list[Item] = []
    taken: list[set[str]] = []
    for item in items:
        own = keys(item)
        if not any(same(own, other) for other in taken):
            kept.append(item)
            taken.append(own)
            if len(kept) == limit:
                break
    return kept


def same(one: set[str], other: set[str]) -> bool:
    """Return whether two statements share at least half the telling words of the one with fewer; False if either has none."""
    return bool(one and other) and len(one & other) >= SAME * min(len(one), len(other))


def _candidates(stretch: Stretch) -> list[tuple[int, Sentence]]:
    """Return the at most 28 sentences whose text is read, with their places; of equal ones only the first.

    Chatter, headings, lines that introduce others and very short ones are left out; each gets the cues of its words.
    """
    cued = stretch.cued
    strong = {word for word in cued if word.cues & _STRONG}
    first: dict[tuple[Word, ...], tuple[int, Sentence]] = {}
    for at, s in enumerate(stretch.sentences):
        if not s.chatter and s.end - s.start >= MIN_BULLET and s.shape is not _HEADING and s.shape is not _LEAD:
            first.setdefault(tuple(s.words), (at, s))
    ranked = []
    for at, s in first.values():
        worth = s.information + (0.0 if strong.isdisjoint(s.words) else 0.8)
        ranked.append((-worth - (0.6 if s.voice is _USER or s.shape is _ERROR else 0.0), at, s))
    ranked.sort(key=itemgetter(0))
    found = [(at, s) for _, at, s in ranked[:CLOSELY]]
    for _, s in found:
        for word in cued.intersection(s.words):
            s.cues |= word.cues
    return found


def _best_first(
    bounded: list[tuple[float, int, Sentence]], score: Callable[[Sentence, float], float]
) -> Iterator[tuple[float, int, Sentence]]:
    """Yield score, place and sentence, best first, the earlier one of equals.

    `bounded` are (upper bound, place, sentence); `score` gets a sentence and its bound, and is called only when none of
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
    """Return at most `limit` sentences that say what the stretch is about, best first, each at least half in words of its own."""
    dialogue, records = stretch.is_dialogue, stretch.records
    asked = {key for s in stretch.sentences if s.voice is _USER for key in s.keys} if stretch.named else set()
    eager = [
        (s.information + (_eagerness(s, asked, records) if (s.voice is not _AGENT or asked) and not dialogue else 0.0), at, s)
        for at, s in enumerate(stretch.sentences)
        if not s.chatter and s.information > 0 and (not records or records.get(s.event.event_id) != "pull request")
    ]
    eager.sort(key=itemgetter(0), reverse=True)
    ranked = _best_first(eager[:CLOSELY], lambda s, bound: bound + _manner(s, dialogue))
    chosen: list[Sentence] = []
    taken: set[str] = set()
    for _, _, s in islice(ranked, 4 * limit):
        keys = s.keys
        if 2 * len(keys & taken) <= len(keys) and not _is_listing(s):
            chosen.append(s)
            taken |= keys
            if len(chosen) == limit:
                break
    return chosen


def _is_listing(s: Sentence) -> bool:
    """Return whether all words of a sentence that count are files or identifiers, as in a list of paths."""
    return all(word.code for word in s.words if word.key)


def _eagerness(s: Sentence, asked: set[str], records: Mapping[str, str]) -> float:
    """Return the score for the sentence's place and speaker.

    Highest for a user's first request and a session's name, negative for a tool's words. A name counts only if it shares
    a word with what was `asked` here: the client may have filed it elsewhere.
    """
    if s.voice is _AGENT:
        return 4.0 if records.get(s.event.event_id) in NAMES and not asked.isdisjoint(s.keys) else 0.0
    if s.voice is _USER:
        score = 2.0 / (1 + s.message) + 1.0 / (1 + s.place) + 0.5
        if is_vague(s.words):
            score *= 0.3
        return score + (2.0 if s.place < 3 else 0.3) if s.shape is _HEADING else score
    return -4.0 if s.voice is _TOOL else 0.0


def _manner(s: Sentence, dialogue: bool) -> float:
    """Return the penalty for the wording of a sentence, 0 or less: few telling words, code, an errand, leaning on another."""
    score = 0.0
    text = s.event.text
    held = s.words
    if len({word for word in held if word.weight > TELLS}) < 2:
        score -= 4.0
    if text[s.start] in "/@" or is_bracketed(text, s.start, s.end) or is_dense(text[s.start : s.end]):
        score -= 2.0
    if s.shape is _LEAD:
        score -= 1.5
    if held and held[0].code and s.place > 0:
        score -= 0.5
    if _LEANING.match(text, s.start, s.end):
        score -= 0.8
    if dialogue:
        addressed = any(word.cues & Cue.ADDRESS for word in held)
        return score - (0.5 if text[s.end - 1] in "?？" else 0.0) - (0.8 if addressed else 0.0)
    return score - 5.0 if is_errand(text, s.start, s.end) else score


def _score(s: Sentence, dialogue: bool, last: dict[Voice, int]) -> float:
    """Return a sentence's score as a bullet, 0 if it says too little, and note its cues; `last`: each voice's last message."""
    if s.shape is _ERROR:
        return s.information * 0.5 + 0.8
    if s.information <= MIN_INFORMATION:
        return 0.0
    # Facts about the speaker count only in dialogues of people.
    cues = s.cues = cues_of(s.text, s.cues if dialogue else s.cues & ~Cue.FACT)
    score = _praise(s, s.information - (0.6 if is_bracketed(s.event.text, s.start, s.end) else 0.0), cues, dialogue, last)
    if dialogue:
        return score - (1.0 if cues & Cue.QUESTION else 0.0) - (0.7 if cues & Cue.ADDRESS else 0.0)
    return score - 0.6 if _LEANING.match(s.text) else score


def _praise(s: Sentence, score: float, cues: int, dialogue: bool, last: dict[Voice, int]) -> float:
    """Return `score` plus what cues add, and, except in a dialogue, a user's early sentence or a voice's last message."""
    if cues:
        for cue, worth in _DIALOGUE_WORTH if dialogue else _CUE_WORTH:
            if cues & cue:
                score += worth
    if dialogue:
        return score
    if s.voice is _USER:
        return score + 1.2 / (1 + s.place)
    return score + 0.6 if s.message == last.get(s.voice) else score
