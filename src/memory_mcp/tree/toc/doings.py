"""What happened in a stretch, read from its events: the request, commits, tests, files.

Told by what happened, not by what was announced: a commit counts when git says so, tests by their exit status. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.model.event import RECAP, RECORD, Event, EventType, Role, Trust, mark_of
from memory_mcp.tree.outcomes.runs import changes_files
from memory_mcp.tree.summarize.kinds import is_chatter, is_errand
from memory_mcp.tree.summarize.sentences import Shape, clean_text, find_spans, reply_spans, shorten

#: Files named.
_MAX_FILES = 12
#: Characters of a request, and of what an agent said last, that are looked at.
_MAX_READ = 4000
#: Characters of a request that may be shown.
_MAX_SHOWN = 300
#: Least number of words of a sentence that is worth showing.
_MIN_WORDS = 3

#: Messages of a conversation: by whom, and of which type.
_MESSAGES = frozenset(
    {
        (Role.USER, EventType.USER_MESSAGE),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE),
        (Role.ASSISTANT, EventType.ASSISTANT_STOP),
    }
)
_COMMIT = lazy_pattern(r"\bgit\b[^|;&\n]{0,80}\bcommit\b")
#: What git prints: the branch, an abbreviated hash, the subject.
_COMMITTED = lazy_pattern(r"^\[(?P<branch>[^\s\]]+)(?: \([^)]*\))? [0-9a-f]{7,40}\] (?P<subject>\S.*)$", re.M)
_SWITCHED = lazy_pattern(r"\bgit (?:checkout -[bB]|switch -[cC]) +([\w./-]+)")
_MERGED = lazy_pattern(r"\bgh pr merge\b")
_CLOSED = lazy_pattern(r"\bgh pr close\b")
_PUSHED = lazy_pattern(r"\bgit\b[^|;&\n]{0,80}\bpush\b")
_REQUEST = lazy_pattern(r"https://[\w.-]+/[\w.\-/]+/(?:pull|merge_requests)/\d+\b")
_MAKES_REQUEST = lazy_pattern(r"\bgh pr create\b|\bglab mr create\b")
_TESTS = lazy_pattern(
    r"\b(?:pytest|tox|nox|go test|cargo (?:nextest|test)|jest|vitest|rspec|phpunit|dotnet test|ctest|"
    r"(?:npm|pnpm|yarn|bun|mise|make|just|task|gradlew?|mvn|rake|mix)\b[^|;&\n]{0,20}\btest\b)"
)
#: How clients record that a person stopped the agent.
INTERRUPTED = "[Request interrupted"


@dataclass(frozen=True, slots=True)
class QuotedSpan:
    """A span of an event and its speaker: user, agent, note, or a person's name."""

    text: str
    speaker: str
    event: Event
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What was asked and done in a stretch; any field may be empty."""

    #: The person's first request.
    first_request: QuotedSpan | None = None
    #: How the agent closed.
    closing_words: QuotedSpan | None = None
    #: Subjects of commits, in order.
    commits: tuple[str, ...] = ()
    #: Whether the last run of tests passed; None where none ran.
    tests_passed: bool | None = None
    #: "pushed", "merged" or "closed", whichever happened last.
    last_step: str = ""
    branch: str = ""
    #: Address of the pull request.
    pull_request: str = ""
    #: Files that were changed, the last one first.
    files: tuple[str, ...] = ()


#: Of a stretch whose events were not read.
NOTHING = WorkDone()


def read_work(events: Sequence[Event]) -> WorkDone:
    """Return the request, results and files of a stretch's events.

    Reads nothing else; a field is empty where they say nothing.
    """
    requests = (words for event in events if (words := request_of(event)) is not None and is_telling(words.text))
    names = (
        _relative_path(event.metadata.get("files", "") or event.metadata.get("file", ""), event.metadata.get("cwd", ""))
        for event in reversed(events)
        if changes_files(event)
    )
    doings = WorkDone(
        first_request=next(requests, None),
        closing_words=_find_closing(events),
        files=tuple(dict.fromkeys(name for name in names if name))[:_MAX_FILES],
    )
    return _add_commands(doings, events)


def join_work(parts: Sequence[WorkDone]) -> WorkDone:
    """Return the work of consecutive stretches as one.

    The first request, all commits, the latest of everything else; 12 files at most.
    """
    if not parts:
        return NOTHING
    last = parts[-1]
    return replace(
        last,
        first_request=next((p.first_request for p in parts if p.first_request is not None), None),
        closing_words=next((p.closing_words for p in reversed(parts) if p.closing_words is not None), None),
        commits=tuple(dict.fromkeys(subject for p in parts for subject in p.commits)),
        tests_passed=next((p.tests_passed for p in reversed(parts) if p.tests_passed is not None), None),
        last_step=next((p.last_step for p in reversed(parts) if p.last_step), ""),
        branch=next((p.branch for p in reversed(parts) if p.branch), ""),
        pull_request=next((p.pull_request for p in reversed(parts) if p.pull_request), ""),
        files=tuple(dict.fromkeys(file for p in reversed(parts) for file in p.files))[:_MAX_FILES],
    )


def is_prompt(event: Event) -> bool:
    """Return whether a person wrote a message; recaps and client records are none."""
    is_written = event.type is EventType.USER_MESSAGE and event.role is Role.USER and event.trust is not Trust.AGENT_NOTE
    return is_written and not mark_of(event, RECAP) and not mark_of(event, RECORD)


def request_of(event: Event) -> QuotedSpan | None:
    """Return a message's request, None if it has none.

    It is the first prose of three words and more, up to 300 characters. None if no person wrote it, for recaps, client
    records and interruptions, and if it is only chatter.
    """
    if not is_prompt(event) or event.text.startswith(INTERRUPTED):
        return None
    text = event.text[:_MAX_READ]
    spans = reply_spans(text) if "tool_use_id" in event.metadata else find_spans(text)
    prose_spans = [s for s in spans if s.shape not in (Shape.ERROR, Shape.LEAD)] or spans
    telling_spans = [s for s in prose_spans if not is_chatter(text, s.start, s.end, first=s is prose_spans[0])]
    if not telling_spans:
        return None
    first = next((s for s in telling_spans if len(text[s.start : s.end].split()) >= _MIN_WORDS), telling_spans[0])
    # A plan goes on with its parts: what it is called is enough.
    next_heading = next((s.start for s in prose_spans if s.start > first.start and s.shape is Shape.HEADING), len(text))
    # Cleaning shortens: twice as much is enough to fill what is shown.
    words = shorten(clean_text(text[first.start : min(next_heading, first.start + 2 * _MAX_SHOWN)]), _MAX_SHOWN).rstrip(" #*")
    return QuotedSpan(words, event.speaker or "user", event, first.start, first.end) if words else None


def runs_tests(command: str) -> bool:
    """Return whether a command line runs tests."""
    return _TESTS.search(command) is not None


def commit_subjects(output: str) -> list[str]:
    """Return the subjects of the commits that git prints in a command's output."""
    return [line["subject"].strip() for line in _COMMITTED.finditer(output)]


def is_telling(request: str) -> bool:
    """Return whether a request describes the work.

    "commit", "yes", a number to choose and a client's command do not.
    """
    if request.startswith("!") or (request.startswith("/") and " " not in request):
        return False
    # Some scripts write no spaces between words.
    return (" " in request or not request.isascii()) and not is_errand(request, 0, len(request))


def _find_closing(events: Sequence[Event]) -> QuotedSpan | None:
    for event in reversed(events):
        if event.role is Role.USER or (event.role, event.type) not in _MESSAGES or mark_of(event, RECORD):
            continue
        text = event.text[:_MAX_READ]
        for span in find_spans(text):
            telling = span.shape not in (Shape.LEAD, Shape.HEADING) and not is_chatter(text, span.start, span.end, narrates=True)
            if telling and len(text[span.start : span.end].split()) >= _MIN_WORDS:
                return QuotedSpan(clean_text(text[span.start : span.end]), event.speaker or "agent", event, span.start, span.end)
    return None


def _relative_path(file: str, directory: str) -> str:
    base = directory.rstrip("/") + "/"
    return file.removeprefix(base) if directory and file.startswith(base) else "/".join(file.split("/")[-2:])


def _add_commands(doings: WorkDone, events: Sequence[Event]) -> WorkDone:
    commits: list[str] = []
    passed: bool | None = None
    went, branch, request = "", "", ""
    for event, command, well in _iter_commands(events):
        branch = event.metadata.get("branch", "") or branch
        if mark_of(event, RECORD) == "pull request":
            request = event.metadata.get("url", "") or request
        if changes_files(event) and passed is False:
            # What failed was worked on since.
            passed = None
        if runs_tests(command):
            passed = well
        if not command or not well:
            continue
        if _COMMIT.search(command):
            commit_lines = list(_COMMITTED.finditer(event.text))
            commits += [line["subject"].strip() for line in commit_lines]
            branch = commit_lines[-1]["branch"] if commit_lines else branch
        if switched := _SWITCHED.search(command):
            branch = switched[1]
        if _MAKES_REQUEST.search(command) and (address := _REQUEST.search(event.text)):
            request = address[0]
        for pattern, word in ((_PUSHED, "pushed"), (_MERGED, "merged"), (_CLOSED, "closed")):
            went = word if pattern.search(command) else went
    return replace(
        doings, commits=tuple(dict.fromkeys(commits)), tests_passed=passed, last_step=went, branch=branch, pull_request=request
    )


def _iter_commands(events: Sequence[Event]) -> Iterator[tuple[Event, str, bool]]:
    calls: dict[str, str] = {}
    for event in events:
        call = event.metadata.get("tool_use_id", "")
        if event.type is EventType.TOOL_CALL and event.metadata.get("command"):
            calls[call] = event.metadata["command"]
        result = event.type is EventType.TOOL_RESULT
        well = event.metadata.get("is_error") != "true" and event.metadata.get("exit_status", "0") in ("", "0")
        yield event, calls.get(call, "") if result else "", result and well
