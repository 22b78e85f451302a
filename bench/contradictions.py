"""Whether a newer statement that contradicts an older one is told from one that does not: the rule against labelled pairs.

The labels (bench/labels/contradictions.jsonl) name sentences by place and hash, and hold none of their words; the texts are
in `--data`. A label with "held_out" is of the half kept aside, by a hash of both sentences: it is counted with `--held-out`
only. Pairs that are "made" are a real statement with one slot of it put in from another place; they are counted apart.

    python -m bench.contradictions --data DIR [--held-out] [--wrong]
    python -m bench.contradictions --data DIR --all
"""

import argparse
import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.kinds import TRANSCRIPTS, _events
from memory_mcp.tree.summarize.contradictions import Claim, contradicts, parse_claim
from memory_mcp.tree.summarize.kinds import cues_of, kind_of
from memory_mcp.tree.summarize.sentences import clean_text, find_spans

LABELS = Path(__file__).parent / "labels" / "contradictions.jsonl"
CORPORA = ("locomo", "commits", "qmsum", "lifebench")
#: What a phone shows and what it photographs is nobody's statement.
_NOBODY = ("push", "photo", "tool")
#: Characters of a message that are read, and of a sentence.
_READ, _SENTENCE = 20_000, (12, 400)
#: Statements that hold a term, above which it says nothing of what a statement is about.
_COMMON = 200

Texts = dict[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two statements, the older first, and whether the newer contradicts it, as was read and as the rule says."""

    older: str
    newer: str
    label: bool
    found: bool
    made: bool


def texts(data: Path) -> Texts:
    """Every message by corpus and unit."""
    found: Texts = {}
    for corpus in CORPORA:
        for line in (data / corpus / "units.jsonl").read_text(encoding="utf-8").splitlines():
            unit = json.loads(line)
            found[f"{corpus}/{unit['corpus']}", str(unit["id"])] = unit["text"]
    for name in TRANSCRIPTS:
        found |= {("transcripts/" + name, unit): event.text for event, unit in _events(data / "transcripts" / name)}
    return found


def judged(data: Path, *, held_out: bool, labels: Path = LABELS) -> tuple[list[Pair], int]:
    """The labelled pairs of one half, and how many of its labels no longer fit the data."""
    known = texts(data)
    wanted = [one for one in map(json.loads, labels.read_text(encoding="utf-8").splitlines()) if one["held_out"] == held_out]
    found = []
    for label in wanted:
        older = _sentence(known, label["older"])
        newer = _made(known, older, label["made"]) if "made" in label else _sentence(known, label["newer"])
        if older and newer:
            found.append(Pair(older, newer, label["contradicts"], _says(older, newer), "made" in label))
    return found, len(wanted) - len(found)


def _sentence(known: Texts, place: dict[str, Any]) -> str:
    text = clean_text(known.get((place["corpus"], place["unit"]), "")[place["start"] : place["end"]])
    return text if hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() == place["sha1"] else ""


def _made(known: Texts, older: str, made: dict[str, Any]) -> str:
    """The older statement with one slot put in from another place."""
    source = made["from"]
    slot = known.get((source["corpus"], source["unit"]), "")[source["start"] : source["end"]]
    return older[: made["start"]] + slot + older[made["end"] :] if older and slot else ""


def _claim(text: str) -> Claim | None:
    return parse_claim(text, kind_of(text, cues_of(text)))


def _says(older: str, newer: str, apart: bool = False) -> bool:
    first, second = _claim(older), _claim(newer)
    return first is not None and second is not None and contradicts(second, first, apart)


def report(pairs: list[Pair]) -> None:
    """Precision and recall, with the counts they are made of."""
    print(f"{'':9}{'pairs':>6}{'labelled':>10}{'said':>6}{'right':>7}{'precision':>11}{'recall':>8}")
    for name, own in (("found", [p for p in pairs if not p.made]), ("made", [p for p in pairs if p.made])):
        labelled, said = sum(p.label for p in own), sum(p.found for p in own)
        right = sum(p.label and p.found for p in own)
        precision = f"{right / said:.2f}" if said else "-"
        print(f"{name:9}{len(own):6}{labelled:10}{said:6}{right:7}{precision:>11}{right / max(labelled, 1):8.2f}")


def everywhere(data: Path) -> Iterator[tuple[str, str]]:
    """Every pair of statements of one corpus of which the newer contradicts the older, as the rule says."""
    for name, claims in _claims(data).items():
        holding: dict[str, list[int]] = defaultdict(list)
        for at, (day, text, claim) in enumerate(claims):
            sharing = Counter(i for term in claim.terms if len(holding[term]) <= _COMMON for i in holding[term])
            for i in sorted(sharing):
                if contradicts(claim, claims[i][2], day != claims[i][0]):
                    yield f"{name}: {claims[i][1]}", text
            for term in claim.terms:
                holding[term].append(at)


def _claims(data: Path) -> dict[str, list[tuple[str, str, Claim]]]:
    """Statements of every corpus with their days, in order."""
    found: dict[str, list[tuple[str, str, Claim]]] = defaultdict(list)
    for corpus in CORPORA:
        for line in (data / corpus / "units.jsonl").read_text(encoding="utf-8").splitlines():
            unit = json.loads(line)
            if unit.get("role") in _NOBODY:
                continue
            text = unit["text"][:_READ]
            said = (clean_text(text[s.start : s.end]) for s in find_spans(text))
            for sentence in (s for s in said if _SENTENCE[0] <= len(s) <= _SENTENCE[1]):
                if (claim := _claim(sentence)) is not None:
                    found[f"{corpus}/{unit['corpus']}"].append((str(unit["ts"]), sentence, claim))
    return {name: [(ts[:10], text, claim) for ts, text, claim in sorted(own, key=lambda c: c[0])] for name, own in found.items()}


def main() -> int:
    """Print the table; exit 0 also when there is no data."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--held-out", action="store_true", help="score the half kept aside instead of the other")
    parser.add_argument("--wrong", action="store_true", help="print what was told wrongly, of the half not kept aside")
    parser.add_argument("--all", action="store_true", help="print every pair that the rule finds in the data, to be read")
    options = parser.parse_args()
    wanted = [*(options.data / c / "units.jsonl" for c in CORPORA), *(options.data / "transcripts" / t for t in TRANSCRIPTS)]
    if missing := [path for path in wanted if not path.exists()]:
        print(f"skipped: {missing[0]} and {len(missing) - 1} other files are not there")
        return 0
    if options.all:
        for older, newer in everywhere(options.data):
            print(f"{older}\n    {newer}")
        return 0
    pairs, lost = judged(options.data, held_out=options.held_out)
    print(f"{len(pairs)} pairs of the {'held-out' if options.held_out else 'tuning'} half, {lost} labels fit no text")
    report(pairs)
    if options.wrong and not options.held_out:
        for pair in sorted((p for p in pairs if p.label != p.found), key=lambda p: (p.made, p.label)):
            print(f"{'contradicts' if pair.label else 'holds beside'}: {pair.older}\n    {pair.newer}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
