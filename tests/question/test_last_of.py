"""What a question wants the latest decision of, in six languages; and questions that want none."""

import pytest

from memory_mcp.question.intent import last_of

CASES: list[tuple[str, str | None]] = [
    ("what was decided last", ""),
    ("What was decided last about the orders ledger?", "orders ledger"),
    ("what did we decide last on the parcel queue", "parcel queue"),
    ("latest decision about caching", "caching"),
    ("show me the most recent decisions on retries", "retries"),
    ("what have we finally decided for the deploy target", "deploy target"),
    ("包裹队列最后决定用什么", "包裹队列"),
    ("关于缓存的最新决定是什么", "缓存"),
    ("was wurde zuletzt entschieden zur Datenbank", "Datenbank"),
    ("quelle est la dernière décision sur le cache", "cache"),
    ("cuál fue la última decisión sobre la caché", "caché"),
    ("キャッシュについて最後に決めたこと", "キャッシュ"),
    ("what did we decide about caching", None),
    ("who decided to use the last slot", None),
    ("decision log format", None),
    ("为什么决定用缓存", None),
    ("the last test", None),
    ("", None),
]


@pytest.mark.parametrize(("text", "of"), CASES)
def test_what_the_latest_decision_is_wanted_of_is_read_and_other_questions_want_none(text: str, of: str | None) -> None:
    found = last_of(text)
    if of is None:
        assert found is None
    else:
        assert found is not None
        assert of in found
        assert not {"decided", "decision", "决定", "entschieden"} & set(found.split())
