"""`--also`: words that the answer likely contains, in the commands that search."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Told
from tests.interaction.test_keywords import ANSWER, KEYWORDS, QUESTION, said
from tests.waiting import PATIENCE

ALSO = [part for word in KEYWORDS for part in ("--also", word)]


@pytest.fixture
def runs(told: Told) -> Cli:
    """The command line on remarks about the nightly runs."""
    return told({"session_id": d.session_id, "timestamp": d.timestamp, "role": "user", "text": d.text} for d in said())


def place_of_the_answer(data: dict[str, Any]) -> int:
    shown = [json.dumps(result) for result in data["results"]]
    return next((place for place, text in enumerate(shown) if "mold links" in text), len(shown))


@pytest.mark.parametrize("command", [("ask", "--all"), ("teleport", "search", "--all", "--type", "grip")])
def test_what_holds_the_words_comes_first(runs: Cli, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if command[0] == "teleport":
        monkeypatch.setenv("MEMORY_MCP_TELEPORT__ENABLED", "true")
        monkeypatch.setenv("MEMORY_MCP_EMBEDDER__MODEL", "")
    alone, helped = runs(*command, QUESTION, "--json"), runs(*command, QUESTION, *ALSO, "--json")
    assert place_of_the_answer(helped.data) == 0 < place_of_the_answer(alone.data)


def test_a_search_of_the_tree_shows_what_holds_only_them_behind_what_holds_the_query(runs: Cli) -> None:
    alone, helped = runs("search", "--all", "harbours", "--json"), runs("search", "--all", "harbours", "--also", "mold", "--json")
    assert len(alone.data["results"]) == place_of_the_answer(alone.data) == place_of_the_answer(helped.data) == 1
    assert len(helped.data["results"]) == 2


@pytest.mark.usefixtures("processes")
def test_the_command_as_it_is_installed_takes_them(runs: Cli, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "memory_mcp", "ask", "--all", QUESTION, *ALSO, "--json", "--data-dir", str(tmp_path / "data")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, check=True, env=os.environ)
    assert json.loads(done.stdout)["results"][0]["quote"] == ANSWER


def test_more_than_eight_are_refused_with_a_way_out(runs: Cli) -> None:
    refused = runs("ask", QUESTION, *(part for n in range(9) for part in ("--also", f"word{n}")))
    assert refused.status == 2
    assert "too many keywords: 9, at most 8" in refused.err
    assert "Keep those that the answer most likely contains." in refused.err
