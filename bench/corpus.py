"""Made-up agent sessions of any size: a Zipf vocabulary of words and identifiers, projects, sessions, months.

Seeded: the same arguments give the same events. `rare` terms are planted, each in exactly one event.
"""

import argparse
import datetime as dt
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

_ONSETS = "b br c ch d dr f fl g gr h j k l m n p pl qu r s sh st t tr v w z".split()
_VOWELS = "a e i o u ai ea ou".split()
_CODAS = ["", "n", "r", "s", "t", "l", "m", "ck", "nd", "st"]
_VERBS = "fix add remove refactor test deploy review debug rename split merge cache retry log document".split()
_FRAMES = (
    "We should {v} the {a} {b} before touching {i}.",
    "The {a} {b} failed because {i} returned {c} instead of {d}.",
    "Can you {v} {i} so that {a} keeps its {b}?",
    "I decided to keep {a} and move {b} into {i}, since {c} was too slow.",
    "Done: {i} now handles {a} {b}, and the {c} tests pass.",
    "It turned out that {a} depends on {b}; {i} hides the {d}.",
    "Let us {v} {a} first, then look at {b} and {c} in {i}.",
)
#: Identifiers of one code base.
_POOL = 3000
START = dt.datetime(2025, 11, 1, 8, tzinfo=dt.UTC)


class Vocabulary:
    """Words by Zipf rank, and identifiers made of them."""

    def __init__(self, rng: random.Random, size: int) -> None:
        words: dict[str, None] = {}
        while len(words) < size:
            word = "".join(rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(rng.randint(1, 3)))
            words[word] = None
        self._rng = rng
        self._words = list(words)
        self._weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(size)))
        self._pool_weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(_POOL)))
        self._pools: dict[str, list[str]] = {}

    def word(self) -> str:
        """One word, common ones often."""
        return self._rng.choices(self._words, cum_weights=self._weights)[0]

    def identifier(self, project: str) -> str:
        """One identifier of a project's own code base, common ones often."""
        if project not in self._pools:
            self._pools[project] = [self._new_identifier() for _ in range(_POOL)]
        return self._rng.choices(self._pools[project], cum_weights=self._pool_weights)[0]

    def _new_identifier(self) -> str:
        a, b = self.word(), self.word()
        return self._rng.choice((f"{a}_{b}", f"{a}{b.capitalize()}", f"src/{a}/{b}.py"))


def events(
    count: int, mean_bytes: int = 550, projects: int = 10, days: int = 365, seed: int = 7, rare: int = 0
) -> Iterator[dict[str, object]]:
    """`count` events in the JSONL form, session by session."""
    rng = random.Random(seed)
    words = Vocabulary(rng, max(5000, count // 5))
    planted = {rng.randrange(count) for _ in range(rare)} if rare else set()
    while len(planted) < rare:
        planted.add(rng.randrange(count))
    terms = iter(rare_terms(rare, seed))
    number = session = 0
    while number < count:
        session += 1
        at = START + dt.timedelta(days=rng.randrange(days), minutes=rng.randrange(540))
        project = f"project-{rng.randrange(projects):02d}"
        for turn in range(min(rng.randint(8, 60), count - number)):
            at += dt.timedelta(seconds=rng.randint(5, 90) if rng.random() > 0.03 else 2400)
            text = _text(rng, words, project, max(60, int(rng.expovariate(1 / mean_bytes))))
            if number in planted:
                text = f"{text} The {next(terms)} came up here."
            yield {
                "session_id": f"s{session:06d}",
                "id": f"e{number:08d}",
                "timestamp": at.isoformat(),
                "role": ("user", "assistant", "assistant", "tool")[turn % 4],
                "text": text,
                "project": project,
                "agent": "bench",
            }
            number += 1


def rare_terms(count: int, seed: int = 7) -> list[str]:
    """Terms that occur nowhere else: made of letters the vocabulary never joins."""
    rng = random.Random(seed + 1)
    letters = "bcdfghjklm"
    return [f"xq{rng.choice('aeiou')}{''.join(letters[int(d)] for d in f'{number:05d}')}x" for number in range(count)]


def _text(rng: random.Random, words: Vocabulary, project: str, size: int) -> str:
    parts: list[str] = []
    length = 0
    while length < size:
        frame = rng.choice(_FRAMES)
        a, b, c, d = (words.word() for _ in range(4))
        part = frame.format(v=rng.choice(_VERBS), a=a, b=b, c=c, d=d, i=words.identifier(project))
        parts.append(part)
        length += len(part) + 1
    return " ".join(parts)


def write(path: Path, count: int, **options: int) -> int:
    """Write `count` events to a JSONL file; its size in bytes."""
    with path.open("w", encoding="utf-8") as out:
        for event in events(count, **options):
            out.write(json.dumps(event) + "\n")
    return path.stat().st_size


def main() -> None:
    """Write a corpus to a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--rare", type=int, default=0)
    arguments = parser.parse_args()
    size = write(arguments.path, arguments.events, rare=arguments.rare)
    print(f"{arguments.events} events, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
