"""A read stretch in, the sentences worth keeping out: those for bullets, and those the title is made from."""

import re

from memory_mcp.summarize.kinds import Cue, cues_of, is_errand
from memory_mcp.summarize.sentences import Shape
from memory_mcp.summarize.stretch import Sentence, Stretch, Voice

MAX_BULLETS = 8
#: Two bullets that share this much of their telling words say the same.
SAME = 0.5
#: Characters of the shortest bullet.
MIN_BULLET = 12
#: Sentences looked at closely: the most informative ones, those that may carry a cue before others.
CLOSELY = 28

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
_STRONG = Cue.DECISION | Cue.CAUSE | Cue.FIX | Cue.OUTCOME
# Sentences that lean on the one before.
_LEANING = re.compile(
    r"(?:it|this|that|these|those|they|he|she|there|here|which|both|same|but|and|or|so|then|because|"
    r"all (?:of )?(?:these|those))\b",
    re.I,
)


def bullets_of(stretch: Stretch, limit: int = MAX_BULLETS) -> list[Sentence]:
    """The best sentences, near-duplicates dropped, in the order in which they were said."""
    candidates = list({tuple(s.words): s for s in reversed(stretch.sentences) if _may_stand(s)}.values())
    for s in candidates:
        for word in s.words:
            s.cues |= word.cues
        s.score = (
            s.information + (0.8 if s.cues & _STRONG else 0.0) + (0.6 if s.voice is Voice.USER or s.shape is Shape.ERROR else 0.0)
        )
    candidates.sort(key=lambda s: (-s.score, s.order))
    last = {voice: count - 1 for voice, count in stretch.messages.items()}
    for s in candidates[:CLOSELY]:
        s.score = _score(stretch, s, last)
    chosen: list[Sentence] = []
    taken: list[set[str]] = []
    for s in sorted(candidates[:CLOSELY], key=lambda s: (-s.score, s.order)):
        if s.score <= 0 or len(chosen) == limit:
            break
        keys = {word.key for word in s.words if word.key}
        if not any(len(keys & other) >= SAME * min(len(keys), len(other)) for other in taken if other and keys):
            chosen.append(s)
            taken.append(keys)
    return sorted(chosen, key=lambda s: s.order)


def _may_stand(s: Sentence) -> bool:
    return not s.chatter and s.end - s.start >= MIN_BULLET and s.shape not in (Shape.HEADING, Shape.LEAD)


def headlines_of(stretch: Stretch, limit: int = 3) -> list[Sentence]:
    """Sentences that say what it was about, best first, no two about the same."""
    eager = [
        (s.information + _eagerness(s, stretch.is_dialogue), s) for s in stretch.sentences if not s.chatter and s.information > 0
    ]
    eager.sort(key=lambda item: -item[0])
    ranked = sorted(
        ((score + _manner(s, stretch.is_dialogue), s) for score, s in eager[:CLOSELY]), key=lambda item: (-item[0], item[1].order)
    )
    chosen: list[Sentence] = []
    taken: set[str] = set()
    for _, s in ranked[: 4 * limit]:
        keys = {word.key for word in s.words if word.key}
        if 2 * len(keys & taken) <= len(keys) and len(chosen) < limit:
            chosen.append(s)
            taken |= keys
    return chosen


def _eagerness(s: Sentence, dialogue: bool) -> float:
    """What its place adds: a user's first request is the best gist there is."""
    if dialogue:
        return 0.0
    if s.voice is Voice.USER:
        score = 2.0 / (1 + s.message) + 1.0 / (1 + s.place) + 0.5
        return score + (2.0 if s.place < 3 else 0.3) if s.shape is Shape.HEADING else score
    return -2.0 if s.voice is Voice.TOOL else 0.0


def _manner(s: Sentence, dialogue: bool) -> float:
    """What the way it is said takes away."""
    score = 0.0
    text = s.event.text
    if sum(word.weight > 0.15 for word in set(s.words)) < 2:
        score -= 4.0
    if text[s.start] in "[/@":
        score -= 2.0
    if s.shape is Shape.LEAD:
        score -= 1.5
    if s.words and s.words[0].code and s.place > 0:
        score -= 0.5
    if _LEANING.match(text, s.start, s.end):
        score -= 0.8
    if dialogue:
        addressed = any(word.cues & Cue.ADDRESS for word in s.words)
        return score - (0.5 if text[s.end - 1] in "?？" else 0.0) - (0.8 if addressed else 0.0)
    return score - 5.0 if is_errand(text, s.start, s.end) else score


def _score(stretch: Stretch, s: Sentence, last: dict[Voice, int]) -> float:
    score = s.information
    if s.shape is Shape.ERROR:
        return score * 0.5 + 0.8
    if score <= 0.3:
        return 0.0
    if s.event.text[s.start] == "[":
        score -= 0.6
    cues = s.cues = cues_of(s.text, s.cues)
    for cue, worth in _CUE_WORTH:
        if cues & cue:
            score += worth if not stretch.is_dialogue else worth * 0.4
    if stretch.is_dialogue:
        score += 0.6 if cues & Cue.FACT else 0.0
        return score - (1.0 if cues & Cue.QUESTION else 0.0) - (0.7 if cues & Cue.ADDRESS else 0.0)
    if s.voice is Voice.USER:
        score += 1.2 / (1 + s.place)
    elif s.message == last.get(s.voice):
        score += 0.6
    if _LEANING.match(s.text):
        score -= 0.6
    return score
