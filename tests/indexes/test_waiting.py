"""A question waits for the model only while somebody loads it, and loads it itself where nobody else comes to."""

import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from memory_mcp.app import ALONE
from memory_mcp.indexes.settings import TeleportSettings
from tests.factories import draft
from tests.indexes.helpers import opened
from tests.waiting import PATIENCE

MAINTAINED = replace(ALONE, tends_indexes=True)


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A directory whose indexes another process has built."""
    with closing(opened(tmp_path, teleport=TeleportSettings())) as app:
        app.write([draft("The walnut fell into the harbor.")], "test")
        app.derivation.run()
        app.accelerators.catch_up()
    return tmp_path


def test_a_question_loads_the_model_of_an_index_that_another_process_built(built: Path) -> None:
    """No round of upkeep comes: it would be half a minute until then, and each question would wait its three seconds."""
    with closing(opened(built, teleport=TeleportSettings(), callbacks=MAINTAINED)) as app:
        for keeper in app.accelerators.keepers.values():
            keeper.load_once()
        assert not app.accelerators._warm_once.is_set()
        app.accelerators.wait_loaded(PATIENCE)
        assert app.accelerators._warm_once.is_set()
        assert app.accelerators._warm_embedder is not None


def test_a_model_that_cannot_be_loaded_is_waited_for_once(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(opened(built, teleport=TeleportSettings(), callbacks=MAINTAINED)) as app:
        for keeper in app.accelerators.keepers.values():
            keeper.load_once()
        serving = app.accelerators._serving_embedder()
        assert serving is not None
        tried: list[list[str]] = []

        def refuse(texts: list[str]) -> None:
            tried.append(texts)
            raise RuntimeError("no such instruction")

        monkeypatch.setattr(type(serving), "embed", lambda self, texts: refuse(texts))
        monkeypatch.setattr(threading, "excepthook", lambda _: None)
        app.accelerators.wait_loaded(PATIENCE)
        app.accelerators.wait_loaded(PATIENCE)
        assert len(tried) == 1
