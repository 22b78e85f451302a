"""Compare embedding models on the titles and segments of one memory: which model finds more segments by their titles.

A title is taken from its segment, so sentences that share most of its words are left out of the segment first: what is
counted is meaning, not an echo. The memory is opened and must not be in use (`memory-mcp daemon stop`).

    python -m bench.embedder.trial [--data-dir DIR] [--limit 1000] [MODEL ...]
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_mcp.app import App
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.base.text import term_set
from memory_mcp.config import load
from memory_mcp.embed.base import Vectors
from memory_mcp.embed.model2vec import Model2Vec
from memory_mcp.embed.models import BUNDLED, Model, iter_fetched_models, locate_model, resolve_model
from memory_mcp.indexes.document import subject_of
from memory_mcp.indexes.units import iter_frames
from memory_mcp.model.calendar import TocLevel

#: A title is found when its segment is among so many.
FOUND_IN = 10
#: Titles that are asked for, and fewer than which decide nothing.
TITLES, FEW = 1000, 20
#: Characters of a segment that are read, and terms that must be left of one.
_READ, _LEAST_TERMS = 4000, 8
_LEAST_TITLE = 2
#: Share of a title's terms from which on a sentence counts as its echo.
_ECHO = 0.5
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
#: Titles that are compared at once.
_BATCH = 256
_RESAMPLED = 2000


@dataclass(frozen=True, slots=True)
class Pair:
    """A title, and what is left of its stretch."""

    title: str
    stretch: str


@dataclass(frozen=True, slots=True)
class Difference:
    """How much more of the titles one model finds than another, as shares, with the middle 95 % of resampled ones."""

    mean: float
    low: float
    high: float

    @property
    def told(self) -> bool:
        """Whether it is more than chance."""
        return self.low > 0 or self.high < 0


def pair(title: str, said: Sequence[str]) -> Pair | None:
    """One question of the test from a title and the texts below it; None where too little is left to ask about."""
    wanted = term_set(title)
    if len(wanted) < _LEAST_TITLE:
        return None
    kept, length = [], 0
    for sentence in (s for text in said for s in _SENTENCE.split(text)):
        if length < _READ and len(term_set(sentence) & wanted) < _ECHO * len(wanted):
            kept.append(sentence)
            length += len(sentence)
    stretch = " ".join(kept)[:_READ]
    return Pair(title, stretch) if len(term_set(stretch)) >= _LEAST_TERMS else None


def ranks(titles: Vectors, stretches: Vectors) -> NDArray[np.int64]:
    """Of each title the place of its own stretch among all, from 1; equals count against it, and so do rows of zeros."""
    found = np.empty(len(titles), dtype=np.int64)
    for start in range(0, len(titles), _BATCH):
        scores = titles[start : start + _BATCH] @ stretches.T
        own = scores[np.arange(len(scores)), start + np.arange(len(scores))]
        found[start : start + _BATCH] = (scores >= own[:, None]).sum(axis=1)
    return found


def difference(ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> Difference:
    """Between two models on the same titles."""
    each = (ours <= FOUND_IN).astype(np.int64) - (theirs <= FOUND_IN)
    # Each title says -1, 0 or 1: how often each is drawn again is all that resampling needs.
    shares = np.array([(each == value).mean() for value in (-1, 0, 1)])
    drawn = np.random.default_rng(0).multinomial(len(each), shares, _RESAMPLED) @ np.array([-1, 0, 1]) / len(each)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Difference(float(each.mean()), float(low), float(high))


def compared(app: App, names: Sequence[str]) -> list[Model]:
    """Models by name, or every one that is on this machine."""
    home, setting = app.settings.storage.directory, app.settings.embedder.model
    if names:
        chosen = [locate_model(name, home) for name in names]
    else:
        used = [resolve_model(setting, home)] if setting else []
        chosen = [m for m in (resolve_model(BUNDLED, home), *used, *iter_fetched_models(home)) if m.is_complete]
    return list({m.folder: m for m in chosen}.values())


def pairs_of(app: App, limit: int) -> list[Pair]:
    """Questions from at most `limit` segments, spread evenly over the memory."""
    ids = app.storage.toc.list_ids(TocLevel.SEGMENT)
    step = max(len(ids) / limit, 1.0)
    chosen = [ids[int(i * step)] for i in range(min(limit, len(ids)))]
    sources = (s for frame in iter_frames(app.storage, chosen) for s in frame)
    found = (pair(subject_of(s.node), [e.text for e in s.events]) for s in sources)
    return [p for p in found if p is not None]


def verdict(found: dict[str, NDArray[np.int64]]) -> dict[str, Any]:
    """From the ranks of all titles by model: what each finds, which finds most, and how far the others are behind."""
    best = max(found, key=lambda name: ((found[name] <= FOUND_IN).mean(), (1 / found[name]).mean()))
    rows = []
    for name, places in found.items():
        row: dict[str, Any] = {
            "name": name,
            "found_first": float((places == 1).mean()),
            f"found_in_{FOUND_IN}": float((places <= FOUND_IN).mean()),
        }
        if name != best:
            less = difference(places, found[best])
            row |= {"difference": less.mean, "interval": [less.low, less.high], "certain": less.told}
        rows.append(row)
    return {"models": rows, "finds_more": best}


def lines(titles: int, data: dict[str, Any]) -> Iterator[str]:
    """The verdict as people read it."""
    yield f"{titles:,} titles asked for among as many segments, by meaning alone:"
    yield f"  {'model':<36} {'first':>7} {f'in {FOUND_IN}':>7}"
    for row in data["models"]:
        told = f"  {row['name']:<36} {row['found_first']:>7.1%} {row[f'found_in_{FOUND_IN}']:>7.1%}"
        if "interval" in row:
            low, high = (100 * x for x in row["interval"])
            told += f"   {100 * row['difference']:+.1f} points [{low:+.1f}, {high:+.1f}]"
        yield told
    others = [r for r in data["models"] if r["name"] != data["finds_more"]]
    certain = all(r["certain"] for r in others)
    yield f"{data['finds_more']} finds {'more' if certain else 'most, by no more than chance can do'}."


def main() -> int:
    """Ask for each title's segment by each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="models to compare (every one on this machine)")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the memory (setting storage.data_dir)")
    parser.add_argument("--limit", type=int, default=TITLES, metavar="N", help=f"most titles to ask for ({TITLES})")
    args = parser.parse_args()
    app = App(load(flags={"storage.data_dir": args.data_dir}))
    try:
        models, pairs = compared(app, args.models), pairs_of(app, max(args.limit, FEW))
    finally:
        app.close()
    if len(pairs) < FEW:
        sys.exit(f"the memory has {len(pairs)} segments to ask for, which decides nothing (at least {FEW})")
    found = {}
    for model in models:
        own = Model2Vec(model.folder)
        found[model.name] = ranks(own.embed([p.title for p in pairs]), own.embed([p.stretch for p in pairs]))
    print("\n".join(lines(len(pairs), verdict(found))))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except MemoryMcpError as error:
        sys.exit(str(error))
