"""Says in a line each what calls of tools did, with the citation that proves it."""

import re
from collections.abc import Collection, Iterable, Sequence, Set
from statistics import median
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.text import term_set
from memory_mcp.model.event import Event, EventType, Role, Trust
from memory_mcp.model.ids import EventId, span_grip_id
from memory_mcp.model.tool_run import StoredRun
from memory_mcp.requests.call_names import bare_line, measure_overlap, shape_of
from memory_mcp.tree.outcomes.failures import telling_line
from memory_mcp.tree.outcomes.runs import changes_files, files_of
from memory_mcp.tree.summarize.sentences import Shape, clean_text, find_spans, shorten
from memory_mcp.tree.toc.doings import QuotedSpan

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Characters of a command, of an error and of a reason that are shown.
_COMMAND, _ERROR, _REASON = 180, 160, 180
#: Characters of the first line that an edit brings in.
_ADDED = 70
#: Characters of a result that are compared.
_COMPARED = 4000
#: Events before a change among which its reason is looked for, and words of one.
_EARLIER, _LEAST_WORDS = 6, 5
_ANNOUNCES = re.compile(
    r"(?:(?:ok(?:ay)?|now|next|first|then|so|great|good|perfect|alright|and|jetzt|nun|dann|maintenant|ahora)\b\W*)*"
    r"(?:let me|let['’]s|(?:i|we)(?:['’]ll| will|['’]m going to| am going to| are going to)|time to|(?:ich|wir) werden?|lass mich"
    r"|je vais|nous allons|voy a|vamos a|(?:adding|updating|editing|creating|applying|fixing|making|writing|running)\b)",
    re.I,
)
_GIVES_REASON = re.compile(
    r"\b(?:because|since|so that|so (?:i|we|it|the)|as (?:it|the|this)|due to|otherwise|instead of|rather than|lacks?|missing"
    r"|needs?|to (?:avoid|prevent|keep|make sure|ensure|match|allow|stop)|weil|damit|sonst|parce que|afin|porque|para que)\b",
    re.I,
)
_NEW_TEXT = re.compile(r"^(?:(?:new_string|newText|new_str|content|replace): ?|\+(?!\+))(.*?\S.*)$", re.M)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One thing that is known, with its proof."""

    about: Annotated[str, "seen, ended, then, why, in_vain, works, failed, changed, asked, edited, or the kind of a statement"]
    text: str
    grip: Annotated[str, "Cite it; expand_grip opens it"]
    when: str
    project: Annotated[str, "Else the scope's"] = ""
    #: What the repository says since of the code that it is about.
    since: str = ""


class RunTeller:
    """Reads the events of runs once, and words them."""

    def __init__(self, app: "App", project: str | None) -> None:
        self._app = app
        self._project = project
        self._events: dict[EventId, Event] = {}
        #: The person's last request before a call, by the call: kept by who looks for it.
        self.requests: dict[EventId, QuotedSpan | None] = {}

    def read_runs(self, runs: Iterable[StoredRun]) -> None:
        """Read the events of runs that are not read yet."""
        self._read_events({event_id for stored in runs for event_id in (stored.run.call, stored.run.result)})

    def read_calls(self, runs: Iterable[StoredRun]) -> None:
        """Read the calls of runs that are not read yet, without their results."""
        self._read_events({stored.run.call for stored in runs})

    def _read_events(self, event_ids: Set[EventId]) -> None:
        unread_ids = event_ids - self._events.keys()
        self._events |= self._app.storage.events.get_events(unread_ids) if unread_ids else {}

    def call_of(self, stored: StoredRun) -> Event:
        """Return the call of a run."""
        return self._find_event(stored, stored.run.call)

    def result_of(self, stored: StoredRun) -> Event:
        """Return the result of a run."""
        return self._find_event(stored, stored.run.result)

    def _find_event(self, stored: StoredRun, event_id: EventId) -> Event:
        """Return an event of a run; without words if it is forgotten or lost meanwhile."""
        if event_id not in self._events:
            self.read_runs([stored])
        if (event := self._events.get(event_id)) is not None:
            return event
        at_ms, kind = stored.run.start_ms, EventType.NOTE
        return Event(event_id, stored.session_id, at_ms, kind, Role.TOOL, Trust.TOOL, "", "", project=stored.project)

    def tell_event(self, about: str, text: str, event: Event, stored: StoredRun) -> Statement:
        """Return a statement that an event proves."""
        grip = span_grip_id(event.event_id, 0, len(event.text))
        return self.make_statement(about, text, grip, event.timestamp, stored.project)

    def make_statement(self, about: str, text: str, grip: str, at_ms: int | None, project: str) -> Statement:
        """Return a statement with its local time, and with its project where the scope has several."""
        elsewhere = project if self._project is None else ""
        return Statement(
            about=about,
            text=text,
            grip=grip,
            when="" if at_ms is None else f"{self._app.calendar.to_local(at_ms):%Y-%m-%d %H:%M}",
            project=self._app.tree.short_names().get(elsewhere, elsewhere) if elsewhere else "",
        )

    def tell_call(self, about: str, stored: StoredRun, after: str = "") -> Statement:
        """Return a statement of what was called, with other words behind it."""
        call = self.call_of(stored)
        return self.tell_event(about, f"{describe_call(call)}{after}", call, stored)

    def tell_failure(self, about: str, stored: StoredRun, before: str = "", signs: Collection[str] = ()) -> Statement:
        """Return a statement of how a call failed: its telling line, among `signs` if it can be."""
        result = self.result_of(stored)
        line = shorten(telling_line(result.text, signs) or "(no output)", _ERROR)
        return self.tell_event(about, f"{before}{line}", result, stored)

    def tell_reason(self, change: StoredRun) -> Statement | None:
        """Return what the agent said just before a change, or None; what only announces it is no reason."""
        earlier, _ = self._app.storage.events.get_neighbours(self.call_of(change), _EARLIER, 0)
        for event in reversed(earlier):
            if event.role is Role.USER:
                return None
            if event.role is Role.ASSISTANT and event.type is not EventType.TOOL_CALL and (words := _find_reason(event.text)):
                return self.tell_event("why", words, event, change)
        return None

    def is_same_call(self, stored: StoredRun, other: StoredRun) -> bool:
        """Return whether two runs called the same, wherever, but for an end that only cuts the output."""
        calls = self.call_of(stored), self.call_of(other)
        names = [bare_line(call.metadata.get("command", "")) or call.text for call in calls]
        return names[0] == names[1]

    def nearest_to(self, text: str, runs: Sequence[StoredRun]) -> list[StoredRun]:
        """Return runs by the terms that their result shares with a text, the first of equals first."""
        self.read_runs(runs)
        terms = term_set(text)
        return sorted(runs, key=lambda stored: -measure_overlap(terms, term_set(self.result_of(stored).text[:_COMPARED])))

    def nearest_command(self, command: str, runs: Sequence[StoredRun]) -> StoredRun:
        """Return the run whose call shares most words with a command line, the first of equals."""
        self.read_calls(runs)
        shape = shape_of(command)

        def share(stored: StoredRun) -> float:
            call = self.call_of(stored)
            return measure_overlap(shape, shape_of(call.metadata.get("command", "") or call.text))

        return max(runs, key=share)


def describe_call(call: Event) -> str:
    """Return a call on one line: the command, or the tool with its file and the first new line."""
    if command := call.metadata.get("command", ""):
        return f"`{shorten(' '.join(command.split()), _COMMAND)}`"
    if changes_files(call):
        names = ", ".join(relative_name(file, call) for file in files_of(call)[:2])
        added = _NEW_TEXT.search(call.text)
        return f"{call.metadata.get('tool', '')} {names}" + (f": {shorten(added[1].strip(), _ADDED)}" if added else "")
    line = shorten(" ".join(call.text.split("\n", 1)[0].split()), _COMMAND)
    tool, _, argument = line.partition(": ")
    return f"{tool} `{argument}`" if argument and tool == call.metadata.get("tool") else line


def relative_name(file: str, event: Event) -> str:
    """Return a file's path below the directory in which it was changed."""
    return path_below(file, event.metadata.get("cwd", ""))


def path_below(file: str, directory: str) -> str:
    """Return a file's path below a directory; as it is where it lies elsewhere, or the directory is not known."""
    above = directory.rstrip("/") + "/"
    return file.removeprefix(above) if len(above) > 1 else file


def duration_of(milliseconds: float) -> str:
    """Return a duration for people: 0.4 s, 12 s, 5 min."""
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def median_duration(runs: Sequence[StoredRun]) -> str:
    """Return how long calls usually took; "" where their source had no times."""
    took = [stored.run.took_ms for stored in runs if stored.run.took_ms > 0]
    return duration_of(median(took)) if took else ""


def _find_reason(text: str) -> str:
    """Return the first sentence that does not merely announce what comes; "" for none."""
    for span in find_spans(text[:4000], 8):
        words = clean_text(text[span.start : span.end])
        is_sentence = span.shape in (Shape.PROSE, Shape.ITEM, Shape.LEAD) and len(words.split()) >= _LEAST_WORDS
        if is_sentence and (_GIVES_REASON.search(words) or not _ANNOUNCES.match(words)):
            return shorten(words, _REASON)
    return ""
