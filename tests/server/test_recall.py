"""What a prompt is answered with: a few exact, dated quotations that fit it well, fenced; else nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.capture.gate import Gate
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.embed.settings import EmbedderSettings
from memory_mcp.importers.base import ImportReport
from memory_mcp.indexes.settings import TeleportSettings
from memory_mcp.model.sentinel import CLOSE, OPEN
from memory_mcp.search.layers.base import Query
from memory_mcp.server.recall import recall_text
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, a_small_history, draft
from tests.fakes import FakeClock
from tests.toc.helpers import memory

NORWAY = "We agreed that invoices to Norway carry 25 percent VAT."
QUESTION = "Which VAT percent do invoices to Norway carry?"


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    opened = memory(a_small_history(1))
    opened.write([draft(NORWAY, at="2026-01-21 10:30", session="norway", project=BILLING, source_id="n")], "test")
    opened.write(
        [draft("Norway again " + "and much more " * 200, at="2026-01-22 10:30", session="long", project=BILLING)], "test"
    )
    opened.derivation.run()
    yield opened
    opened.close()


def test_a_prompt_brings_back_what_was_said_about_it_dated_and_cited(app: App) -> None:
    text = recall_text(app, QUESTION, BILLING)
    lines = text.splitlines()
    assert (lines[0], lines[-1]) == (OPEN, CLOSE)
    (line,) = [x for x in lines if "We agreed" in x]
    assert line.startswith(f'- 2026-01-21 10:30, user said: "{NORWAY}" [grip:')
    grip = line.rsplit("[", 1)[1].rstrip("]")
    assert app.evidence.expand_grip(grip).quote == NORWAY


def test_at_most_three_are_told_and_a_long_one_is_cut(app: App) -> None:
    for prompt in ("the retry queue and its idempotency key", "Norway again and much more"):
        text = recall_text(app, prompt, BILLING)
        lines = [x for x in text.splitlines() if x.startswith("- ")]
        assert 1 <= len(lines) <= 3
        assert len(set(lines)) == len(lines)
        assert all(len(x) < 600 for x in lines)


@pytest.mark.parametrize(
    "prompt",
    ["", "yes", "go on", "zirconium palladium", "Please write a haiku about the sea and a lonely lighthouse keeper", "?!"],
)
def test_nothing_is_told_when_nothing_fits(prompt: str, app: App) -> None:
    assert recall_text(app, prompt, BILLING) == ""


def test_no_other_project_is_told_of(app: App) -> None:
    assert "Norway carry" not in recall_text(app, QUESTION, SHOP)
    assert recall_text(app, QUESTION, "") == ""
    assert recall_text(app, QUESTION, "github.com/nobody/nothing") == ""


def test_the_session_that_asks_is_not_told_its_own_words(app: App) -> None:
    assert "We agreed" not in recall_text(app, QUESTION, BILLING, session_id="norway")


def test_a_search_that_goes_everywhere_by_setting_does_so_here() -> None:
    opened = memory(a_small_history(1))
    opened.settings = replace(opened.settings, server=ServerSettings(scope="all"))
    assert "idempotency" in recall_text(opened, "the retry queue has no idempotency key", SHOP)
    opened.close()


def test_what_was_told_never_becomes_a_memory(app: App) -> None:
    text = recall_text(app, QUESTION, BILLING)
    assert text
    gate = Gate()
    assert gate.clean_draft(draft(text), ImportReport()) is None
    kept = gate.clean_draft(draft(f"My own words.\n{text}"), ImportReport())
    assert kept is not None
    assert kept.text == "My own words."


def test_with_an_index_on_a_prompt_is_answered_as_without(tmp_path: Path) -> None:
    settings = Settings(storage=StorageSettings(str(tmp_path), "Europe/Berlin"), embedder=EmbedderSettings(""))
    app = App(replace(settings, teleport=TeleportSettings()), FakeClock())
    try:
        app.write([*a_small_history(1), draft(NORWAY, at="2026-01-21 10:30", session="norway", project=BILLING)], "test")
        app.derivation.run()
        app.accelerators.catch_up()
        assert app.ask(Query(QUESTION)).why.method == "bm25"
        assert NORWAY in recall_text(app, QUESTION, BILLING)
        assert recall_text(app, "Please bake a cake for the birthday party", BILLING) == ""
    finally:
        app.close()
