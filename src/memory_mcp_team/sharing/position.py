"""Positions of followers of a store's events that stay valid when forgetting renumbers the events."""

from dataclasses import replace

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.change import Change, ChangeKind
from memory_mcp.model.ids import EventId, hash_parts
from memory_mcp.storage.base import Storage

#: Entries of the outbox read at once.
_PAGE = 2000
_BITS = 40


@dataclass(frozen=True, slots=True)
class Position:
    """The last event and outbox entry that were seen, with their digests."""

    seq: int = 0
    event: str = ""
    change: int = 0
    mark: str = ""

    def __str__(self) -> str:
        """Return the text in which it is stored and sent: "SEQ.EVENT.CHANGE.MARK"."""
        return f"{self.seq}.{self.event}.{self.change}.{self.mark}"

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Return the position of a text that `str` gave, None for another."""
        parts = text.split(".")
        if len(parts) != 4 or not (parts[0].isdecimal() and parts[2].isdecimal()) or max(map(len, parts)) > 24:
            return None
        return cls(int(parts[0]), parts[1], int(parts[2]), parts[3])

    def move_to(self, seq: int, event: EventId) -> "Position":
        """Return the position with another event as the last."""
        return replace(self, seq=seq, event=_digest_text(event))


def follow_position(storage: Storage, position: Position | None) -> tuple[Position, list[EventId]]:
    """Return a position by today's numbers, and ids since gone.

    None is the beginning. A position of another state of the store (it was restored) counts as None: all events follow again,
    and no id counts as gone. If events were renumbered, it is set back before the first that moved.
    """
    is_here = (
        position and position.change <= storage.toc.current_version() and _make_mark(storage, position.change) == position.mark
    )
    if position is None or not is_here:
        last = storage.toc.current_version()
        return Position(change=last, mark=_make_mark(storage, last)), []
    seq, event, gone = position.seq, position.event, list[EventId]()
    change, mark = position.change, position.mark
    while changes := storage.outbox.read_after(change, _PAGE):
        for change_entry in changes:
            if change_entry.kind is ChangeKind.EVENT_DROPPED:
                gone.append(EventId(change_entry.subject))
            elif change_entry.kind is ChangeKind.EVENTS_MOVED and int(change_entry.subject) <= seq:
                seq, event = int(change_entry.subject) - 1, ""
        change, mark = changes[-1].seq, _digest_change(changes[-1])
    if event:
        last_events = storage.events.read_after(seq - 1, 1)
        if not last_events or last_events[0].seq != seq or _digest_text(last_events[0].event.event_id) != event:
            seq, event = 0, ""
    return Position(seq, event, change, mark), list(dict.fromkeys(gone))


def _make_mark(storage: Storage, change: int) -> str:
    entries = storage.outbox.read_after(change - 1, 1) if change else []
    return _digest_change(entries[0]) if entries and entries[0].seq == change else ""


def _digest_change(change: Change) -> str:
    return _digest_text(f"{change.kind.value} {change.subject}")


def _digest_text(text: str) -> str:
    return f"{hash_parts('position', text, bits=_BITS):x}"
