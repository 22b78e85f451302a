"""Convert payloads of Claude Code's hooks to drafts.

A payload is put into the form of the transcript's own records and read as those are, so that texts, types and metadata
of what was said and done come out as they will when the transcript is imported. Payloads of other clients are put into the
form of these (`convert_payload`).

Invariants
1. A source id depends on the spool file's name and the part of the payload alone.
2. A call comes before its result in time, and neither before the prompt that led to it.

Change here: keep another kind of payload of a client's hooks.
"""

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.capture.hooks.base import NO_TEXT, Envelope, HookEvents, MalformedPayload, parse_object
from memory_mcp.importers.blocks import as_list, as_mapping, as_text, words_of
from memory_mcp.importers.claude_code.records import AGENT, convert_record
from memory_mcp.importers.claude_code.state import SessionState
from memory_mcp.importers.own_output import is_answer
from memory_mcp.importers.wrappers import find_author
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.fencing import fence_text

#: Events without lasting content: before an action, shown in pieces, or repeated by another event.
_IGNORED_EVENTS = frozenset(
    "PreToolUse PostToolBatch PermissionRequest PermissionDenied Notification MessageDisplay UserPromptExpansion StopFailure "
    "InstructionsLoaded ConfigChange CwdChanged DirectoryAdded FileChanged WorktreeCreate WorktreeRemove TaskCreated "
    "TaskCompleted TeammateIdle Elicitation ElicitationResult Setup".split()
)
#: Longest answer of a tool without text that is kept as JSON, characters.
_LONGEST_JSON = 8192
#: A call that took longer than this is believed to have: clocks may have been set meanwhile (milliseconds).
_LONGEST_CALL = 86_400_000

Payload = Mapping[str, object]


class ClaudeCodeHooks:
    """Reads the payloads of every version of Claude Code with hooks."""

    #: Its settings and its plugins may both name the hook; both then get the same payload.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """See `Hooks.read`."""
        return convert_payload(parse_object(payload), envelope)


def convert_payload(payload: Payload, envelope: Envelope, agent: str = AGENT) -> HookEvents:
    """Return what a payload in Claude Code's form gives, as events of `agent`.

    Raises MalformedPayload without an event or a session.
    """
    event = as_text(payload.get("hook_event_name"))
    if not event:
        raise MalformedPayload("no hook_event_name")
    if not as_text(payload.get("session_id")).strip():
        raise MalformedPayload("no session_id")
    if event not in RECORDED_EVENTS:
        return HookEvents(skip_reason=event if event in _IGNORED_EVENTS else "unknown event")
    telling = _PayloadReader(payload, envelope)
    drafts = [replace(d, agent=agent) for d in telling.make_drafts(event) if d.text.strip()]
    return HookEvents(
        drafts, "" if drafts else f"{event} with {NO_TEXT}", telling.find_project() if event in _ENDING_EVENTS else ""
    )


class _PayloadReader:
    """One payload, and the transcript records that it corresponds to."""

    def __init__(self, payload: Payload, envelope: Envelope) -> None:
        self.payload = payload
        self._envelope = envelope
        self._state = SessionState(Path(envelope.name))
        self._state.first_cwd = envelope.project_dir
        transcript = Path(self.text_of("transcript_path"))
        # The session's own file, or nothing is read beside it.
        is_own = transcript.is_absolute() and transcript.stem == self.text_of("session_id")
        self._state.transcript = transcript if is_own else None

    def text_of(self, key: str) -> str:
        return as_text(self.payload.get(key))

    def read_record(self, kind: str, content: object, part: str = "", earlier_ms: int = 0, **more: object) -> list[EventDraft]:
        """Return the drafts of the transcript record with `content`.

        `kind` is its type and role, `part` is added to its id, `more` are further fields. It was made `earlier_ms` before the
        payload was received.
        """
        at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=self._envelope.received_ms - earlier_ms)
        record: dict[str, object] = {
            "type": kind,
            "uuid": self._envelope.name + part,
            "sessionId": self.text_of("session_id"),
            "timestamp": at.isoformat(),
            "cwd": self.text_of("cwd") or self._envelope.cwd,
            "agentId": self.text_of("agent_id"),
            "message": {"role": kind, "content": content},
            **more,
        }
        if author := find_author(self.payload):
            record["origin"] = {"kind": author}
        return convert_record(record, self._state, include_thinking=False).drafts

    def find_project(self) -> str:
        """Return the project of the payload's directory, else of the hook's."""
        return next((d.project for d in self.read_record("user", "anything")), "")

    def make_note(self, kind: EventType, text: str) -> list[EventDraft]:
        """Return a note of the system about the client's own action."""
        return [replace(d, role=Role.SYSTEM, type=kind, text=text) for d in self.read_record("user", text)]

    def make_drafts(self, event: str) -> list[EventDraft]:
        match event:
            case "SessionStart":
                return self.make_note(EventType.SESSION_START, f"Session started ({self.text_of('source') or 'unknown'})")
            case "SessionEnd":
                return self.make_note(EventType.SESSION_END, f"Session ended ({self.text_of('reason') or 'unknown'})")
            case "UserPromptSubmit":
                return self.read_record("user", self.text_of("prompt"))
            case "PostToolUse" | "PostToolUseFailure":
                return self._read_tool_use(failed=event == "PostToolUseFailure")
            case "SubagentStart":
                kind = self.text_of("agent_type")
                return self.make_note(EventType.SUBAGENT_START, f"Subagent started: {kind}") if kind else []
            case "PreCompact":
                wishes = self.text_of("custom_instructions").strip()
                return self.make_note(EventType.NOTE, f"Compaction ({self.text_of('trigger')}): {wishes}") if wishes else []
            case "PostCompact":
                return self.read_record("user", words_of(self.payload.get("compact_summary")), isCompactSummary=True)
        # The transcript has the turn's last words as one message.
        drafts = self.read_record("assistant", [{"type": "text", "text": self.text_of("last_assistant_message")}])
        return [replace(d, type=EventType.SUBAGENT_STOP) for d in drafts] if event == "SubagentStop" else drafts

    def _read_tool_use(self, failed: bool) -> list[EventDraft]:
        """Return a tool's call and its result, the call at least 1 ms earlier."""
        answer, took = self.payload.get("error" if failed else "tool_response"), self.payload.get("duration_ms")
        took_ms = int(took) if isinstance(took, int | float) and 0 < took < _LONGEST_CALL else 0
        use_id, tool_input = self.text_of("tool_use_id"), self.payload.get("tool_input")
        call = {"type": "tool_use", "id": use_id, "name": self.text_of("tool_name"), "input": tool_input}
        # This program's own output may stand beside the words: the fence lets the gate remove it.
        text = fence_text(answer_text(answer)) if is_answer(answer) else answer_text(answer)
        block = {"type": "tool_result", "tool_use_id": use_id, "content": text, "is_error": failed}
        drafts = self.read_record("assistant", [call], "#call", max(took_ms, 1))
        return [*drafts, *self.read_record("user", [block], "#result", toolUseResult=answer)]


def answer_text(answer: object) -> str:
    """Return a tool's answer as its transcript has it.

    Hooks get parts, the model gets text. The first form that fits: text, output of a command, a file, names, content, a
    field; else JSON, shortened.
    """
    if isinstance(answer, str | list):
        return words_of(answer) or (_to_short_json(answer) if answer else "")
    fields = as_mapping(answer)
    if "stdout" in fields or "stderr" in fields:
        return "\n".join(filter(None, (as_text(fields.get("stdout")).rstrip(), as_text(fields.get("stderr")).rstrip())))
    path = as_text(fields.get("filePath"))
    if path and fields.get("type") == "create":
        return f"File created successfully at: {path}"
    if path and ("structuredPatch" in fields or "newString" in fields):
        return f"The file {path} has been updated."
    read = as_text(as_mapping(fields.get("file")).get("content"))
    names = "\n".join(name for name in as_list(fields.get("filenames")) if isinstance(name, str))
    if text := read or names or words_of(fields.get("content")) or words_of(fields.get("contents")):
        return text
    if fields.get("status") and fields.get("description"):
        return f"{fields['status']}: {fields['description']}"
    field = as_text(fields.get("result")) or as_text(fields.get("message")) or as_text(fields.get("text"))
    return field or (_to_short_json(answer) if fields else "")


def _to_short_json(value: object) -> str:
    text, half = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str), _LONGEST_JSON // 2
    if len(text) <= _LONGEST_JSON:
        return text
    return f"{text[:half]}\n[... {len(text) - _LONGEST_JSON} characters left out ...]\n{text[-half:]}"


#: What a session was about is behind it then.
_ENDING_EVENTS = frozenset({"PreCompact", "SessionEnd"})

#: The events with content to keep, which a client should report.
RECORDED_EVENTS = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
