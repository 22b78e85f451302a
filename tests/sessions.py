"""Working sessions as agents have them: stretches of a dozen events about one made-up matter each, enough of them to be refined.

Each matter has a word of its own, which stands in its title, bullets and keywords and nowhere else.
"""

import json
from collections.abc import Sequence
from typing import Any

from tests.factories import SHOP, ms

#: Of the stretches, in order of time; three a day.
MATTERS = ("quokka", "narwhal", "pangolin", "axolotl", "okapi", "capybara")
DAYS = ("2026-01-20", "2026-01-21")
_HOURS = ("09:00", "12:00", "15:00")
#: Long enough that a stretch holds more than 500 tokens, with words of no matter.
_PLAN = "First the reader, then the writer, then the tests, each in a commit of its own so that it can be looked at alone. " * 5


def stretch(matter: str, begin: str, session: str, project: str = SHOP, thread: str = "") -> list[dict[str, Any]]:
    """Twelve events in half an hour, in the JSONL form."""
    name = matter.capitalize()
    told: list[tuple[str, str, str, dict[str, str]]] = [
        (
            "user",
            "user_message",
            f"{name} rows are lost when a {matter} file ends without a newline. Find out why and fix it.",
            {},
        ),
        ("assistant", "assistant_message", f"I will read the {matter} reader before changing anything. {_PLAN}", {}),
        ("assistant", "tool_call", f"Read: src/{matter}.py", {"tool": "Read", "file": f"src/{matter}.py", "tool_use_id": "a"}),
        ("tool", "tool_result", f"def read_{matter}(stream):\n    return stream.read().split()", {"tool_use_id": "a"}),
        ("assistant", "assistant_message", f"The root cause is that read_{matter} drops the last line. {_PLAN}", {}),
        (
            "assistant",
            "tool_call",
            f"pytest -q tests/test_{matter}.py",
            {"tool": "Bash", "command": "pytest", "tool_use_id": "b"},
        ),
        (
            "tool",
            "tool_result",
            f"FAILED tests/test_{matter}.py::test_last\nAssertionError: 11 rows",
            {"tool_use_id": "b", "exit_status": "1"},
        ),
        ("user", "user_message", f"Should we pad the {matter} file? No: we decided to flush the last {matter} line instead.", {}),
        ("assistant", "tool_call", f"src/{matter}.py: flush", {"tool": "Edit", "file": f"src/{matter}.py", "tool_use_id": "c"}),
        ("tool", "tool_result", f"The file src/{matter}.py has been updated.", {"tool_use_id": "c"}),
        ("user", "user_message", f"Never change the {matter} format itself. {_PLAN}", {}),
        ("assistant", "assistant_stop", f"Fixed: the last {matter} line is flushed, and all 12 tests pass.", {}),
    ]
    start = ms(f"{begin}")
    return [
        {
            "id": f"{session}-{matter}-{number}",
            "session_id": session,
            "timestamp": start + number * 120_000,
            "role": role,
            "type": kind,
            "text": text,
            "agent": "claude-code",
            "project": project,
            "thread": thread,
            "metadata": metadata,
        }
        for number, (role, kind, text, metadata) in enumerate(told)
    ]


def sessions(days: Sequence[str] = DAYS, project: str = SHOP) -> list[dict[str, Any]]:
    """Three stretches a day in one session, 72 events by default."""
    times = [(day, hour) for day in days for hour in _HOURS]
    return [
        event
        for matter, (day, hour) in zip(MATTERS, times, strict=False)
        for event in stretch(matter, f"{day} {hour}", f"s-{day}", project)
    ]


def lines(events: Sequence[dict[str, Any]]) -> str:
    """The events as JSONL."""
    return "".join(json.dumps({k: v for k, v in event.items() if v}) + "\n" for event in events)
