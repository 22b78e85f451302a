"""Transcripts as their clients wrote them, which are nobody's to ship: run this file with `--data DIR`.

Each kind has a counter of its own: a few lines of plain JSON, without a word of the importers' code, that list what was
said and done in a file in its order. What is imported must be the same list, at the same times.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.capture.gate import Gate
from memory_mcp.capture.log import EventLog
from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers.base import BEGINNING, Growth, ImportReport
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import Event, EventType
from memory_mcp.storage.duckdb import open_storage
from memory_mcp.storage.values import Scope

#: What is compared, and the types of event it becomes.
_KINDS = {
    EventType.USER_MESSAGE: "user",
    EventType.ASSISTANT_MESSAGE: "assistant",
    EventType.TOOL_CALL: "call",
    EventType.TOOL_RESULT: "result",
    EventType.SUBAGENT_STOP: "result",
}
#: Events that share a millisecond are moved apart; nothing is moved further (milliseconds).
_NEAR = 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing said or done: user, assistant, call or result; the tool of a call; UTC milliseconds, None if untold."""

    kind: str
    tool: str = ""
    time: int | None = None


Counter = Callable[[Path], Iterable[Moment]]


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]


def ms(value: str) -> int:
    return round(datetime.fromisoformat(value).timestamp() * 1000)


def codex(file: Path) -> Iterator[Moment]:
    """Items of the conversation; the client's own words in the user's role begin with a tag."""
    for record in lines_of(file):
        payload, at = record["payload"], ms(record["timestamp"])
        kind = payload.get("type", "message") if record["type"] == "response_item" else ""
        if kind == "message" and payload["role"] == "user":
            if not payload["content"][0]["text"].startswith(("<environment_context>", "<user_instructions>", "# AGENTS.md")):
                yield Moment("user", time=at)
        elif kind == "message" and payload["role"] == "assistant":
            yield Moment("assistant", time=at)
        elif kind in ("function_call", "custom_tool_call"):
            yield Moment("call", payload["name"], at)
        elif kind.endswith("_output"):
            yield Moment("result", time=at)


def gemini(file: Path) -> Iterator[Moment]:
    """Messages by their id, the last telling of each; calls inside them, each followed by its result."""
    records = [json.loads(file.read_text(encoding="utf-8"))] if file.suffix == ".json" else lines_of(file)
    messages: dict[str, dict[str, Any]] = {}
    for record in records:
        for message in record.get("messages") or record.get("$set", {}).get("messages") or [record]:
            if "type" in message:
                messages[message["id"]] = message
    for message in messages.values():
        content, at = message.get("content") or "", ms(message["timestamp"])
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        if message["type"] in ("user", "gemini") and text.strip():
            yield Moment("user" if message["type"] == "user" else "assistant", time=at)
        for one in message.get("toolCalls", ()):
            yield Moment("call", one["name"])
            if "result" in one:
                yield Moment("result", time=ms(one["timestamp"]))


def qwen(file: Path) -> Iterator[Moment]:
    for record in lines_of(file):
        at = ms(record["timestamp"])
        for part in record.get("message", {}).get("parts", ()):
            if "functionCall" in part:
                yield Moment("call", part["functionCall"]["name"], at)
            elif "functionResponse" in part:
                yield Moment("result", time=at)
            elif not part.get("thought"):
                yield Moment(record["type"], time=at)


def copilot(file: Path) -> Iterator[Moment]:
    for record in lines_of(file):
        kinds = {"user.message": "user", "assistant.message": "assistant", "tool.execution_start": "call"}
        kind = {**kinds, "tool.execution_complete": "result"}.get(record["type"])
        if kind in ("call", "result") or (kind and record["data"].get("content")):
            yield Moment(kind or "", record["data"].get("toolName", ""), ms(record["timestamp"]))


def copilot_chat(file: Path) -> Iterator[Moment]:
    """A request, then round by round what was said and called; only requests have times."""
    for request in json.loads(file.read_text(encoding="utf-8"))["requests"]:
        yield Moment("user", time=request["timestamp"])
        told = request["result"]["metadata"]
        for one in told["toolCallRounds"]:
            if one["response"].strip():
                yield Moment("assistant")
            for made in one["toolCalls"]:
                yield Moment("call", made["name"])
                if made["id"] in told["toolCallResults"]:
                    yield Moment("result")


def cursor(file: Path) -> Iterator[Moment]:
    """Lines without ids and times; a turn's end is no message."""
    for record in lines_of(file):
        for block in record.get("message", {}).get("content", []):
            if block["type"] == "tool_use":
                yield Moment("call", block["name"])
            elif block["type"] == "text":
                yield Moment(record["role"])


#: Of each kind: where its files lie below `transcripts/`, and what lists their moments.
KINDS: dict[str, tuple[tuple[str, ...], Counter]] = {
    "codex": (
        (
            "agentsview/**/codex/*.jsonl",
            "deja-vu/**/codex/**/rollout-*.jsonl",
            "ccusage/**/codex/sessions/**/*.jsonl",
            "claude-code-log_latest/rollout-*.jsonl",
            "yoavf_ai-sessions/examples/codex-*.jsonl",
        ),
        codex,
    ),
    "gemini": (("agentsview/**/gemini/*.json", "deja-vu/**/gemini/*.jsonl", "yoavf_ai-sessions/examples/gemini-*.json"), gemini),
    "qwen": (("deja-vu/**/qwen/**/*.jsonl", "splitrail/**/qwen_code.jsonl"), qwen),
    "copilot-chat": (("splitrail/**/copilot.json",), copilot_chat),
    "copilot": (("deja-vu/**/copilot/*/events.jsonl",), copilot),
    "cursor": (("deja-vu/**/cursor/**/agent-transcripts/*.jsonl",), cursor),
}


def files_of(kind: str, transcripts: Path) -> list[Path]:
    found = sorted({file for pattern in KINDS[kind][0] for file in transcripts.glob(pattern)})
    assert found, f"no files of {kind}"
    return found


class Imported:
    """A memory of its own, into which files are imported."""

    def __init__(self, kind: str) -> None:
        self.importer = IMPORTERS[kind](IngestSettings())
        self._storage = open_storage(None, timezone="UTC")
        self._pipeline = Pipeline(EventLog(self._storage.events, SystemClock()), self._storage.outbox, Gate())

    def run(self, file: Path) -> ImportReport:
        return self._pipeline.import_source(self.importer, file)

    def events(self) -> list[Event]:
        return list(self._storage.events.list_events(Scope(), limit=100_000))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_imported_is_what_a_plain_count_finds(kind: str, transcripts: Path) -> None:
    for file in files_of(kind, transcripts):
        imported = Imported(kind)
        report = imported.run(file)
        assert (report.files_failed, report.lines) == (0, report.lines_used + report.skipped.total()), file
        events = [event for event in imported.events() if event.type in _KINDS]
        found = [(_KINDS[e.type], e.metadata.get("tool", "") if e.type is EventType.TOOL_CALL else "") for e in events]
        expected = list(KINDS[kind][1](file))
        assert found == [(moment.kind, moment.tool) for moment in expected], file
        for event, moment in zip(events, expected, strict=True):
            assert moment.time is None or abs(event.timestamp - moment.time) < _NEAR, (file, event.source_id)
        results = [e.metadata.get("tool") for e in events if _KINDS[e.type] == "result"]
        assert all(results), (file, "a result whose tool is not known")


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_recognised_by_its_own_importer(kind: str, transcripts: Path) -> None:
    for file in files_of(kind, transcripts):
        beginning = file.read_bytes()[:BEGINNING]
        first = next((n for n, make in IMPORTERS.items() if make(IngestSettings()).recognises_file(file, beginning)), "")
        assert first == kind, file


@pytest.mark.parametrize("kind", KINDS)
def test_twice_gives_nothing_new(kind: str, transcripts: Path, tmp_path: Path) -> None:
    for number, file in enumerate(files_of(kind, transcripts)):
        copy = tmp_path / str(number) / file.name
        copy.parent.mkdir()
        copy.write_bytes(file.read_bytes())
        imported = Imported(kind)
        new = imported.run(copy).new
        again = imported.run(copy)
        assert (again.new, again.lines, again.files_unchanged) == (0, 0, 1), file
        # Another file, whose mark is unknown: only the ids tell that everything is known.
        (copy.parent / "moved").mkdir()
        copy = copy.rename(copy.parent / "moved" / file.name)
        moved = imported.run(copy)
        assert (moved.new, moved.known) == (0, new), file


@pytest.mark.parametrize("kind", KINDS)
def test_appending_reads_only_the_tail_and_gives_what_reading_at_once_gives(kind: str, transcripts: Path, tmp_path: Path) -> None:
    for number, file in enumerate(f for f in files_of(kind, transcripts) if f.suffix == ".jsonl"):
        raw = file.read_bytes()
        whole = Imported(kind)
        # Where a source is no file of lines, its size is counted as a whole, and only ids of its own are the same.
        appended = whole.importer.growth is Growth.APPENDED
        copy = tmp_path / str(number) / file.name
        copy.parent.mkdir()
        copy.write_bytes(raw)
        whole.run(copy)
        ends = [match.end() for match in re.finditer(rb"\n", raw)]
        parts, done = Imported(kind), 0
        for cut in (ends[len(ends) // 3], ends[2 * len(ends) // 3], len(raw)):
            copy.write_bytes(raw[:cut])
            report = parts.run(copy)
            tail = raw[done:cut]
            assert report.lines == sum(bool(line.strip()) for line in tail.split(b"\n")), file
            assert not appended or report.bytes == len(tail), file
            done = cut
        assert [e.source_id for e in parts.events()] == [e.source_id for e in whole.events()], file
        assert not appended or [e.event_id for e in parts.events()] == [e.event_id for e in whole.events()], file
