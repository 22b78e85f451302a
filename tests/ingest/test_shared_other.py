"""More kinds of `test_shared_transcripts.py`, with notes and the tools of results: run this file with `--data DIR`, too.

A counter gives what a file must become, in order: role, type, tool and time (milliseconds; None: not told by the file).
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers.base import BEGINNING, Growth
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from tests.ingest.suite import read

Told = tuple[str, str, str, int | None]
Counter = Callable[[Path], Iterator[Told]]

USER, ANSWER, NOTE = ("user", "user_message", ""), ("assistant", "assistant_message", ""), ("system", "note", "")


def _values(file: Path) -> Iterator[dict[str, Any]]:
    for line in file.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _pi(file: Path) -> Iterator[Told]:
    for entry in _values(file):
        at = _ms(entry["timestamp"])
        if entry["type"] == "compaction":
            yield (*NOTE, at)
        message = entry.get("message", {})
        match message.get("role"):
            case "user":
                yield (*USER, at)
            case "toolResult":
                yield ("tool", "tool_result", message["toolName"], at)
            case "bashExecution":
                yield (*USER, at)
                yield ("tool", "note", "", at)
            case "assistant":
                for block in message["content"]:
                    if block["type"] == "text":
                        yield (*ANSWER, at)
                    elif block["type"] == "toolCall":
                        yield ("assistant", "tool_call", block["name"], at)
                if message.get("stopReason") == "error":
                    yield (*NOTE, at)


def _cline(file: Path) -> Iterator[Told]:
    whole = json.loads(file.read_text(encoding="utf-8"))
    messages = whole if isinstance(whole, list) else whole["messages"]
    for number, message in enumerate(messages):
        began = int(file.parent.name) if number == 0 and file.parent.name.isdigit() else None
        for block in message["content"]:
            if block["type"] == "text":
                yield (*(USER if message["role"] == "user" else ANSWER), message.get("ts", began))


def _goose(file: Path) -> Iterator[Told]:
    for message in list(_values(file))[1:]:
        for _ in message["content"]:
            yield (*(USER if message["role"] == "user" else ANSWER), message["created"] * 1000)


def _kimi(file: Path) -> Iterator[Told]:
    for record in _values(file):
        if record["type"] == "context.append_message":
            yield (*USER, record["time"])
        event = record.get("event", {})
        if event.get("type") == "content.part" and event["part"]["type"] == "text":
            yield (*ANSWER, record["time"])


def _kimi_cli(file: Path) -> Iterator[Told]:
    began = next(r["timestamp"] for r in _values(file.with_name("wire.jsonl")) if r.get("message", {}).get("type") == "TurnBegin")
    tools: dict[str, str] = {}
    for message in _values(file):
        if message["role"] == "user":
            yield (*USER, round(began * 1000))
        elif message["role"] == "tool":
            yield ("tool", "tool_result", tools[message["tool_call_id"]], None)
        elif message["role"] == "assistant":
            for _ in [block for block in message["content"] if block["type"] == "text"]:
                yield (*ANSWER, None)
            for call in message.get("tool_calls", ()):
                tools[call["id"]] = call["function"]["name"]
                yield ("assistant", "tool_call", call["function"]["name"], None)


def _grok(file: Path) -> Iterator[Told]:
    for record in _values(file):
        kind = record["params"]["update"]["sessionUpdate"]
        yield (*(USER if kind == "user_message_chunk" else ANSWER), record["timestamp"] * 1000)


def _antigravity(file: Path) -> Iterator[Told]:
    for step in _values(file):
        yield (*(USER if step["source"] == "USER_EXPLICIT" else ANSWER), _ms(step["created_at"]))


def _deepseek(file: Path) -> Iterator[Told]:
    for event in _values(file):
        match event["type"]:
            case "user/message" if event["data"]["source"]["kind"] == "user":
                yield (*USER, event["time"])
            case "assistant/message":
                yield (*ANSWER, event["time"])
            case "tool/call":
                yield ("assistant", "tool_call", event["data"]["name"], event["time"])
            case "tool/result":
                yield ("tool", "tool_result", "read", event["time"])
            case "session/title":
                yield (*NOTE, event["time"])


KINDS: dict[str, tuple[str, Counter]] = {
    "antigravity": ("deja-vu/fixtures/registry/antigravity/**/transcript.jsonl", _antigravity),
    "cline": ("deja-vu/fixtures/registry/*/**/*_history.json", _cline),
    "cline sessions": ("deja-vu/fixtures/registry/cline/**/*.messages.json", _cline),
    "deepseek": ("deja-vu/fixtures/registry/deepseek/**/*.jsonl", _deepseek),
    "goose": ("deja-vu/fixtures/registry/goose/**/*.jsonl", _goose),
    "grok": ("deja-vu/fixtures/registry/grok/**/updates.jsonl", _grok),
    "kimi": ("deja-vu/fixtures/registry/kimi/**/wire.jsonl", _kimi),
    "kimi-cli": ("cc-history-viewer/**/context.jsonl", _kimi_cli),
    "pi": ("pi-mono/**/*.jsonl", _pi),
    "pi of the registry": ("deja-vu/fixtures/registry/[po][im]*/*.jsonl", _pi),
    "pi of OpenClaw": ("deja-vu/fixtures/registry/openclaw/**/????????-????-????-????-????????????.jsonl", _pi),
}
#: Recordings of terminals, of a message bus, and of status lines: no conversation of anyone.
NOT_TRANSCRIPTS = (
    "ralph/**/*.json*",
    "ccusage/**/statusline*.json",
    "deja-vu/**/sessions.json",
    "deja-vu/**/*.checkpoint.*.jsonl",
)


def files_of(pattern: str, transcripts: Path) -> list[Path]:
    found = sorted(transcripts.glob(pattern))
    assert found, f"no files of {pattern}"
    return found


def name_of(kind: str) -> str:
    return kind.split(" ", maxsplit=1)[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_a_real_file_holds_is_what_it_becomes(kind: str, transcripts: Path) -> None:
    pattern, counter = KINDS[kind]
    importer = IMPORTERS[name_of(kind)](IngestSettings())
    for file in files_of(pattern, transcripts):
        drafts = [draft for step in read(importer, file)[0] for draft in step.drafts]
        told = list(counter(file))
        assert [(d.role.value, d.type.value, d.metadata.get("tool", "")) for d in drafts] == [t[:3] for t in told]
        for draft, (_, _, _, time_ms) in zip(drafts, told, strict=True):
            # Parts of one moment stand behind each other by milliseconds.
            assert time_ms is None or (draft.timestamp is not None and 0 <= draft.timestamp - time_ms < 100)
        assert importer.recognises_file(file, file.read_bytes()[:BEGINNING])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_real_file_gives_nothing_new_the_second_time(
    kind: str, transcripts: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern, counter = KINDS[kind]
    for file in files_of(pattern, transcripts):
        first = pipeline.import_source(IMPORTERS[name_of(kind)](IngestSettings()), file)
        assert first.new == len(list(counter(file)))
        again = pipeline.import_source(IMPORTERS[name_of(kind)](IngestSettings()), file)
        assert (again.new, again.lines, again.files_unchanged) == (0, 0, 1)
        with monkeypatch.context() as patched:
            # A mark that is not found: only the ids tell that everything is known.
            patched.setattr("memory_mcp.capture.pipeline.mark_name", lambda importer, path: f"import:{importer}:other:{path}")
            unmarked = pipeline.import_source(IMPORTERS[name_of(kind)](IngestSettings()), file)
        assert (unmarked.new, unmarked.known) == (0, first.new)


@pytest.mark.parametrize("kind", sorted(k for k in KINDS if IMPORTERS[name_of(k)](IngestSettings()).growth is Growth.APPENDED))
def test_a_real_file_that_grows_gives_what_it_gives_at_once(
    kind: str, transcripts: Path, tmp_path: Path, pipeline: Pipeline
) -> None:
    importer = IMPORTERS[name_of(kind)](IngestSettings())
    for number, file in enumerate(files_of(KINDS[kind][0], transcripts)):
        copied = tmp_path / str(number)
        shutil.copytree(file.parent, copied / file.parent.name)
        grown = copied / file.parent.name / file.name
        whole = [draft.source_id for step in read(importer, grown)[0] for draft in step.drafts]
        raw = grown.read_bytes()
        ends = [match.end() for match in re.finditer(rb"\n", raw)]
        done = new = 0
        for cut in (ends[len(ends) // 2], len(raw)):
            grown.write_bytes(raw[:cut])
            report = pipeline.import_source(importer, grown)
            assert report.bytes == cut - done
            done, new = cut, new + report.new
        assert new == len(whole)


@pytest.mark.parametrize("pattern", NOT_TRANSCRIPTS)
def test_what_is_no_transcript_is_nobodys(pattern: str, transcripts: Path) -> None:
    for file in files_of(pattern, transcripts):
        beginning = file.read_bytes()[:BEGINNING]
        assert [name for name, make in IMPORTERS.items() if make(IngestSettings()).recognises_file(file, beginning)] == []


@pytest.mark.parametrize("name", sorted({kind.split(" ", maxsplit=1)[0] for kind in KINDS}))
def test_importing_what_is_no_transcript_gives_no_event_and_says_why(name: str, transcripts: Path) -> None:
    for file in files_of("ralph/**/*.jsonl", transcripts):
        steps, report = read(IMPORTERS[name](IngestSettings()), file)
        assert not any(step.drafts for step in steps)
        assert report.skipped.total() == report.lines > 0
        assert set(report.quotes) == set(report.skipped)
