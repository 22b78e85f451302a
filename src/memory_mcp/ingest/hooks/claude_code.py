"""Convert payloads of Claude Code's hooks to drafts.

A payload is put into the form of the transcript's own records and read as those are, so that texts, types and metadata
of what was said and done come out as they will when the transcript is imported. Payloads of other clients are put into the
form of these (`heard`).

Invariants
1. A source id depends on the spool file's name and the part of the payload alone.
2. A call comes before its result in time, and neither before the prompt that led to it.
"""

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.ingest.blocks import as_list, as_mapping, as_text, words_of
from memory_mcp.ingest.claude_code.records import AGENT, convert_record
from memory_mcp.ingest.claude_code.state import SessionState
from memory_mcp.ingest.hooks.base import NO_TEXT, Envelope, Heard, Malformed, told_in
from memory_mcp.ingest.own_output import is_answer
from memory_mcp.ingest.wrappers import find_author
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.fencing import fence_text

#: Events without lasting content: before an action, shown in pieces, or repeated by another event.
_PASSED_OVER = frozenset(
    "PreToolUse PostToolBatch PermissionRequest PermissionDenied Notification MessageDisplay UserPromptExpansion StopFailure "
    "InstructionsLoaded ConfigChange CwdChanged DirectoryAdded FileChanged WorktreeCreate WorktreeRemove TaskCreated "
    "TaskCompleted TeammateIdle Elicitation ElicitationResult Setup".split()
)
#: Longest answer of a tool without text that is kept as JSON, characters.
_ODD = 8192
#: A call that took longer than this is believed to have: clocks may have been set meanwhile (milliseconds).
_LONGEST_CALL = 86_400_000

Payload = Mapping[str, object]


class ClaudeCodeHooks:
    """Reads the payloads of every version of Claude Code that has hooks."""

    #: Its settings and its plugins may both name the hook; both then get the same payload.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def read(self, payload: str, envelope: Envelope) -> Heard:
        """Return the drafts of a payload, see `heard`. Raises Malformed for what is no JSON object of an event with a session."""
        return heard(told_in(payload), envelope)


def heard(payload: Payload, envelope: Envelope, agent: str = AGENT) -> Heard:
    """Return what a payload in Claude Code's form gives, as events of `agent`.

    Events with nothing to keep give the reason; of a session's end and a compaction `ends` is the project. Raises
    Malformed without an event or a session.
    """
    event = as_text(payload.get("hook_event_name"))
    if not event:
        raise Malformed("no hook_event_name")
    if not as_text(payload.get("session_id")).strip():
        raise Malformed("no session_id")
    if event not in READ:
        return Heard(skipped=event if event in _PASSED_OVER else "unknown event")
    telling = _Telling(payload, envelope)
    drafts = [replace(d, agent=agent) for d in telling.drafts(event) if d.text.strip()]
    return Heard(drafts, "" if drafts else f"{event} with {NO_TEXT}", telling.project() if event in _ENDS else "")


class _Telling:
    """One payload, and the transcript records that it corresponds to."""

    def __init__(self, payload: Payload, envelope: Envelope) -> None:
        """Take a payload; the envelope's project directory is the session's first directory."""
        self.told = payload
        self._envelope = envelope
        self._state = SessionState(Path(envelope.name))
        self._state.first_cwd = envelope.project_dir
        transcript = Path(self.text("transcript_path"))
        # The session's own file, or nothing is read beside it.
        is_own = transcript.is_absolute() and transcript.stem == self.text("session_id")
        self._state.transcript = transcript if is_own else None

    def text(self, key: str) -> str:
        """Return a field if it is a text, else ""."""
        return as_text(self.told.get(key))

    def record(self, kind: str, content: object, part: str = "", earlier_ms: int = 0, **more: object) -> list[EventDraft]:
        """Return the drafts of the transcript record with `content`, `earlier_ms` before the payload was received.

        Thinking is left out. `kind` is its type and role, `part` goes behind its id, `more` are further fields.
        """
        at = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=self._envelope.received_ms - earlier_ms)
        record: dict[str, object] = {
            "type": kind,
            "uuid": self._envelope.name + part,
            "sessionId": self.text("session_id"),
            "timestamp": at.isoformat(),
            "cwd": self.text("cwd") or self._envelope.cwd,
            "agentId": self.text("agent_id"),
            "message": {"role": kind, "content": content},
            **more,
        }
        if author := find_author(self.told):
            record["origin"] = {"kind": author}
        return convert_record(record, self._state, include_thinking=False).drafts

    def project(self) -> str:
        """Return the project of the payload's directory, else of the hook's; "" when neither is known."""
        return next((d.project for d in self.record("user", "anything")), "")

    def said(self, kind: EventType, text: str) -> list[EventDraft]:
        """Return a note of the system, of type `kind`, about the client's own action; [] for a blank text."""
        return [replace(d, role=Role.SYSTEM, type=kind, text=text) for d in self.record("user", text)]

    def drafts(self, event: str) -> list[EventDraft]:
        """Return the drafts of an event in `READ`, none where it says nothing; of a tool's use the call, then the result."""
        match event:
            case "SessionStart":
                return self.said(EventType.SESSION_START, f"Session started ({self.text('source') or 'unknown'})")
            case "SessionEnd":
                return self.said(EventType.SESSION_END, f"Session ended ({self.text('reason') or 'unknown'})")
            case "UserPromptSubmit":
                return self.record("user", self.text("prompt"))
            case "PostToolUse" | "PostToolUseFailure":
                return self._use(failed=event == "PostToolUseFailure")
            case "SubagentStart":
                kind = self.text("agent_type")
                return self.said(EventType.SUBAGENT_START, f"Subagent started: {kind}") if kind else []
            case "PreCompact":
                wishes = self.text("custom_instructions").strip()
                return self.said(EventType.NOTE, f"Compaction ({self.text('trigger')}): {wishes}") if wishes else []
            case "PostCompact":
                return self.record("user", words_of(self.told.get("compact_summary")), isCompactSummary=True)
        # The transcript has the turn's last words as one message.
        drafts = self.record("assistant", [{"type": "text", "text": self.text("last_assistant_message")}])
        return [replace(d, type=EventType.SUBAGENT_STOP) for d in drafts] if event == "SubagentStop" else drafts

    def _use(self, failed: bool) -> list[EventDraft]:
        """Return a tool's call and its result, the call earlier by the stated duration, at least 1 ms; two drafts."""
        answer, took = self.told.get("error" if failed else "tool_response"), self.told.get("duration_ms")
        took_ms = int(took) if isinstance(took, int | float) and 0 < took < _LONGEST_CALL else 0
        use_id, tool_input = self.text("tool_use_id"), self.told.get("tool_input")
        call = {"type": "tool_use", "id": use_id, "name": self.text("tool_name"), "input": tool_input}
        # This program's own output may stand beside the words: the fence lets the gate remove it.
        text = fence_text(answer_text(answer)) if is_answer(answer) else answer_text(answer)
        block = {"type": "tool_result", "tool_use_id": use_id, "content": text, "is_error": failed}
        drafts = self.record("assistant", [call], "#call", max(took_ms, 1))
        return [*drafts, *self.record("user", [block], "#result", toolUseResult=answer)]


def answer_text(answer: object) -> str:
    """Return a tool's answer as its transcript has it: hooks get parts, the model gets text.

    The first form that fits: text, output of a command, a file, names, content, a field; else JSON, shortened; "" for
    nothing.
    """
    if isinstance(answer, str | list):
        return words_of(answer) or (_json(answer) if answer else "")
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
    return field or (_json(answer) if fields else "")


def _json(value: object) -> str:
    """Return a value as compact JSON; of one over 8,192 characters the two ends, with a note between them."""
    text, half = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str), _ODD // 2
    if len(text) <= _ODD:
        return text
    return f"{text[:half]}\n[... {len(text) - _ODD} characters left out ...]\n{text[-half:]}"


#: What a session was about is behind it then.
_ENDS = frozenset({"PreCompact", "SessionEnd"})

#: The events with content to keep, which a client should report.
READ = (
    *("SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop"),
    *("SubagentStart", "SubagentStop", "PreCompact", "PostCompact", "SessionEnd"),
)
