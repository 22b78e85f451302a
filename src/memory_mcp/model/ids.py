"""Build and parse every kind of id; the only module that knows their form.

Invariants
1. An event id is a ULID: 48 bits of source time, 80 bits derived from the source's own id; reading a source
   twice gives the same id.
2. Ids are compared and stored as 128-bit integers; text forms are for people and agents.
3. Every form ever emitted, and the bracketed older forms of the specification, are read.
"""

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NewType

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.patterns import lazy_pattern

EventId = NewType("EventId", str)
GripId = NewType("GripId", str)
NodeId = NewType("NodeId", str)
TopicId = NewType("TopicId", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PYTHON_DIGITS = "0123456789abcdefghijklmnopqrstuv"
#: Letters outside Crockford's alphabet become "!", which int() refuses.
_TO_PYTHON = str.maketrans("ILOUilou", "!" * 8) | str.maketrans(_ALPHABET + _ALPHABET.lower(), _PYTHON_DIGITS + _PYTHON_DIGITS)
#: The two characters of each number of ten bits.
_PAIRS = tuple(first + second for first in _ALPHABET for second in _ALPHABET)
_HASH_BITS = 80
HASH_MASK = (1 << _HASH_BITS) - 1
#: Of the 48 bits one stays free, so that a key fits a signed 128-bit number: enough until the year 6429.
_MAX_TIME = (1 << 47) - 1
_SEGMENT_BITS = 60
#: Ids whose text form is kept: the bullets of one month are read again with every week of it.
_CACHED_IDS = 16_384
#: Segments whose key and id are kept: an overview asks for those of a hundred some ten times each.
_CACHED_SEGMENTS = 1024

ROOT = NodeId("toc:root")

_ULID = lazy_pattern(r"[0-3][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}\Z")
_GRIP_TAIL = lazy_pattern(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{16}\Z")
_MS = lazy_pattern(r"[0-9]{1,15}\Z")
_SPAN_GRIP = lazy_pattern(r"grip:([0-9]{1,15}):([0-9a-hjkmnp-tv-z]{16})-([0-9]{1,9})-([0-9]{1,9})\Z")
_SEGMENT_TAIL = lazy_pattern(r"[0-9a-hjkmnp-tv-z]{12}\Z")
_YEAR = lazy_pattern(r"toc:year:([0-9]{4})\Z")
_MONTH = lazy_pattern(r"toc:month:([0-9]{4})[-:]([0-9]{2})\Z")
_WEEK = lazy_pattern(r"toc:week:([0-9]{4})[-:]W([0-9]{2})\Z")
_DAY = lazy_pattern(r"toc:day:([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_SHORT = (
    ("year", lazy_pattern(r"[0-9]{4}")),
    ("month", lazy_pattern(r"[0-9]{4}-[0-9]{2}")),
    ("week", lazy_pattern(r"[0-9]{4}-?W[0-9]{2}", re.I)),
    ("day", lazy_pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
)
_TOPIC = lazy_pattern(r"topic:([0-9a-hjkmnp-tv-z]{12})\Z", re.I)
_SEGMENT = lazy_pattern(r"toc:segment:([0-9]{4}-[0-9]{2}-[0-9]{2}):([0-9A-Za-z]+)\Z")


def hash_parts(*parts: str, bits: int = _HASH_BITS) -> int:
    """Return the first `bits` bits of a BLAKE2b hash.

    Parts are length-prefixed, so that no two splits of a text collide.
    """
    data: list[bytes] = []
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        data += (len(raw).to_bytes(4, "big"), raw)
    size = (bits + 7) // 8
    return int.from_bytes(hashlib.blake2b(b"".join(data), digest_size=size).digest(), "big") >> (-bits % 8)


def encode_base32(value: int, length: int) -> str:
    """Return `value` in upper-case Crockford base 32.

    Raises OverflowError if it does not fit into `length` characters.
    """
    if not 0 <= value < 1 << length * 5:
        raise OverflowError(f"{value} does not fit into {length} characters")
    pairs = [_PAIRS[value >> shift & 1023] for shift in range(length * 5 - 10, -1, -10)]
    return "".join(pairs) if length % 2 == 0 else "".join([*pairs, _ALPHABET[value & 31]])


def decode_base32(text: str) -> int:
    """Return the integer of a Crockford base 32 text, in either case.

    Raises ValueError for "" and for other characters, such as I, L, O, U.
    """
    if not text.isalnum() or not text.isascii():
        raise ValueError(f"not a base 32 id: {text!r}")
    # Python's own base 32 digits are 0-9a-v: one table turns the alphabets into each other, and int() does the rest.
    return int(text.translate(_TO_PYTHON), 32)


def make_key(time_ms: int, tail: int) -> int:
    """Return a 128-bit key: 48 bits of time, 80 bits of `tail`.

    The time, in milliseconds, is clamped to the years 1970 to 6429.
    """
    return (min(max(time_ms, 0), _MAX_TIME) << _HASH_BITS) | (tail & HASH_MASK)


def event_id(time_ms: int, *origin: str) -> EventId:
    """Return the event id of a source time (UTC ms) and origin.

    The origin is the kind of source and the source's own id.
    """
    return EventId(encode_base32(make_key(time_ms, hash_parts(*origin)), 26))


@lru_cache(maxsize=_CACHED_IDS)
def event_id_from(key: int) -> EventId:
    """Return the text form of a stored event key: a ULID."""
    return EventId(encode_base32(key, 26))


def event_key(value: str) -> int:
    """Return the 128-bit key of an event id.

    The id is a ULID in either case, or `evt:<ms>:<ULID>`. Raises InvalidQuery for other text.
    """
    bare = value.rsplit(":", 1)[-1] if value.startswith("evt:") else value
    if not _ULID.match(bare):
        raise InvalidQuery(f"not an event id: {value!r}", "An event id is a 26-character ULID, with or without evt:<ms>:.")
    return decode_base32(bare)


@lru_cache(maxsize=_CACHED_IDS)
def grip_id_from(key: int) -> GripId:
    """Return the text form of a grip key: `grip:<ms>:<16 characters>`."""
    return GripId(f"grip:{key >> _HASH_BITS}:{encode_base32(key & HASH_MASK, 16).lower()}")


def grip_key(value: str) -> tuple[int, bool]:
    """Return the key of a grip id, and whether it is complete.

    An id without a time gives only the lower 80 bits and False. Raises InvalidQuery for anything that is not a grip id, and
    for one that names event and span itself.
    """
    parts = value.split(":")
    tail = parts[-1]
    if _GRIP_TAIL.match(tail):
        if len(parts) == 3 and parts[0] == "grip" and _MS.match(parts[1]):
            return make_key(int(parts[1]), decode_base32(tail)), True
        if len(parts) == 1 or (len(parts) == 2 and parts[0] == "grip"):
            return decode_base32(tail), False
    raise InvalidQuery(f"not a grip id: {value!r}", "A grip id looks like grip:<ms>:<id>, as search results carry it.")


def short_grip(grip: str) -> str:
    """Return a stored grip's id without its time; other ids unchanged."""
    return f"grip:{grip.rpartition(':')[2]}" if _GRIP_TAIL.match(grip.rpartition(":")[2]) else grip


def grip_time(grip: GripId) -> int:
    """Return the time in a grip's id (UTC ms), or 0.

    Raises InvalidQuery for what is not a grip id.
    """
    named_span = _SPAN_GRIP.match(grip)
    return int(named_span[1]) if named_span else grip_key(grip)[0] >> _HASH_BITS


def span_grip_id(event: EventId, start: int, end: int) -> GripId:
    """Return the id of an unstored grip: event and span (characters).

    Raises InvalidQuery if `event` is not an event id.
    """
    return GripId(f"{grip_id_from(event_key(event))}-{start}-{end}")


def parse_span_grip(value: str) -> tuple[EventId, int, int] | None:
    """Return (event id, start, end) of a grip id that names them.

    Offsets count characters; None for any other text.
    """
    match = _SPAN_GRIP.match(value)
    if match is None:
        return None
    return event_id_from(make_key(int(match[1]), decode_base32(match[2]))), int(match[3]), int(match[4])


@lru_cache(maxsize=_CACHED_SEGMENTS)
def segment_key(*origin: str) -> int:
    """Return the 60-bit hash that names a segment, from its origin."""
    return hash_parts(*origin, bits=_SEGMENT_BITS)


@lru_cache(maxsize=_CACHED_SEGMENTS)
def segment_id(day: str, key: int) -> NodeId:
    """Return the id of a segment: `toc:segment:<day>:<12 characters>`."""
    return NodeId(f"toc:segment:{day}:{encode_base32(key, 12).lower()}")


def year_id(year: int) -> NodeId:
    """Return the id of a year: `toc:year:2026`."""
    return NodeId(f"toc:year:{year:04d}")


def month_id(year: int, month: int) -> NodeId:
    """Return the id of a month: `toc:month:2026-01`."""
    return NodeId(f"toc:month:{year:04d}-{month:02d}")


def week_id(year: int, week: int) -> NodeId:
    """Return the id of an ISO week: `toc:week:2026-W04`."""
    return NodeId(f"toc:week:{year:04d}-W{week:02d}")


def day_id(iso: str) -> NodeId:
    """Return the id of a day: `toc:day:2026-01-30`."""
    return NodeId(f"toc:day:{iso}")


def segment_key_of(value: str) -> int | None:
    """Return the segment key inside a segment id; None for other text."""
    match = _SEGMENT.match(value)
    if match and _SEGMENT_TAIL.match(match[2].lower()):
        return decode_base32(match[2])
    return None


def node_key(node_id: NodeId) -> int:
    """Return the 60-bit key a node is stored under.

    For a segment the key in its id, for any other node a hash of the id.
    """
    key = segment_key_of(node_id)
    return hash_parts("node", node_id, bits=_SEGMENT_BITS) if key is None else key


def find_period(value: str) -> NodeId | None:
    """Return the node id of a period in short form, or None.

    Short forms are 2026, 2026-01, 2026-W05, 2026W05 and 2026-01-30; whether the date exists is not checked.
    """
    text = value.strip()
    level = next((level for level, form in _SHORT if form.fullmatch(text)), None)
    if level is None:
        return None
    return week_id(int(text[:4]), int(text[-2:])) if level == "week" else NodeId(f"toc:{level}:{text}")


def parse_node_id(value: str) -> NodeId:
    """Return the canonical form of a node id; "" is the root.

    Older forms with colons for dashes are read; a segment's id keeps the case of its letters. Whether a date exists is
    not checked. Raises InvalidQuery for anything else.
    """
    text = value.strip()
    if text in ("", "root", ROOT):
        return ROOT
    if match := _YEAR.match(text):
        return NodeId(text)
    if match := _MONTH.match(text):
        return month_id(int(match[1]), int(match[2]))
    if match := _WEEK.match(text):
        return week_id(int(match[1]), int(match[2]))
    if _DAY.match(text) or segment_key_of(text) is not None:
        return NodeId(text)
    raise InvalidQuery(
        f"not a node id: {value!r}",
        "Node ids look like toc:year:2026, toc:month:2026-01, toc:week:2026-W04, toc:day:2026-01-30 or "
        "toc:segment:<day>:<id>; browse_toc with no id starts at the root.",
    )


def topic_id(kind: str, members: Iterable[int]) -> TopicId:
    """Return the id of a topic: `topic:<12 characters>`.

    It is a hash of `kind` and the keys of its first segments, in any order.
    """
    key = hash_parts(kind, *map(str, sorted(members)), bits=_SEGMENT_BITS)
    return TopicId(f"topic:{encode_base32(key, 12).lower()}")


def is_topic_id(value: str) -> bool:
    """Return whether a text is the id of a topic."""
    return _TOPIC.match(value) is not None


def parse_topic_id(value: str) -> TopicId:
    """Return the lower-case form of a topic id.

    Raises InvalidQuery for anything else.
    """
    match = _TOPIC.match(value.strip())
    if match is None:
        hint = "Topic ids look like topic:0123456789ab, as topics_by_query and `memory-mcp topics top` give them."
        raise InvalidQuery(f"not a topic id: {value!r}", hint)
    return TopicId(f"topic:{match[1].lower()}")
