"""The one JSON object that older versions kept of a session: messages without times, and a timeline with them."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from memory_mcp.ingest.claude_code.blocks import as_mapping, as_mappings, as_text, words_of
from memory_mcp.ingest.claude_code.wrappers import INJECTED, unwrap, without_ansi
from memory_mcp.ingest.copilot.events import CopilotReading
from memory_mcp.ingest.growing import UNKNOWN, Given, Told
from memory_mcp.ingest.parts import Part, dropped, result, said
from memory_mcp.ingest.times import parse_time
from memory_mcp.model.event import Role


def messages_of(session: Mapping[str, object], reading: CopilotReading) -> Iterator[tuple[Mapping[str, object], Given]]:
    """Yield (message, what it gives) of an older session, in order.

    A message's id follows from the session and its place in the list; calls and results are named by the call's id. Takes
    over the session's id.
    """
    own = as_text(session.get("sessionId")) or reading.session.session_id
    reading.session.session_id = own
    times = _Times(session)
    for number, told in enumerate(as_mappings(session.get("chatMessages"))):
        parts = list(_parts(told, reading))
        if not parts:
            yield told, Given(reason=UNKNOWN if told.get("role") not in ("user", "assistant", "tool") else Given().reason)
            continue
        events = []
        for place, part in enumerate(parts):
            key = part.metadata.get("tool_use_id", "")
            source_id = f"{key}#result" if part.role is Role.TOOL else key or f"{own}:{number}" + (f"#{place}" if place else "")
            events.append(Told(source_id, (part,), times.of(part)))
        yield told, Given(events)


def _parts(message: Mapping[str, object], reading: CopilotReading) -> Iterator[Part]:
    """Yield the parts of one message of an older session; system messages and what the client wrote are left out.

    Names of called tools, and the first prompt, are noted in `reading`.
    """
    role, text = message.get("role"), words_of(message.get("content"))
    if role in ("system", "developer"):
        yield dropped(INJECTED)
    elif role == "user":
        reading.prompt = reading.prompt or unwrap(text)[0].text
        yield said(Role.USER, text)
    elif role == "tool":
        call_id = as_text(message.get("tool_call_id"))
        yield result(reading.tools.get(call_id, ""), call_id, without_ansi(text))
    elif role == "assistant":
        if text.strip():
            yield said(Role.ASSISTANT, text)
        for one in as_mappings(message.get("tool_calls")):
            function, call_id = as_mapping(one.get("function")), as_text(one.get("id"))
            yield reading.called(as_text(function.get("name")), function.get("arguments"), call_id)


class _Times:
    """Times of messages: the timeline has prompts and answers in the same order, and calls by id."""

    def __init__(self, session: Mapping[str, object]) -> None:
        """Collect the times of prompts, answers and calls, and of the session's start, from a session's timeline.

        None without one.
        """
        self._last = parse_time(session.get("startTime"))
        self._spoken: defaultdict[str, list[int]] = defaultdict(list)
        self._calls: dict[str, int] = {}
        for entry in reversed(as_mappings(session.get("timeline"))):
            kind, time = as_text(entry.get("type")), parse_time(entry.get("timestamp"))
            if time is not None and kind in ("user", "copilot"):
                self._spoken[kind].append(time)
            elif time is not None and (call_id := as_text(entry.get("callId"))):
                self._calls[call_id] = time

    def of(self, part: Part) -> int | None:
        """Return the time of the next part (UTC milliseconds), later than that of the part before, and use it up.

        It is that of its call or, in order, of the next prompt or answer. None where neither that nor an earlier one is
        known.
        """
        own = None
        if key := part.metadata.get("tool_use_id", ""):
            own = self._calls.get(key)
        elif times := self._spoken["user" if part.role is Role.USER else "copilot"]:
            own = times.pop() if not part.left_out else None
        if self._last is not None:
            own = max(own or 0, self._last + 1)
        self._last = own
        return own
