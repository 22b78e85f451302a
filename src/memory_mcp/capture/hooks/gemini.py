"""Convert payloads of Gemini CLI's hooks, by way of Claude Code's form, which its events follow.

A payload says when it was told, and a call has no id there: what the session file repeats is known by its words.
"""

import re
from typing import ClassVar

from memory_mcp.capture.hooks.base import Envelope, HookEvents, parse_object, with_own_time
from memory_mcp.capture.hooks.claude_code import answer_text, convert_payload
from memory_mcp.importers.blocks import as_mapping, as_text

AGENT = "gemini"
#: Claude Code's name for each event.
EVENTS = {
    "SessionStart": "SessionStart",
    "BeforeAgent": "UserPromptSubmit",
    "AfterTool": "PostToolUse",
    "AfterAgent": "Stop",
    "SessionEnd": "SessionEnd",
}
#: Of no use later. PreCompress comes before every request to the model, whether or not anything is compressed.
_IGNORED_EVENTS = frozenset({"BeforeTool", "BeforeModel", "AfterModel", "BeforeToolSelection", "Notification", "PreCompress"})
#: Additions of hooks come before the prompt.
_HOOK_CONTEXT = re.compile(r"<hook_context>.*?</hook_context>\s*", re.DOTALL)
#: The wrapper around what a tool brought in, and the word before what a command printed.
_TOOL_OUTPUT = re.compile(r"\A\s*<untrusted_context>\n?(?:Output: )?(.*?)\n?</untrusted_context>\s*\Z", re.DOTALL)


class GeminiHooks:
    """Reads the payloads of Gemini CLI from 0.26 on."""

    #: Its settings, those of the project and an extension may all name our hook.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """See `Hooks.read`; a payload is put into Claude Code's form."""
        fields = parse_object(payload)
        event = as_text(fields.get("hook_event_name"))
        if event and event not in EVENTS:
            return HookEvents(skip_reason=event if event in _IGNORED_EVENTS else "unknown event")
        claude_fields: dict[str, object] = {"hook_event_name": EVENTS.get(event, event)}
        if event == "BeforeAgent":
            claude_fields["prompt"] = _HOOK_CONTEXT.sub("", as_text(fields.get("prompt")))
        elif event == "AfterAgent":
            claude_fields["last_assistant_message"] = fields.get("prompt_response")
        elif event == "AfterTool":
            answer = as_mapping(fields.get("tool_response"))
            text = answer_text(answer.get("llmContent"))
            if error := as_mapping(answer.get("error")):
                claude_fields |= {"hook_event_name": "PostToolUseFailure", "error": as_text(error.get("message")) or text}
            else:
                claude_fields["tool_response"] = match[1] if (match := _TOOL_OUTPUT.match(text)) else text
        return convert_payload({**fields, **claude_fields}, with_own_time(envelope, fields.get("timestamp")), AGENT)
