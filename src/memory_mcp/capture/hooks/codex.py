"""Convert payloads of Codex's hooks, which use Claude Code's events, names and fields.

A tool's id is the `call_id` of the rollout, the session's id that of its first line.
"""

from pathlib import PurePath
from typing import ClassVar

from memory_mcp.capture.hooks.base import Envelope, HookEvents, parse_object
from memory_mcp.capture.hooks.claude_code import convert_payload
from memory_mcp.importers.blocks import as_text

AGENT = "codex"
#: Codex's own: the user stopped a turn, whose words are in its rollout.
_INTERRUPT = "Interrupt"
#: How the file of a session begins.
_ROLLOUT = "rollout-"


def sender_of(client: str, payload: str) -> str:
    """Return the client that sent a payload to the hook of `client`.

    Codex loads Claude Code's plugins, hooks and all. Raises MalformedPayload for what is not a JSON object.
    """
    return AGENT if client == "claude-code" and _is_codex(payload) else client


def _is_codex(payload: str) -> bool:
    """It has a turn, and its transcript is a rollout or none."""
    if not any(mark in payload for mark in ('"turn_id"', _ROLLOUT, "null")):
        return False
    fields = parse_object(payload)
    transcript = fields.get("transcript_path", "")
    name = PurePath(as_text(transcript).replace("\\", "/")).stem
    session = as_text(fields.get("session_id"))
    is_rollout = name.startswith(_ROLLOUT) and bool(session) and name.endswith(session)
    return is_rollout or "turn_id" in fields or transcript is None


class CodexHooks:
    """Reads the payloads of Codex from 0.124 on."""

    #: Its settings and those of the project may both name our hook.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """See `Hooks.read`; a stopped turn gives nothing."""
        fields = parse_object(payload)
        if fields.get("hook_event_name") == _INTERRUPT:
            return HookEvents(skip_reason=_INTERRUPT)
        return convert_payload(fields, envelope, AGENT)
