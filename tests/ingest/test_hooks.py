"""Payloads of clients' hooks: what each gives, and that it reads as the transcript of the same session does."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.capture.gate import OWN_OUTPUT, Gate
from memory_mcp.capture.hooks.base import Envelope, HookEvents, MalformedPayload
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.claude_code.reader import ClaudeCodeImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.fencing import fence_text
from memory_mcp.model.sentinel import MARK
from tests.ingest.suite import write

AT = 1_768_204_800_000
ENVELOPE = Envelope("00000001768204800000-00-claude-code", AT, project_dir="/home/dev/shop")
SESSION = "0c9a5f0e-1111-4222-8333-444455556666"


def payload(event: str, **more: Any) -> str:
    told = {"session_id": SESSION, "transcript_path": "/t.jsonl", "cwd": "/home/dev/shop", "hook_event_name": event}
    return json.dumps(told | more)


def heard(event: str, **more: Any) -> HookEvents:
    return HOOKS["claude-code"].parse_payload(payload(event, **more), ENVELOPE)


def one(event: str, **more: Any) -> EventDraft:
    (draft,) = heard(event, **more).drafts
    return draft


def used(name: str, given: dict[str, Any], answer: Any, **more: Any) -> list[EventDraft]:
    return heard("PostToolUse", tool_name=name, tool_input=given, tool_response=answer, tool_use_id="toolu_1", **more).drafts


# every event


@pytest.mark.parametrize(
    ("event", "more", "role", "kind", "text"),
    [
        ("SessionStart", {"source": "startup"}, Role.SYSTEM, EventType.SESSION_START, "Session started (startup)"),
        ("SessionEnd", {"reason": "logout"}, Role.SYSTEM, EventType.SESSION_END, "Session ended (logout)"),
        ("UserPromptSubmit", {"prompt": " Fix the queue. "}, Role.USER, EventType.USER_MESSAGE, "Fix the queue."),
        ("Stop", {"last_assistant_message": "Fixed."}, Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, "Fixed."),
        ("SubagentStart", {"agent_id": "a1", "agent_type": "Explore"},
         Role.SYSTEM, EventType.SUBAGENT_START, "Subagent started: Explore"),
        ("SubagentStop", {"agent_id": "a1", "last_assistant_message": "Two tests."},
         Role.ASSISTANT, EventType.SUBAGENT_STOP, "Two tests."),
        ("PreCompact", {"trigger": "manual", "custom_instructions": "keep ids"},
         Role.SYSTEM, EventType.NOTE, "Compaction (manual): keep ids"),
        ("PostCompact", {"trigger": "auto", "compact_summary": "We fixed it."}, Role.SYSTEM, EventType.NOTE, "We fixed it."),
    ],
)  # fmt: skip
def test_an_event_with_words_gives_them_in_its_session(
    event: str, more: dict[str, Any], role: Role, kind: EventType, text: str
) -> None:
    draft = one(event, **more)
    assert (draft.role, draft.type, draft.text) == (role, kind, text)
    assert (draft.session_id, draft.timestamp, draft.agent) == (SESSION, AT, "claude-code")
    assert (draft.project, draft.thread) == ("/home/dev/shop", more.get("agent_id", ""))
    assert draft.source_id.startswith(ENVELOPE.name)


@pytest.mark.parametrize(
    ("event", "more", "reason"),
    [
        ("PreToolUse", {"tool_name": "Bash"}, "PreToolUse"),
        ("Notification", {"message": "waiting"}, "Notification"),
        ("MessageDisplay", {"delta": "All"}, "MessageDisplay"),
        ("PostToolBatch", {"tool_calls": []}, "PostToolBatch"),
        ("BrandNewEvent", {"words": "x"}, "unknown event"),
        ("Stop", {"last_assistant_message": ""}, "Stop with no text"),
        ("Stop", {}, "Stop with no text"),
        ("PreCompact", {"trigger": "auto", "custom_instructions": ""}, "PreCompact with no text"),
        ("UserPromptSubmit", {"prompt": "<system-reminder>x</system-reminder>"}, "UserPromptSubmit with no text"),
    ],
)
def test_what_holds_nothing_to_keep_is_skipped_with_its_reason(event: str, more: dict[str, Any], reason: str) -> None:
    told = heard(event, **more)
    assert (told.drafts, told.skip_reason) == ([], reason)


@pytest.mark.parametrize(
    ("event", "more", "ends"),
    [
        ("SessionEnd", {"reason": "clear"}, True),
        ("PreCompact", {"trigger": "auto", "custom_instructions": ""}, True),
        ("PreCompact", {"trigger": "manual", "custom_instructions": "keep ids"}, True),
        ("Stop", {"last_assistant_message": "Done."}, False),
        ("PostCompact", {"compact_summary": "All of it."}, False),
    ],
)
def test_a_session_that_ends_or_is_compacted_names_its_project(event: str, more: dict[str, Any], ends: bool) -> None:
    assert bool(heard(event, **more).ended_project) is ends


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ('{"session_id": "s"} and more', "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"session_id": "s"}', "no hook_event_name"),
        ('{"hook_event_name": "Stop"}', "no session_id"),
        ('{"hook_event_name": "Stop", "session_id": 7}', "no session_id"),
        ("[" * 200_000, "nested too deep"),
    ],
)
def test_what_is_no_payload_is_refused_with_the_reason(raw: str, reason: str) -> None:
    with pytest.raises(MalformedPayload, match=reason):
        HOOKS["claude-code"].parse_payload(raw, ENVELOPE)


def test_odd_values_in_known_fields_never_raise_anything_else() -> None:
    odd: list[Any] = [None, 7, True, "", [], {}, [None], {"a": [1]}, ["x", {"type": "text", "text": 3}]]
    fields = (
        "source prompt tool_name tool_input tool_response tool_use_id error duration_ms cwd agent_id agent_type "
        "last_assistant_message compact_summary custom_instructions trigger reason"
    ).split()
    events = (
        "SessionStart UserPromptSubmit PostToolUse PostToolUseFailure Stop SubagentStart SubagentStop PreCompact PostCompact "
        "SessionEnd"
    ).split()
    for event in events:
        for field in fields:
            for value in odd:
                result = heard(event, **{field: value})
                assert result.drafts or result.skip_reason
                assert all(d.session_id == SESSION and d.text.strip() for d in result.drafts)


# tools


def test_a_tool_gives_its_call_and_then_its_result() -> None:
    call, result = used(
        "Bash", {"command": "pytest -q"}, {"stdout": "3 passed", "stderr": "", "interrupted": False}, duration_ms=1500
    )
    assert (call.type, call.role, call.text) == (EventType.TOOL_CALL, Role.ASSISTANT, "Bash: pytest -q")
    assert (result.type, result.role, result.text) == (EventType.TOOL_RESULT, Role.TOOL, "3 passed")
    assert (call.timestamp, result.timestamp) == (AT - 1500, AT)
    assert call.source_id != result.source_id
    assert call.metadata["tool_use_id"] == result.metadata["tool_use_id"] == "toolu_1"
    assert (call.metadata["command"], result.metadata["exit_status"], result.metadata["tool"]) == ("pytest -q", "0", "Bash")


def test_a_call_comes_before_its_result_whatever_the_client_says_of_its_length() -> None:
    for took in (0, -5, None, "long", 1e30, True):
        call, result = used("LS", {"path": "."}, "a\nb", duration_ms=took)
        assert (call.timestamp or 0) < (result.timestamp or 0) == AT


def test_a_tool_that_failed_says_so_and_one_of_a_subagent_belongs_to_its_thread() -> None:
    drafts = heard("PostToolUseFailure", tool_name="Bash", tool_input={"command": "exit 3"}, tool_use_id="t", error="Exit code 3")
    call, result = drafts.drafts
    assert (call.text, result.text) == ("Bash: exit 3", "Exit code 3")
    assert (result.metadata["is_error"], result.metadata["exit_status"]) == ("true", "3")
    assert {d.thread for d in used("Read", {"file_path": "a"}, "x", agent_id="a7")} == {"a7"}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("plain words", "plain words"),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ({"stdout": "out\n", "stderr": "warn"}, "out\nwarn"),
        ({"stdout": "", "stderr": ""}, "(no output)"),
        ([], "(no output)"),
        (None, "(no output)"),
        ({"type": "create", "filePath": "/x.py", "content": "x"}, "File created successfully at: /x.py"),
        ({"filePath": "/x.py", "oldString": "a", "newString": "b", "structuredPatch": []}, "The file /x.py has been updated."),
        ({"type": "text", "file": {"filePath": "/x.py", "content": "import os"}}, "import os"),
        ({"filenames": ["a.py", "b.py"], "numFiles": 2}, "a.py\nb.py"),
        ({"mode": "content", "content": "a.py:1:x", "filenames": []}, "a.py:1:x"),
        ({"contents": [{"uri": "u", "text": "note"}]}, "note"),
        ({"result": "the page says so"}, "the page says so"),
        ({"isAsync": True, "status": "async_launched", "description": "count", "prompt": "p"}, "async_launched: count"),
        ({"answers": {"q": "yes"}}, '{"answers":{"q":"yes"}}'),
    ],
)
def test_the_words_of_an_answer_are_found_in_any_of_its_forms(answer: Any, text: str) -> None:
    assert used("Tool", {}, answer)[1].text == text


def test_an_odd_answer_is_told_at_bounded_length_and_an_image_by_its_kind() -> None:
    assert len(used("Tool", {}, {"rows": ["x" * 50_000]})[1].text) < 9000
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA" * 1000}}
    assert used("Shot", {}, [image])[1].text == "[image image/png]"


def test_what_this_memory_told_a_tool_is_not_kept() -> None:
    gate, secret = Gate(), "the recalled words"
    answers: list[Any] = [
        json.dumps({"origin": MARK, "results": [{"quote": secret}]}),
        {"origin": MARK, "results": [{"quote": secret}]},
        {"content": [{"type": "text", "text": secret}], "structuredContent": {"origin": MARK}},
        {"contents": [{"uri": "memory://grip/x", "text": json.dumps({"origin": MARK, "quote": secret})}]},
        [{"type": "text", "text": fence_text(secret)}],
    ]
    for answer in answers:
        report = ImportReport()
        drafts = used("mcp__memory__intelligent_search", {"query": "what did we say"}, answer)
        kept = [d for d in drafts if gate.clean_draft(d, report)]
        assert [d.text for d in kept] == ["mcp__memory__intelligent_search: what did we say"]
        assert report.dropped == {OWN_OUTPUT: 1}


# the same words as the transcript's


def test_a_session_reads_alike_from_its_hooks_and_from_its_transcript(tmp_path: Path) -> None:
    common = {"sessionId": SESSION, "cwd": "/home/dev/shop", "timestamp": "2026-01-12T08:00:00Z"}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls", "description": "look"}}
    details = {"stdout": "a.py", "stderr": "", "interrupted": False}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.py"}
    said = {"type": "text", "text": "One file."}
    lines = [
        {**common, "type": "user", "uuid": "1", "message": {"role": "user", "content": "What is here?"}},
        {**common, "type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": [call]}},
        {**common, "type": "user", "uuid": "3", "message": {"role": "user", "content": [answer]}, "toolUseResult": details},
        {**common, "type": "assistant", "uuid": "4", "message": {"role": "assistant", "content": [said]}},
    ]
    file = write(tmp_path / f"{SESSION}.jsonl", *map(json.dumps, lines))
    importer = ClaudeCodeImporter(IngestSettings())
    read = [d for step in importer.read_file(file, 0, ImportReport()) for d in step.drafts]
    told = [
        one("UserPromptSubmit", prompt="What is here?"),
        *used("Bash", call["input"], details),  # type: ignore[arg-type]
        one("Stop", last_assistant_message="One file."),
    ]
    plain = [[(d.role, d.type, d.text, d.project, d.thread, d.agent, dict(d.metadata)) for d in some] for some in (read, told)]
    assert plain[0] == plain[1]


def test_the_project_of_a_directory_that_is_gone_is_the_declared_one(tmp_path: Path) -> None:
    envelope = Envelope("n", AT, project_dir=str(tmp_path))
    gone = payload("UserPromptSubmit", prompt="x", cwd=str(tmp_path / "gone"))
    assert HOOKS["claude-code"].parse_payload(gone, envelope).drafts[0].project == str(tmp_path)


# the plain form


def plain(raw: str, name: str = "00000000000000000001-00-json", **more: str) -> list[EventDraft]:
    return HOOKS["json"].parse_payload(raw, Envelope(name, AT, **more)).drafts


EVENT = {"session_id": "s1", "timestamp": 1_768_204_000_000, "role": "user", "text": "hello"}


@pytest.mark.parametrize(
    ("raw", "count"),
    [
        (json.dumps(EVENT), 1),
        (json.dumps(EVENT, indent=4), 1),
        (json.dumps([EVENT, EVENT]), 2),
        (json.dumps(EVENT) + "\n" + json.dumps(EVENT) + "\n", 2),
        ("[]", 0),
    ],
)
def test_the_plain_form_is_one_event_a_list_or_one_after_another(raw: str, count: int) -> None:
    drafts = plain(raw)
    assert [d.text for d in drafts] == ["hello"] * count
    assert len({d.source_id for d in drafts}) == count


def test_in_the_plain_form_time_and_project_may_be_left_to_the_hook(tmp_path: Path) -> None:
    bare = {k: v for k, v in EVENT.items() if k != "timestamp"}
    (draft,) = plain(json.dumps(bare), cwd=str(tmp_path))
    assert (draft.timestamp, draft.project) == (AT, str(tmp_path))
    (draft,) = plain(json.dumps(EVENT | {"project": "p", "id": "m7"}), cwd=str(tmp_path))
    assert (draft.timestamp, draft.project, draft.source_id) == (EVENT["timestamp"], "p", "m7")
    assert plain(json.dumps(EVENT), cwd=str(Path.home()))[0].project == ""


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("nothing", "not JSON"),
        ("7", "not an event"),
        (json.dumps([EVENT, {"role": "user"}]), "session_id is missing"),
        (json.dumps(EVENT | {"txt": 1}), "unknown field 'txt'"),
        (json.dumps(EVENT | {"timestamp": "soon"}), "invalid timestamp"),
    ],
)
def test_an_event_that_is_wrong_refuses_the_payload(raw: str, reason: str) -> None:
    with pytest.raises(MalformedPayload, match=reason):
        plain(raw)


def test_the_same_payload_under_the_same_name_gives_the_same_drafts_and_other_ids_under_another() -> None:
    raw = payload("UserPromptSubmit", prompt="again")
    first, second = (HOOKS["claude-code"].parse_payload(raw, Envelope(n, AT)).drafts for n in ("a", "b"))
    assert first == HOOKS["claude-code"].parse_payload(raw, Envelope("a", AT)).drafts
    assert first[0].source_id != second[0].source_id


def test_the_hook_and_the_spool_know_the_same_clients() -> None:
    from memory_mcp.service.client import hook

    assert set(hook.CLIENTS) == set(HOOKS)


def test_a_hook_gives_what_was_answered_and_the_whole_of_a_saved_result(tmp_path: Path) -> None:
    asked = [{"question": "Which store?", "header": "Store", "options": [{"label": "Tables"}]}]
    answered = {"questions": asked, "answers": {"Which store?": "Files, please"}}
    answer = used("AskUserQuestion", {"questions": asked}, answered)[-1]
    assert (answer.role, answer.type, answer.text) == (Role.USER, EventType.USER_MESSAGE, "> Which store?\nFiles, please")
    saved = tmp_path / SESSION / "tool-results" / "b1.txt"
    saved.parent.mkdir(parents=True)
    saved.write_text("all\nof\nit")
    output = {"stdout": "all", "stderr": "", "interrupted": False, "persistedOutputPath": str(saved)}
    for transcript, text in (
        (f"{tmp_path}/{SESSION}.jsonl", "all\nof\nit"),
        (f"{tmp_path}/other.jsonl", "all"),
        (f"{SESSION}.jsonl", "all"),
        ("", "all"),
    ):
        assert used("Bash", {"command": "make"}, output, transcript_path=transcript)[-1].text == text
