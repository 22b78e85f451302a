"""What share of secrets the gate takes out: some 370 kinds in four surroundings each.

The list was written before the rules that are measured by it were read, from what vendors say of their formats. Kinds are
numbered by the hash of their names. Rules were mended looking at the odd ones; of the even ones only the total is told.
A fourth list of 72 other kinds was committed before the rules were first run on it; no rule was mended by it. So was a fifth,
of the forms of 2026, whose odd kinds rules were mended by afterwards.

    python -m bench.secrets [--left] [--fourth] [--fifth]
"""

import argparse
import hashlib
import random
from collections import Counter
from collections.abc import Iterator

from bench.secrets import tokens, told
from bench.secrets.fifth import FIFTH
from bench.secrets.fourth import FOURTH
from bench.secrets.kind import ALL, Kind
from memory_mcp.capture.gate import Gate
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import EventDraft, EventType, Role

PER_KIND = 60
#: Loading the tables fills the list.
TABLES = (tokens, told)
ORDERED = sorted(ALL, key=lambda kind: hashlib.sha256(kind.name.encode()).hexdigest())


def half(odd: bool) -> list[tuple[str, Kind]]:
    """Kinds of the third list, each with its seed."""
    return [(f"third-{number}-{kind.name}", kind) for number, kind in enumerate(ORDERED, 1) if number % 2 == odd]


def fourth() -> list[tuple[str, Kind]]:
    """Kinds of the fourth list, each with its seed."""
    return [(f"fourth-{number}-{kind.name}", kind) for number, kind in enumerate(FOURTH, 1)]


def fifth(odd: bool) -> list[tuple[str, Kind]]:
    """Kinds of the fifth list, each with its seed."""
    ordered = sorted(FIFTH, key=lambda kind: hashlib.sha256(kind.name.encode()).hexdigest())
    return [(f"fifth-{number}-{kind.name}", kind) for number, kind in enumerate(ordered, 1) if number % 2 == odd]


def show(left: Counter[str]) -> None:
    """Print how many texts of each kind remain, the most first."""
    for name, count in left.most_common():
        print(f"{count:5} {name}" * bool(count), end="\n" * bool(count))


def placed(template: str, value: str) -> str:
    """{v}: as it is; {j}: line feeds as JSON escapes; {i}: indented by what stands before it."""
    if "{i}" in template:
        line = next(one for one in template.split("\n") if "{i}" in one)
        return template.replace("{i}", value.replace("\n", "\n" + line[: len(line) - len(line.lstrip())]))
    return template.replace("{j}", value.replace("\n", "\\n")).replace("{v}", value)


def samples(kinds: list[tuple[str, Kind]]) -> Iterator[tuple[str, list[str], list[str]]]:
    """A kind's name, one value in its four surroundings, and the parts that must be gone."""
    for seed, kind in kinds:
        rng = random.Random(seed)
        for _ in range(PER_KIND):
            text, gone = kind.make(rng)
            yield kind.name, [placed(one, text) for one in (kind.env, kind.line, kind.config, kind.prose)], gone


def survives(out: str, gone: list[str]) -> bool:
    """Whether half of a short part, or 12 signs in a row of a long one, can still be read."""
    for part in gone:
        size = min(12, max(4, (len(part) + 1) // 2))
        if any(part[i : i + size] in out for i in range(len(part) - size + 1)):
            return True
    return False


def measure(gate: Gate, label: str, kinds: list[tuple[str, Kind]]) -> Counter[str]:
    """Print the shares; what was left, by kind."""
    left: Counter[str] = Counter()
    texts = values = safe = 0
    for name, placed_in, gone in samples(kinds):
        remained = sum(survives(cleaned(gate, text), gone) for text in placed_in)
        texts, values, safe = texts + len(placed_in), values + 1, safe + (not remained)
        left[name] += remained
    share = 100 * (texts - left.total()) / texts
    print(f"{label}: {texts} texts, {share:.2f} % gone; {100 * safe / values:.2f} % of values in all four")
    return left


def cleaned(gate: Gate, text: str) -> str:
    draft = EventDraft(session_id="s", role=Role.USER, type=EventType.TOOL_RESULT, text=text, timestamp=1_767_603_600_000)
    clean = gate.clean_draft(draft, ImportReport())
    return clean.text if clean else ""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--left", action="store_true", help="name the open kinds that remain")
    parser.add_argument("--open", action="store_true", help="measure the open half alone")
    parser.add_argument("--fourth", action="store_true", help="measure the fourth list too")
    parser.add_argument("--fifth", action="store_true", help="measure the fifth list alone")
    wanted = parser.parse_args()
    gate = Gate()
    if wanted.fifth:
        left = measure(gate, "fifth, open", fifth(odd=True))
        if wanted.left:
            show(left)
        measure(gate, "fifth, held", fifth(odd=False))
        return
    left = measure(gate, "open", half(odd=True))
    if wanted.left:
        show(left)
    if not wanted.open:
        measure(gate, "held", half(odd=False))
    if wanted.fourth:
        measure(gate, "fourth", fourth())


if __name__ == "__main__":
    main()
