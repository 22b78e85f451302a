"""Many tenants whose every word names its owner, so that whose words an answer holds can be read off it.

A word is `qx`, a letter of what it is, three of its tenant, one of its space, `xq`: nothing else of a test is spelled so.
"""

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.base.clock import SystemClock
from memory_mcp.capture.log import EventLog
from memory_mcp.config import load
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, NodeId, TopicId, encode_base32, hash_parts, span_grip_id
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.project import Alias
from memory_mcp.model.topic import TopicLabel
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.permissions import Role as MemberRole
from memory_mcp_team.postgres.database import sql
from memory_mcp_team.postgres.memories import PRIVATE, PROJECT, TEAM
from memory_mcp_team.postgres.store import PostgresStorage
from tests.topics_material import themed

#: Letters of a tenant's number; none of those that begin and end a word.
_LETTERS = "abcdefghijklmnoprstu"
_WORD = re.compile(r"qx[a-z]([a-u]{3})([a-z])", re.IGNORECASE)
#: Of events, segments, grips, topics and memories, in the ways in which they are spelled.
_ID = re.compile(r"[0-9a-z]{12,40}", re.IGNORECASE)
_FIRST_MS = 1_767_600_000_000
#: Sessions of a talkative space.
SESSIONS = 36
#: The first tenants with three spaces are the first and the last; the one between has that of all alone.
FIRST, SECOND, LAST = 6, 7, 12
#: A tenant and a space that were never made, for ids and words of nobody.
NOBODYS = (7000, 1)

#: A space of a tenant, by number.
Owner = tuple[int, int]


def word(kind: str, owner: Owner) -> str:
    """The word of a kind that belongs to a space of a tenant."""
    tenant, space = owner
    return f"qx{kind}{_LETTERS[tenant // 400]}{_LETTERS[tenant // 20 % 20]}{_LETTERS[tenant % 20]}{chr(96 + space)}xq"


def _owner(match: "re.Match[str]") -> Owner:
    high, middle, low = (_LETTERS.index(letter) for letter in match[1].lower())
    return high * 400 + middle * 20 + low, ord(match[2].lower()) - 96


@dataclass(frozen=True, slots=True)
class Handles:
    """What names the content of a space: a caller's own, another's, or nobody's."""

    owner: Owner
    space_name: str
    event: str
    grip: str
    span: str
    node: str
    topic: str

    @property
    def project(self) -> str:
        return f"github.com/acme/{word('p', self.owner)}"

    @property
    def session(self) -> str:
        return word("s", self.owner)

    @property
    def agent(self) -> str:
        return word("a", self.owner)

    @property
    def speaker(self) -> str:
        return word("k", self.owner)

    @property
    def text(self) -> str:
        return word("w", self.owner)


def nobodys() -> Handles:
    """Handles of the right form that stand for nothing."""
    tail = encode_base32(hash_parts("nobody"), 16)
    event = encode_base32(_FIRST_MS, 10) + tail
    return Handles(
        NOBODYS,
        word("n", NOBODYS),
        event,
        f"grip:{_FIRST_MS}:{tail.lower()}",
        f"grip:{_FIRST_MS}:{tail.lower()}-0-9",
        f"toc:segment:2026-01-05:{tail[:12].lower()}",
        f"topic:{tail[:3:-1].lower()}",
    )


@dataclass
class Tenants:
    """What was made: every space's handles, every tenant's keys, and whose each id is."""

    handles: dict[Owner, Handles] = field(default_factory=dict)
    #: By tenant: of an admin and of a reader of its first space alone, and of the owner of its other spaces.
    admins: dict[int, str] = field(default_factory=dict)
    readers: dict[int, str] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    ids: dict[str, Owner] = field(default_factory=dict)

    def foreign(self, text: str, mine: Container[Owner], sent: str) -> set[str]:
        """Words and ids of a text that are another's, without those that were sent."""
        ids = {found: self.ids[found] for found in map(str.lower, _ID.findall(text)) if found in self.ids}
        words = {match[0].lower(): _owner(match) for match in _WORD.finditer(text)}
        return {found for found, owner in (ids | words).items() if owner not in mine and found not in sent.lower()}

    @property
    def all(self) -> frozenset[Owner]:
        """Every space, and every tenant for itself."""
        return frozenset(self.handles) | {(tenant, 26) for tenant in self.admins}


def make(
    administration: Administration, count: int, folder: Path, derived: Container[int], talkative: Container[Owner] = ()
) -> Tenants:
    """Make and fill so many tenants: each has a space of all, every second one of a project, every third a private one.

    `derived`: tenants that have a tree, too; the others' events wait to be derived. `talkative`: spaces with enough for topics.
    """
    made = Tenants()
    filler = _Filler(administration, folder)
    for number in range(1, count + 1):
        tenant = administration.add_tenant(word("t", (number, 26))).tenant
        assert tenant == number
        for name, space in (("m", 1), ("r", 1), ("o", 2)):
            administration.add_member(tenant, word(name, (tenant, space)), name)
        kinds = [TEAM, *([PROJECT] if number % 2 == 0 else []), *([PRIVATE] if number % 3 == 0 else [])]
        for space, kind in enumerate(kinds, 1):
            name = TEAM if kind == TEAM else word("n", (tenant, space))
            administration.add_space(tenant, name, kind, owner="m" if kind == TEAM else "o")
            said = [*_drafts((tenant, space)), *(_talk((tenant, space)) if (tenant, space) in talkative else ())]
            made.handles[tenant, space] = filler.fill((tenant, space), name, said, made.ids, number in derived)
        administration.grant_role(tenant, "r", TEAM, MemberRole.READER)
        made.admins[tenant], made.readers[tenant], made.owners[tenant] = (
            str(administration.make_key(tenant, "k", member, ["memory:admin"])) for member in ("m", "r", "o")
        )
    # Nobody derives the others while the test runs: that is what takes long.
    with administration.database.connect_unpooled() as raw:
        raw.execute(sql("DELETE FROM work"))
    return made


class _Filler:
    """Fills spaces through the program's own storage, without a server."""

    def __init__(self, administration: Administration, folder: Path) -> None:
        self._database, self._directory = administration.database, administration.directory
        self._settings = load({}, {"storage.data_dir": str(folder), "teleport.enabled": "false"})

    def fill(self, owner: Owner, name: str, said: list[EventDraft], ids: dict[str, Owner], is_derived: bool) -> Handles:
        storage = PostgresStorage(self._database, self._directory.get_memory(*owner))
        try:
            if is_derived:
                app = App(self._settings, storage=storage)
                app.append(said, "test")
                app.derivation.run()
            else:
                EventLog(storage.events, SystemClock()).append(said, "test")
            return _filled(storage, owner, name, ids)
        finally:
            storage.close()


def _filled(storage: PostgresStorage, owner: Owner, name: str, ids: dict[str, Owner]) -> Handles:
    events = [stored.event.event_id for stored in storage.events.read_after(0, 1000)]
    span, none = span_grip_id(events[0], 0, 9), replace(nobodys(), owner=owner)
    cuts = sorted(storage.toc.iter_cuts(), key=lambda cut: cut.session_id)
    segments = [cut.node_id for cut in cuts] or [NodeId(none.node)]
    grips = [grip.grip_id for batch in storage.grips.iter_all() for grip in batch] or [span]
    topic = TopicId(f"topic:{encode_base32(hash_parts('topic', *map(str, owner), bits=60), 12).lower()}")
    _curate(storage, owner, [segments[0], grips[-1], topic])
    known = {
        told.rpartition(":")[2].lower() for told in (*events, *segments, *grips, topic, storage.get_stats(text=False).store_id)
    }
    # A citation of a whole event has the last 80 of its 128 bits.
    ids.update(
        dict.fromkeys(
            (known | {event[-16:].lower() for event in events}) - {none.node.rpartition(":")[2], span.rpartition(":")[2]}, owner
        )
    )
    return Handles(owner, name, events[0], grips[0], span, segments[0], topic)


def _curate(storage: PostgresStorage, owner: Owner, targets: Sequence[str]) -> None:
    """What people and agents do to a memory: a pin, a correction, another name, a label, and the audit's lines of that."""
    node, grip, topic = targets
    by = word("b", owner)
    storage.toc.set_pin(node, True, by)
    storage.superseded.record_supersession(Supersession(GripId(grip), None, _FIRST_MS, word("r", owner), by))
    storage.projects.add_alias(Alias(word("q", owner), f"github.com/acme/{word('p', owner)}", "person", _FIRST_MS))
    storage.topics.set_label(TopicLabel(TopicId(topic), None, word("l", owner), by, _FIRST_MS))
    storage.audit.record_entry(AuditEntry("retract", _FIRST_MS, by, word("c", owner), word("r", owner), {"grips": 1}))


def _drafts(owner: Owner) -> Iterator[EventDraft]:
    said = (
        (Role.USER, f"We decided to keep the {word('w', owner)} in the cellar, because the attic leaks."),
        (
            Role.ASSISTANT,
            f"Done: the {word('w', owner)} moved to the cellar, and the inventory of {word('x', owner)} is updated.",
        ),
        (Role.USER, f"Does anybody know what the {word('y', owner)} costs?"),
    )
    for number, (role, text) in enumerate(said):
        yield EventDraft(
            session_id=word("s", owner),
            role=role,
            type=EventType.USER_MESSAGE if role is Role.USER else EventType.ASSISTANT_MESSAGE,
            text=text,
            timestamp=_FIRST_MS + 60_000 * number,
            agent=word("a", owner),
            project=f"github.com/acme/{word('p', owner)}",
            speaker=word("k", owner),
            source_id=f"{word('i', owner)}-{number}",
            metadata={"note": word("d", owner)},
        )


def _talk(owner: Owner) -> Iterator[EventDraft]:
    """So many short sessions that topics are looked for."""
    project, agent, speaker = f"github.com/acme/{word('p', owner)}", word("a", owner), word("k", owner)
    for draft in themed(SESSIONS):
        session = f"{word('s', owner)}-{draft.session_id}"
        text = f"{draft.text} This is about {word('v', owner)}."
        named = replace(draft, project=project, agent=agent, speaker=speaker)
        yield replace(named, session_id=session, text=text, source_id=f"{word('i', owner)}-{draft.source_id}")
