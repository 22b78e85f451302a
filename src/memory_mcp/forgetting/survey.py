"""Looks through the store before events are forgotten: which of their words are theirs alone, and who else says the same.

Only a text most of which no other stored event holds is known again when it is restated: a prompt that a machine repeats, or a
line of code that occurs elsewhere, may still be said.
"""

from collections.abc import Iterator

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.restating import LETTERS, RestatementIndex, Sketch, WindowHasher, Windows
from memory_mcp.capture.tombstones import ForgetRequest, Tombstones
from memory_mcp.model.event import Event, EventType
from memory_mcp.storage.base import EventStore

#: Events read at once.
_READ = 1000
#: Texts whose restatements are known again, at most: 10 MB of hashes.
_MOST = 20_000
#: Letters of such a text where it was not named itself: among all that a session holds are phrases that come again by themselves.
_LETTERS = 2 * LETTERS
_OF_TOOLS = frozenset({EventType.TOOL_CALL, EventType.TOOL_RESULT})


@dataclass(frozen=True, slots=True)
class Survey:
    """What the store says of events that are to be forgotten."""

    #: Of the texts that are theirs alone.
    sketches: tuple[Sketch, ...] = ()
    #: (id, UTC ms) of events that stay and say the greater part of one that goes.
    repeating: tuple[tuple[str, int], ...] = ()


def survey_store(log: EventStore, targets: ForgetRequest, hasher: WindowHasher, are_named: bool) -> Survey:
    """Return texts known again when restated, and their repeaters.

    `are_named`: a person named the events themselves, not a session or the like that holds them; of these, messages of some
    length count alone. The store is read twice where whole ranges are wanted.
    """
    import numpy as np

    tombstones = Tombstones.preview(targets)
    going = (event for event in _iter_events(log) if tombstones.covers_event(event)) if targets.ranges else iter(targets.events)
    texts = list(_windows_of(going, hasher, are_named))
    if not texts:
        return Survey()
    pool = np.unique(np.concatenate([text.hashes for text in texts]))
    is_common = np.zeros(len(pool), dtype=np.bool_)
    restatements = RestatementIndex()
    for text in texts:
        if sketch := Sketch.from_windows(text, np.ones(len(text.hashes), dtype=np.bool_)):
            restatements.add_sketch(sketch)
    repeating: list[tuple[str, int]] = []
    for event in _iter_events(log):
        hashes = hasher.hash_text(event.text, letters=0)
        places = np.searchsorted(pool, hashes).clip(max=len(pool) - 1)
        places = places[pool[places] == hashes]
        if len(places) and not tombstones.covers_event(event):
            is_common[places] = True
            repeating += [(event.event_id, event.timestamp)] if restatements.matches_hashes(hashes) else []
    sketches = (Sketch.from_windows(text, ~is_common[np.searchsorted(pool, text.hashes)]) for text in texts)
    return Survey(tuple(sketch for sketch in sketches if sketch), tuple(repeating))


def _windows_of(events: Iterator[Event], hasher: WindowHasher, are_named: bool) -> Iterator[Windows]:
    count = 0
    for event in events:
        if count == _MOST:
            return
        if are_named or event.type not in _OF_TOOLS:
            windows = hasher.hash_windows(event.text, LETTERS if are_named else _LETTERS)
            if len(windows.hashes):
                count += 1
                yield windows


def _iter_events(log: EventStore) -> Iterator[Event]:
    last = 0
    while page := log.read_after(last, _READ):
        last = page[-1].seq
        yield from (stored.event for stored in page)
