"""What a session leaves open, by what follows each request: never by the request's own words."""

from dataclasses import replace

import pytest

from memory_mcp.model.event import EventType, Role
from memory_mcp.tree.toc.open_ends import Cause, OpenEnd, open_ends
from memory_mcp.tree.toc.tasks import pending_tasks
from tests.toc.helpers import EventSession


class Session(EventSession):
    """Calls with their results, and what they leave open."""

    def calls(self, tool: str, text: str = "", **metadata: str) -> "Session":
        call_id = f"u{len(self.events)}"
        return self.add(text or tool, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool=tool, tool_use_id=call_id, **metadata)

    def prints(self, text: str = "(no output)", **metadata: str) -> "Session":
        call = self.events[-1].metadata
        return self.add(text, Role.TOOL, kind=None, tool=call["tool"], tool_use_id=call["tool_use_id"], **metadata)

    def runs(self, command: str, text: str = "(no output)", status: str = "0") -> "Session":
        return self.calls("Bash", f"Bash: {command}", command=command).prints(text, exit_status=status)

    def edits(self, file: str, **metadata: str) -> "Session":
        return self.calls("Edit", f"Edit: {file}", files=file).prints("The file was changed.", **metadata)

    @property
    def ends(self) -> list[tuple[Cause, str]]:
        return shown(open_ends(self.events))


def shown(ends: tuple[OpenEnd, ...]) -> list[tuple[Cause, str]]:
    return [(end.cause, end.words.text) for end in ends]


def fixed() -> Session:
    return Session().user("Fix the retry queue.").edits("queue.py").agent("Fixed: the queue retries three times.")


@pytest.mark.parametrize(
    "last",
    ["/exit", "/clear", "! open index.html", "ok", "thanks!", "danke", "ありがとう", "好的", "/model opus"],
)
def test_a_clients_command_a_confirmation_and_thanks_that_nobody_acted_on_leave_nothing_open(last: str) -> None:
    assert fixed().user(last).ends == []


def test_thanks_that_were_answered_and_a_complaint_that_was_fixed_leave_nothing_open() -> None:
    session = fixed().user("we fail build").runs("make", "error: queue.py is broken", "2").edits("queue.py").runs("make")
    session.agent("The build works again.").user("Danke dir, sehr schön!").agent("Gern geschehen.")
    assert session.ends == []


def test_a_request_without_an_outcome_is_open_until_the_agent_closed_its_turn() -> None:
    session = fixed().user("And now the ledger, please.")
    assert session.ends == [(Cause.UNANSWERED, "And now the ledger, please.")]
    assert session.runs("ls").ends == [(Cause.UNFINISHED, "And now the ledger, please.")]
    assert session.agent("The ledger balances.").ends == []
    assert fixed().user("commit").ends == [(Cause.UNANSWERED, "commit")]


def test_a_command_that_the_agent_acted_on_is_a_request_and_its_errand_belongs_to_the_request_before() -> None:
    assert fixed().user("/review the ledger of May").runs("ls").ends == [(Cause.UNFINISHED, "/review the ledger of May")]
    assert fixed().user("commit").runs("git status").ends == [(Cause.UNFINISHED, "Fix the retry queue.")]


def test_a_stop_by_the_person_leaves_the_request_open_until_the_agent_acts_again() -> None:
    session = Session().user("Fix the retry queue.").runs("ls").user("[Request interrupted by user for tool use]")
    assert session.ends == [(Cause.STOPPED, "Fix the retry queue.")]
    assert session.user("Only read the log.").agent("The log is empty.").ends == []
    noted = Session().user("Fix the retry queue.").runs("ls")
    assert noted.add("[Request interrupted by user]", Role.SYSTEM, kind=EventType.NOTE).ends[0][0] is Cause.STOPPED


def test_a_question_that_nobody_answered_is_open_with_its_options_and_not_after_an_answer() -> None:
    asks = "Fixed. The old rows remain: are they of any use to billing?"
    assert Session().user("Fix it now.").agent(asks).ends == [(Cause.QUESTION, asks.removeprefix("Fixed. "))]
    assert Session().user("Fix it now.").agent(asks).user("No, drop all of them.").agent("Dropped.").ends == []
    listed = "Both would work.\n\nWould you like me to:\n1. Revert the fix?\n2. Debug on?"
    assert Session().user("Fix it now.").agent(listed).ends == [
        (Cause.QUESTION, "Would you like me to: 1. Revert the fix? 2. Debug on?")
    ]
    options = "Which one shall it be?\n\n- the table\n- the file\n\nThe table is faster."
    assert Session().user("Fix it now.").agent(options).ends == [(Cause.QUESTION, "Which one shall it be?")]


@pytest.mark.parametrize(
    "offer",
    [
        "Is there anything else I can help you with?",
        "Kann ich sonst noch etwas für dich tun?",
        "¿Algo más?",
        "Puis-je faire autre chose ?",
        "他に何かありますか？",
        "还有什么可以帮你的吗？",
    ],
)
def test_an_offer_of_nothing_in_particular_is_no_question(offer: str) -> None:
    assert Session().user("Fix the retry queue.").agent(f"The queue retries three times. {offer}").ends == []


def test_a_choice_that_a_tool_shows_is_the_question() -> None:
    call = 'AskUserQuestion\nquestions: [{"question":"Keep the old rows?","options":[{"label":"Yes"}]}]'
    session = Session().user("Fix the retry queue.").agent("One thing first.").calls("AskUserQuestion", call)
    assert session.ends == [(Cause.QUESTION, "Keep the old rows?")]


def test_what_failed_last_is_open_unless_something_succeeded_after_it() -> None:
    session = Session().user("Make the build pass.").runs("make", "error: queue.py:3 is broken", "2")
    assert session.agent("It is an old error.").ends == [(Cause.FAILED, "Make the build pass.")]
    assert session.user("Then fix that.").edits("queue.py").runs("make").agent("It passes.").ends == []
    refused = Session().user("Write the readme of it.").edits("README.md", is_error="true").agent("I wrote it.")
    assert refused.ends == [(Cause.FAILED, "Write the readme of it.")]
    again = Session().user("Fix the retry queue.").edits("queue.py").edits("queue.py", is_error="true").agent("It was done.")
    assert again.ends == []
    assert Session().user("Find the word.").runs("grep word", "", "1").agent("It is nowhere.").ends == []


def test_without_tools_an_announcement_ends_in_the_middle() -> None:
    assert Session().user("Fix the retry queue.").agent("Let me run the tests:").ends == [
        (Cause.UNFINISHED, "Fix the retry queue.")
    ]
    assert Session().user("Fix the retry queue.").agent("All pass. Now let me run the linter.").ends[0][0] is Cause.UNFINISHED
    assert Session().user("Fix the retry queue.").agent("All pass. Let me know if you need more.").ends == []


def test_people_who_talk_to_each_other_leave_nothing_open() -> None:
    talk = Session().user("Where do we meet tomorrow?").agent("At the quay?")
    assert shown(open_ends(talk.events)) == [(Cause.QUESTION, "At the quay?")]
    assert open_ends([replace(event, speaker="Ana") for event in talk.events]) == ()


PLAN = '[{"step":"Read","status":"completed"},{"step":"Write it","status":"pending"},{"step":"Test","status":"in_progress"}]'


@pytest.mark.parametrize(
    ("tool", "text", "left"),
    [
        ("TodoWrite", "TodoWrite:\n[x] read\n[ ] test it\n[~] fix the queue", ["fix the queue", "test it"]),
        ("update_plan", f"update_plan\nplan: {PLAN}", ["Test", "Write it"]),
        ("todowrite", f"todowrite\ntodos: {PLAN}", ["Test", "Write it"]),
        ("update_todo_list", "update_todo_list\ntodos: \n- [x] read\n- [ ] write", ["write"]),
        ("TodoWrite", "TodoWrite:\n[x] read", []),
    ],
)
def test_planned_tasks_are_read_from_any_clients_list(tool: str, text: str, left: list[str]) -> None:
    assert [words.text for words in pending_tasks(Session().calls(tool, text).events)] == left


def test_tasks_that_are_created_one_by_one_are_left_until_they_are_over() -> None:
    session = (
        Session().calls("TaskCreate", "TaskCreate: Read the ledger").calls("TaskCreate", "TaskCreate: Write it\ndescription: x")
    )
    session.calls("TaskUpdate", "TaskUpdate: 1\nstatus: completed").calls("TaskUpdate", "TaskUpdate: 2\nstatus: in_progress")
    assert [words.text for words in pending_tasks(session.events)] == ["Write it"]
    assert pending_tasks(session.calls("TaskUpdate", "TaskUpdate: 2\nstatus: deleted").events) == []


def test_a_plan_is_open_while_its_request_is_the_last_and_not_when_other_work_followed() -> None:
    session = Session().user("Fix the retry queue.").calls("TodoWrite", "TodoWrite:\n[x] read\n[ ] tell billing").prints()
    session.agent("Fixed: the queue retries three times.")
    assert session.ends == [(Cause.PLANNED, "tell billing")]
    assert session.user("commit").runs("git commit -am x").agent("Committed.").ends == [(Cause.PLANNED, "tell billing")]
    assert session.user("Now rename the ledger file.").runs("git mv a b").agent("Renamed.").ends == []
