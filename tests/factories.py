"""Drafts and events with defaults for all but what a test is about, and a made-up working life for the rest."""

import datetime as dt
import random
from collections.abc import Iterable, Mapping, Sequence
from zoneinfo import ZoneInfo

from memory_mcp.model.calendar import Calendar, TimeWindow, TocLevel, level_of
from memory_mcp.model.event import DEFAULT_TYPES, Event, EventDraft, EventType, Role, Trust
from memory_mcp.model.grip import Grip
from memory_mcp.model.ids import NodeId, event_id
from memory_mcp.model.segment import Segment
from memory_mcp.model.toc import TocBullet, TocNode
from memory_mcp.tree.derive.grips import span_grip
from memory_mcp.tree.derive.segments import SegmentSettings, assign_events

BERLIN = ZoneInfo("Europe/Berlin")
CALENDAR = Calendar("Europe/Berlin")
SHOP, BILLING, SITE = "github.com/acme/shop", "github.com/acme/billing", "github.com/acme/site"


def ms(local: str) -> int:
    """Milliseconds of a Berlin wall time such as "2026-01-12 09:30"."""
    return round(dt.datetime.fromisoformat(local).replace(tzinfo=BERLIN).timestamp() * 1000)


def draft(
    text: str = "Please rename the login handler.",
    at: str | int | None = "2026-01-12 09:00",
    session: str = "s1",
    role: Role = Role.USER,
    kind: EventType | None = None,
    project: str = SHOP,
    agent: str = "claude-code",
    thread: str = "",
    source_id: str = "",
    speaker: str = "",
    metadata: Mapping[str, str] | None = None,
) -> EventDraft:
    """One draft."""
    return EventDraft(
        session_id=session,
        role=role,
        type=kind or DEFAULT_TYPES[role],
        text=text,
        timestamp=ms(at) if isinstance(at, str) else at,
        source_id=source_id,
        agent=agent,
        project=project,
        thread=thread,
        speaker=speaker,
        metadata=dict(metadata or {}),
    )


def event(
    text: str = "Please rename the login handler.",
    at: str | int = "2026-01-12 09:00",
    session: str = "s1",
    role: Role = Role.USER,
    kind: EventType | None = None,
    project: str = SHOP,
    agent: str = "claude-code",
    thread: str = "",
    source_id: str = "",
    metadata: Mapping[str, str] | None = None,
) -> Event:
    """One event as the log would make it."""
    time_ms = ms(at) if isinstance(at, str) else at
    return Event(
        event_id=event_id(time_ms, "test", source_id or f"{project}/{session}/{thread}/{role}/{text}"),
        session_id=session,
        timestamp=time_ms,
        type=kind or DEFAULT_TYPES[role],
        role=role,
        trust=Trust.USER,
        text=text,
        source="test",
        source_id=source_id,
        agent=agent,
        project=project,
        thread=thread,
        metadata=dict(metadata or {}),
    )


def run_of(count: int, start: str | int = "2026-01-12 09:00", step_s: int = 60, words: int = 12, **more: object) -> list[Event]:
    """`count` events of one stream, `step_s` seconds apart, each of `words` words and its own number."""
    first = ms(start) if isinstance(start, str) else start
    return [
        event(f"step {i} " + "word " * words, at=first + i * step_s * 1000, **more)  # type: ignore[arg-type]
        for i in range(count)
    ]


def cut(events: Sequence[Event], settings: SegmentSettings | None = None) -> list[Segment]:
    """The cuts of some events of one stream, seen at once."""
    return sorted(assign_events([], events, CALENDAR, settings or SegmentSettings()).changed, key=lambda c: c.start)


_WORK = {
    SHOP: [
        ("the cart total is wrong for discounts", "applyDiscount rounds each line", "src/cart/total.py", "Decimal"),
        (
            "checkout times out under load",
            "the inventory lock is held during payment",
            "src/checkout/flow.py",
            "SELECT FOR UPDATE",
        ),
        ("search results ignore accents", "the collation was C instead of und-x-icu", "src/search/index.py", "unaccent"),
    ],
    BILLING: [
        ("invoices are sent twice", "the retry queue has no idempotency key", "billing/queue.go", "outbox table"),
        ("VAT for Norway is missing", "the rate table stops at EU countries", "billing/vat.go", "25 percent"),
        ("the ledger does not balance", "refunds post to the wrong account", "billing/ledger.go", "double entry"),
    ],
    SITE: [
        ("the landing page jumps while loading", "images have no width and height", "web/hero.tsx", "aspect-ratio"),
        ("dark mode flickers", "the theme is read after hydration", "web/theme.ts", "inline script"),
        ("fonts load late", "preload links were dropped by the bundler", "web/head.tsx", "font-display"),
    ],
}


def _stretch(project: str, session: str, begin: int, topic: int, rng: random.Random) -> list[EventDraft]:
    """A question, some looking around, an error, a fix and a decision: about ten events in fifteen minutes."""
    problem, cause, file, term = _WORK[project][topic % 3]
    number = rng.randrange(100, 999)
    lines: list[tuple[Role, EventType, str, dict[str, str]]] = [
        (Role.USER, EventType.USER_MESSAGE, f"Ticket {number}: {problem}. Can you find out why?", {}),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, f"I will read {file} first and then run the tests.", {}),
        (
            Role.ASSISTANT,
            EventType.TOOL_CALL,
            f"pytest -q {file}",
            {"tool": "Bash", "command": "pytest", "tool_use_id": f"u{number}"},
        ),
        (
            Role.TOOL,
            EventType.TOOL_RESULT,
            f"collected 12 items\nFAILED {file}::test_{number}\nAssertionError: expected {number} but got {number + 1}",
            {"tool_use_id": f"u{number}", "exit_status": "1", "command": "pytest"},
        ),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE, f"The cause is that {cause}. The failing check is test_{number}.", {}),
        (Role.USER, EventType.USER_MESSAGE, f"Then use {term}, and always add a test before a fix in this project.", {}),
        (Role.ASSISTANT, EventType.TOOL_CALL, f"{file}: replaced the old code by {term}", {"tool": "Edit", "file": file}),
        (Role.ASSISTANT, EventType.ASSISTANT_STOP, f"Fixed: {problem}. We decided to use {term} because {cause}.", {}),
    ]
    return [
        draft(
            text,
            at=begin + i * 97_000,
            session=session,
            role=role,
            kind=kind,
            project=project,
            agent="codex" if project == BILLING else "claude-code",
            source_id=f"{session}-{begin}-{i}",
            metadata=metadata,
        )
        for i, (role, kind, text, metadata) in enumerate(lines)
    ]


def a_day_of_drafts(day: str = "2026-01-12", projects: Iterable[str] = (SHOP, BILLING, SITE), seed: int = 1) -> list[EventDraft]:
    """One working day: two stretches per project, sessions of different projects interleaved, in order of time."""
    rng = random.Random(f"{day}/{seed}")
    drafts: list[EventDraft] = []
    for i, project in enumerate(projects):
        session = f"{project.rsplit('/', 1)[-1]}-{day}"
        morning = ms(f"{day} 09:00") + i * 240_000
        drafts += _stretch(project, session, morning, rng.randrange(3), rng)
        drafts += _stretch(project, session, morning + 3 * 3_600_000, rng.randrange(3), rng)
    return sorted(drafts, key=lambda d: (d.timestamp or 0, d.source_id))


def a_small_history(weeks: int = 4, first: str = "2026-01-19", seed: int = 1) -> list[EventDraft]:
    """Weeks of such days, Monday to Friday, in order of time; they span a month's end by default."""
    start = dt.date.fromisoformat(first)
    days = [start + dt.timedelta(days=7 * week + day) for week in range(weeks) for day in range(5)]
    return [d for day in days for d in a_day_of_drafts(day.isoformat(), seed=seed)]


def grip(of: Event, start: int = 0, end: int | None = None, segment: int = 1) -> Grip:
    """A grip over some characters of an event; over all of them by default."""
    return span_grip(of, start, len(of.text) if end is None else end, segment)


def node(
    node_id: str = "toc:day:2026-01-12",
    title: str = "Mon 12 Jan 2026 · the retry queue",
    bullets: Sequence[TocBullet] = (),
    version: int = 1,
    projects: Sequence[str] = (SHOP,),
    at: str | int | None = None,
) -> TocNode:
    """A node with its calendar window; a segment's begins at `at`."""
    known = NodeId(node_id)
    if at is not None or level_of(known) is TocLevel.SEGMENT:
        start = ms(at) if isinstance(at, str) else at or 0
        window = TimeWindow(start, start + 60_000)
    else:
        window = CALENDAR.node_window(known)
    return TocNode(
        node_id=known,
        level=level_of(known),
        start_ms=window.start_ms,
        end_ms=window.end_ms,
        title=title,
        summary="The queue is drained twice. We keep it.",
        bullets=tuple(bullets),
        keywords=("retry", "queue"),
        version=version,
        session_count=1,
        event_count=3,
        agents=("claude-code",),
        projects=tuple(projects),
    )
