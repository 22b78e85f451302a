"""What a call leaves in the log: which tool, how it ended, how long it took; nothing of what was said."""

import logging
import re

import pytest

from tests.interaction.conftest import Door

LINE = re.compile(r"(\w+) (ok|[A-Z_]+) \d+\.\d ms\Z")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "memory_mcp.server.calls" and r.levelno == logging.INFO]


def test_every_call_leaves_one_line_with_the_tool_the_outcome_and_the_milliseconds_and_no_words_of_the_caller(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "memory_mcp"):
        door.ok("get_retrieval_status")
        door.full("intelligent_search", query="refresh token")
        door.error("intelligent_search", query="refresh token", limt=3)
    found = [LINE.match(line) for line in lines(caplog)]
    assert [m and m.groups() for m in found] == [
        ("get_retrieval_status", "ok"),
        ("intelligent_search", "ok"),
        ("intelligent_search", "INVALID_ARGUMENT"),
    ]
    with caplog.at_level(logging.INFO, "memory_mcp"):
        door.full("intelligent_search", query="the quokka ledger")
        door.error("search_the_quokka_ledger", query="quokka")
        door.error("expand_grip", grip_id="grip:quokka")
    assert len(lines(caplog)) == 6
    assert "quokka" not in caplog.text


def test_where_nobody_reads_the_log_nothing_is_written(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "memory_mcp"):
        door.ok("get_retrieval_status")
    assert lines(caplog) == []
