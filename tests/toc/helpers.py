"""One memory with the made-up working life in it, and what a whole store says."""

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.event import Event, EventDraft, EventType, Role
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.tree.derive.rebuild_toc import RebuildReport, TocRebuild
from memory_mcp.tree.toc.check import Finding, check_store
from tests.factories import event, ms
from tests.fakes import FakeClock

_OPEN: list[App] = []
_START = ms("2026-02-10 09:00")


class EventSession:
    """Events of one session, a minute apart, in the order they are added."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, text: str, role: Role, *, kind: EventType | None = None, **metadata: str) -> Self:
        number = len(self.events)
        at = _START + number * 60_000
        self.events.append(event(text, at, role=role, kind=kind, metadata=metadata, source_id=str(number)))
        return self

    def user(self, text: str, **metadata: str) -> Self:
        return self.add(text, Role.USER, kind=None, **metadata)

    def agent(self, text: str) -> Self:
        return self.add(text, Role.ASSISTANT)


def close_all() -> None:
    """Close what `memory` opened: a database has so many connections."""
    while _OPEN:
        _OPEN.pop().close()


def memory(drafts: Iterable[EventDraft] = (), clock: FakeClock | None = None, where: StorageSettings | None = None) -> App:
    """An App in memory, or in a database, with these drafts stored and derived."""
    settings = Settings(storage=where or StorageSettings(timezone="Europe/Berlin"))
    app = App(settings, clock or FakeClock(), in_memory=True)
    _OPEN.append(app)
    given = list(drafts)
    if given:
        app.write(given, "test")
        app.derivation.run()
    return app


def engine(app: App) -> DuckStorage:
    """The engine underneath, for sabotage."""
    assert isinstance(app.storage, DuckStorage)
    return app.storage


def run_sql(app: App, *statements: str) -> None:
    """Tamper with the store; what it keeps in memory is read again."""
    storage: Any = app.storage
    if not isinstance(storage, DuckStorage):
        # Row-level security keeps to the tenant, of which a test has one for each memory.
        with storage.connection.open_writer() as writer:
            for statement in statements:
                writer.execute(statement)
            writer.head.resets += 1
        app.storage.drop_caches()
        return
    with engine(app).connection.begin_transaction() as con:
        for statement in statements:
            con.execute(statement)
    app.storage.drop_caches()


def one(app: App, sql: str) -> object:
    """One value."""
    connection: Any = app.storage.connection  # type: ignore[attr-defined]
    fetch = connection.fetch_row if hasattr(connection, "fetch_row") else connection.row
    row = fetch(sql)
    assert row is not None
    return row[0]


def findings(app: App) -> list[Finding]:
    """What check() says."""
    return check_store(app.storage, Calendar(app.storage.timezone))


def rebuild(app: App, timezone: str | None = None) -> RebuildReport:
    """Derive everything again."""
    return TocRebuild(app.storage, Calendar(app.storage.timezone), app.summarizer, app.settings.toc).run(timezone)


def term_sets(app: App) -> dict[str, frozenset[int]]:
    """Stored term rows of every node, united."""
    ids = [n.node_id for n in app.storage.toc.iter_nodes()]
    rows = app.storage.toc.get_term_sets(ids)
    return {i: frozenset(int(h) for row in parts for h in np.frombuffer(row, "<u4")) for i, parts in rows.items()}


def frequencies(app: App) -> dict[tuple[str, int], int]:
    """Document frequencies, folded."""
    total: dict[tuple[str, int], int] = {}
    for project, hashes, counts in app.storage.toc.list_frequencies():
        for h, n in zip(np.frombuffer(hashes, "<u4"), np.frombuffer(counts, "<i4"), strict=True):
            total[project, int(h)] = total.get((project, int(h)), 0) + int(n)
    return {key: n for key, n in total.items() if n}


def texts(app: App) -> dict[str, object]:
    """Everything derived that a reader can meet, without version and build numbers."""
    return {
        "nodes": {
            n.node_id: (
                *(n.title, n.summary, n.keywords, n.start_ms, n.end_ms, n.salience, n.author),
                *(n.session_count, n.event_count, n.agents, n.projects),
                *((b.text, b.grip_ids, b.kind) for b in n.bullets),
            )
            for n in app.storage.toc.iter_nodes()
        },
        "cuts": [(c.node_id, c.start, c.end, c.events, c.tokens, c.open) for c in app.storage.toc.iter_cuts()],
        "grips": sorted(g.grip_id for batch in app.storage.grips.iter_all() for g in batch),
        "terms": term_sets(app),
        "frequencies": frequencies(app),
    }
