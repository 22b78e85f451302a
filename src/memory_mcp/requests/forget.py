"""Forgets events, sessions, projects, times, topics or values, or says what that would remove.

Invariants
1. Only a value reaches into other texts. Whatever else is named removes its events and what was derived of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.capture.tombstones import MARK, NAMES, ForgetRequest, TimeRange, Tombstones
from memory_mcp.model.event import Event
from memory_mcp.model.ids import event_id_from, event_key, parse_topic_id
from memory_mcp.requests import arguments
from memory_mcp.requests.entry import Effect, answers
from memory_mcp.requests.limits import Argument
from memory_mcp.requests.response import Recalled
from memory_mcp.requests.scope import Caller, known_project, visible_evidence
from memory_mcp.requests.times import times_of
from memory_mcp.storage.values import Scope

if TYPE_CHECKING:
    from memory_mcp.app import App
    from memory_mcp.forgetting.act import ForgettingOutcome
    from memory_mcp.forgetting.survey import Survey

#: Author of a forgetting that a person confirmed on a terminal.
PERSON = "person"
#: Events that are shown of what goes, and of those that lose a value.
_SAMPLES, _PLACES = 5, 50
#: Characters of an event's beginning, and on each side of a value; places of a value that are shown of one event.
_BEGINNING, _SIDE, _EACH = 80, 40, 3
#: A value is looked for in so many slices of the log, of so many events each, before it is taken out of everything.
_SLICES, _SLICE = 20, 100
#: A value in at least so many of these events, and more than this share of them, is a common word or a part of one.
_COMMON, _SHARE = 50, 0.2
_ONE = "Name one of: event, session, project, a time (since, until), topic, value. A time may go with session or project."


@dataclass(frozen=True, slots=True)
class Forget:
    """Say how much would be forgotten with one of these; a person confirms it with `memory-mcp forget ... --yes`."""

    event: Annotated[str, Argument("An event's id or a grip", longest=300)] = ""
    session: Annotated[str, Argument(longest=300)] = ""
    project: arguments.Project = ""
    since: arguments.Since = ""
    until: arguments.Until = ""
    topic: Annotated[str, Argument("A topic's id", longest=300)] = ""
    value: Annotated[str, Argument("A text to take out of every event", longest=2000)] = ""
    dry_run: Annotated[bool, Argument("Only say what would go")] = True
    by: str = ""
    #: A person typed it on a terminal, or in the explorer, and confirmed it.
    is_person: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An event that goes or loses a value: how it begins, or the words around each place of the value."""

    event_id: str
    when: str
    words: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(Recalled):
    """What went, or would go, by kind; the words of events only where nothing was forgotten yet."""

    forgotten: bool
    counts: Mapping[str, int]
    events: Sequence[Sample]
    #: How ordinary a value is, how many events are not listed, and what stays that says the same.
    notices: Sequence[str] = ()
    note: str = ""


@answers("forget", Forget, "Forget", Effect.SETS)
def forget(app: "App", request: Forget, caller: Caller) -> Forgotten:
    """Forget what is named, or with `dry_run` only look.

    Raises InvalidQuery when nothing or too much is named, a value is too short or too common, for a caller
    bound to one project, and for a tool (`is_person` is False) that is not allowed to forget; NotFound for an
    unknown event, session or topic.
    """
    # numpy, behind these, would be loaded by every reader of the flags.
    from memory_mcp.forgetting.act import Forgetting
    from memory_mcp.forgetting.survey import survey_store

    caller.refuse_all(app, "forgetting")
    forget_request, subject = _resolve_request(app, request, caller)
    if request.dry_run:
        return _make_preview(app, forget_request, subject)
    if not request.is_person and not app.settings.server.forget_by_tool:
        hint = "A person confirms it on a terminal: memory-mcp forget ... --yes (or sets server.forget_by_tool = true)."
        raise InvalidQuery("a tool may only try out what forgetting would take", hint)
    if request.value:
        _refuse_common(app, Tombstones.preview(forget_request))
    # Whatever a client calls itself, it is no person at a terminal.
    author = PERSON if request.is_person else f"agent {request.by}".strip()
    surveyed = survey_store(app.storage.events, forget_request, app.gate.tombstones.hasher(), subject == "event")
    outcome = Forgetting(app).carry_out(replace(forget_request, sketches=surveyed.sketches), author, subject)
    note = "Backups outside the data directory and other machines keep what they have; restored here, it stays forgotten."
    samples = [Sample(event_id=i, when=app.calendar.format_iso(ms)) for i, ms in outcome.samples[:_SAMPLES]]
    return _shape_response(outcome, True, samples, note, _list_notices(outcome, samples, surveyed))


def _make_preview(app: "App", forget_request: ForgetRequest, subject: str) -> Forgotten:
    from memory_mcp.forgetting.act import Forgetting
    from memory_mcp.forgetting.survey import survey_store

    tombstones = Tombstones.preview(forget_request)
    outcome = Forgetting(app).preview(forget_request)
    listed = outcome.samples[: _PLACES if forget_request.values else _SAMPLES]
    events = app.storage.events.get_events([event_id_from(event_key(event_id)) for event_id, _ in listed])
    stored = [(event_id, ms, events.get(event_id_from(event_key(event_id)))) for event_id, ms in listed]
    words = _words_around if forget_request.values else _beginning
    samples = [
        Sample(event_id=event_id, when=app.calendar.format_iso(ms), words=words(event, tombstones.clean_text) if event else "")
        for event_id, ms, event in stored
    ]
    surveyed = survey_store(app.storage.events, forget_request, tombstones.hasher(), subject == "event")
    notices = _list_notices(outcome, samples, surveyed)
    if forget_request.values and (total := app.storage.events.last_seq()):
        count = len(outcome.samples)
        notices.insert(0, f"The value occurs in {count:,} of {total:,} stored events ({count / total:.1%}).")
    return _shape_response(outcome, False, samples, "Nothing was changed. A person runs it: memory-mcp forget ... --yes", notices)


def _list_notices(outcome: "ForgettingOutcome", samples: Sequence[Sample], surveyed: "Survey") -> list[str]:
    notices = []
    if more := len(outcome.samples) - len(samples):
        notices.append(f"{more:,} more events are not listed here.")
    if count := len(surveyed.repeating):
        ids = ", ".join(event_id for event_id, _ in surveyed.repeating[:_SAMPLES])
        say = "other event says" if count == 1 else "other events say"
        stay = "stays: forget it" if count == 1 else "stay: forget them"
        notices.append(
            f"{count:,} {say} much the same and {stay} as well, or a value in it ({ids}{', ...' * (count > _SAMPLES)})."
        )
    return notices


def _refuse_common(app: "App", tombstones: Tombstones) -> None:
    """Raise InvalidQuery for a value in much of what is stored."""
    last = app.storage.events.last_seq()
    step = max(last // _SLICES, _SLICE)
    texts = [e.event.text for start in range(0, last, step) for e in app.storage.events.read_after(start, _SLICE)]
    count = sum(tombstones.clean_text(text) != text for text in texts)
    if count >= _COMMON and count > _SHARE * len(texts):
        hint = "Give more of what stands around it, or forget the event, session or project that told it."
        share = f"{count / len(texts):.0%}"
        raise InvalidQuery(f"the value occurs in {share} of stored events", f"Nothing was forgotten. {hint}")


def _beginning(event: Event, _: Callable[[str], str]) -> str:
    line = " ".join(event.text[: 4 * _BEGINNING].split())
    return line if len(line) <= _BEGINNING else f"{line[:_BEGINNING]}..."


def _words_around(event: Event, clean: Callable[[str], str]) -> str:
    fields = {"": event.text, **{name: getattr(event, name) for name in NAMES}, **event.metadata}
    places = [passage for name, text in fields.items() for passage in _iter_places(name, text, clean)]
    places += [f"metadata: {clean(name)}" for name in event.metadata if clean(name) != name]
    return " | ".join([*places[:_EACH], *[f"and {len(places) - _EACH} more"] * (len(places) > _EACH)])


def _iter_places(name: str, text: str, clean: Callable[[str], str]) -> Iterator[str]:
    # Marks that are in it already are no places of this value.
    for piece in text.split(MARK):
        cleaned = clean(piece)
        start = cleaned.find(MARK) if cleaned != piece else -1
        while start >= 0:
            end = start + len(MARK)
            words_before, words_after = cleaned[max(start - _SIDE, 0) : start], cleaned[end : end + _SIDE]
            words = f"{'...' * (start > _SIDE)}{words_before}{MARK}{words_after}{'...' * (end + _SIDE < len(cleaned))}"
            yield " ".join(f"{clean(name)}: {words}".removeprefix(": ").split())
            start = cleaned.find(MARK, end)


def _shape_response(
    outcome: "ForgettingOutcome", done: bool, samples: Sequence[Sample], note: str, notices: Sequence[str]
) -> Forgotten:
    note = note if outcome.counts else f"Nothing of it is stored. {note}"
    return Forgotten(forgotten=done, counts=outcome.in_words(), events=samples, notices=notices, note=note)


def _resolve_request(app: "App", request: Forget, caller: Caller) -> tuple[ForgetRequest, str]:
    """Return what is to be forgotten, and what was named.

    The second is "event", "topic", "value", or the names of what was given, such as "session since". An event takes
    its duplicates with it. Raises InvalidQuery and NotFound as `forget` does.
    """
    alone = [name for name in ("event", "topic", "value") if getattr(request, name)]
    timed = [name for name in ("session", "project", "since", "until") if getattr(request, name)]
    if len(alone) + bool(timed) != 1 or (request.session and request.project):
        raise InvalidQuery("say what is to be forgotten" if not alone and not timed else "too much is named", _ONE)
    if request.value:
        return ForgetRequest(values=[request.value]), "value"
    if request.event:
        ids = [event.event_id for event in _named_events(app, request.event, caller)]
        pairs = app.storage.events.find_duplicates(ids)
        # Other copies of what is shown in its place.
        pairs |= app.storage.events.find_duplicates(pairs.values())
        return ForgetRequest(events=list(app.storage.events.get_events({*ids, *pairs, *pairs.values()}).values())), "event"
    if request.topic:
        topic_id = parse_topic_id(request.topic)
        topic = next((topic for topic in app.storage.topics.list_topics() if topic.topic_id == topic_id), None)
        if topic is None:
            raise NotFound(f"no such topic: {request.topic}", "`memory-mcp topics top` shows them.")
        segments = app.storage.events.events_by_segment(list(app.storage.toc.get_segments(topic.members).values()))
        return ForgetRequest(events=[event for events in segments.values() for event in events]), "topic"
    return ForgetRequest(ranges=_list_ranges(app, request)), " ".join(timed)


def _named_events(app: "App", name: str, caller: Caller) -> Sequence[Event]:
    """Raises InvalidQuery for neither an event's id nor a grip's, NotFound if unknown."""
    if name.startswith("grip:"):
        return visible_evidence(app, caller, name).excerpt
    event = app.storage.events.find_event(event_id_from(event_key(name)))
    if event is None:
        raise NotFound(f"no such event: {name}", "query events and grips name events.")
    return [event]


def _list_ranges(app: "App", request: Forget) -> list[TimeRange]:
    """Return the ranges of time that the request names.

    They end now at the latest, so that later events stay. Raises InvalidQuery for a bare time that holds everything that is
    stored, an unknown project or an invalid time; NotFound for an unknown session.
    """
    window = times_of(app).window(request.since, request.until)
    now = app.clock.now_ms()
    since = window.start_ms if window and request.since else 0
    until = min(window.end_ms - 1, now) if window and request.until else now
    if request.session:
        if not app.storage.events.list_events(Scope(), request.session, limit=1):
            raise NotFound(f"no such session: {request.session}", "`memory-mcp query events` shows session ids.")
        return [TimeRange(since, until, session=request.session)]
    if not request.project:
        stats = app.storage.get_stats(text=False)
        if stats.first_ms is not None and stats.last_ms is not None and since <= stats.first_ms and stats.last_ms <= until:
            hint = (
                "Name a shorter time, a session or a project. To begin anew, stop the clients and move the data directory away."
            )
            raise InvalidQuery("that time holds everything that is stored", hint)
        return [TimeRange(since, until)]
    # By the names that it was recorded with, whole where all sessions of a name are shown as this project.
    project, names = known_project(app, request.project), app.storage.projects.names
    streams = {(recorded, session) for _, recorded, session, _ in app.storage.projects.list_streams()}
    ranges = []
    for recorded in sorted({recorded for recorded, _ in streams}):
        own_by_session = {
            session: names.display_name(recorded, session) == project for name, session in streams if name == recorded
        }
        if all(own_by_session.values()):
            ranges.append(TimeRange(since, until, project=recorded))
        else:
            ranges += [TimeRange(since, until, session, recorded) for session, is_own in sorted(own_by_session.items()) if is_own]
    return ranges
