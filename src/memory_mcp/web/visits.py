"""Decides who may see the pages, and what a browser lets a page do.

A single-use ticket opens a visit, and each request proves that it belongs to one.

A visit has an address that cannot be guessed and a cookie that is sent to that address alone. Cookies are shared by all ports of
a host name: without the address, a server of another user on another port would be sent the cookie.

Invariants
1. A ticket opens one visit, within `TICKET_SECONDS`; its address gives nothing afterwards.
2. Tickets, cookies and form tokens are compared in constant time and kept in memory alone: a restart ends every visit.
3. A visit ends with the server that served it: a page left open may send the cookie to the next program on its port.
4. A page loads nothing but what this server serves, sends forms nowhere else, and is shown in no other page.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

import anyio

from memory_mcp.base.dataclass import dataclass
from memory_mcp.web.undo import WaitingActs

#: How long a ticket may wait for the browser, and how long a visit lasts (seconds).
TICKET_SECONDS, VISIT_SECONDS = 120.0, 12 * 3600.0
#: Tickets and visits that are kept; the oldest goes for one more.
_MOST = 32
#: Where every page is, and the ticket's own page.
PAGES, ENTER = "/ui/", "/ui/enter/"
COOKIE = "memory-mcp"
#: Headers of every response below `/ui/`, refusals too.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
#: Of the pages that are shown to browsers that were not let in, and so can load no style sheet.
LONE_STYLE = (
    "body{margin:0;background:Canvas;color:CanvasText;font:16px/1.5 system-ui,sans-serif}"
    "main{max-width:34rem;margin:12vh auto;padding:0 1.2rem}h1{font-size:1.5rem;line-height:1.25}"
    "pre{border:1px solid GrayText;border-radius:8px;padding:.6rem .9rem;font:.95rem ui-monospace,monospace}"
)
_DIGEST = base64.b64encode(hashlib.sha256(LONE_STYLE.encode()).digest()).decode()
#: The referrer stays within this origin: an address of a page is half of what lets a browser in.
HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
LONE_HEADERS: Mapping[str, str] = {
    **HEADERS,
    "content-security-policy": _POLICY.replace("style-src 'self'", f"style-src 'sha256-{_DIGEST}'"),
}


def _make_secret() -> str:
    return secrets.token_urlsafe(32)


@dataclass(slots=True)
class Visit:
    """A browser that was let in."""

    #: Whether a person at a terminal said that what is written there is their own word.
    is_person: bool = False
    ends: float = 0.0
    name: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    cookie: str = field(default_factory=_make_secret, repr=False)
    #: What every form and every script's request repeats.
    form_token: str = field(default_factory=_make_secret, repr=False)
    #: What acts came to, shown with the next whole page and then dropped.
    notes: list[str] = field(default_factory=list)
    #: Acts that can still be undone.
    later: WaitingActs = field(default_factory=WaitingActs, repr=False)
    #: Conversations that were found to be forgotten, as cards; None before the first search.
    to_forget: Sequence[Mapping[str, Any]] | None = field(default=None, repr=False)
    #: What forms with these keys came to: one that is sent again does nothing twice.
    sent: OrderedDict[str, Any] = field(default_factory=OrderedDict, repr=False)
    #: Held while such a form is carried out.
    acting: anyio.Lock = field(default_factory=anyio.Lock, repr=False)

    @property
    def base(self) -> str:
        """The path of its pages, /ui/NAME."""
        return f"{PAGES}{self.name}"


class Visits:
    """Tickets that wait, and visits; used from the event loop's thread alone."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, later: WaitingActs | None = None) -> None:
        """`clock` gives seconds, `later` (None: a new one) has the acts of all visits."""
        self._clock = clock
        self.later = later or WaitingActs()
        self._tickets: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        self._visits: OrderedDict[str, Visit] = OrderedDict()
        #: When a person last asked for a page; None before the first.
        self.last_used: float | None = None

    def issue_ticket(self, is_person: bool = False) -> str:
        """Return the path with a new single-use ticket."""
        ticket = _make_secret()
        self._tickets[ticket] = (self._clock() + TICKET_SECONDS, is_person)
        while len(self._tickets) > _MOST:
            self._tickets.popitem(last=False)
        self.last_used = self._clock()
        return f"{ENTER}{ticket}"

    def open_visit(self, path: str) -> Visit | None:
        """Return a new visit for a ticket, which is used up.

        None for one that is unknown, used or too old. A visit lasts 12 hours; of more than 32 the oldest is dropped.
        """
        ticket = path.removeprefix(ENTER)
        known_ticket = next(
            (t for t in self._tickets if hmac.compare_digest(t.encode(), ticket.encode("utf-8", "replace"))), None
        )
        if known_ticket is None:
            return None
        ends, is_person = self._tickets.pop(known_ticket)
        if ends < self._clock():
            return None
        visit = Visit(is_person, self._clock() + VISIT_SECONDS, later=self.later)
        self._visits[visit.name] = visit
        while len(self._visits) > _MOST:
            self._visits.popitem(last=False)
        return visit

    def find_visit(self, path: str, cookies: Iterable[str]) -> Visit | None:
        """Return the visit of a path and one of the cookies."""
        visit = self._visits.get(path.removeprefix(PAGES).partition("/")[0])
        cookie_values = [cookie.encode("utf-8", "replace") for cookie in cookies]
        if visit is None or not any(hmac.compare_digest(visit.cookie.encode(), cookie) for cookie in cookie_values):
            return None
        if visit.ends < self._clock():
            del self._visits[visit.name]
            return None
        return visit

    def note_use(self) -> None:
        """Note that a person requested a page, for `idle_s`."""
        self.last_used = self._clock()

    def end_all(self) -> None:
        """End every visit, undo waiting acts, drop all tickets."""
        self.later.undo_all()
        self._tickets.clear()
        self._visits.clear()
        self.last_used = None

    def idle_s(self) -> float | None:
        """Return the seconds since the last request; None before it."""
        return None if self.last_used is None else self._clock() - self.last_used
