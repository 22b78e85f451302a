"""What was asked and done in a stretch, from its events: requests, commits, tests and files."""

import pytest

from memory_mcp.model.event import EventType, Role
from memory_mcp.tree.toc.doings import WorkDone, join_work, read_work, request_of
from tests.factories import event
from tests.toc.helpers import EventSession


class Session(EventSession):
    """Commands and edits, and what was done by them."""

    def runs(self, command: str, printed: str = "", status: str = "0") -> "Session":
        call = f"u{len(self.events)}"
        self.add(f"Bash: {command}", Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="Bash", command=command, tool_use_id=call)
        return self.add(printed or "(no output)", Role.TOOL, tool="Bash", tool_use_id=call, exit_status=status)

    def edits(self, file: str) -> "Session":
        return self.add(f"Edit: {file}", Role.ASSISTANT, kind=EventType.TOOL_CALL, tool="Edit", files=file, cwd="/home/dev/shop")

    @property
    def done(self) -> WorkDone:
        return read_work(self.events)


def words(found: object) -> str:
    return getattr(found, "text", "")


def test_a_request_is_what_the_work_is_and_not_an_errand_a_choice_or_a_command_of_the_client() -> None:
    said = Session().user("/clear").user("ok").user("Please fix the retry queue.").agent("On it, the queue it is.")
    said.user("2").agent("Done with the second.").user("commit").agent("Committed.")
    assert words(said.done.first_request) == "Please fix the retry queue."


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("[Request interrupted by user]", {}),
        ("This session is being continued from a previous one.", {"compact_summary": "true"}),
        ("/model opus", {"record": "local_command"}),
    ],
)
def test_what_the_client_put_there_is_nobodys_request(text: str, metadata: dict[str, str]) -> None:
    assert request_of(event(text, metadata=metadata)) is None
    assert request_of(event("Fix the queue.", role=Role.ASSISTANT)) is None


def test_a_request_begins_with_its_prose_and_a_plan_is_known_by_its_name() -> None:
    pasted = "```\nTraceback: queue.py\n```\nWhy does the queue fail at night?"
    assert words(request_of(event(pasted))) == "Why does the queue fail at night?"
    plan = "Implement the following plan: move the queue\n\n# Context\n\nThe queue is slow.\n\n# Steps\n\nMove it."
    assert words(request_of(event(plan))) == "Implement the following plan: move the queue"


def test_commits_count_when_git_says_so_and_tell_the_branch() -> None:
    said = (
        Session().user("Fix the queue.").runs("git add . && git commit -m 'Fix the queue'", "[fix/queue 1a2b3c4] Fix the queue\n")
    )
    said.runs("git commit -m 'Nothing'", "nothing to commit", "1").runs("git log --oneline", "[main 1a2b3c4] A line of a log")
    assert (said.done.commits, said.done.branch) == (("Fix the queue",), "fix/queue")
    assert Session().runs("git checkout -b feat/vat").done.branch == "feat/vat"


def test_tests_passed_or_failed_by_their_last_run_unless_that_was_worked_on_since() -> None:
    assert Session().runs("go build").done.tests_passed is None
    said = Session().runs("pytest -q", "1 failed", "1")
    assert said.done.tests_passed is False
    assert said.edits("/home/dev/shop/src/cart.py").done.tests_passed is None
    assert said.runs("mise run test && ls", "ok").done.tests_passed is True


def test_a_pull_request_is_known_by_the_clients_note_and_by_the_command_that_made_it() -> None:
    address = "https://github.com/acme/shop/pull/12"
    made = Session().runs("gh pr create --fill", f"Creating pull request\n{address}\n").done
    noted = Session().add("Pull request #12", Role.SYSTEM, record="pull request", url=address).done
    assert made.pull_request == noted.pull_request == address
    assert Session().runs("gh pr view", address).done.pull_request == ""
    assert [Session().runs(c).done.last_step for c in ("git push", "gh pr merge 12", "gh pr close 12", "ls")] == [
        "pushed",
        "merged",
        "closed",
        "",
    ]
    assert Session().runs("git push", "rejected", "1").done.last_step == ""


def test_files_are_called_as_from_where_the_work_was_the_last_changed_first() -> None:
    said = Session().edits("/home/dev/shop/src/a.py").edits("/etc/app/b.toml").edits("/home/dev/shop/src/a.py")
    assert said.done.files == ("src/a.py", "app/b.toml")


def test_the_agents_last_words_are_its_first_of_substance() -> None:
    said = (
        Session().user("Fix the queue.").agent("Let me look.\n\n## Summary\n\nThe queue retries 3 times now.\n\nAnything else?")
    )
    assert words(said.done.closing_words) == "The queue retries 3 times now."


def test_stretches_of_one_session_are_told_together_by_their_first_request_and_their_last_of_all_else() -> None:
    one = Session().user("Fix the queue.").runs("git commit", "[main 1a2b3c4] One").edits("/home/dev/shop/a").done
    two = Session().user("Then the ledger.").runs("git commit", "[main 2a2b3c4] Two").edits("/home/dev/shop/b").done
    both = join_work([one, two])
    assert words(both.first_request) == "Fix the queue."
    assert (both.commits, both.files) == (("One", "Two"), ("b", "a"))
    assert join_work([]) == WorkDone()


def test_nothing_at_all_is_no_failure() -> None:
    assert read_work([]) == WorkDone()
    assert read_work([event("x" * 100_000), event("\x00\ud800 ", role=Role.ASSISTANT)]).commits == ()
