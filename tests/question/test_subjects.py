"""The words that name what a question is about, in the languages with a table and in others."""

import pytest

from memory_mcp.base.text import terms
from memory_mcp.question.understand import subject_words, topic_subject


@pytest.mark.parametrize(
    ("question", "subjects"),
    [
        ("why did we choose kafka", ("choose", "kafka")),
        ("which tyre pressure did the mechanic recommend", ("tyre", "pressure", "mechanic", "recommend")),
        ("Weshalb haben wir uns für Kafka entschieden?", ("Kafka",)),
        ("pourquoi avons-nous choisi Kafka", ("choisi", "Kafka")),
        ("gdzie jest konfiguracja bazy danych", ("gdzie", "jest", "konfiguracja", "bazy", "danych")),
        ("我们为什么选了灯笼布局", ("我们", "选了灯笼布局")),
        ("为什么用kafka做任务队列", ("kafka", "做任务队列")),
        ("왜 kafka를 골랐지", ("kafka", "골랐지")),
        ("port 8443 on 7 May 2023", ("port", "8443", "May")),
        ("where is `parse_config` in app.py", ("parse_config", "app.py")),
        ("what did we do", ()),
    ],
)
def test_words_that_ask_or_name_nothing_are_left_out(question: str, subjects: tuple[str, ...]) -> None:
    assert subject_words(question) == subjects


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("How did code attribution evolve?", "code attribution"),
        ("What are the recurring problems with `entire enable`?", "`entire enable`"),
        ("Which topics keep coming back around volleyball?", "back volleyball"),
        ("Wie hat sich die Zahlungsabwicklung entwickelt?", "Zahlungsabwicklung"),
        ("关于养蜂我们做了什么？", "养蜂"),
        ("关于 Gemini 我们做了什么", "Gemini"),
        ("養蜂について何を話しましたか", "養蜂"),
        ("What have I been working on?", ""),
        ("最近这阵子我都在忙什么？", ""),
    ],
)
def test_the_subject_of_topics_is_what_is_left_of_a_question_that_asks_for_them(question: str, subject: str) -> None:
    assert terms(topic_subject(question)) == terms(subject)
