"""Passages as a transformer reads them, and questions to train on with passages that answer and others alike.

Of a long message the stretch that holds most rare words of the question is read; a short one begins with the end of the message
before it. Questions are those of the tuning halves with their own candidates; first sentences of docstrings; the lines of
manual pages; and of meetings questions with the reply after them, sentences with words left out, and what their summaries ask.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.embedder.sets import manual
from bench.locomo import half, load
from bench.reader.files import Ranked, Store
from bench.reader.trials import group_of
from memory_mcp.model.exchange import LISTED_LAST
from memory_mcp.search.layers.score import BOTH, log_odds, rank_candidates

Numbers = NDArray[Any]

#: A word, or a character of a script without spaces; characters of a word that count.
_WORD = re.compile("[\u3040-\u30ff\u4e00-\u9fff]|[^\\W_]+")
_STEM = 6
#: Words of a stretch, how far apart stretches begin, words of a short message, and of the message before that are read.
_STRETCH, _APART, _SHORT, _BEFORE = 55, 20, 30, 20
#: Words of a question that are read.
_ASKED = 32
#: Candidates that are trained on; messages of a session that is gold as a whole; passages alike beside one that answers.
_FIRST, _OF_SESSION, _ALIKE = 40, 3, 24
#: Documents that are looked through together, and what a question's best match in words is worth in log odds.
_TOGETHER, _WORTH = 1500, 2.0
#: Meetings: questions and sentences of one at most, and the share of a sentence's words that stay.
_QUESTIONS, _SENTENCES, _STAYS = 40, 40, 0.6
_SENTENCE = re.compile(r"(?<=[.?!])\s+")


@dataclass(frozen=True, slots=True)
class TextSample:
    """A question with passages, some of which answer it; `gold` sums to 1."""

    group: str
    question: str
    passages: Sequence[str]
    odds: Numbers
    gold: Numbers


def stems(text: str) -> list[str]:
    """The beginnings of a text's words."""
    return [word[:_STEM] for word in _WORD.findall(text.lower())]


def rarities(texts: Iterable[str]) -> Mapping[str, float]:
    """Of each stem: the logarithm of how few texts hold it; unknown ones are worth nothing."""
    counts: dict[str, int] = defaultdict(int)
    total = 0
    for text in texts:
        total += 1
        for stem in set(stems(text)):
            counts[stem] += 1
    return {stem: float(np.log((total + 1) / (count + 0.5))) for stem, count in counts.items()}


def stretch(text: str, question: str, rare: Mapping[str, float]) -> str:
    """The part of a text that holds most rare words of a question."""
    spans = [(match.start(), match.end(), match[0].lower()[:_STEM]) for match in _WORD.finditer(text)]
    if len(spans) <= _STRETCH:
        return text
    worth = {stem: rare.get(stem, 0.0) for stem in stems(question)}
    starts = range(0, len(spans) - _STRETCH + _APART, _APART)
    best = max(starts, key=lambda at: sum(worth.get(s, 0.0) for s in {span[2] for span in spans[at : at + _STRETCH]}))
    return text[spans[best][0] : spans[min(best + _STRETCH, len(spans)) - 1][1]]


class Passages:
    """The messages of a store as passages for a question."""

    def __init__(self, store: Store) -> None:
        """Count the words of a store."""
        self._texts = store.texts
        self._rare = rarities(text.text for text in store.texts)
        self._place = {text.name: at for at, text in enumerate(store.texts)}

    def of(self, question: str, names: Iterable[int]) -> list[str]:
        """What is read of some messages for a question."""
        return [self._passage(question, self._place[name]) for name in names]

    def _passage(self, question: str, at: int) -> str:
        text = self._texts[at]
        shown = stretch(text.text, question, self._rare)
        shown = f"{text.speaker}: {shown}" if text.speaker else shown
        before = self._texts[at - 1] if at and self._texts[at - 1].session == text.session else None
        if before is None or len(_WORD.findall(text.text)) > _SHORT:
            return shown
        words = before.text.split()[-_BEFORE:]
        return f"{' '.join(words)[-200:]} / {shown}"


def shortened(question: str) -> str:
    """The first words of a question."""
    return " ".join(question.split()[:_ASKED])


def is_readable(question: str) -> bool:
    """Whether most letters are of a script that the model was trained on."""
    letters = [character for character in question if character.isalpha()]
    return sum(ord(character) < 0x250 for character in letters) * 2 > len(letters)


def first_candidates(ranked: Ranked, most: int) -> Sequence[int]:
    """Positions of the first candidates of the present order."""
    places: list[int] = rank_candidates(ranked.candidates, BOTH, ranked.literal, most).places.tolist()
    return places


def of_store(store: Store) -> Iterator[TextSample]:
    """Samples of the tuning half of a store's questions, those with a right candidate."""
    passages, texts = Passages(store), {text.name: text for text in store.texts}
    for asked, ranked in zip(store.asked, store.ranked, strict=True):
        if asked.half != "tune" or not is_readable(asked.text):
            continue
        candidates = ranked.candidates
        names = candidates.message.tolist()
        evidence = (candidates.turn & LISTED_LAST) == 0
        order = [place for place in first_candidates(ranked, len(candidates)) if evidence[place]]
        right = {place for place in order if texts[names[place]].session in asked.sessions}
        if asked.messages:
            gold = {place for place in order if texts[names[place]].id in asked.messages}
            left_out: set[int] = set()
        else:
            gold = set([place for place in order if place in right][:_OF_SESSION])
            left_out = right - gold
        kept = [place for at, place in enumerate(order) if (at < _FIRST and place not in left_out) or place in gold]
        if not gold.intersection(kept):
            continue
        answers = np.array([float(place in gold) for place in kept])
        odds = log_odds(candidates.words, candidates.meaning, BOTH)[kept]
        shown = passages.of(asked.text, [names[place] for place in kept])
        yield TextSample(group_of(asked.corpus), shortened(asked.text), shown, odds, answers / answers.sum())


def among_alike(
    group: str, questions: Sequence[tuple[str, frozenset[int]]], texts: Sequence[str], chance: np.random.Generator
) -> Iterator[TextSample]:
    """Questions with the places of what answers them, among the texts that share most rare words with each."""
    rare = rarities(texts)
    postings: dict[str, list[int]] = defaultdict(list)
    sizes = np.ones(len(texts))
    for at, text in enumerate(texts):
        own = set(stems(text))
        sizes[at] = max(len(own), 1)
        for stem in own:
            postings[stem].append(at)
    for question, gold in questions:
        shared = np.zeros(len(texts))
        for stem in set(stems(question)):
            shared[postings.get(stem, [])] += rare.get(stem, 0.0)
        shared /= 0.5 + 0.5 * sizes / sizes.mean()
        near = np.argsort(-shared)[:_ALIKE].tolist()
        kept = sorted({*near, *chance.integers(0, len(texts), 3).tolist(), *gold})
        answers = np.array([float(at in gold) for at in kept])
        passages = [stretch(texts[at], question, rare) for at in kept]
        odds = _WORTH * shared[kept] / max(float(shared.max()), 1e-6)
        yield TextSample(group, shortened(question), passages, odds, answers / answers.sum())


def of_pairs(group: str, pairs: Sequence[tuple[str, str]], chance: np.random.Generator) -> Iterator[TextSample]:
    """First sentences as questions for what follows them."""
    for start in range(0, len(pairs), _TOGETHER):
        some = pairs[start : start + _TOGETHER]
        asked = [(first, frozenset({at})) for at, (first, _) in enumerate(some)]
        yield from among_alike(group, asked, [rest for _, rest in some], chance)


def of_manual(folder: Path, most: int, chance: np.random.Generator) -> Iterator[TextSample]:
    """Lines of manual pages as questions for their descriptions; this model is not measured by them."""
    pages = manual(folder)
    (corpus,) = pages.corpora.values()
    place = {group: at for at, group in enumerate(corpus.groups)}
    pairs = [(query.text, corpus.texts[place[gold]]) for query in pages.queries for gold in list(query.gold)[:1]]
    yield from of_pairs("manual", [pairs[at] for at in chance.permutation(len(pairs))[:most].tolist()], chance)


def of_meetings(folder: Path, chance: np.random.Generator) -> Iterator[TextSample]:
    """Replies, sentences with words left out, and questions of summaries (tuning half) of all meetings."""
    turns: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    asked: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for unit in load(folder / "units.jsonl"):
        turns[unit["corpus"]].append(unit)
    for query in load(folder / "queries.jsonl"):
        if half(query["id"]) == "tune":
            asked[query["corpus"]].append(query)
    for name in sorted(turns):
        yield from _of_meeting([t for t in turns[name] if len(t["text"].split()) >= 3], asked[name], chance)


def _of_meeting(
    turns: Sequence[Mapping[str, Any]], asked: Sequence[Mapping[str, Any]], chance: np.random.Generator
) -> Iterator[TextSample]:
    texts = [f"{turn['role']}: {' '.join(re.sub(r'{[^}]*}', ' ', turn['text']).split())}" for turn in turns]
    place = {turn["id"]: at for at, turn in enumerate(turns)}
    rare = rarities(texts)
    questions: list[tuple[str, frozenset[int]]] = []
    for query in asked:
        gold = [place[identifier] for identifier in query["gold"] if identifier in place]
        worth = {stem: rare.get(stem, 0.0) for stem in stems(query["query"])}
        best = sorted(gold, key=lambda at: -sum(worth.get(stem, 0.0) for stem in set(stems(texts[at]))))
        if 0 < len(gold) <= 30:
            questions.append((query["query"], frozenset(best[:_OF_SESSION])))
    yield from among_alike("meetings", questions, texts, chance)
    replies, asking = [], set()
    for at in range(len(turns) - 1):
        last = _SENTENCE.split(texts[at])[-1]
        if last.endswith("?") and 5 <= len(last.split()) <= 30 and len(texts[at + 1].split()) >= 8:
            replies.append((last, at + 1))
    for number in chance.permutation(len(replies))[:_QUESTIONS].tolist():
        asking.add(replies[number][1] - 1)
    # A turn that asks holds the question's own words and no answer.
    kept = [at for at in range(len(texts)) if at not in asking]
    new_place = {old: new for new, old in enumerate(kept)}
    texts = [texts[at] for at in kept]
    questions = [(q, frozenset({new_place[at]})) for q, at in replies if at - 1 in asking and at in new_place]
    long = [at for at, text in enumerate(texts) if 30 <= len(text.split()) <= 200]
    for at in chance.permutation(long)[:_SENTENCES].tolist():
        sentences = _SENTENCE.split(texts[at])
        number = int(chance.integers(len(sentences)))
        words = sentences[number].split()
        if 6 <= len(words) <= 30:
            questions.append((" ".join(word for word in words if chance.random() < _STAYS), frozenset({at})))
            if chance.random() < 0.5:
                texts[at] = " ".join(sentences[:number] + sentences[number + 1 :])
    yield from among_alike("meetings", questions, texts, chance)
