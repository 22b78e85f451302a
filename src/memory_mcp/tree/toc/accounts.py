"""What was asked, came of it, was decided and is open in a project, from its stretches: each session once. Pure."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import islice

from memory_mcp.base.dataclass import dataclass
from memory_mcp.tree.toc.statements import QuotedStatement, StretchView, stretch_results, stretch_rules

#: Results of one session after its first.
_MORE_RESULTS = 2
#: Characters below which a result says little.
_MIN_RESULT = 32
#: The label of a rule that was decided.
_DECISION = "decision"


class AccountPart(StrEnum):
    """The part of an account that a statement is in."""

    ASKED = "asked"
    DONE = "done"
    DECIDED = "decided"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class AccountLine:
    """One statement of an account, with its label."""

    part: AccountPart
    statement: QuotedStatement
    label: str


def account_lines(stretches: Sequence[StretchView], *, with_open: bool = True) -> list[AccountLine]:
    """Return a project's account, the most important lines first.

    First the newest session's request, outcome and open ends, then a decision; then each earlier session's request and outcome,
    each followed by another decision; then further results. No statement is repeated; [] if nothing was asked of an agent.

    Args:
        stretches: Those of one project, newest first, notes included.
        with_open: Whether open ends are among them; not of a time after which the work went on.

    """
    sessions: dict[str, list[StretchView]] = {}
    for stretch in stretches:
        sessions.setdefault(stretch.session, []).append(stretch)
    work = [session_stretches for session_stretches in sessions.values() if _is_work(session_stretches)]
    if not work:
        return []
    rules = [rule for stretch in stretches for rule in stretch_rules(stretch)]
    decisions = iter([AccountLine(AccountPart.DECIDED, statement, label) for statement, label in rules if label == _DECISION])
    lines: list[AccountLine] = []
    further: list[AccountLine] = []
    for number, session_stretches in enumerate(work):
        request = next((s.first_request for s in reversed(session_stretches) if s.first_request is not None), None)
        results = _session_results(session_stretches)
        open_ends = [end for stretch in session_stretches for end in stretch.open_ends] if with_open else []
        ends = [AccountLine(AccountPart.OPEN, statement, label) for statement, label in open_ends]
        lines += [AccountLine(AccountPart.ASKED, request, "asked")] if request is not None else []
        lines += results[:1]
        # Of an earlier session one is enough.
        lines += ends if number == 0 else ends[:1]
        lines += islice(decisions, 1)
        further += results[1 : 1 + _MORE_RESULTS]
    return list(_drop_repeated([*lines, *decisions, *further]))


def _is_work(session: Sequence[StretchView]) -> bool:
    statements = [
        statement for stretch in session for statement in (stretch.first_request, stretch.closing_words) if statement is not None
    ]
    has_agent = any(statement.speaker == "agent" for stretch in session for statement in (*statements, *stretch.statements))
    return all(statement.speaker in ("user", "agent") for statement in statements) and (
        has_agent or any(stretch.open_ends for stretch in session)
    )


def _session_results(session: Sequence[StretchView]) -> list[AccountLine]:
    results = [
        AccountLine(AccountPart.DONE, statement, label) for stretch in session for statement, label in stretch_results(stretch)
    ]
    commits = [subject for stretch in session for subject in stretch.work.commits]
    results.sort(key=lambda line: (not any(c in line.statement.text for c in commits), len(line.statement.text) < _MIN_RESULT))
    return results


def _drop_repeated(lines: Iterable[AccountLine]) -> Iterable[AccountLine]:
    emitted: set[str] = set()
    for line in lines:
        folded_text = line.statement.text.casefold()
        if folded_text not in emitted or line.part is AccountPart.OPEN:
            emitted.add(folded_text)
            yield line
