"""Which words of a question occur nowhere: in no form that a language gives them, and only where nothing waits for the tree."""

from collections.abc import Iterator

import pytest

from memory_mcp.app import App
from memory_mcp.base.text import term_set
from memory_mcp.config import Settings
from memory_mcp.search.layers.agentic.words import Holds, TreeWords, absent_in
from memory_mcp.storage.settings import StorageSettings
from tests.factories import draft
from tests.fakes import FakeClock


def held_by(text: str) -> Holds:
    """What a scope holds in which only this was said."""
    return term_set(text).__contains__


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("we deploy on Mondays", "deployed"),
        ("die Lampe im Lager", "Lampen"),
        ("die Lampen im Lager", "Lampe"),
        ("set lock_timeout to five", "lock_timeout"),
        ("in src/memory/search.py", "search.py"),
        ("夜间报告一次就能读完", "报告"),
        ("カフカを選んだ", "カフカ"),
    ],
)
def test_a_word_occurs_in_any_of_its_forms(said: str, asked: str) -> None:
    assert absent_in([asked], held_by(said)) == ()


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("we deploy on Mondays", "kafka"),
        ("we rush to lunch", "rust"),
        ("a lock and a timeout", "lock_timeout"),
        ("the base image and the fire drill", "firebase"),
        ("der Antrag und die Frist", "Antragsfrist"),
        ("the search is slow", "search.kt"),
        ("夜间报告一次就能读完", "卡夫卡"),
    ],
)
def test_a_word_that_only_resembles_another_is_absent(said: str, asked: str) -> None:
    assert absent_in([asked], held_by(said)) == (asked,)


def test_of_a_run_of_ideographs_only_what_no_text_holds_is_absent() -> None:
    holds = held_by("我们选择灯笼表的布局，因为夜间报告一次就能读完，消息队列不变")
    assert absent_in(["我们选择卡夫卡作为消息队列"], holds) == ("卡夫卡作为",)
    assert absent_in(["我们选择消息队列"], holds) == (), "the border of two words is no word"


@pytest.fixture
def app() -> Iterator[App]:
    opened = App(Settings(storage=StorageSettings(timezone="UTC")), FakeClock(), in_memory=True)
    opened.write([draft("We chose redis.", at="2026-03-01 09:00", session="one", source_id="one")], "test")
    opened.derivation.run()
    yield opened
    opened.close()


def test_a_word_that_was_said_a_moment_ago_is_not_missing(app: App) -> None:
    words = TreeWords(app.tree, app.storage)
    assert words.find_missing(("redis", "kafka"), None) == ("kafka",)
    app.write([draft("Or do we choose kafka?", at="2026-03-02 09:00", session="two", source_id="two")], "test")
    assert words.find_missing(("redis", "kafka", "nats"), None) == ("nats",)
    app.derivation.run()
    assert words.find_missing(("redis", "kafka", "nats"), None) == ("nats",)
