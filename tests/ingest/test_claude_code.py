"""Claude Code transcripts: every kind of record, by our own samples and the events they must give."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.ingest.base import ImportReport
from memory_mcp.ingest.claude_code.reader import ClaudeCodeImporter
from memory_mcp.ingest.settings import IngestSettings
from memory_mcp.llm.prompt import Prompt
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.fencing import fence
from memory_mcp.model.sentinel import SUMMARIZER
from memory_mcp.storage.values import Scope
from tests.ingest.suite import claude_line, ids, outcome, read, texts, write
from tests.toc.helpers import memory

SAMPLES = Path(__file__).parent / "samples" / "claude_code"
IMPORTER = ClaudeCodeImporter(IngestSettings())


def drafts_of(file: Path, importer: ClaudeCodeImporter = IMPORTER, offset: int = 0) -> list[EventDraft]:
    return [draft for step in read(importer, file, offset)[0] for draft in step.drafts]


def record(**fields: Any) -> str:
    told = {"type": "user", "sessionId": "s1", "uuid": "u1", "timestamp": "2026-03-02T09:00:00Z", "cwd": "/home/dev/shop"}
    return json.dumps({name: value for name, value in (told | fields).items() if value is not ...})


def said(**fields: Any) -> str:
    content = fields.pop("content")
    return record(message={"role": fields.get("type", "user"), "content": content}, **fields)


@pytest.mark.parametrize("name", sorted(path.stem for path in SAMPLES.glob("*.jsonl")))
def test_a_sample_gives_its_expected_events_and_no_image_data(name: str) -> None:
    expected = json.loads((SAMPLES / f"{name}.expected.json").read_text(encoding="utf-8"))
    assert outcome(*read(IMPORTER, SAMPLES / f"{name}.jsonl")) == expected
    assert all("iVBORw0K" not in event["text"] and "AAAA" not in event["text"] for event in expected["events"])


def test_every_record_that_gives_nothing_is_quoted_under_its_reason() -> None:
    report = ImportReport()
    list(IMPORTER.read(SAMPLES / "bookkeeping.jsonl", 0, report))
    assert set(report.quotes) == set(report.skipped)
    assert report.quotes["progress"][0].line == 10


def test_what_agents_wrote_never_has_the_users_role() -> None:
    for name in ("sidechain_inline", "agent-a7f3c2", "background_agent"):
        prompts = [d.text for d in drafts_of(SAMPLES / f"{name}.jsonl") if d.role is Role.USER]
        assert prompts in ([], ["Ask two helpers about the API."])


def test_thinking_is_kept_on_request_and_moves_no_other_id() -> None:
    thinking = ClaudeCodeImporter(IngestSettings(include_thinking=True))
    with_it = {d.source_id: d for d in drafts_of(SAMPLES / "conversation.jsonl", thinking)}
    without = {d.source_id: d for d in drafts_of(SAMPLES / "conversation.jsonl")}
    extra = [with_it[key] for key in with_it.keys() - without.keys()]
    assert [(d.role, d.type, d.text) for d in extra] == [
        (Role.ASSISTANT, EventType.NOTE, "Coupons are applied in cart.py, I suppose.")
    ]
    assert {key: with_it[key] for key in without} == without


def test_a_thinking_block_before_text_does_not_renumber_the_text(tmp_path: Path) -> None:
    blocks = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}, {"type": "text", "text": "and no"}]
    file = write(tmp_path / "a.jsonl", said(type="assistant", content=blocks))
    steps, report = read(IMPORTER, file)
    assert ids(steps) == ["u1", "u1#1"]
    assert report.left_out == {"thinking": 1}


def test_a_record_without_uuid_has_the_same_id_in_every_file(tmp_path: Path) -> None:
    line, other = said(uuid=..., content="again"), said(uuid=..., content="again", timestamp="2026-03-02T09:00:01Z")
    one = ids(read(IMPORTER, write(tmp_path / "a.jsonl", line, other))[0])
    assert ids(read(IMPORTER, write(tmp_path / "b.jsonl", claude_line(1), line))[0])[1] == one[0]
    assert len(set(one)) == 2


def test_a_resumed_read_knows_the_tool_the_thread_and_the_first_directory(tmp_path: Path) -> None:
    for name in ("conversation", "sidechain_inline", "agent-a7f3c2", "bookkeeping"):
        sample = SAMPLES / f"{name}.jsonl"
        steps, _ = read(IMPORTER, sample)
        for done, step in enumerate(steps, 1):
            assert read(IMPORTER, sample, step.offset)[0] == steps[done:], (name, done)


def test_a_directory_that_is_gone_belongs_to_the_session_s_own_above_it(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    places = [str(here), f"{here}/gone/deeper", "/elsewhere/gone", f"{here}-not"]
    lines = [said(uuid=f"u{n}", cwd=place, content="hello") for n, place in enumerate(places)]
    found = [d.project for d in drafts_of(write(tmp_path / "a.jsonl", *lines))]
    assert found == [str(here), str(here), "/elsewhere/gone", f"{here}-not"]


def test_a_file_names_session_and_thread_when_its_records_do_not(tmp_path: Path) -> None:
    file = write(tmp_path / "agent-x1.jsonl", said(isSidechain=True, content="Count the tests."))
    assert [(d.thread, d.type) for d in drafts_of(file)] == [("x1", EventType.SUBAGENT_START)]
    assert drafts_of(write(tmp_path / "abc.jsonl", said(sessionId=..., content="hello")))[0].session_id == "abc"


@pytest.mark.parametrize(
    ("content", "details", "told"),
    [
        ("Exit code 127\nnot found", "Error", {"exit_status": "127"}),
        ("done", {"exitCode": 3, "status": "completed"}, {"exit_status": "3"}),
        ("done", {"stdout": "done", "interrupted": False}, {"exit_status": "0"}),
        ("done", {"stdout": "done", "interrupted": True}, {}),
        ("", {"stdout": "", "interrupted": False, "backgroundTaskId": "b1"}, {}),
        ("none", {"stdout": "", "interrupted": False, "returnCodeInterpretation": "No matches found"}, {}),
        ("a\nb", {"filenames": ["a", "b"], "numFiles": 2}, {"files": "a\nb"}),
        ("<tool_use_error>No such file</tool_use_error>", None, {}),
    ],
)
def test_a_result_tells_status_and_files_only_when_it_was_told(
    content: str, details: object, told: dict[str, str], tmp_path: Path
) -> None:
    line = said(content=[{"type": "tool_result", "tool_use_id": "t1", "content": content}], toolUseResult=details, cwd=...)
    (draft,) = drafts_of(write(tmp_path / "a.jsonl", line))
    assert draft.type is EventType.TOOL_RESULT
    assert draft.metadata == {"tool_use_id": "t1"} | told
    assert draft.text == (content.removeprefix("<tool_use_error>").removesuffix("</tool_use_error>") or "(no output)")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("Bash", {"command": "go test ./...", "description": "Run tests"}, "Bash: go test ./...\ndescription: Run tests"),
        ("Write", {"file_path": "a.py", "content": "x = 1"}, "Write: a.py\ncontent: x = 1"),
        ("Glob", {"pattern": "**/*.py"}, "Glob: **/*.py"),
        ("mcp__issues__get", {"id": "ENT-98"}, "mcp__issues__get: ENT-98"),
        ("ListFiles", {}, "ListFiles"),
        ("MultiEdit", {"file_path": "a.py", "edits": [{"old_string": "a"}]}, 'MultiEdit: a.py\nedits: [{"old_string":"a"}]'),
        ("Odd", "not an object", "Odd"),
    ],
)
def test_a_call_reads_as_one_would_say_it(name: str, arguments: object, text: str, tmp_path: Path) -> None:
    line = said(type="assistant", content=[{"type": "tool_use", "id": "t1", "name": name, "input": arguments}])
    assert texts(read(IMPORTER, write(tmp_path / "a.jsonl", line))[0]) == [text]


def test_a_very_long_argument_keeps_head_and_tail(tmp_path: Path) -> None:
    arguments = {"file_path": "a.py", "content": "head " + "x" * 50_000 + " tail"}
    line = said(type="assistant", content=[{"type": "tool_use", "id": "t1", "name": "Write", "input": arguments}])
    (text,) = texts(read(IMPORTER, write(tmp_path / "a.jsonl", line))[0])
    assert len(text) < 10_000
    assert "content: head xxx" in text
    assert text.endswith("xxx tail")


def test_injected_blocks_leave_the_users_words(tmp_path: Path) -> None:
    line = said(content="<system-reminder>a</system-reminder>Keep <b>this</b>.<system-reminder>b\nc")
    assert texts(read(IMPORTER, write(tmp_path / "a.jsonl", line))[0]) == ["Keep <b>this</b>."]


@pytest.mark.parametrize(
    "unit", ["<system-reminder ", "<system-reminder>", "</system-reminder>", " ", "<bash-input>", "\x1b]", "<"]
)
@pytest.mark.parametrize("kind", ["user", "tool_result"])
def test_long_odd_texts_are_unwrapped_in_time(unit: str, kind: str, tmp_path: Path) -> None:
    """Two megabytes; read to their end from every beginning they would take hours."""
    text = "<system-reminder>x</system-reminder><tool_use_error>" + unit * (2_000_000 // len(unit)) + "."
    content = text if kind == "user" else [{"type": "tool_result", "tool_use_id": "t1", "content": text}]
    drafts_of(write(tmp_path / "a.jsonl", said(content=content), said(content="<bash-input>" + text)))


def test_a_file_of_summaries_alone_is_as_old_as_the_file_and_not_as_the_import(tmp_path: Path) -> None:
    """A record without a time made the import's day one on which something had happened."""
    file = tmp_path / "3f1c.jsonl"
    file.write_text(json.dumps({"type": "summary", "summary": "Ferry timetable imported", "leafUuid": "m1"}) + "\n")
    os.utime(file, (1_750_000_000, 1_750_000_000))
    app = memory()
    for _ in range(2):
        app.write(drafts_of(file), "claude-code")
        os.utime(file, (1_760_000_000, 1_760_000_000))
    assert [e.timestamp for e in app.storage.events.window(Scope())] == [1_750_000_000_000]
    app.close()


def test_a_summary_beside_messages_has_the_time_of_its_session(tmp_path: Path) -> None:
    file = tmp_path / "3f1c.jsonl"
    lines = [
        json.dumps({"type": "summary", "summary": "Ferry timetable imported", "leafUuid": "m1"}),
        said(content="Count them."),
    ]
    file.write_text("\n".join(lines) + "\n")
    app = memory()
    app.write(drafts_of(file), "claude-code")
    summary, prompt = app.storage.events.window(Scope())
    assert (summary.timestamp, summary.text) == (prompt.timestamp - 1, "Ferry timetable imported")
    app.close()


@pytest.mark.parametrize("tellings", [("remove",), ("attach",), ("remove", "attach"), ("attach", "remove")])
def test_an_equal_prompt_that_is_queued_again_is_said_again(tmp_path: Path, tellings: tuple[str, ...]) -> None:
    """Whichever records tell of a prompt that was slipped into a running turn: each time it is one event."""

    def slipped_in(minute: int) -> list[str]:
        at = f"2026-03-02T09:{minute:02d}"
        operation = {"type": "queue-operation", "sessionId": "s1"}
        kinds = {
            "remove": operation | {"operation": "remove", "timestamp": f"{at}:05.000Z"},
            "attach": {"type": "attachment", "uuid": f"a{minute}", "timestamp": f"{at}:06.000Z", "sessionId": "s1"}
            | {"attachment": {"type": "queued_command", "prompt": "go on"}},
        }
        queued = operation | {"operation": "enqueue", "timestamp": f"{at}:00.000Z", "content": "go on"}
        return [json.dumps(told) for told in (queued, *(kinds[kind] for kind in tellings))]

    file = write(tmp_path / "a.jsonl", said(content="Begin.", uuid="u1"), *slipped_in(10), *slipped_in(29))
    assert [d.text for d in drafts_of(file)] == ["Begin.", "go on", "go on"]
    assert len({(d.timestamp, d.source_id) for d in drafts_of(file)}) == 3


def test_a_session_that_our_own_summarizer_had_gives_nothing_from_any_offset(tmp_path: Path) -> None:
    prompt = Prompt("Say it better.", fence("We decided to use the outbox table.")).whole
    file = write(
        tmp_path / "own.jsonl",
        json.dumps({"type": "queue-operation", "operation": "enqueue", "content": prompt, "sessionId": "s1"}),
        said(content=prompt, uuid="u1"),
        said(type="assistant", content=[{"type": "text", "text": '{"title": "The outbox table"}'}], uuid="u2"),
        record(type="summary", summary="Summarizing the outbox table", leafUuid="u2"),
    )
    steps, report = read(IMPORTER, file)
    assert [draft for step in steps for draft in step.drafts] == []
    assert report.skipped == {"the summarizer's own session": 4}
    assert report.lines == 4
    for step in steps:
        assert drafts_of(file, offset=step.offset) == []


def test_a_session_that_only_speaks_of_the_summarizers_mark_is_kept(tmp_path: Path) -> None:
    file = write(
        tmp_path / "about.jsonl",
        said(content=f"What does the summarizer write? See {SUMMARIZER[:10]} in sentinel.py", uuid="u1"),
        said(content=[{"type": "tool_result", "tool_use_id": "t", "content": f"{SUMMARIZER}\nSay it better."}], uuid="u2"),
        said(type="assistant", content=[{"type": "text", "text": "It marks its prompts."}], uuid="u3"),
    )
    assert len(drafts_of(file)) == 3
