"""Fill a database with many tenants: some through the program itself, the others as copies of them, row by row, in the database.

A *template* is a space whose events were appended by the storage engine (COPY) and derived by the program. Copies of it are made
by INSERT ... SELECT of every table with another tenant, by a superuser, since row-level security lets nobody read two tenants at
once. What a copy holds is what the program would have made of the same events.
"""

import itertools
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import psycopg

from bench import corpus, histories
from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import EventDraft, EventType, Role
from memory_mcp_team.access.administration import Administration
from memory_mcp_team.access.permissions import Role as Grant
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.database import Database
from memory_mcp_team.postgres.store import PostgresStorage

#: The one space of each tenant, and its one member.
SPACE, MEMBER = "team", "agent"
#: Events of one append.
_BATCH = 2000
#: Tables of a memory that a copy does not take: what is each memory's own.
_OWN = {"request", "tombstone_key"}
_KINDS = {"user": EventType.USER_MESSAGE, "assistant": EventType.ASSISTANT_MESSAGE, "tool": EventType.TOOL_RESULT}
_SOURCE = "bench"


@dataclass(slots=True)
class Filled:
    """What a filling did."""

    tenants: int = 0
    events: int = 0
    appended: int = 0
    append_seconds: float = 0.0
    derive_seconds: float = 0.0
    copied: int = 0
    copy_seconds: float = 0.0
    #: On disk: of the tables while they were empty, and in the end.
    empty_bytes: int = 0
    bytes: int = 0
    #: Keys of the members, by tenant, in the order of the tenants.
    keys: list[str] | None = None


def drafts(count: int, seed: int, data: Path | None) -> Iterator[EventDraft]:
    """`count` events of sessions: made up, or with texts of real transcripts below `data` in their order of kinds."""
    real = itertools.cycle(_real(data)) if data else None
    for told in corpus.events(count, seed=seed):
        role, text = str(told["role"]), str(told["text"])
        if real is not None:
            text = next(real)
        at = int(_moment(str(told["timestamp"])) * 1000)
        draft = EventDraft(f"{told['session_id']}", Role(role), _KINDS[role], text, at)
        yield replace(draft, source_id=str(told["id"]), agent="claude-code", project=str(told["project"]))


def _moment(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def _real(data: Path) -> Sequence[str]:
    texts = histories.material(data).texts
    return [text for group in itertools.zip_longest(*texts.values()) for text in group if text]


def tenants(url: str, count: int, first: int = 1) -> list[str]:
    """Make tenants of one space and one member each; the members' keys."""
    database = Database(url, 2)
    try:
        migrations.migrate_schema(database)
        acts, keys = Administration(database, "bench"), []
        for number in range(first, first + count):
            tenant = acts.add_tenant(f"tenant-{number:06d}", "large").tenant
            acts.add_member(tenant, MEMBER, MEMBER)
            acts.add_space(tenant, SPACE, "team", owner=MEMBER)
            acts.grant_role(tenant, MEMBER, SPACE, Grant.ADMIN)
            keys.append(str(acts.make_key(tenant, "bench", MEMBER, ("memory:admin",))))
        return keys
    finally:
        database.close()


def fill(url: str, superuser: str, count: int, events: int, templates: int = 4, data: Path | None = None) -> Filled:
    """Make `count` tenants with `events` events each, `templates` of them by the program and the rest as copies."""
    filled = Filled(tenants=count, keys=tenants(url, count))
    with psycopg.connect(superuser, autocommit=True) as raw:
        filled.empty_bytes = size(raw)
    templates = min(templates, count)
    database = Database(url, 4)
    try:
        acts = Administration(database, "bench")
        numbers = {tenant.name: tenant.tenant for tenant in acts.directory.list_tenants()}
        ours = [numbers[f"tenant-{number:06d}"] for number in range(1, count + 1)]
        for place, tenant in enumerate(ours[:templates]):
            _append(database, acts, tenant, drafts(events, place + 1, data), filled)
        began = time.monotonic()
        with psycopg.connect(superuser, autocommit=True) as raw:
            columns = _columns(raw)
            for place, tenant in enumerate(ours[templates:]):
                filled.copied += _copied(raw, columns, ours[place % templates], tenant)
            filled.copy_seconds = time.monotonic() - began
            raw.execute("VACUUM ANALYZE")
            filled.bytes = size(raw)
    finally:
        database.close()
    filled.events = filled.appended + filled.copied
    return filled


def _append(database: Database, acts: Administration, tenant: int, told: Iterator[EventDraft], filled: Filled) -> None:
    space = acts.directory.list_spaces(tenant)[0].space
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings()
        own = replace(
            settings,
            storage=replace(settings.storage, data_dir=folder),
            teleport=replace(settings.teleport, enabled=False),
        )
        app = App(own, storage=PostgresStorage(database, acts.directory.get_memory(tenant, space)))
        try:
            while batch := list(itertools.islice(told, _BATCH)):
                began = time.monotonic()
                clean = [kept for draft in batch if (kept := app.gate.clean_draft(draft, ImportReport())) is not None]
                filled.appended += len(app.append(clean, _SOURCE).new_ids)
                filled.append_seconds += time.monotonic() - began
            began = time.monotonic()
            app.derivation.run()
            filled.derive_seconds += time.monotonic() - began
        finally:
            app.close()


def _columns(raw: "psycopg.Connection[tuple[object, ...]]") -> dict[str, str]:
    """The columns of each table of a memory behind tenant and space, without those that number themselves."""
    found = {}
    for table in migrations.list_tables():
        if table in _OWN:
            continue
        rows = raw.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND attidentity = '' ORDER BY attnum",
            [table],
        )
        names = [str(name) for (name,) in rows]
        found[table] = ", ".join(f'"{name}"' for name in names if name not in ("tenant", "space"))
    return found


def _copied(raw: "psycopg.Connection[tuple[object, ...]]", columns: dict[str, str], source: int, target: int) -> int:
    """Copy what one tenant has into another; how many events."""
    with raw.transaction():
        raw.execute("DELETE FROM head WHERE tenant = %s", [target])
        events = 0
        for table, names in columns.items():
            rows = f"SELECT {target}, space, {names} FROM {table} WHERE tenant = {source}"
            done = raw.execute(f"INSERT INTO {table} (tenant, space, {names}) {rows}".encode())
            events += done.rowcount if table == "event" else 0
        return events


def size(raw: "psycopg.Connection[tuple[object, ...]]") -> int:
    """Bytes of the database on disk."""
    row = raw.execute("SELECT pg_database_size(current_database())").fetchone()
    assert row is not None
    return int(str(row[0]))
