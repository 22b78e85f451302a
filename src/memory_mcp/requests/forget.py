"""Forgets events, sessions, projects, times, topics or values, or says what that would remove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, NotFound
from memory_mcp.forgetting.act import Forgetting, Outcome
from memory_mcp.ingest.respelling import key_of
from memory_mcp.ingest.tombstones import Range, Tombstones, Wanted
from memory_mcp.model.ids import event_id_from, event_key, parse_topic_id
from memory_mcp.requests.scope import Caller, known_project
from memory_mcp.requests.times import times_of
from memory_mcp.storage.values import Scope

#: Author of a forgetting that a person confirmed on a terminal.
PERSON = "person"
#: Ids that are shown of what goes.
_SAMPLES = 5
#: Letters and digits of a line of a forgotten message that is known again wherever it is said.
_LINE = 32
#: A value is looked for in so many slices of the log, of so many events each, before it is taken out of everything.
_SLICES, _SLICE = 20, 100
#: A value in at least so many of these events, and more than this share of them, is a common word or a part of one.
_COMMON, _SHARE = 50, 0.2
_ONE = "Name one of: event, session, project, a time (since, until), topic, value. A time may go with session or project."


@dataclass(frozen=True, slots=True)
class Forget:
    """What is to be forgotten: exactly one kind is named, but a time may go with session or project; `by` is who asks."""

    event: str = ""
    session: str = ""
    project: str = ""
    since: str = ""
    until: str = ""
    topic: str = ""
    value: str = ""
    dry_run: bool = True
    by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """An event that goes or loses a value."""

    event_id: str
    when: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """What went, or would go, by kind; no text."""

    forgotten: bool
    counts: Mapping[str, int]
    events: Sequence[Sample]
    note: str = ""


def forget(app: App, request: Forget, caller: Caller) -> Forgotten:
    """Forget what is named, or with `dry_run` only look; return counts by kind and up to `_SAMPLES` events that go or change.

    Raises InvalidQuery when nothing or too much is named, a value is too short or too common, for a caller
    bound to one project, and for a tool (`by` is not `PERSON`) that is not allowed to forget; NotFound for an
    unknown event, session or topic.
    """
    caller.refuse_all(app, "forgetting")
    wanted, subject = _wanted(app, request)
    if request.dry_run:
        told = Forgetting(app).tried(wanted)
        return _shape(app, told, False, "Nothing was changed. A person runs it: memory-mcp forget ... --yes")
    if request.by != PERSON and not app.settings.server.forget_by_tool:
        hint = "A person confirms it on a terminal: memory-mcp forget ... --yes (or sets server.forget_by_tool = true)."
        raise InvalidQuery("a tool may only try out what forgetting would take", hint)
    if request.value:
        # Looked at are events of the whole log: what stands in most of them would leave gaps in most.
        tombstones, last = Tombstones.tried(wanted), app.storage.events.last_seq()
        step = max(last // _SLICES, _SLICE)
        texts = [e.event.text for start in range(0, last, step) for e in app.storage.events.after(start, _SLICE)]
        held = sum(tombstones.clean(text) != text for text in texts)
        if held >= _COMMON and held > _SHARE * len(texts):
            hint = "Give more of what stands around it, or forget the event, session or project that told it."
            share = f"{held / len(texts):.0%}"
            raise InvalidQuery(f"the value stands in some {share} of everything that is stored", f"Nothing was forgotten. {hint}")
    told = Forgetting(app).carry_out(wanted, request.by, subject)
    note = "Backups outside the data directory and other machines keep what they have; restored here, it stays forgotten."
    return _shape(app, told, True, note)


def _shape(app: App, told: Outcome, done: bool, note: str) -> Forgotten:
    """Return the response about an outcome, with at most `_SAMPLES` events; `done` is whether it was carried out."""
    samples = [Sample(event_id=i, when=app.calendar.iso(ms)) for i, ms in told.samples[:_SAMPLES]]
    said = note if told.counts else f"Nothing of it is stored. {note}"
    return Forgotten(forgotten=done, counts=dict(told.counts), events=samples, note=said)


def _wanted(app: App, request: Forget) -> tuple[Wanted, str]:
    """Return what is to be forgotten, and what was named.

    The second is "event", "topic", "value", or the names of what was given, such as "session since".
    Raises InvalidQuery and NotFound as `forget` does. An event takes its duplicates with it, and its
    lines of at least `_LINE` letters and digits are forgotten wherever they occur.
    """
    alone = [name for name in ("event", "topic", "value") if getattr(request, name)]
    timed = [name for name in ("session", "project", "since", "until") if getattr(request, name)]
    if len(alone) + bool(timed) != 1 or (request.session and request.project):
        raise InvalidQuery("say what is to be forgotten" if not alone and not timed else "too much is named", _ONE)
    if request.value:
        return Wanted(values=[request.value]), "value"
    if request.event:
        event = app.storage.events.find(event_id_from(event_key(request.event)))
        if event is None:
            raise NotFound(f"no such event: {request.event}", "query events and grips name events.")
        pairs = app.storage.events.duplicates([event.event_id])
        events = app.storage.events.get_many({event.event_id, *pairs, *pairs.values()})
        # A line that says something is recognized wherever it is said again.
        lines = [line.strip() for line in event.text.splitlines()]
        return Wanted(values=[line for line in lines if len(key_of(line)) >= _LINE], events=list(events.values())), "event"
    if request.topic:
        topic = parse_topic_id(request.topic)
        known = next((one for one in app.storage.topics.all() if one.topic_id == topic), None)
        if known is None:
            raise NotFound(f"no such topic: {request.topic}", "`memory-mcp topics top` shows them.")
        segments = app.storage.events.in_segments(list(app.storage.toc.segments(known.members).values()))
        return Wanted(events=[event for several in segments.values() for event in several]), "topic"
    return Wanted(ranges=_ranges(app, request)), " ".join(timed)


def _ranges(app: App, request: Forget) -> list[Range]:
    """Return the ranges of time that the request names; they end now at the latest, so that later events stay.

    Raises InvalidQuery for a bare time that holds everything that is stored, an unknown project or an invalid
    time; NotFound for an unknown session.
    """
    window = times_of(app).window(request.since, request.until)
    now = app.clock.now_ms()
    since = window.start_ms if window and request.since else 0
    until = min(window.end_ms - 1, now) if window and request.until else now
    if request.session:
        if not app.storage.events.window(Scope(), request.session, limit=1):
            raise NotFound(f"no such session: {request.session}", "`memory-mcp query events` shows session ids.")
        return [Range(since, until, session=request.session)]
    if not request.project:
        stats = app.storage.stats(text=False)
        if stats.first_ms is not None and stats.last_ms is not None and since <= stats.first_ms and stats.last_ms <= until:
            hint = (
                "Name a shorter time, a session or a project. To begin anew, stop the clients and move the data directory away."
            )
            raise InvalidQuery("that time holds everything that is stored", hint)
        return [Range(since, until)]
    # By the names that it was recorded with, whole where all sessions of a name are shown as this project.
    project, names = known_project(app, request.project), app.storage.projects.names
    streams = {(recorded, session) for _, recorded, session, _ in app.storage.projects.streams()}
    ranges = []
    for recorded in sorted({recorded for recorded, _ in streams}):
        shown = {session: names.shown(recorded, session) == project for name, session in streams if name == recorded}
        if all(shown.values()):
            ranges.append(Range(since, until, project=recorded))
        else:
            ranges += [Range(since, until, session, recorded) for session, own in sorted(shown.items()) if own]
    return ranges
