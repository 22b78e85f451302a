"""What came of a stretch, and what was decided in it."""

import pytest

from memory_mcp.model.event import Event, EventType, Role
from memory_mcp.model.toc import MemoryKind
from memory_mcp.tree.summarize.decisions import decisions_of
from memory_mcp.tree.summarize.extractive import ExtractiveSummarizer
from memory_mcp.tree.summarize.outcome import deeds_of
from tests.summarize.suite import event, talk

SUMMARIZER = ExtractiveSummarizer()


def call(n: int, command: str, use: str = "u1") -> Event:
    text = f"Bash: {command}"
    return event(n, text, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="Bash", command=command, tool_use_id=use)


def failed(n: int, use: str = "u1") -> Event:
    return event(n, "fatal: no", Role.TOOL, kind=EventType.TOOL_RESULT, tool_use_id=use, is_error="true")


def test_the_title_says_what_was_asked_and_what_came_of_it() -> None:
    title = SUMMARIZER.summarize(
        talk(
            "Token usage is lost when a session is saved, can you fix that?",
            "The SaveChanges logic looks correct. I keep looking at the conversion.",
            "go on",
            "Found it. Added `TokenUsage` to `strategy.SessionState`, so that the conversion keeps it. All tests pass.",
        )
    ).title
    assert title.startswith("Token usage is lost when a session is saved")
    assert "Added TokenUsage to strategy.SessionState" in title
    assert "looks correct" not in title


def test_what_an_agent_is_about_to_do_is_no_outcome() -> None:
    title = SUMMARIZER.summarize(
        talk("Why does the ferry timetable import fail?", "Let me look at the importer. I'll add a log line first.")
    ).title
    assert title.startswith("Why does the ferry timetable import fail?")
    assert "log line" not in title.partition(" — ")[0]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ('git commit -m "Read tides by date"', 'committed "Read tides by date"'),
        ("git -C quays commit -qam 'Read tides by date'", 'committed "Read tides by date"'),
        (
            "git add . && git commit -m \"$(cat <<'EOF'\nRead tides by date\n\nLong text.\nEOF\n)\"",
            'committed "Read tides by date"',
        ),
        ('gh pr create --draft --title "Tides by date" --body "x"', 'pull request "Tides by date"'),
        ("gh pr merge 175 --squash", "merged pull request 175"),
    ],
)
def test_what_was_made_to_last_is_told_by_the_words_it_was_given(command: str, told: str) -> None:
    events = [event(0, "Read the tides by date."), call(1, command)]
    assert [d.short for d in deeds_of(events)] == [told]
    summary = SUMMARIZER.summarize(events)
    place = next(b for b in summary.bullets if b.text.casefold() == told.casefold()).sources[0]
    assert place.event_id == events[1].event_id
    assert events[1].text[place.start : place.end].strip("'\"") in command


def test_deeds_of_one_command_come_in_their_order_and_end_where_it_ends() -> None:
    command = 'git commit -m \'fix: tides\' && git push && gh pr create --title "Tides by date" && git commit -m "docs: quays"'
    assert [d.short for d in deeds_of([call(0, command)])] == [
        'committed "fix: tides"',
        'pull request "Tides by date"',
        'committed "docs: quays"',
    ]


def test_a_name_too_long_for_a_title_is_told_whole_in_its_bullet() -> None:
    said = "Read the tide tables of every harbour by the date itself and never again by the day of the year"
    [deed] = deeds_of([call(0, f'git commit -m "{said}"')])
    assert (deed.short, deed.text) == ("committed", f'committed "{said}"')


@pytest.mark.parametrize(
    "text", ["gh pr create x\n", "git commit x ", "git commit -m \"$(cat <<'EOF'\n\n\n", 'git commit -m "\\x']
)
def test_long_commands_are_read_in_time(text: str) -> None:
    """Anything worse than linear would not end before the test's own time limit."""
    assert len(deeds_of([call(0, text * 50_000)])) <= 1


@pytest.mark.parametrize(
    "command",
    [
        'git commit -F m && pytest -m "not slow"',
        "gh pr create --fill && x --title 'a b c d'",
        'git commit -m "$(printf feat)"',
        "git commit --amend",
        "git log --grep commit",
        "echo 'gh pr create'",
        "git status # commit",
    ],
)
def test_other_commands_are_no_deeds(command: str) -> None:
    assert deeds_of([call(0, command)]) == []


def test_a_commit_that_failed_is_no_outcome() -> None:
    assert deeds_of([call(0, 'git commit -m "Read tides by date"'), failed(1)]) == []


def test_work_that_the_user_broke_off_says_so() -> None:
    stop = event(9, "[Request interrupted by user]", Role.SYSTEM, kind=EventType.NOTE)
    title = SUMMARIZER.summarize([*talk("Rewrite the tide tables by hand.", "I start with January."), stop]).title
    assert title.startswith("Rewrite the tide tables by hand: interrupted")


def test_question_and_answer_of_a_decision_are_one_bullet_with_both_places() -> None:
    events = talk(
        "Add retries to the harbour client.", "Should it retry on 503, or fail fast?", "no, fail fast", "Done: it fails fast."
    )
    summary = SUMMARIZER.summarize(events)
    decided = [b for b in summary.bullets if b.kind is MemoryKind.DECISION]
    assert [b.text for b in decided] == ["Should it retry on 503, or fail fast? no, fail fast"]
    assert [s.event_id for s in decided[0].sources] == [events[2].event_id, events[1].event_id]


def test_an_option_named_by_its_number_is_written_out() -> None:
    asked = "Which store should keep the tides?\n\n1. A table per harbour\n2. One table with a harbour column\n3. Plain files"
    found = decisions_of(talk("Store the tides.", asked, "2"))
    assert [d.text for d in found] == ["Which store should keep the tides? One table with a harbour column"]


def test_what_was_picked_from_a_list_that_the_client_showed() -> None:
    text = 'User has answered your questions: "Which quay first?"="The northern one". You can now continue.'
    result = event(3, text, Role.TOOL, kind=EventType.TOOL_RESULT, tool="AskUserQuestion")
    assert [d.text for d in decisions_of([result])] == ["Which quay first? The northern one"]


def test_what_a_person_answered_to_a_tool_or_said_while_refusing_a_call_is_decided() -> None:
    text = "> Which quay first?\nThe northern one\n\n> And the tides?\nkeep them per harbour"
    reply = event(3, text, Role.USER, kind=EventType.USER_MESSAGE, tool="AskUserQuestion", tool_use_id="u1")
    refusal = event(5, "use make instead", Role.USER, kind=EventType.USER_MESSAGE, tool="Bash", tool_use_id="u2", is_error="true")
    events = [*talk("Build the harbour."), reply, call(4, "npm run docks", "u2"), refusal]
    assert [d.text for d in decisions_of(events)] == [
        "Which quay first? The northern one",
        "And the tides? keep them per harbour",
        "Bash: npm run docks use make instead",
    ]
    bullets = SUMMARIZER.summarize(events).bullets
    decided = [b.text for b in bullets if b.kind is MemoryKind.DECISION]
    assert decided == [d.text for d in decisions_of(events)]
    assert not any(b.text.startswith(("Which quay first?", "And the tides?")) for b in bullets if b.text not in decided)


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("Shall I go on with the quays or stop here?", "yes"),
        ("Would you like me to commit the tide tables?", "yes please"),
        ("The quays are done.", "no, fail fast"),
        ("Should it retry on 503, or fail fast?", "why would it answer 503 at all?"),
        ("Should it retry on 503, or fail fast?", "/compact"),
        ("Should it retry on 503, or fail fast?", "Let me explain. " * 40),
    ],
)
def test_leave_to_go_on_and_long_talk_decide_nothing(asked: str, answered: str) -> None:
    assert decisions_of(talk("Add retries to the harbour client.", asked, answered)) == []


def test_a_plan_of_tools_titles_what_nobody_asked_for_in_words() -> None:
    plan = "TaskCreate: Read the tide tables by date\ndescription: look up the date"
    events = [
        event(0, plan, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="TaskCreate"),
        event(1, "Read: tides.py", Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="Read", files="tides.py"),
    ]
    assert SUMMARIZER.summarize(events).title.startswith("Read the tide tables by date")


def test_a_list_of_things_to_do_is_read_as_it_was_last() -> None:
    first, last = "TodoWrite:\n[ ] Count the quays\n[ ] Name them", "TodoWrite:\n[x] Count the quays twice\n[ ] Name the ferries"
    told = [event(n, text, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="TodoWrite") for n, text in enumerate((first, last))]
    said = " ".join(b.text for b in SUMMARIZER.summarize(told).bullets)
    assert "Count the quays twice" in said
    assert "Name them" not in said


def test_what_is_planned_is_no_outcome_and_a_task_is_its_subject() -> None:
    todo = "TodoWrite:\n[x] Read the tide tables\n[ ] Implement the fix of leap days"
    task = "TaskCreate: Count the quays twice\ndescription: walk along the harbour and count"
    events = [
        *talk("The tide is wrong on leap days.", "I look into tides.csv."),
        event(3, todo, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="TodoWrite"),
        event(4, task, Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="TaskCreate"),
    ]
    summary = SUMMARIZER.summarize(events)
    assert "Implement" not in summary.title.partition(" — ")[0]
    assert summary.title.startswith("The tide is wrong on leap days")
    assert "Count the quays twice" in [b.text for b in summary.bullets]


def test_neither_code_nor_the_link_of_a_pull_request_is_a_title() -> None:
    link = event(2, "Pull request #7: https://example.org/quays/pull/7", Role.SYSTEM, kind=EventType.NOTE, record="pull request")
    code = "For _, tide := range tides { sum += tide[i]; if sum > max { max = sum } } the tides are summed."
    title = SUMMARIZER.summarize([*talk("", f"{code}\n\nThe tides of a quay are summed by harbour now."), link]).title
    assert "Pull request" not in title
    assert title.startswith("The tides of a quay are summed by harbour now")
