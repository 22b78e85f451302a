"""Payloads of Codex, Gemini CLI and our plugin in opencode, in the forms that the real clients send."""

import json
from typing import Any

import pytest

from memory_mcp.capture.hooks.base import Envelope, HookEvents, MalformedPayload
from memory_mcp.capture.hooks.claude_code import RECORDED_EVENTS
from memory_mcp.capture.hooks.gemini import EVENTS
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.install.base import CLAUDE_CODE_EVENTS, CODEX_EVENTS, GEMINI_EVENTS
from memory_mcp.model.event import EventDraft, EventType, Role

AT = 1_768_204_800_000
SESSION = "01a2074d-8feb-7e20-9c5d-772c936cd5b4"
OTHERS = ("codex", "gemini", "opencode")


def read(client: str, event: str = "", **more: Any) -> HookEvents:
    told = {"session_id": SESSION, "cwd": "/home/dev/shop"} | ({"hook_event_name": event} if event else {})
    return HOOKS[client].parse_payload(
        json.dumps(told | more), Envelope(f"00000001768204800000-00-{client}", AT, cwd="/home/dev/shop")
    )


def one(client: str, event: str = "", **more: Any) -> EventDraft:
    (draft,) = read(client, event, **more).drafts
    return draft


def shown(drafts: list[EventDraft]) -> list[tuple[Role, EventType, str]]:
    return [(d.role, d.type, d.text) for d in drafts]


@pytest.mark.parametrize("client", OTHERS)
def test_a_session_starts_and_ends_in_its_project(client: str) -> None:
    start, end = one(client, "SessionStart", source="startup"), one(client, "SessionEnd", reason="exit")
    assert shown([start, end]) == [
        (Role.SYSTEM, EventType.SESSION_START, "Session started (startup)"),
        (Role.SYSTEM, EventType.SESSION_END, "Session ended (exit)"),
    ]
    assert (start.session_id, start.agent, start.project, start.timestamp) == (SESSION, client, "/home/dev/shop", AT)
    assert read(client, "SessionEnd", reason="exit").ended_project == "/home/dev/shop"


@pytest.mark.parametrize("client", OTHERS)
def test_what_is_no_payload_is_refused_and_odd_values_are_not(client: str) -> None:
    for raw in ("", "[1]", "{}", '{"hook_event_name": "SessionStart"}'):
        with pytest.raises(MalformedPayload):
            HOOKS[client].parse_payload(raw, Envelope("n", AT))
    odd: list[Any] = [None, 7, True, "", [], {}, [None], {"a": [1]}, ["x", {"type": "tool", "state": 3}], -(10**30), 1e300]
    fields = (
        "prompt prompt_response tool_name tool_input tool_response tool_use_id timestamp time parts role last_assistant_message"
    )
    for event in ("SessionStart", "BeforeAgent", "AfterAgent", "AfterTool", "UserPromptSubmit", "PostToolUse", "Parts", "Stop"):
        for field in fields.split():
            for value in odd:
                heard = read(client, event, **{field: value})
                assert heard.drafts or heard.skip_reason


@pytest.mark.parametrize(
    ("client", "event"),
    [
        ("codex", "PreToolUse"),
        ("codex", "Interrupt"),
        ("codex", "PermissionRequest"),
        ("gemini", "BeforeTool"),
        ("gemini", "AfterModel"),
        ("gemini", "PreCompress"),
        ("gemini", "Notification"),
    ],
)
def test_what_says_nothing_of_use_is_passed_over(client: str, event: str) -> None:
    told = read(client, event, trigger="auto")
    assert (told.drafts, told.skip_reason, told.ended_project) == ([], event, "")


def test_clients_are_told_to_hand_over_what_is_read_and_nothing_else() -> None:
    # Before a call nothing is kept; a hint may be given.
    assert set(CLAUDE_CODE_EVENTS) == {*RECORDED_EVENTS, "PreToolUse"}
    assert set(CODEX_EVENTS) <= set(CLAUDE_CODE_EVENTS)
    assert set(GEMINI_EVENTS) == set(EVENTS)


# Codex


def test_codex_tells_a_turn_with_the_ids_of_its_rollout() -> None:
    turn = {"turn_id": "t1", "model": "m", "permission_mode": "default", "transcript_path": None}
    used = {"tool_name": "Bash", "tool_input": {"command": "make test"}, "tool_response": "3 passed\n", "tool_use_id": "call_7"}
    drafts = [
        one("codex", "UserPromptSubmit", prompt="Run the tests.", **turn),
        *read("codex", "PostToolUse", **used, **turn).drafts,
        one("codex", "Stop", last_assistant_message="They pass.", stop_hook_active=False, **turn),
    ]
    assert shown(drafts) == [
        (Role.USER, EventType.USER_MESSAGE, "Run the tests."),
        (Role.ASSISTANT, EventType.TOOL_CALL, "Bash: make test"),
        (Role.TOOL, EventType.TOOL_RESULT, "3 passed"),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, "They pass."),
    ]
    assert [d.metadata.get("tool_use_id", "") for d in drafts] == ["", "call_7", "call_7", ""]
    assert {d.agent for d in drafts} == {"codex"}


# Gemini CLI


def test_gemini_tells_a_turn_at_the_time_it_gives_and_without_what_was_added_to_it() -> None:
    added = "<hook_context>Where we left off\nyesterday</hook_context>\n\n"
    turn = {"timestamp": "2026-01-12T08:00:01.250Z", "prompt": added + "Run the tests."}
    answer = {"llmContent": "<untrusted_context>\n3 passed\n</untrusted_context>", "returnDisplay": "3 passed"}
    used = {"tool_name": "run_shell_command", "tool_input": {"command": "make test"}, "tool_response": answer}
    drafts = [
        one("gemini", "BeforeAgent", **turn),
        *read("gemini", "AfterTool", **used).drafts,
        one("gemini", "AfterAgent", prompt_response="They pass.", stop_hook_active=False, **turn),
    ]
    assert shown(drafts) == [
        (Role.USER, EventType.USER_MESSAGE, "Run the tests."),
        (Role.ASSISTANT, EventType.TOOL_CALL, "run_shell_command: make test"),
        (Role.TOOL, EventType.TOOL_RESULT, "3 passed"),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, "They pass."),
    ]
    assert [d.timestamp for d in drafts] == [AT + 1250, AT - 1, AT, AT + 1250]
    # A time of another day is not believed.
    assert one("gemini", "BeforeAgent", prompt="x", timestamp="1999-01-01T00:00:00Z").timestamp == AT


@pytest.mark.parametrize(
    ("answer", "text", "failed"),
    [
        ({"llmContent": [{"text": "one"}, {"text": "two"}]}, "one\ntwo", False),
        ({"llmContent": "Could not read.", "error": {"message": "File not found: /x", "type": "y"}}, "File not found: /x", True),
        ({"llmContent": "It broke.", "error": {"type": "y"}}, "It broke.", True),
    ],
)
def test_an_answer_of_a_tool_of_gemini_is_its_words(answer: Any, text: str, failed: bool) -> None:
    *_, result = read("gemini", "AfterTool", tool_name="read_file", tool_input={"path": "x"}, tool_response=answer).drafts
    assert (result.text, result.metadata.get("is_error") == "true") == (text, failed)


# opencode


def part(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {"id": f"prt_{number}", "messageID": "msg_1", "sessionID": SESSION, "type": kind, **more}


def tool(**state: Any) -> dict[str, Any]:
    times = {"start": AT - 300, "end": AT - 100}
    return part("tool", 2, tool="bash", callID="call_7", state={"input": {"command": "make test"}, "time": times, **state})


def test_opencode_tells_parts_by_their_ids_and_times_and_what_failed() -> None:
    asked = {"role": "user", "message_id": "msg_0", "time": AT - 500, "parts": [part("text", 1, text="Run the tests.")]}
    drafts = [
        one("opencode", "UserPromptSubmit", **asked),
        *read("opencode", "Parts", parts=[tool(status="completed", output="3 passed\n")]).drafts,
        one("opencode", "Parts", parts=[part("text", 3, text="They pass.", time={"start": AT - 60, "end": AT - 50})]),
    ]
    assert shown(drafts) == [
        (Role.USER, EventType.USER_MESSAGE, "Run the tests."),
        (Role.ASSISTANT, EventType.TOOL_CALL, "bash: make test"),
        (Role.TOOL, EventType.TOOL_RESULT, "3 passed"),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, "They pass."),
    ]
    assert [d.source_id for d in drafts] == ["msg_0", "prt_2#call", "prt_2#result", "prt_3"]
    assert [d.timestamp for d in drafts] == [AT - 500, AT - 300, AT - 100, AT - 50]
    assert [d.metadata.get("tool_use_id", "") for d in drafts] == ["", "call_7", "call_7", ""]
    _, result = read("opencode", "Parts", parts=[tool(status="error", error="The user said no.")]).drafts
    assert (result.text, result.metadata["is_error"]) == ("The user said no.", "true")


def test_what_opencode_itself_wrote_into_a_prompt_is_nobodys_words() -> None:
    parts = [part("text", 1, text="Called the Read tool", synthetic=True), part("text", 2, text="Look.")]
    parts += [part("file", 3, mime="image/png", filename="a.png"), part("agent", 4)]
    assert one("opencode", "Parts", role="user", time=AT, parts=parts).text == "Look.\n[image/png a.png]"
    assert read("opencode", "Parts", role="user", time=AT, parts=parts[:1]).skip_reason == "nothing to keep"


def test_a_subagent_of_opencode_is_a_thread_and_what_it_is_told_is_not_the_users() -> None:
    (start,) = read("opencode", "Parts", role="user", agent_id="ses_2", time=AT, parts=[part("text", 1, text="Look.")]).drafts
    call, result = read("opencode", "Parts", agent_id="ses_2", parts=[tool(status="completed", output="x")]).drafts
    assert (start.role, start.type, start.text) == (Role.ASSISTANT, EventType.SUBAGENT_START, "Look.")
    assert {(d.session_id, d.thread) for d in (start, call, result)} == {(SESSION, "ses_2")}
