"""What a question wants the latest decision of, in six languages; and questions that want none."""

import pytest

from memory_mcp.question.intent import last_of

ASKED = [
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
]


@pytest.mark.parametrize(("text", "of"), ASKED)
def test_what_the_latest_decision_is_wanted_of_is_read(text: str, of: str) -> None:
    found = last_of(text)
    assert found is not None
    assert of in found
    assert not {"decided", "decision", "决定", "entschieden"} & set(found.split())


@pytest.mark.parametrize(
    "text",
    [
        "what did we decide about caching",
        "who decided to use the last slot",
        "decision log format",
        "为什么决定用缓存",
        "the last test",
        "",
    ],
)
def test_other_questions_want_none(text: str) -> None:
    assert last_of(text) is None
