"""What may be set about the summarizer, and what is refused at start with what would do instead."""

from typing import Any

import pytest

from memory_mcp.base.errors import ConfigError
from memory_mcp.config import Settings, load
from memory_mcp.tree.llm.settings import SummarizerSettings

URL = "http://localhost:11434/v1"
OPENAI: dict[str, Any] = {"provider": "openai", "url": URL, "model": "qwen2.5:7b"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"provider": "gpt"}, "summarizer.provider must be one of extractive, openai, anthropic, command"),
    ({"provider": "openai", "model": "m"}, "needs summarizer.url. Set it to http://localhost:11434/v1"),
    ({"provider": "anthropic", "model": "m"}, "needs summarizer.url. Set it to https://api.anthropic.com"),
    ({"provider": "openai", "url": URL}, "needs summarizer.model"),
    ({"provider": "command"}, 'needs summarizer.command. Name a command line, such as "claude -p"'),
    ({"provider": "command", "command": "claude 'x"}, "summarizer.command cannot be read"),
    ({"provider": "command", "command": "x", "url": URL}, 'summarizer.url means nothing to provider "command"'),
    ({"provider": "command", "command": "x", "api_key_env": "A"}, "summarizer.api_key_env means nothing"),
    ({**OPENAI, "command": "claude -p"}, 'Take summarizer.command out, or set summarizer.provider = "command"'),
    ({**OPENAI, "url": "localhost:11434/v1"}, "must begin with https:// or http://"),
    ({**OPENAI, "url": "http://localhost:99999/v1"}, "summarizer.url cannot be read"),
    ({**OPENAI, "url": "ftp://x/v1"}, "must begin with https:// or http://"),
    ({**OPENAI, "url": "https://me:pass@x/v1"}, "neither a name and password"),
    ({**OPENAI, "url": "https://x/v1?key=1"}, "neither a name and password nor a query"),
    ({**OPENAI, "url": "http://ollama.lan/v1"}, "set summarizer.allow_http = true"),
    ({**OPENAI, "url": "http://localhost.evil.example/v1"}, "without encryption"),
    ({**OPENAI, "api_key_env": "sk-ant-api03-abcdef"}, "must be the name of an environment variable, not a key"),
    ({**OPENAI, "model": " m"}, "summarizer.model must be a name"),
    ({**OPENAI, "daily_tokens": -1}, "summarizer.daily_tokens cannot be negative"),
    ({**OPENAI, "concurrency": 0}, "summarizer.concurrency must lie between 1 and 8"),
    ({**OPENAI, "timeout_secs": 0}, "summarizer.timeout_secs must lie between"),
    ({**OPENAI, "retries": 11}, "summarizer.retries must lie between 0 and 10"),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[str(g) for g, _ in REFUSED])
def test_what_cannot_work_is_refused_with_what_would(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        SummarizerSettings(**given)
    assert words in str(refused.value)
    assert "sk-ant" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/v1", "http://[::1]:8080/v1", "https://api.example.com", "http://LOCALHOST/v1"]
)
def test_an_encrypted_way_and_one_that_stays_here_are_accepted(url: str) -> None:
    assert SummarizerSettings(**{**OPENAI, "url": url}).is_on


def test_plain_http_may_go_elsewhere_where_somebody_says_so() -> None:
    assert SummarizerSettings(**{**OPENAI, "url": "http://ollama.lan:11434/v1"}, allow_http=True).is_on


def test_it_is_off_by_default_and_a_key_in_the_environment_changes_nothing() -> None:
    keys = {"OPENAI_API_KEY": "a", "ANTHROPIC_API_KEY": "b", "OPENAI_BASE_URL": URL, "OLLAMA_HOST": URL}
    assert load(keys) == Settings()
    assert not load(keys).summarizer.is_on


def test_a_command_is_called_by_its_program_where_no_model_is_named() -> None:
    assert SummarizerSettings(provider="command", command="/usr/bin/claude -p").name == "claude"
    assert SummarizerSettings(provider="command", command="claude -p", model="opus").name == "opus"
