"""The replay of sessions: what is asked, and by what it is judged."""

from bench.action import Replay, calls_in, ending_of, names_any
from memory_mcp.requests.recall_for import RecalledFor
from memory_mcp.requests.run_statements import Statement
from tests.work_cases import FIRST, SECOND, call


def test_a_failure_is_judged_by_what_ended_a_like_one_before_it() -> None:
    again = call(6, "2026-01-12 09:08", "Bash", "built in 3 s", command="npm run build")
    first, second, *later = calls_in([*FIRST, *again])
    assert [each.failed for each in (first, second, *later)] == [True, False, True, False, False, False]
    assert "types.ts" in ending_of(later[0], later[1:])
    replay = Replay()
    replay.play([*FIRST, *again], is_asked=False)
    replay.play(SECOND, is_asked=True)
    assert [(case.kind, case.right) for case in replay.judged] == [("error", True), ("last end", True), ("command", True)]


def test_only_a_statement_about_the_end_counts() -> None:
    def told(about: str) -> RecalledFor:
        statement = Statement(about=about, text="Edit src/types.ts", grip="", when="")
        return RecalledFor(outcome="resolved", statements=(statement,), scope="")

    wanted, about = frozenset({"types.ts"}), frozenset({"ended"})
    assert names_any(told("ended"), wanted, about)
    assert not names_any(told("in_vain"), wanted, about)
