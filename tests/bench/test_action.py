"""The replay of sessions: what is asked, and by what it is judged."""

import re

from bench.action import Replay, are_alike, calls_in, ending_of, names_any
from memory_mcp.requests.recall_for import RecalledFor
from memory_mcp.requests.run_statements import Statement
from tests.work_cases import ERROR, FIRST, SECOND, call


def test_a_failure_is_judged_by_what_ended_a_like_one_before_it() -> None:
    again = call(6, "2026-01-12 09:08", "Bash", "built in 3 s", command="npm run build")
    first, second, *later = calls_in([*FIRST, *again])
    assert [each.failed for each in (first, second, *later)] == [True, False, True, False, False, False]
    assert "types.ts" in ending_of(later[0], later[1:])
    replay = Replay()
    replay.play([*FIRST, *again], is_asked=False)
    replay.play(SECOND, is_asked=True)
    assert [(case.kind, case.right) for case in replay.judged] == [("error", True), ("last end", True), ("command", True)]


def test_errors_are_alike_by_words_that_calls_of_the_name_do_not_print_when_they_succeed() -> None:
    printed = "all other packages passed here and were cached from the last full build, then the summary was written"
    errors = (f"{printed}\nundefined name regexp used twice", f"{printed}\ntimeout while waiting for locks")
    [former, other] = calls_in(
        [
            *call(1, "2026-01-12 09:01", "Bash", errors[0], failed=True, command="cd a && make 2>&1"),
            *call(2, "2026-01-12 09:02", "Bash", errors[1], failed=True, command="make | tail -5"),
        ]
    )
    assert former.subject == other.subject == "make"
    assert are_alike(former, other)
    assert not are_alike(former, other, usual=set(re.findall(r"\w{3,}", printed)))
    assert are_alike(former, former, usual={"cached"})
    [silent] = calls_in(call(3, "2026-01-12 09:03", "Bash", "Exit code 7", failed=True, command="make"))
    assert not are_alike(silent, silent)


def test_what_was_done_before_the_call_failed_for_another_reason_counts() -> None:
    other = "FATAL: the disk is full, nothing was written to the cache"
    failed, *later = calls_in(
        [
            *call(1, "2026-01-12 09:01", "Bash", ERROR, failed=True, command="npm run build"),
            *call(2, "2026-01-12 09:02", "Edit", "ok", files="/home/ada/shop/src/types.ts"),
            *call(3, "2026-01-12 09:03", "Bash", other, failed=True, command="npm run build"),
            *call(4, "2026-01-12 09:04", "Bash", "freed", command="npm cache clean"),
            *call(5, "2026-01-12 09:05", "Bash", "built", command="npm run build | tail -3"),
        ]
    )
    assert ending_of(failed, later) == {"types.ts", "npm cache clean"}


def test_only_a_statement_about_the_end_counts() -> None:
    def told(about: str) -> RecalledFor:
        statement = Statement(about=about, text="Edit src/types.ts", grip="", when="")
        return RecalledFor(outcome="resolved", statements=(statement,), scope="")

    wanted, about = frozenset({"types.ts"}), frozenset({"ended"})
    assert names_any(told("ended"), wanted, about)
    assert not names_any(told("in_vain"), wanted, about)
