"""Made-up documents of real language: sentences that people and agents wrote, joined anew, with words coined as they go.

Seeded: the same arguments give the same documents and questions. What there are of sentences is soon used up, so rare
words are exchanged for new ones at the rate at which vocabularies grow (Heaps: distinct words ~ words ** 0.65). Without a
folder of data the sentences are those of `bench.corpus`.

    python -m bench.sentences --data DIR --documents 100000
"""

import argparse
import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import corpus
from memory_mcp.base.text import STOPWORDS

#: Folders of the data, and how often a document is made of each. Most of what a memory of agents holds is about code.
SOURCES = {"commits": 0.5, "qmsum": 0.3, "locomo": 0.2}
#: Characters of a document: a grip's, on the average.
MEAN = 250
#: Growth of vocabularies.
HEAPS = 0.65
PROJECTS = tuple(f"github.com/acme/project-{n:02d}" for n in range(12))
#: Projects by size: the largest has a third of all documents, the smallest a fortieth.
_SHARES = tuple(1 / (n + 1) for n in range(len(PROJECTS)))
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_WORD = re.compile(r"\w+(?:[.\-/]\w+)*")
_SHORTEST, _LONGEST = 15, 400
#: Words that occur so often at most in all sentences may be exchanged for others.
_RARE = 8
#: A rare word is exchanged for one coined before this often: new words are said again.
_AGAIN = 0.15
#: So many of a document's rare words are new at most.
_NEW = 4
#: Sentences that stand near each other: some three times as many as a segment takes.
_NEAR = 240
#: Words from which the growth is measured.
_FIRST = 40_000


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with what is asked of it."""

    text: str
    words: tuple[str, ...]
    #: Those that may be exchanged.
    rare: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A few words of one document; `project` is what it is restricted to, "" nothing."""

    text: str
    project: str


class Language:
    """Sentences by source, and how many words they have."""

    def __init__(self, texts: dict[str, list[str]]) -> None:
        pieces = {name: list(_sentences(own)) for name, own in texts.items()}
        counts = Counter(w.lower() for own in pieces.values() for p in own for w in _WORD.findall(p))
        self.sources = {name: [_sentence(p, counts) for p in own] for name, own in pieces.items()}
        self.weights = [SOURCES.get(name, 1.0) for name in self.sources]
        self.factor = self._grown()

    def _grown(self) -> float:
        """Distinct words per words ** HEAPS among the first thousands, where no sentence has come twice."""
        rng, names = random.Random(5), list(self.sources)
        words: list[str] = []
        while len(words) < _FIRST:
            words += rng.choice(self.sources[rng.choices(names, self.weights)[0]]).words
        return len(set(words)) / math.pow(len(words), HEAPS)

    @classmethod
    def of(cls, data: Path | None) -> "Language":
        """From a folder with units.jsonl files, or made up."""
        if not usable(data):
            return cls({"corpus": [str(e["text"]) for e in corpus.events(5000)]})
        assert data is not None
        return cls({name: _texts(data / name / "units.jsonl") for name in SOURCES})


def usable(data: Path | None) -> bool:
    """Whether the folder holds what is needed."""
    return data is not None and all((data / name / "units.jsonl").exists() for name in SOURCES)


def _texts(path: Path) -> list[str]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def _sentences(texts: Sequence[str]) -> Iterator[str]:
    for text in texts:
        for piece in _SENTENCE.split(text):
            if _SHORTEST <= len(piece.strip()) <= _LONGEST:
                yield piece.strip()


def _sentence(text: str, counts: Counter[str]) -> Sentence:
    words = tuple(_WORD.findall(text))
    return Sentence(text, words, tuple(w for w in words if counts[w.lower()] <= _RARE and len(w) > 2))


class Documents:
    """Texts with a project each, one after another.

    `run` consecutive ones are of one project, and of sentences that stood near each other, as a segment's grips are.
    """

    def __init__(self, language: Language, seed: int = 7, run: int = 25) -> None:
        self._language = language
        self._rng = random.Random(seed)
        self._run = run
        self._seen: set[str] = set()
        #: Words said so far, and words that were coined, each as often as it was said.
        self.words = 0
        self._coined: list[str] = []
        self._number = 0

    @property
    def distinct(self) -> int:
        """Distinct words so far."""
        return len(self._seen)

    def take(self, count: int) -> Iterator[tuple[str, str]]:
        """The next documents: text and project."""
        names = list(self._language.sources)
        near: Sequence[Sentence] = ()
        project = PROJECTS[0]
        for number in range(count):
            if number % self._run == 0:
                project = self._rng.choices(PROJECTS, _SHARES)[0]
                pool = self._language.sources[self._rng.choices(names, self._language.weights)[0]]
                start = self._rng.randrange(max(1, len(pool) - _NEAR))
                near = pool[start : start + _NEAR]
            yield self._document(near), project

    def _document(self, pool: Sequence[Sentence]) -> str:
        # The last sentence goes beyond the length that was drawn.
        wanted = 20 + self._rng.expovariate(1 / (MEAN - 75))
        parts: list[str] = []
        length, due = 0, self._due()
        while length < wanted:
            sentence = pool[int(self._rng.random() * len(pool))]
            text = sentence.text
            self._seen.update(sentence.words)
            self.words += len(sentence.words)
            for word in sentence.rare:
                fresh = due > 0
                if fresh or (self._coined and self._rng.random() < _AGAIN):
                    due -= fresh
                    text = text.replace(word, self._coin(word, fresh), 1)
            parts.append(text)
            length += len(text) + 1
        return " ".join(parts)

    def _due(self) -> int:
        """How many words must be coined now for the vocabulary to grow as it should."""
        missing = self._language.factor * math.pow(max(self.words, 1), HEAPS) - len(self._seen)
        return min(_NEW, math.ceil(missing)) if missing > 0 else 0

    def _coin(self, word: str, fresh: bool) -> str:
        if fresh:
            self._number += 1
            number = self._rng.randrange(10_000)
            stem = word.rpartition("/")[2].partition(".")[0].replace("-", "_")
            form = self._number % 3
            made = (f"{stem}_{number}", f"{stem.title().replace('_', '')}{number}", f"{stem}X{number:04x}")[form]
        else:
            # Drawn from what was said, not from what there is: what was said often is said more often.
            made = self._coined[int(self._rng.random() * len(self._coined))]
        self._seen.add(made)
        self._coined.append(made)
        return made


def questions(documents: Sequence[tuple[str, str]], count: int, seed: int = 11) -> list[Question]:
    """Two to five words of a sentence each, every fifth with an identifier if there is one; half with a project."""
    rng = random.Random(seed)
    found: list[Question] = []
    while len(found) < count:
        text, project = documents[rng.randrange(len(documents))]
        sentence = rng.choice(_SENTENCE.split(text))
        words = [w for w in dict.fromkeys(_WORD.findall(sentence)) if w.lower() not in STOPWORDS and len(w) > 2]
        if len(words) < 2:
            continue
        chosen = rng.sample(words, min(len(words), rng.randint(2, 5)))
        names = [w for w in words if any(c in w for c in "_./0123456789")]
        if names and len(found) % 5 == 0 and not set(names) & set(chosen):
            chosen[-1] = rng.choice(names)
        found.append(Question(" ".join(chosen), project if len(found) % 2 else ""))
    return found


def main() -> None:
    """Say what the documents are like."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--documents", type=int, default=100_000)
    arguments = parser.parse_args()
    if not usable(arguments.data):
        print("no --data DIR with locomo/, commits/ and qmsum/: sentences are made up")
    language = Language.of(arguments.data if usable(arguments.data) else None)
    documents = Documents(language)
    size = 0
    marks = {10**e for e in range(3, 8)} | {arguments.documents}
    for done, (text, _) in enumerate(documents.take(arguments.documents), start=1):
        size += len(text)
        if done in marks:
            told = f"{documents.words:>11,} words, {documents.distinct:>9,} distinct"
            print(f"{done:>9,} documents, {size / done:.0f} characters each, {told}")


if __name__ == "__main__":
    main()
