"""Odd arguments for every tool, prompt, resource and completion: what any engine must take, or refuse in our words."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

#: Texts that some engine or encoding cannot take.
TEXTS = (
    "\0x",
    "x\0",
    "\0",
    "a\ud800b",
    "\udc00",
    "\ufffe\uffff",
    "'; DROP TABLE event; --",
    "%s %(x)s",
    "toc:\0",
    "grip:\0:1",
    "\u202e",
)
NUMBERS = (2**70, -(2**70), -1, 0)
#: Tools that change the whole memory.
CHANGING = frozenset({"forget", "restore", "rebuild_index", "prune_index"})
#: What a text that reaches a caller may never hold.
FOREIGN = ("INTERNAL", "Traceback", "psycopg", "the database refused", "duckdb", "unexpected failure", "UnicodeEncodeError")
#: Sends a request: method and parameters in, the answer or the error out, as text.
Ask = Callable[..., str]


def filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Usual values of what a tool needs."""
    needed: dict[str, Any] = {}
    for name in schema.get("required", ()):
        kind = schema["properties"][name]
        if "enum" in kind:
            needed[name] = kind["enum"][0]
        else:
            kinds = {"integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
            needed[name] = kinds.get(kind.get("type", ""), "walnut")
    return needed


def odd_calls(tools: Sequence[Mapping[str, Any]], share: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each argument of each tool with odd values: of the texts every `share`th, by turns."""
    turns = itertools.count()
    for tool in tools:
        if tool["name"] in CHANGING:
            continue
        usual = filled(tool["inputSchema"])
        for name, kind in tool["inputSchema"].get("properties", {}).items():
            for value in NUMBERS if kind.get("type") in ("integer", "number") else TEXTS[next(turns) % share :: share]:
                yield tool["name"], {**usual, name: [value] if kind.get("type") == "array" else value}


def check_odd_arguments(ask: Ask, tools: Sequence[Mapping[str, Any]], is_long: bool) -> None:
    """Send each argument a third of the texts, or with `is_long` all of them; AssertionError for foreign words in an answer."""
    wrong = []

    def look(method: str, **params: Any) -> None:
        answer = ask(method, **params)
        if any(word in answer for word in FOREIGN):
            wrong.append((method, params, answer[:200]))

    for name, arguments in odd_calls(tools, 1 if is_long else 3):
        look("tools/call", name=name, arguments=arguments)
    for text in TEXTS:
        for uri in ("memory://toc/", "memory://grip/", "memory://session/", "memory://topic/"):
            look("resources/read", uri=uri + text)
        for prompt, argument in (("recall", "topic"), ("weekly_digest", "week"), ("continue_session", "session_id")):
            look("prompts/get", name=prompt, arguments={argument: text})
        ref = {"type": "ref/resource", "uri": "memory://toc/{+node_id}"}
        for name in ("node_id", "week", "session_id", "project", "agent", "topic_id"):
            look("completion/complete", ref=ref, argument={"name": name, "value": text})
    assert wrong == []
