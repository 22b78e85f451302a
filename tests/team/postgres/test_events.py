"""What is peculiar to events in PostgreSQL: several processes, row-level security, broken connections, no locale to lean on."""

import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest

from memory_mcp.base.errors import StorageError
from memory_mcp.model.event import Event
from memory_mcp.storage.values import Scope, WriteRequest
from memory_mcp_team.errors import StorageAway
from memory_mcp_team.postgres import migrations
from memory_mcp_team.postgres.connection import EVENTS, own
from memory_mcp_team.postgres.database import Binding, Database
from memory_mcp_team.postgres.memories import TEAM, Memory, make_space, make_tenant
from memory_mcp_team.postgres.store import PostgresStorage
from tests.factories import event, run_of
from tests.postgres import Cluster
from tests.waiting import PATIENCE

_BATCHES, _SIZE = 30, 6
Opened = Callable[..., PostgresStorage]


@pytest.fixture(scope="module")
def url(cluster: Cluster) -> str:
    made = cluster.create()
    database = Database(made)
    migrations.migrate_schema(database)
    database.close()
    return made


@pytest.fixture
def memory(url: str, request: pytest.FixtureRequest) -> Memory:
    database = Database(url)
    made = make_space(database, make_tenant(database, request.node.name), "default", TEAM, "UTC")
    database.close()
    return made


@pytest.fixture
def opened(url: str, memory: Memory) -> Iterator[Opened]:
    """Open the memory as another process would, with a pool of its own."""
    several: list[PostgresStorage] = []

    def opening(member: int = 0, of: Memory = memory) -> PostgresStorage:
        several.append(PostgresStorage(Database(url), of, member, owns_database=True))
        return several[-1]

    yield opening
    for one in several:
        one.close()


def grant(url: str, memory: Memory, member: int, role: str) -> None:
    database = Database(url)
    with database.lend_connection(Binding(memory.tenant)) as raw:
        raw.execute("INSERT INTO space_grant VALUES (%s, %s, %s, %s)", [memory.tenant, memory.space, member, role])
    database.close()


def batches(name: str) -> list[list[Event]]:
    """What one writer appends; half of each batch is in the other writers' too."""
    made = []
    for number in range(_BATCHES):
        start = 1_760_000_000_000 + number * 3_600_000
        # Each session has words of its own: what begins alike is a copy.
        shared = run_of(_SIZE // 2, start=start, words=number, session=f"shared {number}")
        made.append([*shared, *run_of(_SIZE // 2, start=start, words=number + len(name) * _BATCHES, session=f"{name} {number}")])
    return made


def write(url: str, memory: Memory, name: str, told: "multiprocessing.Queue[int]") -> None:
    """Append one batch after the other, in a process of its own; tells how many events were new."""
    store = PostgresStorage(Database(url), memory, owns_database=True)
    told.put(sum(len(store.events.append(batch).new_ids) for batch in batches(name)))
    store.close()


def test_two_processes_number_what_they_append_without_gaps_and_in_the_order_of_commits(
    url: str, memory: Memory, opened: Opened
) -> None:
    spawning = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[int] = spawning.Queue()
    writers = [spawning.Process(target=write, args=(url, memory, name, told)) for name in ("one", "other")]
    for writer in writers:
        writer.start()
    follower, seen = opened(), list[str]()
    gaps = []
    while any(writer.is_alive() for writer in writers):
        # A number that was committed behind a higher one would be missing here.
        found = follower.events.read_after(len(seen), 1000)
        gaps += [s.seq for place, s in enumerate(found, len(seen) + 1) if s.seq != place]
        seen += [s.event.event_id for s in found]
    for writer in writers:
        writer.join(PATIENCE)
    assert [writer.exitcode for writer in writers] == [0, 0]
    stored = opened().events.read_after(0, 10_000)
    ids = [s.event.event_id for s in stored]
    wanted = {e.event_id for name in ("one", "other") for batch in batches(name) for e in batch}
    assert gaps == []
    assert ids[: len(seen)] == seen
    assert [s.seq for s in stored] == list(range(1, len(wanted) + 1))
    assert (set(ids), sum(told.get(timeout=PATIENCE) for _ in writers)) == (wanted, len(wanted))
    changes = opened().outbox.read_after(0, 10_000)
    assert [c.seq for c in changes] == list(range(1, len(changes) + 1))
    assert [int(c.subject) for c in changes] == sorted(int(c.subject) for c in changes)


def test_what_another_process_stored_is_known_its_answers_are_repeated_and_its_messages_are_paired(opened: Opened) -> None:
    one, other = opened(), opened()
    own = run_of(3)
    assert other.events.last_seq() == 0
    one.events.append(own, WriteRequest("key", "the answer"))
    assert other.events.append(own).known_ids == tuple(e.event_id for e in own)
    assert other.events.append([event("another")], WriteRequest("key", "x")).replayed_answer == "the answer"
    (variant,) = other.events.append([replace(own[0], text="other words")]).new_ids
    assert one.events.append([replace(own[0], text="other words")]).known_ids == (variant,)
    hook = replace(event(own[1].text, at=own[1].timestamp + 900, source_id="of the hook"), source="hook:test")
    other.events.append([hook])
    assert one.events.find_duplicates([hook.event_id]) == {hook.event_id: own[1].event_id}
    assert hook not in one.events.list_events(Scope())


def test_a_large_append_is_stored_whole_and_known_when_it_comes_again(opened: Opened) -> None:
    own = run_of(700)
    several = [replace(e, text=e.text + "\t\\N \\. \n", speaker="\\") for e in own]
    store = opened()
    assert len(store.events.append(several).new_ids) == 700
    assert [s.event for s in store.events.read_after(0, 1000)] == several
    assert store.events.append(several).new_ids == ()


def test_a_member_without_a_grant_sees_nothing_and_stores_nothing(url: str, memory: Memory, opened: Opened) -> None:
    own = run_of(3)
    opened().events.append(own)
    grant(url, replace(memory, space=memory.space + 1), 5, "admin")
    stranger = opened(member=5)
    ids = [e.event_id for e in own]
    assert (stranger.events.find_event(ids[0]), stranger.events.get_events(ids), stranger.events.last_seq()) == (None, {}, 0)
    assert (stranger.events.list_events(Scope()), stranger.events.read_after(0, 10), stranger.events.list_sessions(Scope())) == (
        [],
        [],
        [],
    )
    assert stranger.events.search_words(Scope(), ["step"], 5) == []
    assert stranger.events.get_span(Scope()) is None
    assert stranger.connection.rows("SELECT seq FROM event") == []
    with pytest.raises(StorageError):
        stranger.events.append([event("not mine")])
    assert [s.event for s in opened().events.read_after(0, 10)] == own


def test_a_reader_reads_and_a_writer_writes(url: str, memory: Memory, opened: Opened) -> None:
    own = run_of(700)
    grant(url, memory, 5, "reader")
    grant(url, memory, 6, "writer")
    assert len(opened(member=6).events.append(own).new_ids) == 700
    reader = opened(member=5)
    assert reader.events.list_events(Scope(), limit=1000) == own
    with pytest.raises(StorageError):
        reader.events.append([event("not mine")])
    assert reader.events.last_seq() == 700


def test_row_level_security_keeps_spaces_and_tenants_apart_where_a_statement_forgets_to(
    url: str, memory: Memory, opened: Opened
) -> None:
    database = Database(url)
    beside = make_space(database, memory.tenant, "beside", TEAM, "UTC")
    stranger = make_space(database, make_tenant(database, "a stranger"), "default", TEAM, "UTC")
    database.close()
    for number, one in enumerate((memory, beside, stranger)):
        opened(of=one).events.append([event(f"said in {number}")])
    grant(url, memory, 5, "reader")
    careless = "SELECT text FROM event ORDER BY text"
    assert opened(member=5).connection.rows(careless) == [("said in 0",)]
    assert opened().connection.rows(careless) == [("said in 0",), ("said in 1",)]


def test_an_append_whose_connection_is_killed_leaves_nothing_and_the_next_one_works(
    cluster: Cluster, url: str, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = run_of(300)
    store = opened()
    name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]

    def kill(point: str) -> None:
        if point == "events.before_commit":
            cluster.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")

    with monkeypatch.context() as patched:
        patched.setattr("memory_mcp_team.postgres.events.failpoint", kill)
        with pytest.raises(StorageAway):
            store.events.append(own, WriteRequest("key", "the answer"))
    assert opened().events.read_after(0, 10) == []
    assert opened().outbox.read_after(0, 10) == []
    appended = store.events.append(own, WriteRequest("key", "the answer"))
    assert (len(appended.new_ids), appended.replayed_answer) == (300, None)
    assert [s.seq for s in store.events.read_after(0, 1000)] == list(range(1, 301))
    assert store.events.append(own, WriteRequest("key")).replayed_answer == "the answer"


def test_an_append_makes_derivation_due_until_it_is_done(opened: Opened) -> None:
    store = opened()
    due = f"SELECT due_ms FROM work WHERE {own()} AND name = '{EVENTS}'"
    store.events.append([])
    assert store.connection.rows(due) == []
    one, two = run_of(2)
    store.events.append([one])
    ((first,),) = store.connection.rows(due)
    store.events.append([two])
    assert store.connection.rows(due) == [(first,)]
    with store.connection.open_writer() as writer:
        writer.execute(f"UPDATE work SET due_ms = NULL WHERE {own()}")
    store.events.append([two])
    assert store.connection.rows(due) == [(None,)]
    store.events.append([event("once more", at=two.timestamp + 1)])
    assert store.connection.rows(due)[0][0] >= first


@pytest.mark.parametrize("text", ["größe", "GRÖSSE", "ÉTÉ", "été à", "ΣΊΣΥΦΟΣ", "50% _rest", "a.b", "\\d"])
def test_texts_are_found_in_either_case_whatever_the_locale(opened: Opened, text: str) -> None:
    """The cluster's locale is C, whose `lower` knows ASCII alone."""
    store = opened()
    said = [
        "die Größe",
        "DIE GRÖSSE",
        "L'Été\u0020\n À la mer",
        "σίσυφοσ",
        "about 50%\t_REST of it",
        "x A.B y",
        "the \\D class",
        "axb 5",
    ]
    store.events.append([event(words, session=words) for words in said])
    wanted = {
        "größe": [0], "GRÖSSE": [1], "ÉTÉ": [2], "été à": [2], "ΣΊΣΥΦΟΣ": [3], "50% _rest": [4], "a.b": [5], "\\d": [6],
    }  # fmt: skip
    found = store.events.search_words(Scope(), [text], 10)
    assert [e.session_id for e in found] == [said[place] for place in wanted[text]]
    if len(text.split()) == 1:
        places = store.events.rank_positions(Scope(), {text.lower(): 1.0}, 10)[1]
        assert [p.stream for p in places] == [e.stream for e in found]
