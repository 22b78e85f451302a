"""Convert payloads of the opencode plugin: events named as Claude Code's, with opencode's own parts.

Ids are those of a prompt's message and of an answer's parts, a tool's that of its call, times those that opencode gave them:
what opencode's storage repeats is known by them. A subagent's session is a thread of the one that called it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from memory_mcp.capture.hooks.base import Envelope, HookEvents, parse_object, with_own_time
from memory_mcp.capture.hooks.claude_code import convert_payload
from memory_mcp.importers.blocks import as_mapping, as_text
from memory_mcp.model.event import EventType

AGENT = "opencode"
_NOTHING = "nothing to keep"


class OpencodeHooks:
    """Reads what `install/opencode_plugin.js` sends."""

    #: The plugin may be installed for the user and for a project.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """See `Hooks.read`; a prompt, an answer's parts in order, or an event."""
        fields = parse_object(payload)
        parts = fields.get("parts")
        if not isinstance(parts, list):
            return convert_payload(fields, with_own_time(envelope, fields.get("time")), AGENT)
        common = {k: v for k, v in fields.items() if k != "parts"}
        listed = [as_mapping(part) for part in parts]
        if fields.get("role") != "user":
            events = [
                convert_payload({**common, **event}, _with_id(envelope, name, at), AGENT)
                for name, at, event in _iter_answers(listed)
            ]
            drafts = [draft for event in events for draft in event.drafts]
            return HookEvents(drafts, "" if drafts else next((event.skip_reason for event in events), _NOTHING))
        envelope = _with_id(envelope, as_text(fields.get("message_id")), fields.get("time"))
        words = "\n".join(filter(str.strip, map(_text_of_part, listed)))
        if not words:
            return HookEvents(skip_reason=_NOTHING)
        if not fields.get("agent_id"):
            return convert_payload({**common, "hook_event_name": "UserPromptSubmit", "prompt": words}, envelope, AGENT)
        # The task of a subagent is another agent's words.
        task = convert_payload({**common, "hook_event_name": "Stop", "last_assistant_message": words}, envelope, AGENT)
        return HookEvents([replace(draft, type=EventType.SUBAGENT_START) for draft in task.drafts], task.skip_reason)


def _text_of_part(part: Mapping[str, object]) -> str:
    """Return what was typed, or "[type name]" of a file."""
    if part.get("type") == "file":
        return f"[{' '.join(filter(None, (as_text(part.get('mime')) or 'file', as_text(part.get('filename')))))}]"
    mine = part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored")
    return as_text(part.get("text")) if mine else ""


def _iter_answers(parts: Sequence[Mapping[str, object]]) -> Iterator[tuple[str, object, dict[str, object]]]:
    """Yield (part's id, time it ended, payload in Claude Code's form) of each part.

    The time is as opencode has it, None where it is not stated; other parts are left out.
    """
    for part in parts:
        name = as_text(part.get("id"))
        if part.get("type") == "tool":
            state = as_mapping(part.get("state"))
            tool_input = {
                "file_path" if key == "filePath" else key: value for key, value in as_mapping(state.get("input")).items()
            }
            used: dict[str, object] = {"tool_name": part.get("tool"), "tool_input": tool_input, "tool_use_id": part.get("callID")}
            start, end = (as_mapping(state.get("time")).get(key) for key in ("start", "end"))
            if isinstance(start, int) and isinstance(end, int):
                used["duration_ms"] = end - start
            if state.get("status") == "error":
                used |= {"hook_event_name": "PostToolUseFailure", "error": state.get("error")}
            else:
                used |= {"hook_event_name": "PostToolUse", "tool_response": state.get("output")}
            yield name, end, used
        elif part.get("type") == "text" and (words := _text_of_part(part)):
            ended = as_mapping(part.get("time")).get("end")
            yield name, ended, {"hook_event_name": "Stop", "last_assistant_message": words}


def _with_id(envelope: Envelope, name: str, time: object) -> Envelope:
    return with_own_time(replace(envelope, name=name or envelope.name), time)
