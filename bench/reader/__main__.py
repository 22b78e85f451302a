"""Try late interaction on dumped candidates, with the bundled model's token rows or with trained ones.

    python -m bench.reader match DUMP [--mixed 0 0.25]                 step 1: no new weights
    python -m bench.reader train DUMP --rows FILE [--leave-out GROUP ...]  step 2: train rows on the tuning halves
    python -m bench.reader match DUMP --rows FILE                      step 1 with those rows

`match` chooses one shape and factor for all corpora on the tuning halves, by the mean over all their questions, and prints the
differences to the present order on the held halves.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.reader.files import Store, read_stores
from bench.reader.measure import comparison
from bench.reader.orders import Way
from bench.reader.samples import Sampler, docstring_pairs
from bench.reader.tokens import Rows, Vocabulary
from bench.reader.train import Recipe, Sample, Trainer
from bench.reader.trials import Trials, cases_of, found_with, group_of

#: Docstrings that are trained on, and what their group counts beside one of the corpora.
_DOCSTRINGS, _SHARE = 400, 0.5


def match(stores: Sequence[Store], rows: Rows | None, mixed: Sequence[float]) -> None:
    """Print what late interaction changes on the held halves."""
    vocabulary = Vocabulary()
    for share in mixed:
        began = time.process_time()
        cases = cases_of(stores, vocabulary, vocabulary.unit_rows if rows is None else rows, share)
        cost = 1000 * (time.process_time() - began) / max(len(cases), 1)
        before = found_with(cases, None)
        trials = Trials.of(cases)
        print(f"# neighbours mixed in: {share}; {cost:.1f} ms of CPU a question\n")
        for way in Way:
            shape, joining = trials.best(way)
            print(f"## {shape}, {way} {joining.factor}\n\n{comparison(before, found_with(cases, shape, joining), 'held')}\n")
        print(f"chosen of all: {trials.best()}")
        for group in sorted({group_of(one.corpus) for one in before}):
            print(f"chosen without {group}: {trials.best(leave_out=group)}")


def train(stores: Sequence[Store], packages: Path | None, leave_out: Sequence[str]) -> Rows:
    """Train on the tuning halves of all groups but some, and on docstrings."""
    sampler = Sampler(Vocabulary())
    samples = [sample for store in stores for sample in sampler.of_store(store) if sample.group not in leave_out]
    if packages is not None:
        samples += sampler.of_pairs(docstring_pairs(packages, _DOCSTRINGS))
    trainer = Trainer(Vocabulary().unit_rows.copy(), Recipe())
    for number, loss in enumerate(trainer.train(samples, shares_of(samples)), 1):
        print(f"round {number}: loss {loss:.3f}, factor {trainer.factor:.1f}", flush=True)
    return trainer.rows


def shares_of(samples: Sequence[Sample]) -> list[float]:
    """What each sample counts, so that groups count alike, on average 1."""
    sizes = Counter(sample.group for sample in samples)
    worth = {group: (_SHARE if group == "docstrings" else 1.0) / size for group, size in sizes.items()}
    return [worth[sample.group] * len(samples) / len(sizes) for sample in samples]


def main(given: Sequence[str]) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m bench.reader", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("match", "train"):
        command = commands.add_parser(name)
        command.add_argument("dump", type=Path, help="folder that bench.reader.dump wrote")
        command.add_argument("--rows", type=Path, required=name == "train", help="trained rows, as numpy saves them")
    commands.choices["match"].add_argument("--mixed", nargs="+", type=float, default=[0.0], help="share of a token's neighbours")
    commands.choices["train"].add_argument("--packages", type=Path, help="folder of installed packages, for docstrings")
    commands.choices["train"].add_argument("--leave-out", nargs="+", default=[], help="groups of corpora that are not trained on")
    arguments = parser.parse_args(given)
    stores = list(read_stores(arguments.dump))
    if arguments.command == "match":
        match(stores, None if arguments.rows is None else np.load(arguments.rows), arguments.mixed)
    else:
        np.save(arguments.rows, train(stores, arguments.packages, arguments.leave_out))
    return 0


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main(sys.argv[1:]))
