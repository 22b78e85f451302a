"""The questions that a new memory is shown with: a person's own, else a statement's, else the newest day's; each answered."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from memory_mcp.app import App
from memory_mcp.config import load
from memory_mcp.model.event import DEFAULT_TYPES, EventDraft, Role
from memory_mcp.requests.first_questions import first_questions, questions

AT = 1_772_442_000_000
ASKED = ("user", "why does the harbour crane stop at low tide?")
REPLY = ("assistant", "The harbour crane stops at low tide because the float switch opens.")


@pytest.fixture
def memory() -> Iterator[App]:
    with closing(App(load(flags={}), in_memory=True)) as app:
        yield app


def tell(app: App, *sessions: list[tuple[str, str]]) -> None:
    drafts = [
        EventDraft(
            f"s{number}", Role(role), DEFAULT_TYPES[Role(role)], text, AT + number * 90_000_000 + at * 60_000, f"{number}-{at}"
        )
        for number, session in enumerate(sessions)
        for at, (role, text) in enumerate(session)
    ]
    app.write(drafts, "jsonl")
    app.derivation.run()


def texts(app: App, count: int = 1) -> list[str]:
    return [question.text for question in first_questions(app, count)]


def test_a_persons_question_is_asked_where_its_reply_answers_it(memory: App) -> None:
    tell(memory, [ASKED, REPLY], [("user", "Thanks, that is all for today."), ("assistant", "You are welcome.")])
    assert texts(memory) == [ASKED[1]]
    assert questions(memory, {"count": 1}) == {"questions": [ASKED[1]]}


@pytest.mark.parametrize(
    "reply",
    [
        ("assistant", "Let me look into that first."),
        ("user", "The harbour crane stops at low tide, somebody said."),
        ("assistant", "You asked: why does the harbour crane stop at low tide?"),
    ],
)
def test_a_question_without_an_answer_of_its_own_is_not_asked(memory: App, reply: tuple[str, str]) -> None:
    tell(memory, [ASKED, reply])
    assert ASKED[1] not in texts(memory, 3)


@pytest.mark.parametrize("text", ["crane, tide?", "why `crane.stop()` at low tide of it?", "see https://a.example/b is it so?"])
def test_what_reads_as_a_list_or_as_code_is_not_asked(memory: App, text: str) -> None:
    tell(memory, [("user", text), ("assistant", "The crane stops at low tide: crane.stop() is called by the switch.")])
    assert text not in texts(memory, 3)


@pytest.mark.parametrize(
    ("question", "reply"),
    [
        ("warum hält der Kran bei Niedrigwasser an?", "Der Kran hält bei Niedrigwasser an, weil der Schwimmer öffnet."),
        ("起重机为什么在低潮时停止工作？", "起重机在低潮时停止工作，因为浮子开关打开。"),
    ],
)
def test_it_is_asked_in_the_language_of_the_person(memory: App, question: str, reply: str) -> None:
    tell(memory, [("user", question), ("assistant", reply)])
    assert texts(memory) == [question]


def test_where_nobody_asked_the_newest_day_is_asked_about(memory: App) -> None:
    tell(memory, [("user", "Bitte zähl die Bojen im Hafen und schreib sie auf."), ("assistant", "Es sind vierzehn Bojen.")])
    assert texts(memory, 2) == ["What did we do on 2 March 2026?"]


def test_an_empty_memory_is_asked_nothing(memory: App) -> None:
    assert texts(memory, 3) == []
