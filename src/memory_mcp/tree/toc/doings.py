"""What happened in a stretch, read from its events: the request, commits, tests, files.

Told by what happened, not by what was announced: a commit counts when git says so, tests by their exit status. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from memory_mcp.model.event import RECAP, RECORD, Event, EventType, Role, Trust, mark_of
from memory_mcp.tree.summarize.kinds import is_chatter, is_errand
from memory_mcp.tree.summarize.sentences import Shape, clean_text, find_spans, reply_spans, shorten

#: Files named.
_FILES = 12
#: Characters of a request, and of what an agent said last, that are looked at.
_READ = 4000
#: Characters of a request that may be shown.
_SHOWN = 300
#: Least number of words of a sentence that is worth showing.
_WORDS = 3

#: Messages of a conversation: by whom, and of which type.
_MESSAGES = frozenset(
    {
        (Role.USER, EventType.USER_MESSAGE),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE),
        (Role.ASSISTANT, EventType.ASSISTANT_STOP),
    }
)
#: Tools that change the files they name, in the spelling of any client: MultiEdit, write_to_file, str_replace, apply_patch.
_EDITS = re.compile(r"edit|write|patch|replace", re.I)
_PATCH = "apply_patch"
_COMMIT = re.compile(r"\bgit\b[^|;&\n]{0,80}\bcommit\b")
#: What git prints: the branch, an abbreviated hash, the subject.
_COMMITTED = re.compile(r"^\[(?P<branch>[^\s\]]+)(?: \([^)]*\))? [0-9a-f]{7,40}\] (?P<subject>\S.*)$", re.M)
_SWITCHED = re.compile(r"\bgit (?:checkout -[bB]|switch -[cC]) +([\w./-]+)")
_MERGED = re.compile(r"\bgh pr merge\b")
_CLOSED = re.compile(r"\bgh pr close\b")
_PUSHED = re.compile(r"\bgit\b[^|;&\n]{0,80}\bpush\b")
_REQUEST = re.compile(r"https://[\w.-]+/[\w.\-/]+/(?:pull|merge_requests)/\d+\b")
_MAKES_REQUEST = re.compile(r"\bgh pr create\b|\bglab mr create\b")
_TESTS = re.compile(
    r"\b(?:pytest|tox|nox|go test|cargo (?:nextest|test)|jest|vitest|rspec|phpunit|dotnet test|ctest|"
    r"(?:npm|pnpm|yarn|bun|mise|make|just|task|gradlew?|mvn|rake|mix)\b[^|;&\n]{0,20}\btest\b)"
)
#: How clients record that a person stopped the agent.
INTERRUPTED = "[Request interrupted"


@dataclass(frozen=True, slots=True)
class Words:
    """A span of an event and its speaker: user, agent, note, or a person's name."""

    text: str
    speaker: str
    event: Event
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Doings:
    """What was asked and done in a stretch; any field may be empty."""

    #: The person's first request.
    asked: Words | None = None
    #: How the agent closed.
    closing: Words | None = None
    #: Subjects of commits, in order.
    commits: tuple[str, ...] = ()
    #: Whether the last run of tests passed; None where none ran.
    passed: bool | None = None
    #: "pushed", "merged" or "closed", whichever happened last.
    went: str = ""
    branch: str = ""
    #: Address of the pull request.
    request: str = ""
    #: Files that were changed, the last one first.
    files: tuple[str, ...] = ()


#: Of a stretch whose events were not read.
NOTHING = Doings()


def doings_of(events: Sequence[Event]) -> Doings:
    """Return what the events of a stretch, in order, say about the work: the request, results of commands, files.

    Reads nothing else; a field is empty where they say nothing.
    """
    requests = (words for event in events if (words := request_of(event)) is not None and is_telling(words.text))
    names = (
        _inside(event.metadata.get("files", "") or event.metadata.get("file", ""), event.metadata.get("cwd", ""))
        for event in reversed(events)
        if changes_files(event)
    )
    found = Doings(
        asked=next(requests, None),
        closing=_closing(events),
        files=tuple(dict.fromkeys(name for name in names if name))[:_FILES],
    )
    return _with_commands(found, events)


def together(parts: Sequence[Doings]) -> Doings:
    """Return doings of consecutive stretches, in order, as those of one; NOTHING for none.

    The first request, all commits, the latest of everything else; 12 files at most.
    """
    if not parts:
        return NOTHING
    last = parts[-1]
    return replace(
        last,
        asked=next((p.asked for p in parts if p.asked is not None), None),
        closing=next((p.closing for p in reversed(parts) if p.closing is not None), None),
        commits=tuple(dict.fromkeys(subject for p in parts for subject in p.commits)),
        passed=next((p.passed for p in reversed(parts) if p.passed is not None), None),
        went=next((p.went for p in reversed(parts) if p.went), ""),
        branch=next((p.branch for p in reversed(parts) if p.branch), ""),
        request=next((p.request for p in reversed(parts) if p.request), ""),
        files=tuple(dict.fromkeys(file for p in reversed(parts) for file in p.files))[:_FILES],
    )


def request_of(event: Event) -> Words | None:
    """Return what a person asks for in a message, from its first prose of three words on, up to 300 characters cut at a word.

    None if no person wrote it, for recaps, client records and interruptions, and if it is only chatter.
    """
    if event.type is not EventType.USER_MESSAGE or event.role is not Role.USER or event.trust is Trust.AGENT_NOTE:
        return None
    if mark_of(event, RECAP) or mark_of(event, RECORD) or event.text.startswith(INTERRUPTED):
        return None
    text = event.text[:_READ]
    listed = reply_spans(text) if "tool_use_id" in event.metadata else find_spans(text)
    found = [s for s in listed if s.shape not in (Shape.ERROR, Shape.LEAD)] or listed
    own = [s for s in found if not is_chatter(text, s.start, s.end, first=s is found[0])]
    if not own:
        return None
    first = next((s for s in own if len(text[s.start : s.end].split()) >= _WORDS), own[0])
    # A plan goes on with its parts: what it is called is enough.
    after = next((s.start for s in found if s.start > first.start and s.shape is Shape.HEADING), len(text))
    # Cleaning shortens: twice as much is enough to fill what is shown.
    words = shorten(clean_text(text[first.start : min(after, first.start + 2 * _SHOWN)]), _SHOWN).rstrip(" #*")
    return Words(words, event.speaker or "user", event, first.start, first.end) if words else None


def is_telling(request: str) -> bool:
    """Return whether a request describes the work: more than "commit", "yes", a number to choose, or a client's command."""
    if request.startswith("!") or (request.startswith("/") and " " not in request):
        return False
    # Some scripts write no spaces between words.
    return (" " in request or not request.isascii()) and not is_errand(request, 0, len(request))


def _closing(events: Sequence[Event]) -> Words | None:
    """Return the first sentence of substance (three words) of the agent's last message that has one; None for none."""
    for event in reversed(events):
        if event.role is Role.USER or (event.role, event.type) not in _MESSAGES or mark_of(event, RECORD):
            continue
        text = event.text[:_READ]
        for span in find_spans(text):
            telling = span.shape not in (Shape.LEAD, Shape.HEADING) and not is_chatter(text, span.start, span.end, narrates=True)
            if telling and len(text[span.start : span.end].split()) >= _WORDS:
                return Words(clean_text(text[span.start : span.end]), event.speaker or "agent", event, span.start, span.end)
    return None


def _inside(file: str, directory: str) -> str:
    """Return a file's path relative to `directory`; of one elsewhere, or without a directory, its last two names."""
    base = directory.rstrip("/") + "/"
    return file.removeprefix(base) if directory and file.startswith(base) else "/".join(file.split("/")[-2:])


def _with_commands(found: Doings, events: Sequence[Event]) -> Doings:
    """Return the doings with commits, tests, branch and pull request, as commands that succeeded and the client's notes tell.

    A failed run of tests counts until files are changed again.
    """
    commits: list[str] = []
    passed: bool | None = None
    went, branch, request = "", "", ""
    for event, command, well in _runs(events):
        branch = event.metadata.get("branch", "") or branch
        if mark_of(event, RECORD) == "pull request":
            request = event.metadata.get("url", "") or request
        if changes_files(event) and passed is False:
            # What failed was worked on since.
            passed = None
        if _TESTS.search(command):
            passed = well
        if not command or not well:
            continue
        if _COMMIT.search(command):
            made = list(_COMMITTED.finditer(event.text))
            commits += [one["subject"].strip() for one in made]
            branch = made[-1]["branch"] if made else branch
        if switched := _SWITCHED.search(command):
            branch = switched[1]
        if _MAKES_REQUEST.search(command) and (address := _REQUEST.search(event.text)):
            request = address[0]
        for pattern, word in ((_PUSHED, "pushed"), (_MERGED, "merged"), (_CLOSED, "closed")):
            went = word if pattern.search(command) else went
    return replace(found, commits=tuple(dict.fromkeys(commits)), passed=passed, went=went, branch=branch, request=request)


def _runs(events: Sequence[Event]) -> Iterator[tuple[Event, str, bool]]:
    """Yield each event, the command that it answers and whether it succeeded; "" and False for all but results of tools.

    The command is "" if the call is not among the events or has none.
    """
    calls: dict[str, str] = {}
    for event in events:
        call = event.metadata.get("tool_use_id", "")
        if event.type is EventType.TOOL_CALL and event.metadata.get("command"):
            calls[call] = event.metadata["command"]
        result = event.type is EventType.TOOL_RESULT
        well = event.metadata.get("is_error") != "true" and event.metadata.get("exit_status", "0") in ("", "0")
        yield event, calls.get(call, "") if result else "", result and well


def changes_files(event: Event) -> bool:
    """Return whether an event is a call of a tool that changes files."""
    tool = event.metadata.get("tool", "")
    if event.type is not EventType.TOOL_CALL or not _EDITS.search(tool):
        return False
    return tool == _PATCH or bool(event.metadata.get("files") or event.metadata.get("file"))
