"""Every registered summarizer keeps the contract."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.tree.summarize.base import Summarizer
from memory_mcp.tree.summarize.registry import SUMMARIZERS
from tests.examples import examples
from tests.summarize.suite import check_pure, check_roll_up, check_summary, dialogue, event, node, talk

ODD = {
    "empty": "",
    "one character": "x",
    "white space": " \n\t \r\n",
    "NULs": "\x00\x00\x00 we decided\x00 to keep\x00 it \x00",
    "a lone surrogate": "we decided \udcff to keep \ud800 it",
    "right to left": "قررنا استخدام قاعدة البيانات الجديدة لأن القديمة بطيئة. ما هي الخطوة التالية؟",
    "Chinese": "我们决定使用新的数据库。原因是旧的太慢。下一步是什么？",
    "Korean": "우리는 새 데이터베이스를 사용하기로 결정했다. 이전 것은 느렸다.",
    "only code": "```python\ndef f(x):\n    return x\n```",
    "an open fence": "```\nfoo = 1",
    "a table": "| a | b |\n|---|---|\n| 1 | 2 |",
    "only punctuation": "?!?!... --- *** ((( [[[ {{{ <<< |||",
    "an open tag": "<system-reminder>\nnever closed\n" * 30,
    "one long line": "word " * 5_000,
    "one long word": "w" * 100_000,
    "base64": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=" * 400,
    "many short lines": "a\n" * 20_000,
    "brackets": "[" * 5_000 + "(" * 5_000 + "*" * 5_000 + "`" * 5_000,
    "emoji": "🎉🎉🎉 👩‍👩‍👧‍👦 we shipped it 🚀",
}


@pytest.fixture(params=sorted(SUMMARIZERS))
def summarizer(request: pytest.FixtureRequest) -> Summarizer:
    return SUMMARIZERS[request.param]()


def other(summarizer: Summarizer) -> Summarizer:
    return SUMMARIZERS[summarizer.name]()


SESSION = talk(
    "The login test fails since yesterday, can you find out why?",
    "Let me look at the test first.",
    "ok",
    "The root cause is a clock skew of 90 seconds between `auth.py` and the token server. "
    "I fixed it by adding a leeway to `verify_token`.\n\n```python\nLEEWAY = 120\n```\n\nAll 14 tests pass now.",
    "Never raise the leeway above 120 seconds. Is the refresh path covered too?",
    "Yes, `test_refresh.py` covers it.",
)
PEOPLE = dialogue(
    ("Ann", "Hey Bert! Great to see you!"),
    ("Bert", "Hi Ann, how are you?"),
    ("Ann", "I moved to Oslo last month and started a pottery class there."),
    ("Bert", "Wow, that's amazing!"),
)


@pytest.mark.parametrize("events", [SESSION, PEOPLE, SESSION[:1], []], ids=["session", "people", "one message", "nothing"])
def test_a_summary_has_its_sizes_and_its_bullets_name_their_words(summarizer: Summarizer, events: list[Event]) -> None:
    check_summary(events, summarizer.summarize(events))


@pytest.mark.parametrize("events", [SESSION, PEOPLE], ids=["session", "people"])
def test_the_same_events_give_the_same_summary(summarizer: Summarizer, events: list[Event]) -> None:
    check_pure(summarizer, other(summarizer), events)


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
@pytest.mark.parametrize("role", list(Role))
def test_odd_text_is_no_reason_to_raise(summarizer: Summarizer, text: str, role: Role) -> None:
    events = [event(0, text, role), event(1, text, role, "Ann")]
    check_summary(events, summarizer.summarize(events))


def test_ten_megabytes_are_read_at_both_ends(summarizer: Summarizer) -> None:
    text = "We decided to store sessions in Redis. " + "filler words here. " * 520_000 + "The migration fixed the outage."
    assert len(text) > 9_000_000
    events = [event(0, text, Role.ASSISTANT)]
    check_summary(events, summarizer.summarize(events))
    said = " ".join(bullet.text for bullet in summarizer.summarize(events).bullets)
    assert "We decided to store sessions in Redis." in said
    assert "The migration fixed the outage." in said


def test_tool_calls_alone_get_a_plain_title(summarizer: Summarizer) -> None:
    calls = [
        event(n, "pwd", Role.ASSISTANT, kind=EventType.TOOL_CALL, tool=name) for n, name in enumerate(["Read", "Bash", "Read"])
    ]
    summary = summarizer.summarize(calls)
    check_summary(calls, summary)
    assert summary.title.startswith("3 tool calls: Read, Bash")


@examples(60)
@given(texts=st.lists(st.text(max_size=300), max_size=6), role=st.sampled_from(list(Role)), speaker=st.text(max_size=20))
def test_no_text_makes_it_raise(texts: list[str], role: Role, speaker: str) -> None:
    events = [event(n, text, role, speaker) for n, text in enumerate(texts)]
    for make in SUMMARIZERS.values():
        check_summary(events, make().summarize(events))


LINES = ["# Head", "- item one", "```", "<a>", "</a>", "text here.", "| a |", "    code()", "Error: it broke", "**bold**:", ""]


@examples(60)
@given(lines=st.lists(st.sampled_from(LINES)))
def test_no_arrangement_of_lines_makes_it_raise(lines: list[str]) -> None:
    events = [event(0, "\n".join(lines)), event(1, "\r\n".join(lines), Role.TOOL)]
    for make in SUMMARIZERS.values():
        check_summary(events, make().summarize(events))


CHILDREN = [
    node(0, "Fix clock skew — auth.py", ["The leeway is 120 seconds.", "All 14 tests pass."], ["auth.py", "leeway", "token"]),
    node(1, "Add retry to the uploader — backoff", ["Retries use exponential backoff."], ["uploader", "backoff", "token"]),
    node(2, "Drop Python 3.9", ["Python 3.9 is no longer supported.", "The leeway is 120 seconds!"], ["python"]),
]


@pytest.mark.parametrize("limit", [0, 1, 3, 10])
def test_a_period_has_its_sizes_and_its_childrens_own_bullets(summarizer: Summarizer, limit: int) -> None:
    check_roll_up(CHILDREN, summarizer.roll_up(CHILDREN, limit), limit)


def test_a_period_of_nothing_still_has_a_title(summarizer: Summarizer) -> None:
    check_roll_up([], summarizer.roll_up([]), 10)
    empty = [node(0, ""), node(1, "")]
    check_roll_up(empty, summarizer.roll_up(empty), 10)


def test_a_period_is_the_same_when_it_is_rolled_up_again(summarizer: Summarizer) -> None:
    assert summarizer.roll_up(CHILDREN) == other(summarizer).roll_up(list(CHILDREN))


@given(titles=st.lists(st.text(max_size=120), max_size=5), words=st.lists(st.text(max_size=30), max_size=14))
def test_no_children_make_it_raise(titles: list[str], words: list[str]) -> None:
    children = [node(n, title, words[:3], words) for n, title in enumerate(titles)]
    for make in SUMMARIZERS.values():
        check_roll_up(children, make().roll_up(children, 4), 4)
