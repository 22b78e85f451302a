"""What may be set about the summarizer, and what is refused at start with what would do instead."""

from typing import Any

import pytest

from memory_mcp.base.errors import ConfigError
from memory_mcp.config import Settings, load
from memory_mcp.tree.llm.settings import SummarizerSettings

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"command": "claude 'x"}, "summarizer.command cannot be read"),
    ({"command": "  "}, "summarizer.command is blank"),
    ({"model": " m"}, "summarizer.model must be a name"),
    ({"daily_tokens": -1}, "summarizer.daily_tokens cannot be negative"),
    ({"concurrency": 0}, "summarizer.concurrency must lie between 1 and 8"),
    ({"timeout_secs": 0}, "summarizer.timeout_secs must lie between"),
    ({"retries": 11}, "summarizer.retries must lie between 0 and 10"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[str(g) for g, _ in REFUSED])
def test_what_cannot_work_is_refused_with_what_would(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SummarizerSettings(**given)
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["provider", "url", "api_key_env", "allow_http"])
def test_a_setting_of_the_former_client_is_refused_with_the_one_that_takes_its_place(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the setting summarizer.{name} was removed. .*summarizer.command.* Take it out"):
        load({f"MEMORY_MCP_SUMMARIZER__{name.upper()}": "sk-ant-1"})


def test_it_is_off_by_default_and_a_key_in_the_environment_changes_nothing() -> None:
    keys = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b", "OPENAI_BASE_URL": "http://localhost", "OLLAMA_HOST": "x"}
    assert load(keys) == Settings()
    assert not load(keys).summarizer.is_on


def test_a_command_is_called_by_its_program_if_no_model_is_named() -> None:
    assert SummarizerSettings(command="/usr/bin/claude -p").name == "claude"
    assert SummarizerSettings(command="claude -p", model="opus").name == "opus"
