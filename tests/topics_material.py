"""Segments in clear themes on two projects, each of two messages: enough of them for topics to be looked for."""

import datetime as dt
from collections.abc import Sequence

from memory_mcp.model.event import EventDraft, Role
from tests.factories import BILLING, SHOP, draft, ms

#: What each theme is about, with the words that only it has; the first three are the shop's own, the last two billing's.
THEMES: dict[str, tuple[str, ...]] = {
    "search": ("accent folding", "the search index", "synonym dictionary", "query parser", "stemming of plural forms"),
    "checkout": ("the inventory lock", "checkout timeout", "payment authorisation", "cart reservation", "stock deduction"),
    "images": ("thumbnail cropping", "webp encoder", "the image pipeline", "responsive pictures", "colour profile"),
    "login": ("refresh token", "session cookie", "password reset", "the login form", "passkey enrolment"),
    "ledger": ("double entry ledger", "refund posting", "journal balance", "closing accounts", "currency rounding"),
    "invoice": ("invoice numbering", "the PDF template", "VAT for Norway", "payment reminder letter", "invoice archive"),
}
#: Who talks about what: the login theme belongs to both.
PROJECTS = {
    "search": (SHOP,),
    "checkout": (SHOP,),
    "images": (SHOP,),
    "login": (SHOP, BILLING),
    "ledger": (BILLING,),
    "invoice": (BILLING,),
}
_ASKED = (
    "Please look at {a}: {b} went wrong after the upgrade.",
    "Can we improve {a}? It gets in the way of {b}.",
    "Why does {a} break as soon as {b} is used?",
    "I want {a} rewritten before {b} is released.",
)
_TOLD = (
    "We decided to change {c} first, because {a} depends on {b} and {c}.",
    "Fixed: {a} ignored {c}; a test of {b} and {c} holds it now.",
    "The cause is that {c} runs before {a}; {b} is not to blame.",
)
#: Before the moment at which tests' clocks stand.
FIRST = "2026-01-05"
_HOURS = (9, 11, 13, 15, 17, 19)


def themed(count: int = 72, first: str = FIRST, themes: Sequence[str] = tuple(THEMES), start: int = 0) -> list[EventDraft]:
    """`count` segments of two messages, six a day, the themes in turn; `start` is the number of the first of them.

    The same numbers give the same messages. Every segment is a session of its own.
    """
    return [message for n in range(start, start + count) for message in _segment(n, first, themes[n % len(themes)], len(themes))]


def _segment(number: int, first: str, theme: str, themes: int) -> list[EventDraft]:
    day = dt.date.fromisoformat(first) + dt.timedelta(days=number // len(_HOURS))
    at = ms(f"{day} {_HOURS[number % len(_HOURS)]:02}:00")
    turn = number // themes
    words = THEMES[theme]
    a, b, c = (words[(turn * step + step) % len(words)] for step in (1, 2, 3))
    if b == a:
        b = words[(words.index(a) + 1) % len(words)]
    if c in (a, b):
        c = next(w for w in words if w not in (a, b))
    projects = PROJECTS[theme]
    project = projects[turn % len(projects)]
    agent = "codex" if project == BILLING else "claude-code"
    asked = _ASKED[turn % len(_ASKED)].format(a=a, b=b)
    told = _TOLD[turn % len(_TOLD)].format(a=a, b=b, c=c)
    session = f"{theme}-{number}"
    said = ((Role.USER, asked), (Role.ASSISTANT, told))
    return [
        draft(text, at=at + n * 60_000, session=session, role=role, project=project, agent=agent, source_id=f"{session}-{n}")
        for n, (role, text) in enumerate(said)
    ]
