"""A memory of one day behind pages, acts that wait as long as a test says, and how a form is read."""

import html
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread

from memory_mcp.model.event import EventDraft, Role
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import respond
from memory_mcp.requests.scope import Caller
from memory_mcp.web.undo import WaitingActs
from memory_mcp.web.visits import Visits
from tests.daemon.door import Door, opened
from tests.factories import BILLING, SHOP, a_small_history, draft
from tests.filled import filled
from tests.waiting import PATIENCE, until
from tests.web.visitor import Visitor, entered

#: A name that is said once, in a message of its own.
NAME = "Wilhelmina Quickenbush"
_FORM = re.compile(r'<form class="[^"]*" method="post" action="[^"]*/do/([a-z-]+)" data-act>(.*?)</form>', re.DOTALL)
_HIDDEN = re.compile(r'<input type="hidden" name="([^"]+)" value="([^"]*)">')


@dataclass
class Clock:
    """The seconds of an act that waits, which pass when a test says so."""

    asked: list[float] = field(default_factory=list)
    passed: threading.Event = field(default_factory=threading.Event)

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await anyio.to_thread.run_sync(self.passed.wait, PATIENCE, abandon_on_cancel=True)


@contextmanager
def visited(directory: Path, *drafts: EventDraft) -> Iterator[tuple[Door, Visitor]]:
    """An open door of a memory in which this was said, and a visit."""
    visits = Visits()
    with opened(directory, visits=visits) as door:
        door.app.write(drafts, "test")
        door.app.derivation.run()
        yield door, entered(door.base + visits.issue_ticket())


@dataclass
class Served:
    """An open door, a visit, and the other ways to the same memory."""

    door: Door
    visits: Visits
    clock: Clock

    def visit(self, is_person: bool = False) -> Visitor:
        return entered(self.door.base + self.visits.issue_ticket(is_person))

    def ask(self, request: Any) -> dict[str, Any]:
        """A response by another door."""
        found: dict[str, Any] = as_json(respond(self.door.app, request, Caller()))
        return found


@contextmanager
def served(directory: Path) -> Iterator[Served]:
    clock = Clock()
    visits = Visits(later=WaitingActs(sleep=clock.sleep, patience_s=PATIENCE))
    asked, answered = f"Please call {NAME} about the invoices before noon.", "We decided to keep the ledger in one table."
    said = [
        draft(asked, at="2026-02-12 15:00", session="calls", project=BILLING),
        draft(answered, at="2026-02-12 15:05", session="calls", role=Role.ASSISTANT, project=BILLING),
    ]
    filled(directory, [*a_small_history(1), *said])
    with opened(directory, visits=visits) as door:
        door.app.settings_file = directory.parent / "config.toml"
        try:
            yield Served(door, visits, clock)
        finally:
            clock.passed.set()


def forms(page: str, act: str) -> list[dict[str, str]]:
    """The hidden fields of every form of an act on a page."""
    return [{k: html.unescape(v) for k, v in _HIDDEN.findall(body)} for name, body in _FORM.findall(page) if name == act]


def followed(visitor: Visitor, reply: Any) -> str:
    """The page that an act leads to."""
    assert reply.status == 303, (reply.status, reply.text)
    place = reply.headers["location"]
    found = visitor.send("GET", place)
    assert found.status == 200, found.text
    return found.text


__all__ = ["BILLING", "NAME", "SHOP", "Clock", "Served", "followed", "forms", "served", "until"]
