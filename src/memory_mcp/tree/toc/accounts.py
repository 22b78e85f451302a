"""What was asked, came of it, was decided and is open in a project, from its stretches: each session once. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from memory_mcp.tree.toc.statements import Said, Stretch, results_of, rules_of

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
    request and outcome, each followed by another decision; then further results. No statement is repeated; () where
    nothing was asked of an agent.

    Args:
        stretches: Those of one project, newest first, notes included.
        with_open: Whether what is open is told; not of a time after which the work went on.

    """
    sessions: dict[str, list[Stretch]] = {}
    for stretch in stretches:
        sessions.setdefault(stretch.session, []).append(stretch)
    work = [several for several in sessions.values() if _is_work(several)]
    if not work:
        return []
    rules = [rule for stretch in stretches for rule in rules_of(stretch)]
    decisions = iter([Line(Part.DECIDED, said, label) for said, label in rules if label == _DECISION])
    lines: list[Line] = []
    further: list[Line] = []
    for number, several in enumerate(work):
        asked = next((one.asked for one in reversed(several) if one.asked is not None), None)
        results = _results_in(several)
        ends = [Line(Part.OPEN, said, label) for one in several for said, label in one.open_ends] if with_open else []
        lines += [Line(Part.ASKED, asked, "asked")] if asked is not None else []
        lines += results[:1]
        # Of an earlier session one is enough.
        lines += ends if number == 0 else ends[:1]
        lines += islice(decisions, 1)
        further += results[1 : 1 + _MORE_RESULTS]
    return list(_distinct([*lines, *decisions, *further]))


def _is_work(session: Sequence[Stretch]) -> bool:
    """Return whether an agent answered in a session, or is to; people who talk to each other and records ask nothing of one."""
    quoted = [said for one in session for said in (one.asked, one.closing) if said is not None]
    has_agent = any(said.speaker == "agent" for one in session for said in (*quoted, *one.said))
    return all(said.speaker in ("user", "agent") for said in quoted) and (has_agent or any(one.open_ends for one in session))


def _results_in(session: Sequence[Stretch]) -> list[Line]:
    """Return what came of a session, the last first: commits name the work itself, and "all tests pass" says less of it."""
    results = [Line(Part.DONE, said, label) for one in session for said, label in results_of(one)]
    commits = [subject for one in session for subject in one.doings.commits]
    results.sort(key=lambda line: (not any(c in line.said.text for c in commits), len(line.said.text) < _TELLING))
    return results


def _distinct(lines: Iterable[Line]) -> Iterable[Line]:
    """Yield lines whose words were not told before; what is open may repeat what was asked: it says in what way."""
    told: set[str] = set()
    for line in lines:
        words = line.said.text.casefold()
        if words not in told or line.part is Part.OPEN:
            told.add(words)
            yield line
