"""What our plugin in opencode tells, in; drafts out: events by Claude Code's names, with opencode's own parts in them.

Ids are those of the parts, a tool's that of its call, times those that opencode gave them: what opencode's storage repeats
is known by them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text
from memory_mcp.ingest.hooks.base import Envelope, Heard, at_time, told_in
from memory_mcp.ingest.hooks.claude_code import heard

AGENT = "opencode"


class OpencodeHooks:
    """Reads what `install/plugin.js` tells."""

    #: The plugin may be installed for the user and for a project.
    ONE_PER_MOMENT: ClassVar[bool] = True

    def read(self, payload: str, envelope: Envelope) -> Heard:
        """See `Hooks`."""
        told = told_in(payload)
        parts = told.get("parts")
        if not isinstance(parts, list):
            return heard(told, at_time(envelope, told.get("time")), AGENT)
        common = {k: v for k, v in told.items() if k != "parts"}
        read = []
        for name, at, one in _told(common, parts):
            read.append(heard({**common, **one}, at_time(replace(envelope, name=name or envelope.name), at), AGENT))
        drafts = [draft for one in read for draft in one.drafts]
        return Heard(drafts, "" if drafts else next((one.skipped for one in read), "nothing to keep"))


def _told(common: Mapping[str, object], parts: Sequence[object]) -> Iterator[tuple[str, object, dict[str, object]]]:
    """Each part as a payload, with its id and its time."""
    for part in map(as_mapping, parts):
        name, kind = as_text(part.get("id")), part.get("type")
        if kind == "tool":
            state = as_mapping(part.get("state"))
            yield name, as_mapping(state.get("time")).get("end"), _tool(part, state)
        elif kind == "text" and not part.get("synthetic") and not part.get("ignored"):
            words = as_text(part.get("text"))
            if common.get("role") == "user":
                yield name, common.get("time"), {"hook_event_name": "UserPromptSubmit", "prompt": words}
            else:
                ended = as_mapping(part.get("time")).get("end")
                yield name, ended, {"hook_event_name": "Stop", "last_assistant_message": words}


def _tool(part: Mapping[str, object], state: Mapping[str, object]) -> dict[str, object]:
    used = {"tool_name": part.get("tool"), "tool_input": state.get("input"), "tool_use_id": part.get("callID")}
    start, end = (as_mapping(state.get("time")).get(key) for key in ("start", "end"))
    if isinstance(start, int) and isinstance(end, int):
        used["duration_ms"] = end - start
    if state.get("status") == "error":
        return {**used, "hook_event_name": "PostToolUseFailure", "error": state.get("error")}
    return {**used, "hook_event_name": "PostToolUse", "tool_response": state.get("output")}
