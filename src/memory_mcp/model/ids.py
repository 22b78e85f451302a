"""Build and parse every kind of id; the only module that knows their form.

Invariants
1. An event id is a ULID: 48 bits of source time, 80 bits derived from the source's own id; reading a source
   twice gives the same id.
2. Ids are compared and stored as 128-bit integers (`as_int`); text forms are for people and agents.
3. Every form ever emitted, and the bracketed older forms of the specification, are read.
"""

import hashlib
import re
from base64 import b32encode
from collections.abc import Iterable
from functools import lru_cache
from typing import NewType

from memory_mcp.base.errors import InvalidQuery

EventId = NewType("EventId", str)
GripId = NewType("GripId", str)
NodeId = NewType("NodeId", str)
TopicId = NewType("TopicId", str)

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PYTHON_DIGITS = "0123456789abcdefghijklmnopqrstuv"
#: Letters outside Crockford's alphabet become "!", which int() refuses.
_TO_PYTHON = str.maketrans("ILOUilou", "!" * 8) | str.maketrans(_ALPHABET + _ALPHABET.lower(), _PYTHON_DIGITS + _PYTHON_DIGITS)
_FROM_RFC = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", _ALPHABET.encode("ascii"))
_HASH_BITS = 80
HASH_MASK = (1 << _HASH_BITS) - 1
#: Of the 48 bits one stays free, so that a key fits a signed 128-bit number: enough until the year 6429.
_MAX_TIME = (1 << 47) - 1
_SEGMENT_BITS = 60
#: Ids whose text form is kept: the bullets of one month are read again with every week of it.
_REMEMBERED = 16_384

ROOT = NodeId("toc:root")

_ULID = re.compile(r"[0-3][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}\Z")
_GRIP_TAIL = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{16}\Z")
_MS = re.compile(r"[0-9]{1,15}\Z")
_SPAN_GRIP = re.compile(r"grip:([0-9]{1,15}):([0-9a-hjkmnp-tv-z]{16})-([0-9]{1,9})-([0-9]{1,9})\Z")
_SEGMENT_TAIL = re.compile(r"[0-9a-hjkmnp-tv-z]{12}\Z")
_YEAR = re.compile(r"toc:year:([0-9]{4})\Z")
_MONTH = re.compile(r"toc:month:([0-9]{4})[-:]([0-9]{2})\Z")
_WEEK = re.compile(r"toc:week:([0-9]{4})[-:]W([0-9]{2})\Z")
_DAY = re.compile(r"toc:day:([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_SHORT = (
    ("year", re.compile(r"[0-9]{4}")),
    ("month", re.compile(r"[0-9]{4}-[0-9]{2}")),
    ("week", re.compile(r"[0-9]{4}-?W[0-9]{2}", re.I)),
    ("day", re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")),
)
_TOPIC = re.compile(r"topic:([0-9a-hjkmnp-tv-z]{12})\Z", re.I)
_SEGMENT = re.compile(r"toc:segment:([0-9]{4}-[0-9]{2}-[0-9]{2}):([0-9A-Za-z]+)\Z")


def digest(*parts: str, bits: int = _HASH_BITS) -> int:
    """Return the first `bits` bits of a BLAKE2b hash over length-prefixed parts, so that no two splits collide."""
    data: list[bytes] = []
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        data += (len(raw).to_bytes(4, "big"), raw)
    size = (bits + 7) // 8
    return int.from_bytes(hashlib.blake2b(b"".join(data), digest_size=size).digest(), "big") >> (-bits % 8)


def encode(value: int, length: int) -> str:
    """Return `value` in Crockford base 32, upper case, of exactly `length` characters; OverflowError if it does not fit."""
    # The standard library's base 32 wants whole groups of 40 bits: fill up on the right, translate, cut.
    bits = length * 5
    whole = -(-bits // 40) * 40
    return b32encode((value << (whole - bits)).to_bytes(whole // 8, "big")).translate(_FROM_RFC)[:length].decode("ascii")


def decode(text: str) -> int:
    """Return the integer of a Crockford base 32 text, in either case; ValueError for "" and other characters, as I, L, O, U."""
    if not text.isalnum() or not text.isascii():
        raise ValueError(f"not a base 32 id: {text!r}")
    # Python's own base 32 digits are 0-9a-v: one table turns the alphabets into each other, and int() does the rest.
    return int(text.translate(_TO_PYTHON), 32)


def key_of(time_ms: int, tail: int) -> int:
    """Return a 128-bit key: 48 bits of time (ms, cut to the years 1970 to 6429) before the lowest 80 bits of `tail`."""
    return (min(max(time_ms, 0), _MAX_TIME) << _HASH_BITS) | (tail & HASH_MASK)


def event_id(time_ms: int, *origin: str) -> EventId:
    """Return an event's id, the same for the same source time (UTC ms) and origin (source kind and its own id)."""
    return EventId(encode(key_of(time_ms, digest(*origin)), 26))


@lru_cache(maxsize=_REMEMBERED)
def event_id_from(key: int) -> EventId:
    """Return the text form of a stored event key: a ULID, 26 upper-case characters."""
    return EventId(encode(key, 26))


def event_key(value: str) -> int:
    """Return the 128-bit key of an event id, a ULID in either case, or `evt:<ms>:<ULID>`; raises InvalidQuery for other text."""
    bare = value.rsplit(":", 1)[-1] if value.startswith("evt:") else value
    if not _ULID.match(bare):
        raise InvalidQuery(f"not an event id: {value!r}", "An event id is a 26-character ULID, with or without evt:<ms>:.")
    return decode(bare)


@lru_cache(maxsize=_REMEMBERED)
def grip_id_from(key: int) -> GripId:
    """Return the text form of a stored grip key: `grip:<ms>:<16 characters>`."""
    return GripId(f"grip:{key >> _HASH_BITS}:{encode(key & HASH_MASK, 16).lower()}")


def grip_key(value: str) -> tuple[int, bool]:
    """Return (key, whether it is whole) of a grip id; an id without a time gives only the lower 80 bits and False.

    Raises InvalidQuery for anything that is no grip id, and for one that names event and span itself.
    """
    parts = value.split(":")
    tail = parts[-1]
    if _GRIP_TAIL.match(tail):
        if len(parts) == 3 and parts[0] == "grip" and _MS.match(parts[1]):
            return key_of(int(parts[1]), decode(tail)), True
        if len(parts) == 1 or (len(parts) == 2 and parts[0] == "grip"):
            return decode(tail), False
    raise InvalidQuery(f"not a grip id: {value!r}", "A grip id looks like grip:<ms>:<id>, as search results carry it.")


def short_grip(grip: str) -> str:
    """Return a stored grip's id without its time, `grip:<16 characters>`, which `grip_key` reads; any other id unchanged."""
    return f"grip:{grip.rpartition(':')[2]}" if _GRIP_TAIL.match(grip.rpartition(":")[2]) else grip


def time_of(grip: GripId) -> int:
    """Return the time in a grip's id, UTC milliseconds, 0 for one without a time; raises InvalidQuery for what is no grip id."""
    return grip_key(grip)[0] >> _HASH_BITS


def span_grip_id(event: EventId, start: int, end: int) -> GripId:
    """Return the id of a grip that is not stored: it names event and span (characters). Raises InvalidQuery for no event id."""
    return GripId(f"{grip_id_from(event_key(event))}-{start}-{end}")


def parse_span_grip(value: str) -> tuple[EventId, int, int] | None:
    """Return (event id, start, end) of a grip id that names them itself, offsets in characters; None for any other text."""
    match = _SPAN_GRIP.match(value)
    if match is None:
        return None
    return event_id_from(key_of(int(match[1]), decode(match[2]))), int(match[3]), int(match[4])


def segment_key(*origin: str) -> int:
    """Return the 60-bit hash that names a segment, from its origin: texts such as "segment", its stream and its cut number."""
    return digest(*origin, bits=_SEGMENT_BITS)


def segment_id(day: str, key: int) -> NodeId:
    """Return the id of a segment: `toc:segment:<day>:<12 characters>`."""
    return NodeId(f"toc:segment:{day}:{encode(key, 12).lower()}")


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
    """Return the 60-bit segment key inside a segment id, whatever the case; None for any other text."""
    match = _SEGMENT.match(value)
    if match and _SEGMENT_TAIL.match(match[2].lower()):
        return decode(match[2])
    return None


def node_key(node_id: NodeId) -> int:
    """Return the 60-bit key a node is stored under: of a segment the one in its id, of any other node a hash of the id."""
    key = segment_key_of(node_id)
    return digest("node", node_id, bits=_SEGMENT_BITS) if key is None else key


def find_period(value: str) -> NodeId | None:
    """Return the id of a period in short form (2026, 2026-01, 2026-W05, 2026W05, 2026-01-30), real or not; else None."""
    text = value.strip()
    level = next((level for level, form in _SHORT if form.fullmatch(text)), None)
    if level is None:
        return None
    return week_id(int(text[:4]), int(text[-2:])) if level == "week" else NodeId(f"toc:{level}:{text}")


def parse_node_id(value: str) -> NodeId:
    """Return the canonical form of a node id; "" and "root" are the root.

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
    """Return the id of a topic, `topic:<12 characters>`: a hash of `kind` and its first segments' keys, whatever their order."""
    return TopicId(f"topic:{encode(digest(kind, *(str(key) for key in sorted(members)), bits=_SEGMENT_BITS), 12).lower()}")


def is_topic_id(value: str) -> bool:
    """Return whether a text is the id of a topic, in small or capital letters."""
    return _TOPIC.match(value) is not None


def parse_topic_id(value: str) -> TopicId:
    """Return the canonical (lower-case) form of a topic id; raises InvalidQuery for anything else."""
    match = _TOPIC.match(value.strip())
    if match is None:
        hint = "Topic ids look like topic:0123456789ab, as topics_by_query and `memory-mcp topics top` give them."
        raise InvalidQuery(f"not a topic id: {value!r}", hint)
    return TopicId(f"topic:{match[1].lower()}")
