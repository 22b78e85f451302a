"""What was asked, came of it, was decided and is open in a project, from its stretches: each session once. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from memory_mcp.toc.statements import Said, Stretch, facts_of, results_of, rules_of

#: Results of one session after its first.
_MORE_RESULTS = 2
#: Characters below which a result says little.
_TELLING = 32
#: The label of a rule that was decided.
_DECISION = "decision"


class Part(StrEnum):
    """What a statement of an account tells."""

    ASKED = "asked"
    DONE = "done"
    DECIDED = "decided"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Line:
    """One statement of an account, with its label."""

    part: Part
    said: Said
    label: str


def account_lines(stretches: Sequence[Stretch], *, with_open: bool = True) -> list[Line]:
    """Return the lines of a project's account, the most important first: of a long account the last ones are left out.

    First what the newest session was asked, what came of it and what is open, then a decision; then each earlier session's
    request and outcome, each followed by another decision; then further results. No statement is repeated.

    Args:
        stretches: Those of one project, newest first, notes included.
        with_open: Whether what is open is told; not of a time after which the work went on.

    """
    sessions: dict[str, list[Stretch]] = {}
    for stretch in stretches:
        sessions.setdefault(stretch.session, []).append(stretch)
    decisions = iter(
        [Line(Part.DECIDED, said, label) for one in stretches for said, label in rules_of(one) if label == _DECISION]
    )
    lines: list[Line] = []
    further: list[Line] = []
    for number, several in enumerate(sessions.values()):
        asked = next((one.asked for one in reversed(several) if one.asked is not None), None)
        results = [Line(Part.DONE, said, label) for one in several for said, label in results_of(one)]
        # "All tests pass" says less of the work than what comes with it.
        results.sort(key=lambda line: len(line.said.text) < _TELLING)
        lines += [Line(Part.ASKED, asked, "asked")] if asked is not None else []
        lines += results[:1]
        further += results[1 : 1 + _MORE_RESULTS]
        ends = [Line(Part.OPEN, said, label) for one in several for said, label in one.open_ends] if with_open else []
        # Of an earlier session one is enough.
        lines += ends if number == 0 else ends[:1]
        lines += [line for _, line in zip(range(1), decisions, strict=False)]
    return list(_distinct([*lines, *decisions, *further]))


def facts_line(stretches: Sequence[Stretch]) -> str:
    """Return commits, tests and where the work of the newest stretch went, in words; "" for none."""
    return next((facts for one in stretches if (facts := facts_of(one.doings, place=False))), "")


def _distinct(lines: Iterable[Line]) -> Iterable[Line]:
    """Yield lines whose words were not told before; what is open may repeat what was asked, because it says more of it."""
    told: set[str] = set()
    for line in lines:
        words = line.said.text.casefold()
        if words not in told or line.part is Part.OPEN:
            told.add(words)
            yield line
