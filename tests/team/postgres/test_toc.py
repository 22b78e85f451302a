"""What the tree in PostgreSQL does that no engine of one process has to: other processes publish too, and rows have owners."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from memory_mcp.base.errors import Busy, StorageError
from memory_mcp.model.calendar import TocLevel
from memory_mcp.model.ids import NodeId, node_key
from memory_mcp.model.toc import TocBullet
from memory_mcp.storage.opening import OpenOptions
from memory_mcp.storage.values import Build, Scope, TermDelta
from memory_mcp_team.postgres.connection import Connection
from memory_mcp_team.postgres.database import Binding
from memory_mcp_team.postgres.records import PostgresGrips
from memory_mcp_team.postgres.store import PostgresStorage, open_storage
from memory_mcp_team.postgres.toc import PostgresToc
from tests.factories import BILLING, SHOP, cut, event, grip, node, run_of
from tests.fakes import FakeClock
from tests.postgres import Cluster

Two = tuple[PostgresStorage, PostgresStorage]
DAY = NodeId("toc:day:2026-01-12")
EVERY = ("0000", "9999-99")


@pytest.fixture(scope="module")
def database_url(cluster: Cluster) -> str:
    """A database that no other file's memories are in."""
    return cluster.create()


@pytest.fixture
def two(database_url: str, request: pytest.FixtureRequest) -> Iterator[Two]:
    """One memory, opened as two processes would."""
    opening = OpenOptions(None, "Europe/Berlin", url=database_url, tenant=request.node.name)
    one, other = open_storage(opening), open_storage(opening)
    yield one, other
    one.close()
    other.close()


def work(
    raw: "psycopg.Connection[tuple[object, ...]]", of: PostgresStorage, name: str, statement: str
) -> list[tuple[object, ...]]:
    """Run a statement on a claim of a memory, whichever process holds it."""
    given = {"tenant": of.connection.tenant, "space": of.connection.space, "name": name}
    where = "tenant = %(tenant)s AND space = %(space)s AND name = %(name)s"
    return raw.execute(statement.format(where=where).encode(), given).fetchall()


def test_a_build_under_a_claim_that_was_taken_over_is_refused_and_writes_nothing(two: Two, database_url: str) -> None:
    store, other = two
    (own,) = cut(events := run_of(3))
    store.events.append(events)
    before = other.outbox.read_after(0, 100)
    made = node(own.node_id, bullets=[TocBullet("b", (grip(events[0]).grip_id,))], at=own.start[0])
    build = Build(
        segments=(own,), nodes=(made,), grips=(grip(events[0]),), terms=(TermDelta(own.node_id, b"\1\0\0\0"),), derived_to=3
    )
    with psycopg.connect(database_url, autocommit=True) as raw, store.claims.hold_claim("derive"):
        work(raw, store, "derive", "UPDATE work SET epoch = epoch + 1 WHERE {where} RETURNING epoch")
        with pytest.raises(Busy):
            store.toc.publish_build(build)
    for seen in two:
        assert (seen.outbox.read_after(0, 100), seen.outbox.get_checkpoint("deriver")) == (before, 0)
        assert (list(seen.toc.iter_cuts()), seen.toc.get_nodes([own.node_id]), seen.toc.get_term_sets([own.node_id])) == (
            [],
            {},
            {},
        )
        assert seen.grips.grips_by_event([events[0].event_id]) == {}
    with store.claims.hold_claim("derive"):
        store.toc.publish_build(build)
    assert other.outbox.get_checkpoint("deriver") == 3


def test_a_claim_is_not_taken_over_between_the_check_and_the_commit(two: Two, database_url: str) -> None:
    store, _ = two
    take = "SELECT epoch FROM work WHERE {where} FOR UPDATE NOWAIT"
    with psycopg.connect(database_url, autocommit=True) as raw, store.claims.hold_claim("derive"):
        with store.connection.open_writer(), pytest.raises(psycopg.errors.LockNotAvailable):
            work(raw, store, "derive", take)
        assert len(work(raw, store, "derive", take)) == 1


def seen(store: PostgresStorage) -> dict[str, object]:
    """What is read of the cuts and of the stamps of their nodes, by every way."""
    store.connection.expire_head()
    cuts = store.toc.list_segments(Scope())
    streams = {cut.stream for cut in cuts}
    return {
        "cuts": cuts,
        "by key": store.toc.get_segments([cut.key for cut in cuts]),
        "of the shop": store.toc.list_segments(Scope(SHOP)),
        "by agent": store.toc.list_segments(Scope(agent="codex")),
        "by day": store.toc.list_day_segments(*EVERY, None),
        "by stream": sorted((c for own in store.toc.get_cuts(streams).values() for c in own), key=lambda c: c.start),
        "days": (store.toc.count_segments_by_day(), store.toc.count_segments_by_day(BILLING)),
        "span": (store.toc.list_days(None, *EVERY), store.toc.list_days(SHOP, *EVERY)),
        "tally": (
            store.toc.tally_days(*EVERY, None),
            store.toc.tally_days(*EVERY, SHOP),
            store.toc.tally_days("2026-01-13", "2026-01-14", None),
        ),
        "stamps": store.toc.get_stamps([*(cut.node_id for cut in cuts), DAY]),
        "pins": store.toc.list_pins(),
        "nodes": store.toc.get_nodes([*(cut.node_id for cut in cuts), DAY]),
    }


def test_what_one_process_writes_another_reads_however_often_it_has_read_before(two: Two) -> None:
    store, other = two
    (first,) = cut(run_of(3, session="a"))
    (second,) = cut(run_of(4, start="2026-01-13 09:00", session="b", project=BILLING, agent="codex"))
    (grown,) = cut(run_of(9, session="a"))
    at = node(first.node_id, at=first.start[0])
    writes: list[Callable[[], object]] = [
        lambda: store.toc.publish_build(Build(segments=(first,), nodes=(at,), terms=(TermDelta(first.node_id, b"\1\0\0\0"),))),
        lambda: store.toc.publish_build(
            Build(segments=(second,), nodes=(node(second.node_id, at=second.start[0], projects=[BILLING]),))
        ),
        lambda: store.toc.publish_build(Build(nodes=(node(),))),
        lambda: store.toc.publish_build(Build(segments=(grown,), nodes=(replace(at, version=2),))),
        lambda: store.toc.publish_build(Build(count_updates=(replace(node(), session_count=7, event_count=70),))),
        lambda: store.toc.set_pin(DAY, True, "agent"),
        # Repairs, which publish no node.
        lambda: store.toc.publish_build(Build(segments=(replace(grown, tokens=5),))),
        lambda: store.toc.publish_build(Build(terms=(TermDelta(first.node_id, b"\2\0\0\0"),), reset_terms=(first.node_id,))),
        lambda: store.toc.replace_cuts([replace(grown, events=2)], {}),
        lambda: store.toc.move_segments({first.key: "2026-01-11"}),
        lambda: store.toc.replace_cuts([], {second.node_id: first.node_id}),
        lambda: store.toc.drop_nodes([first.node_id, DAY]),
    ]
    states = [seen(other)]
    for write in writes:
        write()
        states.append(seen(other))
        assert states[-1] != states[-2]
        assert states[-1]["cuts"] == states[-1]["by day"] == states[-1]["by stream"]
        other.drop_caches()
        assert states[-1] == seen(other) == seen(store)


def test_a_memory_of_too_many_segments_to_keep_is_read_all_the_same(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = two
    cuts = [c for at, session in ((12, "a"), (13, "b")) for c in cut(run_of(3, start=f"2026-01-{at} 09:00", session=session))]
    cuts += cut(run_of(2, start="2026-01-13 12:00", session="c", project=BILLING, agent="codex"))
    store.toc.publish_build(Build(segments=tuple(cuts), nodes=tuple(node(c.node_id, at=c.start[0]) for c in cuts)))
    kept = seen(store)
    monkeypatch.setattr("memory_mcp_team.postgres.cache.MAX_CUTS", 2)
    assert seen(other) == kept


def test_the_last_versions_of_a_node_stay_in_the_tables_and_one_of_them_is_read(two: Two) -> None:
    store, other = two
    for version in range(1, 9):
        store.toc.publish_build(Build(nodes=(node(title=f"title {version}", version=version),)))
    sql = "SELECT version, current FROM node WHERE tenant = %(tenant)s AND space = %(space)s AND key = %(key)s ORDER BY version"
    rows = store.connection.rows(sql, key=node_key(DAY))
    assert rows == [(version, version == 8) for version in (5, 6, 7, 8)]
    found = other.toc.find_node(DAY)
    assert found is not None
    assert (found.title, other.toc.list_ids(TocLevel.DAY)) == ("title 8", [DAY])


def test_a_member_without_a_grant_reads_nothing_of_the_tree_and_a_reader_writes_nothing(two: Two) -> None:
    store, _ = two
    said = event("keep it")
    mine = grip(said)
    store.toc.publish_build(Build(nodes=(node(bullets=[TocBullet("b", (mine.grip_id,))]),), grips=(mine,)))
    con = store.connection
    with con.database.lend_connection(Binding(con.tenant)) as raw:
        row = "INSERT INTO space_grant (tenant, space, member, role) VALUES (%s, %s, %s, %s)"
        raw.execute(row, [con.tenant, con.space, 1, "reader"])
    stranger, reader = (Connection(con.database, con.tenant, con.space, member) for member in (2, 1))
    for whose, expected in ((stranger, {}), (reader, store.toc.get_nodes([DAY]))):
        toc = PostgresToc(whose, FakeClock())
        assert toc.get_nodes([DAY]) == expected
        assert set(PostgresGrips(whose).get_grips([mine.grip_id])) == ({mine.grip_id} if expected else set())
        with pytest.raises(StorageError):
            toc.publish_build(Build(nodes=(node(title="another", version=2),)))
    found = store.toc.find_node(DAY)
    assert found is not None
    assert found.version == 1
