"""Questions that were asked before, and the session that asks: neither answers a question, through real processes."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Command
from tests.waiting import until

OLD = (
    ("user", "postgres advisory locks or a redis lock for the berth bookings?"),
    ("assistant", "I would keep the lock in Postgres: the thing we protect is a row there."),
    ("user", "agreed, advisory locks, no redis"),
)
DECIDED = ("Postgres", "advisory locks, no redis")
#: The same question, with and without a mark, as a command, and in other languages.
PROMPTS = (
    "What did we decide about the lock for bookings?",
    "what was decided about the bookings lock",
    "tell me which lock we chose for the bookings",
    "Welchen Lock haben wir für die bookings gewählt?",
    "¿qué lock elegimos para las bookings",
)
QUESTION = "which lock did we choose for bookings"
#: So often a question is asked at most until what was told is derived.
_TRIES = 2000
SEARCH = "mcp__plugin_memory-mcp_memory-mcp__intelligent_search"


class Terminal:
    """A client of ours, see `terminal`."""

    def __init__(self, environment: dict[str, str], cwd: Path, name: str = "claude-code") -> None:
        script = Path(__file__).with_name("terminal.py")
        command = [sys.executable, str(script), name]
        self._cwd = cwd
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=cwd
        )

    def _do(self, told: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(told) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def hook(self, session: str, event: str, **more: Any) -> None:
        self._do({"hook": {"session_id": session, "cwd": str(self._cwd), "hook_event_name": event, **more}})

    def ask(self, query: str, tool: str = "intelligent_search", **more: Any) -> list[str]:
        answer = self._do({"ask": {"query": query, "scope": "all", **more}, "tool": tool})
        return [r.get("quote", r.get("title", "")) for r in answer["results"]]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "harbour"
    folder.mkdir()
    return folder


@pytest.fixture
def terminal(environment: dict[str, str], work: Path) -> Iterator[Callable[[], Terminal]]:
    """Opens a terminal in the same folder."""
    opened: list[Terminal] = []

    def open_one() -> Terminal:
        opened.append(Terminal(environment, work))
        return opened[-1]

    yield open_one
    for one in opened:
        assert one.process.stdin is not None
        one.process.stdin.close()
        one.process.wait(60)


def store(command: Command, tmp_path: Path) -> None:
    events = [
        {"id": str(at), "session_id": "old", "timestamp": f"2026-01-05T10:0{at}:00Z", "role": role, "text": text}
        for at, (role, text) in enumerate(OLD)
    ]
    file = tmp_path / "old.jsonl"
    file.write_text("\n".join(map(json.dumps, events)))
    assert command("ingest", str(file)).returncode == 0


def list_prompts(quotes: Sequence[str]) -> list[str]:
    return [quote for quote in quotes if any(prompt in quote for prompt in PROMPTS)]


def test_a_recorded_question_answers_none_of_its_paraphrases(
    command: Command, tmp_path: Path, terminal: Callable[[], Terminal]
) -> None:
    store(command, tmp_path)
    client = terminal()
    for number, prompt in enumerate(PROMPTS):
        client.hook(f"asked{number}", "UserPromptSubmit", prompt=prompt)
        client.hook(f"unknown{number}", "UserPromptSubmit", prompt=prompt)
        use = {"tool_name": SEARCH, "tool_input": {"query": "bookings lock"}, "tool_use_id": f"t{number}", "tool_response": "[]"}
        client.hook(f"unknown{number}", "PostToolUse", **use)
        client.hook(f"unknown{number}", "Stop", last_assistant_message="I don't know: nothing about that is recorded.")
    until(lambda: f"asked{len(PROMPTS) - 1}" in command("--json", "query", "events", "--all", "--limit", "100").stdout)
    for tool in ("intelligent_search", "teleport_search", "vector_teleport"):
        answers = (client.ask(QUESTION, tool, include_current=True) for _ in itertools.count())
        # While what hooks brought is in no segment, there is little else for the third place.
        found = next(quotes for quotes in itertools.islice(answers, _TRIES) if not list_prompts(quotes[:3]))
        assert any(words in found[0] for words in DECIDED), (tool, found)
    told = json.loads(command("--json", "ask", "--all", QUESTION).stdout)
    assert any(words in told["results"][0]["quote"] for words in DECIDED)


def test_a_call_leaves_out_the_session_that_it_comes_from_and_no_other(
    command: Command, tmp_path: Path, terminal: Callable[[], Terminal]
) -> None:
    store(command, tmp_path)
    mine, other = terminal(), terminal()
    mine.hook("mine", "SessionStart", source="startup")
    for client, session, word in ((mine, "mine", "crimson"), (other, "other", "indigo")):
        client.hook(session, "UserPromptSubmit", prompt=f"The bookings lock of the {word} pier is a file lock, keep it.")
        client.hook(session, "Stop", last_assistant_message=f"The {word} pier keeps its file lock for bookings.")
        client.hook(session, "UserPromptSubmit", prompt=f"And which lock has the {word} pier?")

    def both(found: list[str]) -> set[str]:
        return {word for word in ("crimson", "indigo") for quote in found if word in quote}

    question = "file lock of the pier for bookings"
    # Whoever asks is within a turn, which the last prompt begins.
    asked = [f"And which lock has the {word} pier?" for word in ("crimson", "indigo")]
    until(lambda: all(text in command("--json", "query", "events", "--all", "--limit", "100").stdout for text in asked))
    until(lambda: both(mine.ask(question, include_current=True)) == {"crimson", "indigo"})
    for tool in ("intelligent_search", "teleport_search", "vector_teleport"):
        # The title of a day tells of all its sessions.
        what = {} if tool == "intelligent_search" else {"doc_type": "grip"}
        assert both(mine.ask(question, tool, **what)) == {"indigo"}, tool
        assert both(other.ask(question, tool, **what)) == {"crimson"}, tool
        assert both(mine.ask(question, tool, **what, include_current=True)) == {"crimson", "indigo"}, tool
    # So does a command that the client's model runs.
    run_by_model = {"CLAUDE_CODE_SESSION_ID": "mine"}
    for flags, expected in (((), {"indigo"}), (("--include-current",), {"crimson", "indigo"})):
        told = json.loads(command("--json", "ask", "--all", *flags, question, env=run_by_model).stdout)
        assert both([r["quote"] for r in told["results"]]) == expected
    # The agent forgets what came before a compaction, and knows what came after it.
    mine.hook("mine", "PostCompact", compact_summary="The crimson pier was looked at; its file lock for bookings is a summary.")
    mine.hook("mine", "UserPromptSubmit", prompt="The bookings file lock of the crimson pier was moved to the annex.")
    moved = "was the pier moved to the annex"
    until(lambda: any("annex" in quote for quote in mine.ask(moved, include_current=True)))
    assert not any("annex" in quote for quote in mine.ask(moved))
    assert both(mine.ask(question)) == {"crimson", "indigo"}
