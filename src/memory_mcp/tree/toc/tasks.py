"""Tasks that an agent planned in a list of its own and did not finish, from the calls of its list tools. Pure."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_mcp.model.event import Event, EventType
from memory_mcp.tree.summarize.sentences import clean_text
from memory_mcp.tree.toc.doings import QuotedSpan

#: Most tasks that are returned.
_MAX_TASKS = 6
#: Tools that keep the agent's list, in the spelling of any client: TodoWrite, write_todos, TaskCreate, update_plan.
_LIST_TOOL = re.compile(r"todo|task_?(?:create|update|list|get)|update_?plan", re.I)
_CREATES, _UPDATES = re.compile(r"task_?create", re.I), re.compile(r"task_?update", re.I)
_LINE = re.compile(r"^(?:[-*] )?\[(?P<mark>[xX~ -])\] (?P<task>\S.*)$", re.M)
_MARKS = {"x": "completed", "X": "completed", "~": "in_progress", "-": "in_progress", " ": "pending"}
#: A task that is neither waiting nor under way is over, whatever the client calls that.
_WAITING, _UNDER_WAY = (
    frozenset({"pending", "todo", "open", "not_started", ""}),
    frozenset({"in_progress", "in-progress", "active"}),
)
#: Fields of a task that are not its words.
_OTHER_FIELDS = frozenset({"status", "id", "priority", "activeForm"})


def is_list_tool(event: Event) -> bool:
    """Return whether an event is of a tool that keeps a list."""
    return _LIST_TOOL.search(event.metadata.get("tool", "")) is not None


def is_list_call(event: Event) -> bool:
    """Return whether an event changes the agent's own list."""
    return event.type is EventType.TOOL_CALL and is_list_tool(event)


def pending_tasks(events: Sequence[Event]) -> list[QuotedSpan]:
    """Return the unfinished tasks, those under way first.

    A list is a call that marks each line, one whose argument is a list of objects with a status, or one call for each task.
    """
    statuses: dict[str, str] = {}
    words: dict[str, QuotedSpan] = {}
    for event in events:
        if not is_list_call(event):
            continue
        tool, (head, _, body) = event.metadata["tool"], event.text.partition("\n")
        if _CREATES.search(tool):
            number = str(len(words) + 1)
            words[number], statuses[number] = _task_words(event, head.partition(": ")[2]), "pending"
        elif _UPDATES.search(tool):
            status = re.search(r"^status: (\S+)$", body, re.M)
            statuses[head.partition(": ")[2].strip(" #")] = status[1] if status else ""
        else:
            tasks = list(_tasks_in(event))
            words = {str(number): _task_words(event, text) for number, (_, text) in enumerate(tasks)}
            statuses = {str(number): status for number, (status, _) in enumerate(tasks)}
    pending = [
        (statuses[number] in _WAITING, task) for number, task in words.items() if statuses[number] in _WAITING | _UNDER_WAY
    ]
    return [task for _, task in sorted(pending, key=lambda pair: pair[0])][:_MAX_TASKS]


def _tasks_in(event: Event) -> Iterator[tuple[str, str]]:
    for line in event.text.splitlines():
        if match := _LINE.match(line):
            yield _MARKS[match["mark"]], match["task"].strip()
            continue
        _, _, argument = line.partition(": ")
        if not argument.startswith("[{"):
            continue
        try:
            items: Any = json.loads(argument)
        except ValueError:
            # The middle of a long argument was left out.
            continue
        yield from (
            (str(item["status"]), _longest_text(item)) for item in items if isinstance(item, Mapping) and "status" in item
        )


def _longest_text(item: Mapping[str, Any]) -> str:
    return max(
        (value for name, value in item.items() if name not in _OTHER_FIELDS and isinstance(value, str)), key=len, default=""
    )


def _task_words(event: Event, text: str) -> QuotedSpan:
    start = event.text.find(text)
    span = (start, start + len(text)) if start >= 0 else (0, len(event.text))
    return QuotedSpan(clean_text(text), "agent", event, *span)
