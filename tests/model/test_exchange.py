"""Which messages of an exchange ask, reply, or ask the memory: by who speaks, what follows and which tool was called."""

from dataclasses import replace

import pytest

from memory_mcp.model.event import HOOK, Event, EventType, Role
from memory_mcp.model.exchange import (
    ASKING_TOOLS,
    SHARED_NAMES,
    TurnKind,
    asks_memory,
    classify_turns,
    find_announcements,
    only_asks,
    only_requests,
    question_share,
    without_questions,
)
from memory_mcp.requests.registry import DEFAULT_TOOLS, FULL_TOOLS
from tests.factories import event
from tests.writing import WRITING

HOOKED = f"{HOOK}claude-code"
AT = 1_768_200_000_000


def said(role: Role, text: str, source: str = "jsonl", speaker: str = "", **metadata: str) -> Event:
    kind = None
    if "tool" in metadata:
        kind = EventType.TOOL_CALL if role is Role.ASSISTANT else EventType.TOOL_RESULT
    return replace(event(text, role=role, kind=kind, metadata=metadata), source=source, speaker=speaker)


def user(text: str, source: str = "jsonl", speaker: str = "") -> Event:
    return said(Role.USER, text, source, speaker)


def agent(text: str) -> Event:
    return said(Role.ASSISTANT, text)


def call(tool: str, command: str = "") -> Event:
    return said(Role.ASSISTANT, f"{tool}: what", tool=tool, command=command)


def turns(*events: Event, is_begin: bool = True) -> list[TurnKind]:
    placed = [replace(e, event_id=event(f"{at}", at=AT + at).event_id, timestamp=AT + at) for at, e in enumerate(events)]
    found = classify_turns(placed, is_begin)
    assert find_announcements(placed) == {i for i, turn in found.items() if turn & TurnKind.ANNOUNCES}
    return [found.get(e.event_id, TurnKind.PLAIN) for e in placed]


ASKED = "which lock did we choose?"


def test_a_short_reply_with_which_a_turn_goes_on_announces_and_its_last_one_and_a_long_one_do_not() -> None:
    told = [user("Run the linter."), agent("Let me run it."), call("Bash"), agent("It is clean.")]
    assert turns(*told) == [TurnKind.PLAIN, TurnKind.REPLY | TurnKind.ANNOUNCES, TurnKind.PLAIN, TurnKind.REPLY]
    several = [
        user("Run the linter."),
        agent("Let me look."),
        agent("Found it: " + "the pool is closed twice. " * 9),
        agent("Done."),
    ]
    assert turns(*several) == [TurnKind.PLAIN, TurnKind.REPLY | TurnKind.ANNOUNCES, TurnKind.REPLY, TurnKind.REPLY]
    assert turns(user("Thanks."), agent("Welcome."), user("One more thing."))[1] == TurnKind.REPLY


def test_a_question_with_a_reply_asks_and_a_statement_does_not() -> None:
    assert turns(user(ASKED), agent("An advisory lock.")) == [TurnKind.ASKS, TurnKind.REPLY | TurnKind.TO_QUESTION]
    assert turns(user("we keep the advisory lock"), agent("Noted.")) == [TurnKind.PLAIN, TurnKind.REPLY]
    assert turns(user("Redis is gone. Which lock now?"), agent("Advisory.")) == [TurnKind.PLAIN, TurnKind.REPLY]


#: Each tells something at length before it asks.
TELLING = """\
I'm deciding between the blue runners for $180 and the green racers for $160, which should I choose for wear every day?
Seit Mai baue ich mit Jonas die neue Anlegestelle für Segelboote, am Freitag wird sie abgenommen, kannst du mir helfen?
三个星期以来我一直和小王一起建造新的帆船码头，星期五就要正式验收了，你能帮我准备一下吗？"""
#: These do not: the last clause is all there is, or they are short.
ASKING = """\
How can I balance speed and care, given that we delete all data of candidates after 6 months?
hmm, which of the two crowdfunding platforms that we saw do you think would be the best one for my new invention?
ok, can you look at the latest commit?"""


@pytest.mark.parametrize(
    ("text", "asks"), [*((text, False) for text in TELLING.split("\n")), *((text, True) for text in ASKING.split("\n"))]
)
def test_a_long_sentence_that_tells_before_it_asks_is_a_statement(text: str, asks: bool) -> None:
    assert only_asks(text) is asks


def test_a_tool_s_result_is_no_reply() -> None:
    result = said(Role.TOOL, "lock.py", tool="Grep")
    assert turns(user(ASKED), call("Grep"), result)[0] == TurnKind.ASKS | TurnKind.UNANSWERED
    assert turns(user(ASKED), call("Grep"), result, agent("Advisory."))[0] == TurnKind.ASKS


def test_a_prompt_of_a_client_that_got_no_reply_at_all_is_a_request_whatever_its_punctuation() -> None:
    told = "tell me which lock we chose"
    assert turns(user(told, HOOKED)) == [TurnKind.UNANSWERED]
    assert turns(user(told, HOOKED), user(told + " now", HOOKED)) == [TurnKind.UNANSWERED] * 2
    # It may be a statement: of no client, in a session with replies, further on in one, or long.
    assert turns(user(told)) == turns(user(told, f"{HOOK}json")) == [TurnKind.PLAIN]
    assert turns(user("go", HOOKED), agent("Done."), user(told, HOOKED))[2] == TurnKind.PLAIN
    assert turns(user(told, HOOKED), is_begin=False) == [TurnKind.PLAIN]
    assert turns(user("the plan is this. " * 200, HOOKED)) == [TurnKind.PLAIN]


@pytest.mark.parametrize(
    ("prompt", "reply"),
    [
        ("tell me which lock we chose", "I don't know."),
        ("tell me which lock we chose", "I don't know about the lock."),
        ("which lock did we choose", "No idea, let me know."),
        ("sag mir welche Sperre wir nehmen", "Das weiß ich leider nicht."),
        ("告诉我们选了哪个锁", "我不知道。"),
    ],
)
def test_a_client_s_prompt_that_came_to_nothing_is_doubted(prompt: str, reply: str) -> None:
    lone = [user(prompt, HOOKED), agent(reply)]
    doubted = [TurnKind.DOUBTFUL, TurnKind.REPLY | TurnKind.DOUBTFUL]
    assert turns(*lone) == doubted
    assert turns(*lone, *lone) == doubted * 2
    # It is a statement where files are changed after it, where something was told before, and where no client recorded it.
    assert turns(*lone, user("go", HOOKED), call("Edit"), agent("Done."))[0] == TurnKind.PLAIN
    answered = [user("go", HOOKED), agent("The berth is a row of Postgres: its bookings need one writer at a time.")]
    assert turns(*answered, *lone)[2:] == [TurnKind.PLAIN, TurnKind.REPLY]
    assert turns(*lone, is_begin=False) == turns(user(prompt), agent(reply)) == [TurnKind.PLAIN, TurnKind.REPLY]
    # What was said at length is an answer.
    assert turns(lone[0], answered[1]) == [TurnKind.PLAIN, TurnKind.REPLY]


def test_people_who_talk_to_each_other_ask_nobody_s_assistant() -> None:
    assert turns(user(ASKED, speaker="Ann"), user("An advisory lock.", speaker="Ben")) == [TurnKind.PLAIN] * 2
    reply = replace(agent("An advisory lock."), speaker="Ben")
    assert turns(user(ASKED, speaker="Ann"), reply) == [TurnKind.PLAIN] * 2


@pytest.mark.parametrize(
    "tool",
    [
        "mcp__memory-mcp__intelligent_search",
        "mcp__plugin_memory-mcp_memory-mcp__teleport_search",
        "memory-mcp_vector_teleport",
        "memory_mcp.hybrid_search",
        "intelligent_search",
        "mcp__memory__navigate",
    ],
)
def test_a_prompt_after_which_the_memory_was_asked_is_a_question_to_it(tool: str) -> None:
    told = turns(user("tell me about the lock"), call(tool), said(Role.TOOL, "[]", tool=tool), agent("I do not know."))
    assert told == [TurnKind.TO_MEMORY, TurnKind.TO_MEMORY, TurnKind.TO_MEMORY, TurnKind.REPLY]
    # Only the prompt that led to it is one, and none that led to a change of files.
    assert turns(user("use advisory locks"), agent("Done."), user("and why?"), call(tool))[0] == TurnKind.PLAIN
    assert turns(user("use advisory locks"), call(tool), call("Edit"), agent("Done."))[0] == TurnKind.PLAIN


@pytest.mark.parametrize(
    "tool", ["mcp__playwright__browser_navigate", "navigate", "WebSearch", "mcp__x__my_intelligent_searches"]
)
def test_another_server_s_tool_asks_something_else(tool: str) -> None:
    assert turns(user("open the page"), call(tool), agent("Opened."))[:2] == [TurnKind.PLAIN, TurnKind.PLAIN]


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("memory-mcp ask 'which lock'", True),
        ("cd /x && /home/me/.venv/bin/memory-mcp --json teleport search --query lock", True),
        ("memory-mcp import auto", False),
        ("pytest tests/memory-mcp -k search", False),
        ("memory-mcp doctor | grep search", False),
    ],
)
def test_the_command_line_asks_the_memory_too(command: str, asks: bool) -> None:
    assert asks_memory(call("Bash", command)) is asks


def test_our_asking_tools_are_tools_of_ours_that_read() -> None:
    names = {*ASKING_TOOLS, *SHARED_NAMES}
    assert names <= {*DEFAULT_TOOLS, *FULL_TOOLS}
    assert names.isdisjoint({*WRITING, "remember", "ingest_events"})


def test_what_only_asks_is_measured_in_every_script() -> None:
    assert only_asks("Which lock? And why?")
    assert only_asks("どのロックを選びましたか？")
    assert only_asks("أي قفل اخترنا؟")
    assert not only_asks("We chose the advisory lock.")
    assert question_share("") == 0


def test_a_stretch_of_requests_alone_tells_nothing_and_questions_to_the_memory_leave_the_rest() -> None:
    asked = [user("tell me the lock", HOOKED)]
    assert only_requests(asked, is_begin=True)
    assert not only_requests([*asked, agent("Advisory.")], is_begin=True)
    tool = call("mcp__memory-mcp__intelligent_search")
    events = [user("tell me the lock"), tool, agent("It is the advisory lock.")]
    assert list(without_questions(events)) == events[2:]
    assert list(without_questions(events[:2])) == events[:2]
