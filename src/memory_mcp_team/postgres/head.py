"""How far a memory got: the row that its writers lock, and that every process reads to see whether what it keeps still holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from memory_mcp_team.postgres.database import Statement
from memory_mcp_team.postgres.keys import uuid_of

#: The head of a memory.
HEAD = """SELECT last_event, last_change, newest, derived, resets, notes FROM head
  WHERE tenant = %(tenant)s AND space = %(space)s"""
_PUT_HEAD = """UPDATE head SET last_event = %(event)s, last_change = %(change)s, newest = %(newest)s::uuid, derived = %(derived)s,
  resets = %(resets)s, notes = %(notes)s WHERE tenant = %(tenant)s AND space = %(space)s"""


@dataclass(slots=True)
class Head:
    """How far a memory got."""

    last_event: int = 0
    last_change: int = 0
    #: The highest event id; -1 while there is none.
    newest: int = -1
    #: How far the deriver got.
    derived: int = 0
    #: Rises when something was taken out or put back as a whole.
    resets: int = 0
    #: Rises when a rule of names, a correction, a label or the first opening was written: what does not touch the tree.
    notes: int = 0

    @property
    def noted(self) -> tuple[int, int]:
        """A value (resets, notes) that changes with every reset and every note."""
        return self.resets, self.notes

    @property
    def stamp(self) -> tuple[int, int]:
        """A value (last outbox number, resets) that changes with every outbox entry and every reset."""
        return self.last_change, self.resets


def make_head(row: Sequence[Any]) -> Head:
    """Return the head from a row of `HEAD`.

    `newest` is -1 where there is no event.
    """
    return Head(row[0], row[1], -1 if row[2] is None else row[2], *row[3:])


def put(head: Head) -> Statement:
    """Return the statement that writes a head over the stored one.

    Its caller adds the parameters `tenant` and `space`.
    """
    newest = None if head.newest < 0 else uuid_of(head.newest)
    numbers = {"event": head.last_event, "change": head.last_change, "derived": head.derived}
    return Statement(_PUT_HEAD, {**numbers, "newest": newest, "resets": head.resets, "notes": head.notes})
