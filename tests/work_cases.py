"""Calls of tools with their outcomes, as made-up sessions had them: a build fails, is mended, and fails again in the next one."""

import json
from collections.abc import Iterable
from pathlib import Path

from memory_mcp.model.event import EventDraft, EventType, Role
from tests.factories import BILLING, SHOP, draft

ERROR = "src/cart.ts(17,3): error TS2339: Property 'total' does not exist on type 'Cart'.\nnpm error code 2"
AGAIN = "lib/order.ts(240,11): error TS2339: Property 'sum' does not exist on type 'Order'.\nnpm error code 2"
ELSEWHERE = 'FATAL: password authentication failed for user "biller"'
REASON = "The interface lacks the field, so I declare it there first."


def call(
    number: int, at: str, tool: str, result: str, failed: bool = False, session: str = "s1", project: str = SHOP, **facts: str
) -> list[EventDraft]:
    """A call and its result one second later."""
    metadata = {"tool": tool, "tool_use_id": f"{session}-{number}", "cwd": "/home/ada/shop", **facts}
    text = f"{tool}: {facts.get('command') or facts.get('files')}" + ("\nnew_string: total: number;" if tool == "Edit" else "")
    outcome = {"is_error": "true", "exit_status": "2"} if failed else {"exit_status": "0"} if "command" in facts else {}
    of_result = {"tool": tool, "tool_use_id": f"{session}-{number}", **outcome}
    return [
        draft(text, f"{at}:00", session, Role.ASSISTANT, EventType.TOOL_CALL, project, metadata=metadata),
        draft(result, f"{at}:01", session, Role.TOOL, EventType.TOOL_RESULT, project, metadata=of_result),
    ]


def say(text: str, at: str, role: Role = Role.ASSISTANT, session: str = "s1", project: str = SHOP) -> EventDraft:
    return draft(text, f"{at}:30", session, role, project=project)


FIRST = [
    say("Add a total to the cart, please, and show it below the list.", "2026-01-12 09:00", Role.USER),
    *call(1, "2026-01-12 09:01", "Bash", ERROR, failed=True, command="cd web && npm run build 2>&1"),
    *call(2, "2026-01-12 09:02", "Bash", "added 3 packages", command="npm install"),
    *call(3, "2026-01-12 09:03", "Bash", ERROR, failed=True, command="npm run build"),
    say(REASON, "2026-01-12 09:03"),
    *call(4, "2026-01-12 09:04", "Edit", "The file has been updated.", files="/home/ada/shop/src/types.ts"),
    *call(5, "2026-01-12 09:05", "Bash", "built in 3 s", command="CI=1 npm run build"),
    say("We decided that types.ts holds every interface of the cart.", "2026-01-12 09:06", Role.USER),
]
SECOND = [
    say("Order totals come next: do the same for orders.", "2026-01-20 14:00", Role.USER, "s2"),
    *call(1, "2026-01-20 14:01", "Bash", AGAIN, failed=True, session="s2", command="npm run build"),
]
THIRD = [
    say("Connect the biller to its database.", "2026-01-21 10:00", Role.USER, "s3", BILLING),
    *call(1, "2026-01-21 10:01", "Bash", ELSEWHERE, True, "s3", BILLING, command="psql -h db biller"),
]


def failing_in_sessions(count: int, project: str = SHOP, month: str = "2026-01") -> list[EventDraft]:
    """Sessions in each of which a build fails, and passes in another form once a file is changed."""
    return [
        each
        for day in range(12, 12 + count)
        for each in (
            *call(1, f"{month}-{day} 10:00", "Bash", ERROR, True, f"f{day}", project, command="npm run build"),
            *call(2, f"{month}-{day} 10:01", "Edit", "ok", False, f"f{day}", project, files="/home/ada/shop/src/cart.ts"),
            *call(3, f"{month}-{day} 10:02", "Bash", "built", False, f"f{day}", project, command="npm run build --offline"),
        )
    ]


def write_lines(file: Path, drafts: Iterable[EventDraft]) -> Path:
    """Write drafts as the lines that `ingest` reads, all of one project; return the file."""
    lines = [
        {"id": str(number), "session_id": each.session_id, "timestamp": each.timestamp, "role": each.role, "type": each.type,
         "text": each.text, "agent": each.agent, "project": SHOP, "metadata": dict(each.metadata)}
        for number, each in enumerate(drafts)
    ]  # fmt: skip
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file
