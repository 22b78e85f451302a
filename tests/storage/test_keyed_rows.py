"""The keyed copy of rows: the same answers as from the store, whatever happened to it, and nothing of what was forgotten."""

import math
import random
import shutil
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.config import Settings
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import Event, ExcludedSession
from memory_mcp.model.ids import EventId, event_id, event_key, make_key, short_grip
from memory_mcp.model.segment import Segment
from memory_mcp.requests.plain import as_json
from memory_mcp.requests.registry import answer
from memory_mcp.requests.scope import Caller
from memory_mcp.requests.search import SearchRequest
from memory_mcp.storage.base import Storage
from memory_mcp.storage.duckdb import events as duck_events
from memory_mcp.storage.duckdb import keyed_rows, open_storage, text_search
from memory_mcp.storage.duckdb.deferred import DeferredWrites
from memory_mcp.storage.duckdb.keyed_file import EVENTS, NODES, PAIRS, KeyedFile
from memory_mcp.storage.duckdb.keyed_rows import PATH, KeyedRows
from memory_mcp.storage.duckdb.store import DuckStorage
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Build, Scope
from tests.factories import a_small_history, draft, event, run_of
from tests.fakes import FakeClock
from tests.filled import filled
from tests.waiting import together
from tests.work import asked_of_the_store

HISTORY = [
    *a_small_history(2),
    draft("Über Straße: die 重试队列 wird zweimal geleert\n\tund  dann   neu gefüllt", at="2026-01-29 10:00", session="signs"),
    draft("ÜBER STRASSE oder über straße, K und ſ", at="2026-01-29 10:01", session="signs"),
]
#: An answer to a person has to read as much.
NEIGHBOURS = 6


def never() -> bool:
    return False


def read_by_key(storage: Storage, seed: int = 1) -> dict[str, object]:
    """Everything that is read by key, of some rows of each kind and of what does not exist."""
    rng = random.Random(seed)
    events = [stored.event for batch in storage.events.iter_all() for stored in batch]
    grips = [grip for batch in storage.grips.iter_all() for grip in batch]
    segments = list(storage.toc.iter_cuts())
    nodes = list(storage.toc.iter_nodes())
    some_events, some_grips = rng.sample(events, min(25, len(events))), rng.sample(grips, min(25, len(grips)))
    some_nodes = [node.node_id for node in rng.sample(nodes, min(20, len(nodes)))]
    ids = [event.event_id for event in some_events]
    questions = [_make_question(rng, event, segments) for event in (*some_events, *some_events)]
    return {
        "events": storage.events.get_events([*ids, EventId("01ARZ3NDEKTSV4RRFFQ69G5FAV")]),
        "each": [storage.events.find_event(i) for i in ids],
        "neighbours": [storage.events.get_neighbours(e, NEIGHBOURS, NEIGHBOURS) for e in some_events],
        "texts": [storage.events.search_words(*question) for question in questions],
        "pairs": storage.events.find_duplicates(ids),
        "grips": storage.grips.get_grips([g.grip_id for g in some_grips]),
        "grip": [storage.grips.find_grip(short_grip(g.grip_id)) for g in some_grips],
        "by event": storage.grips.grips_by_event(ids),
        "of segments": storage.events.events_by_segment(rng.sample(segments, min(20, len(segments)))),
        "segments": storage.toc.get_segments([s.key for s in rng.sample(segments, min(20, len(segments)))]),
        "heads": storage.toc.get_heads(some_nodes),
        "nodes": storage.toc.get_nodes(some_nodes),
        "builds": storage.toc.get_builds(some_nodes),
    }


def _make_question(
    rng: random.Random, event: Event, segments: Sequence[Segment]
) -> tuple[Scope, list[str], int, Sequence[Segment] | None]:
    """A piece of a text, two words of it, or words that are nowhere; anywhere, in a scope, or in some segments."""
    start = rng.randrange(max(1, len(event.text) - 12))
    piece = rng.choice([event.text[start : start + rng.randint(2, 12)].swapcase(), "no such words", "ÜBER\u2003Straße 重试队列"])
    words = [piece.strip() or "the", *rng.sample(event.text.split(), rng.randint(0, 1))]
    scopes = [
        Scope(),
        Scope(project=event.project),
        Scope(role=event.role.value, speaker=event.speaker.upper()),
        Scope(agent=event.agent, window=TimeWindow(event.timestamp - 86_400_000, event.timestamp + 1)),
        Scope(excluded=frozenset({ExcludedSession(event.session_id, event.timestamp)})),
    ]
    return rng.choice(scopes), words, rng.choice([1, 5, 50]), rng.choice([None, rng.sample(segments, min(9, len(segments)))])


def read_from_the_store(directory: Path, aside: Path) -> dict[str, object]:
    """The same of a closed memory without its copy."""
    shutil.copytree(directory, aside, ignore=shutil.ignore_patterns("indexes"))
    storage = open_storage(aside)
    try:
        return read_by_key(storage)
    finally:
        storage.close()


def open_app(settings: Settings) -> App:
    return App(settings, FakeClock())


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return filled(tmp_path / "data", HISTORY)


def hooked(events: list[Event]) -> list[Event]:
    """The same messages as a hook has them: each is stored, and hidden."""
    moved = [run_of(1, start=e.timestamp + 700, source_id=f"hook {e.event_id}")[0].event_id for e in events]
    return [replace(e, event_id=i, source="hook:test") for e, i in zip(events, moved, strict=True)]


def test_rows_are_read_from_the_copy_and_are_those_of_the_store(settings: Settings, tmp_path: Path) -> None:
    storage = open_storage(settings.storage.directory)
    assert storage.copy_rows(never) > 100
    assert storage.copy_rows(never) == 0
    copied = read_by_key(storage)
    event = next(iter(storage.events.iter_all()))[5].event
    storage.events.drop_recent()
    cuts = storage.toc.get_cuts([event.stream])[event.stream][:1]
    with asked_of_the_store() as read:
        storage.events.get_neighbours(event, 3, 3)
        storage.events.get_events([event.event_id])
        storage.events.find_duplicates([event.event_id])
        storage.grips.grips_by_event([event.event_id])
        storage.events.search_words(Scope(), ["retry queue"], 1, cuts)
        storage.events.search_words(Scope(window=TimeWindow(event.timestamp, event.timestamp + 1)), ["retry queue"], 1)
    assert read.statements == []
    storage.close()
    assert copied == read_from_the_store(settings.storage.directory, tmp_path / "plain")


def test_words_that_the_copy_knows_are_read_at_once_and_those_in_more_messages_by_slices_of_time(settings: Settings) -> None:
    app = open_app(settings)
    said = next(iter(app.storage.events.iter_all()))[5].event.text
    app.write([draft("The allocator calls reallocPagesNow before every flush.", at="2026-02-01 10:00")], "test")
    app.derivation.run()
    words = ([said[1:20].strip()], ["llocpag"], ["retry"], ["queue", "retry"], ["nowhere at all"])

    def read(limit: int) -> list[list[str] | None]:
        found = [app.storage.events.read_words(Scope(), texts).find_all(limit) for texts in words]
        return [None if events is None else [event.event_id for event in events] for events in found]

    def search() -> tuple[object, int]:
        told = as_json(answer(app, SearchRequest(query='"llocPag"', scope="all", detail="full"), Caller("")))
        return told["results"], told["explanation"]["scan"]["slices"]

    by_slices, slices = search()
    usual = [[event.event_id for event in app.storage.events.search_words(Scope(), texts, 500)] for texts in words]
    assert read(500) == [None] * len(words)
    app.storage.copy_rows(never)
    assert [few for few in read(500) if few is not None] == [all_found for all_found in usual if len(all_found) < 500]
    assert read(1) == [None if all_found else [] for all_found in usual]
    assert search() == (by_slices, slices > 1)
    app.close()


def test_a_text_that_most_groups_may_hold_is_read_at_once_unless_events_are_very_many(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app(settings)
    app.storage.copy_rows(never)
    usual = app.storage.events.search_words(Scope(), ["retry"], 500)
    monkeypatch.setattr(text_search, "_TRIAL", 0)
    monkeypatch.setattr(text_search, "_MOST_GROUPS", -1)
    assert usual
    assert app.storage.events.read_words(Scope(), ["retry"]).find_all(500) == usual
    assert app.storage.events.read_words(Scope(), ["retry"]).find_all(len(usual)) is None
    monkeypatch.setattr(duck_events, "_READ_AT_ONCE", 1)
    assert app.storage.events.read_words(Scope(), ["retry"]).find_all(500) is None
    assert app.storage.events.search_words(Scope(), ["retry"], 500) == usual
    app.close()


@pytest.mark.parametrize("most_kept", [100, 2])
@pytest.mark.parametrize("reads_all", [False, True])
def test_words_looked_for_in_segments_and_then_everywhere_are_found_as_by_two_searches(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, reads_all: bool, most_kept: int
) -> None:
    app = open_app(settings)
    events, segments = app.storage.events, list(app.storage.toc.iter_cuts())
    questions = [
        (words, some, limit)
        for words in (["retry"], ["queue", "retry"], ["nowhere at all"])
        for some in (segments[:1], segments[::2])
        for limit in (1, 2, 5, 50)
    ]
    inside = [events.search_words(Scope(), words, limit, some) for words, some, limit in questions]
    everywhere = [events.search_words(Scope(), words, limit) for words, _, limit in questions]
    assert any(map(len, inside))
    app.storage.copy_rows(never)
    monkeypatch.setattr(text_search, "_MOST_KEPT", most_kept)
    monkeypatch.setattr(text_search, "_FEW_GROUPS", 0)
    if reads_all:
        monkeypatch.setattr(text_search, "_TRIAL", 0)
        monkeypatch.setattr(text_search, "_MOST_GROUPS", -1)
    for (words, some, limit), in_segments, in_all in zip(questions, inside, everywhere, strict=True):
        for is_followed in (False, True):
            reading = events.read_words(Scope(), words)
            assert reading.list_newest(limit, some, is_followed=is_followed) == in_segments
            assert reading.find_all(limit) == (None if len(in_all) == limit else in_all)
    app.close()


def test_the_copy_follows_what_is_written_and_is_there_after_a_restart(settings: Settings, tmp_path: Path) -> None:
    app = open_app(settings)
    app.storage.copy_rows(never)
    app.write(a_small_history(1, first="2026-02-09", seed=2), "test")
    app.derivation.run()
    later = run_of(12, start="2026-02-20 09:00", session="late")
    app.storage.events.append(later)
    app.storage.events.append(hooked(later))
    app.derivation.run()
    copied = read_by_key(app.storage)
    app.close()
    assert copied == read_from_the_store(settings.storage.directory, tmp_path / "plain")
    again = open_storage(settings.storage.directory)
    # Nothing but the events that no read has asked for.
    assert again.copy_rows(never) <= sum(len(batch) for batch in again.events.iter_all())
    assert read_by_key(again) == copied
    again.close()


def test_old_events_are_read_from_the_copy_while_many_arrive(settings: Settings) -> None:
    storage = open_storage(settings.storage.directory)
    storage.copy_rows(never)
    event = next(iter(storage.events.iter_all()))[5].event
    arrivals = run_of(300, start="2026-02-20 09:00", session="late")
    storage.events.append(arrivals)
    storage.events.drop_recent()
    with asked_of_the_store() as read:
        assert storage.events.get_events([event.event_id]) == {event.event_id: event}
    assert read.statements == []
    ids = [event.event_id, arrivals[-1].event_id]
    assert list(storage.events.get_events(ids)) == ids
    storage.close()


def test_quiet_streams_and_words_are_read_from_the_copy_while_many_events_arrive(settings: Settings) -> None:
    storage = open_storage(settings.storage.directory)
    storage.copy_rows(never)
    event = next(iter(storage.events.iter_all()))[5].event
    neighbours, cuts = storage.events.get_neighbours(event, 3, 3), storage.toc.get_cuts([event.stream])[event.stream][:1]
    storage.events.append(run_of(300, start="2026-02-20 09:00", session="late"))
    with asked_of_the_store() as read:
        assert storage.events.get_neighbours(event, 3, 3) == neighbours
        assert len(storage.events.events_by_segment(cuts)[cuts[0].key]) == cuts[0].events
    assert read.statements == []
    with asked_of_the_store() as read:
        found = storage.events.search_words(Scope(), ["step 299"], 5)
        older = storage.events.search_words(Scope(), [event.text[1:20].strip()], 5)
    assert [found[0].text[:8], len(older) > 0] == ["step 299", True]
    # Of the texts only those that are not in the copy yet.
    assert all("WHERE seq > ?" in sql for sql in read.statements)
    storage.close()


@pytest.mark.parametrize("seed", range(3))
def test_what_is_read_by_key_while_many_events_arrive_is_that_of_the_store(settings: Settings, tmp_path: Path, seed: int) -> None:
    """They come into new streams, into stored ones, and as copies of stored events and of each other."""
    storage = open_storage(settings.storage.directory)
    storage.copy_rows(never)
    rng = random.Random(seed)
    stored = [stored.event for batch in storage.events.iter_all() for stored in batch]
    some = rng.sample(stored, 40)
    copies = [replace(e, source_id=f"again {e.event_id}", session_id=f"again {e.session_id}") for e in rng.sample(stored, 40)]
    arrivals = run_of(260, start="2026-02-20 09:00", session="late")
    joined = [replace(e, session_id=o.session_id, thread=o.thread) for e, o in zip(arrivals[:20], some, strict=False)]
    moved = [replace(e, event_id=event_id(e.timestamp, "again", e.source_id)) for e in copies]
    for events in (arrivals[20:], moved, hooked(some), joined):
        storage.events.append(events)
    lagging = read_by_key(storage)
    storage.close()
    assert lagging == read_from_the_store(settings.storage.directory, tmp_path / "plain")


def test_reads_go_on_between_the_slices_in_which_events_are_copied(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_storage(settings.storage.directory)
    storage.copy_rows(never)
    event = next(iter(storage.events.iter_all()))[5].event
    neighbours = storage.events.get_neighbours(event, 3, 3)
    sizes, reads, add_events = list[int](), list[object](), KeyedRows._add_events

    def add_slice(rows: KeyedRows, file: KeyedFile, some: Sequence[Any], to: int) -> None:
        add_events(rows, file, some, to)
        sizes.append(len(some))
        reads.append(file.read_neighbours(event.stream, (event.timestamp, event_key(event.event_id)), True, 1, 0))

    monkeypatch.setattr(keyed_rows, "_LIKELY", math.inf)
    monkeypatch.setattr(KeyedRows, "_add_events", add_slice)
    storage.events.append(run_of(300, start="2026-02-20 09:00", session="late"))
    assert storage.events.get_neighbours(event, 3, 3) == neighbours
    assert storage.copy_rows(never) >= 250
    assert max(sizes) < 250
    assert all(reads)
    assert storage.events.get_neighbours(event, 3, 3) == neighbours
    storage.close()


def test_a_copy_of_another_time_is_noticed(settings: Settings, tmp_path: Path) -> None:
    """A process that is killed leaves an old copy; so does somebody who puts a database back."""
    directory = settings.storage.directory
    app = open_app(settings)
    app.storage.copy_rows(never)
    app.close()
    shutil.copy(directory / PATH, tmp_path / "old")
    app = open_app(settings)
    app.write(a_small_history(1, first="2026-02-09", seed=2), "test")
    app.derivation.run()
    app.close()
    (directory / PATH).unlink(missing_ok=True)
    shutil.copy(tmp_path / "old", directory / PATH)
    storage = open_storage(directory)
    assert storage.copy_rows(never) > 0
    copied = read_by_key(storage)
    storage.close()
    assert copied == read_from_the_store(directory, tmp_path / "plain")


def copy_as_killed(directory: Path, target: Path) -> Path:
    """What a process that is killed now leaves behind."""
    return shutil.copytree(directory, target, ignore=shutil.ignore_patterns("lock", "*.sock"))


def make_counts(storage: Storage, more: int) -> Build:
    """A build of other counts of periods alone, which takes no number of a change."""
    days = [node for node in storage.toc.iter_nodes() if node.level is TocLevel.DAY]
    return Build(count_updates=tuple(replace(node, event_count=node.event_count + more) for node in days))


def test_new_counts_alone_are_those_of_the_store_after_a_kill(settings: Settings, tmp_path: Path) -> None:
    storage = open_storage(settings.storage.directory)
    assert storage.copy_rows(never) > 0
    build = make_counts(storage, 7)
    version = storage.toc.current_version()
    storage.toc.publish_build(build)
    assert storage.toc.current_version() == version
    killed = copy_as_killed(settings.storage.directory, tmp_path / "killed")
    storage.close()
    for _ in range(2):
        again = open_storage(killed)
        again.copy_rows(never)
        ids = [node.node_id for node in build.count_updates]
        assert {i: n.event_count for i, n in again.toc.get_nodes(ids).items()} == {
            node.node_id: node.event_count for node in build.count_updates
        }
        again.close()


def test_a_copy_that_was_closed_is_read_again_and_after_a_kill_filled_again(settings: Settings, tmp_path: Path) -> None:
    directory = settings.storage.directory
    storage = open_storage(directory)
    rows = storage.copy_rows(never)
    killed = copy_as_killed(directory, tmp_path / "killed")
    storage.close()
    closed, left = open_storage(directory), open_storage(killed)
    events = sum(len(batch) for batch in left.events.iter_all())
    assert closed.copy_rows(never) == 0
    # Events have sums of their own.
    assert left.copy_rows(never) == rows - events
    assert read_by_key(left) == read_by_key(closed)
    closed.close()
    left.close()


def test_what_is_committed_while_a_table_becomes_whole_is_in_the_copy(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = open_storage(settings.storage.directory)
    build, take_pending = make_counts(storage, 7), KeyedRows._take_pending
    published: list[int] = []

    def publish_meanwhile(rows: KeyedRows, file: KeyedFile, table: str, *limit: int) -> None:
        if table == NODES and not published:
            writer = threading.Thread(target=lambda: published.append(storage.toc.publish_build(build)))
            writer.start()
            writer.join()
        take_pending(rows, file, table, *limit)

    monkeypatch.setattr(KeyedRows, "_take_pending", publish_meanwhile)
    storage.copy_rows(never)
    assert len(published) == 1
    storage.toc.drop_caches()
    for node in build.count_updates:
        assert storage.toc.get_nodes([node.node_id])[node.node_id].event_count == node.event_count
    storage.close()


def test_rows_that_wait_together_are_taken_in_one_after_another(tmp_path: Path) -> None:
    file = KeyedFile(tmp_path / "indexes" / "rows.sqlite")
    file.add_rows(NODES, [(1, b"first"), (1, None), (1, b"again"), (2, b"gone"), (2, None)])
    assert file.read_values(NODES, [1, 2]) == [(1, b"again")]
    # What hides another is hidden itself by a third, with which the first is hidden too.
    file.add_rows(PAIRS, [(10, 20), (20, 30)])
    assert sorted(file.read_pairs([10, 20, 30])) == [(10, 30), (20, 30)]
    file.close()


@pytest.mark.parametrize("seed", range(6))
def test_damaged_bytes_cost_the_copy_and_no_answer(settings: Settings, tmp_path: Path, seed: int) -> None:
    directory = settings.storage.directory
    storage = open_storage(directory)
    storage.copy_rows(never)
    whole = read_by_key(storage)
    storage.close()
    rng, file = random.Random(seed), directory / PATH
    data = bytearray(file.read_bytes())
    for _ in range(40):
        at = rng.randrange(len(data) - 64)
        data[at : at + 64] = rng.randbytes(64)
    file.write_bytes(data if seed % 3 else data[: len(data) // 2])
    storage = open_storage(directory)
    for _ in range(2):
        storage.copy_rows(never)
        assert read_by_key(storage) == whole
    storage.close()


def test_a_folder_in_its_place_costs_the_copy_and_no_answer(settings: Settings) -> None:
    directory = settings.storage.directory
    (directory / PATH / "theirs").mkdir(parents=True)
    storage = open_storage(directory)
    assert storage.copy_rows(never) == 0
    assert read_by_key(storage)["events"]
    storage.close()
    assert (directory / PATH / "theirs").is_dir()


def test_what_is_forgotten_is_in_no_byte_of_the_copy(tmp_path: Path) -> None:
    app = App(Settings(storage=StorageSettings(str(tmp_path / "data"), "Europe/Berlin")), FakeClock())
    secret = "".join(random.Random(3).choices("abcdefghijkmnpqrstuvwxyz", k=40))
    app.write([replace(HISTORY[0], text=f"the word is {secret}"), *HISTORY[1:]], "test")
    app.derivation.run()
    app.storage.copy_rows(never)
    events = [stored.event for batch in app.storage.events.iter_all() for stored in batch]
    gone = {event.event_id for event in events if secret in event.text}

    class Cleaner:
        def clean_event(self, event: Event) -> Event | None:
            return None if event.event_id in gone else event

        def clean_text(self, text: str) -> str:
            return text

    quoted = [grip.grip_id for grips in app.storage.grips.grips_by_event(gone).values() for grip in grips]
    app.storage.drop_caches()
    app.storage.copy_rows(never)
    assert gone == set(app.storage.events.get_events(gone))
    assert set(quoted) == set(app.storage.grips.get_grips(quoted)) != set()
    app.storage.erase_forgotten(Cleaner())
    assert not (tmp_path / "data" / PATH).exists()
    app.storage.copy_rows(never)
    assert not app.storage.events.get_events(gone)
    assert not app.storage.grips.get_grips(quoted)
    copied = read_by_key(app.storage)
    app.close()
    assert copied == read_from_the_store(tmp_path / "data", tmp_path / "plain")


def test_blocks_of_every_dictionary_are_read_and_a_row_has_its_own_names(tmp_path: Path) -> None:
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdefghij", k=7)) for _ in range(2000)]

    def row_of(number: int) -> tuple[Any, ...]:
        # Few are of another agent than the first of their stream, or of another time than their key begins with.
        names = (f"session {number % 3}", "codex" if number % 50 == 49 else "claude-code", "/home/project", "")
        text = " ".join(rng.choices(words, k=rng.choice((3, 60, 900))))
        key = make_key(1_770_000_000_000 + number, rng.getrandbits(80))
        rest = ("", "user_message", "user", "user", "claude-code", f"source {number}", text, '{"tool":"Edit"}')
        return key, (key >> 80) + (number % 40 == 39), *names, *rest

    rows = [row_of(number) for number in range(1500)]
    file = KeyedFile(tmp_path / "indexes" / "rows.sqlite")
    for start in range(0, len(rows), 130):
        with file.begin_transaction():
            file.add_events([(number % 3, rows[number]) for number in range(start, min(start + 130, len(rows)))])
    file.close()
    file = KeyedFile(tmp_path / "indexes" / "rows.sqlite")
    assert len(file._con.execute("SELECT DISTINCT dictionary FROM block").fetchall()) > 2
    assert sorted(file.read_events(row[0] for row in rows)) == sorted(rows)
    for row in rng.sample(rows, 30):
        word = row[12].split()[0]
        groups = file.find_groups([word], None, None)
        assert groups is not None
        found = file.read_groups([number for number, _ in groups], [word.encode()])
        assert sorted(found) == sorted(other for other in rows if word in other[12])
    file.clear_table(EVENTS)
    assert file._con.execute("SELECT count(*) FROM dictionary").fetchone() == (0,)
    file.close()


def _make_rows(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    numbers = range(first, first + count)
    rest = ("s", "codex", "/p", "", "", "user_message", "user", "user", "codex")
    return [(make_key(1_770_000_000_000 + n, n), 1_770_000_000_000 + n, *rest, f"{n}", f"text {n}", "{}") for n in numbers]


def test_what_is_written_in_parts_is_committed_together_and_a_part_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    path = tmp_path / "indexes" / "rows.sqlite"
    file, rows = KeyedFile(path), _make_rows(3)
    log = path.with_name("rows.sqlite-wal")
    file.write_meta("some", 1)
    written = log.stat().st_size
    for row in rows:
        with file.begin_transaction():
            file.add_events([(1, row)])
        assert log.stat().st_size == written

    def fail() -> None:
        with file.begin_transaction():
            file.add_events([(1, row) for row in _make_rows(2, 3)])
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert file.read_events(row[0] for row in (*rows, *_make_rows(2, 3))) == rows
    # As a kill finds it: as if none of them had been written.
    killed = tmp_path / "killed" / "rows.sqlite"
    killed.parent.mkdir()
    for end in ("", "-wal"):
        shutil.copy(path.with_name(path.name + end), killed.with_name(killed.name + end))
    other = KeyedFile(killed)
    assert other.read_meta("some") == 1
    assert other.read_events(row[0] for row in rows) == []
    other.close()
    with file.begin_transaction():
        file.add_events([(1, row) for row in _make_rows(600, 3)])
    assert log.stat().st_size > written
    file.close()
    file = KeyedFile(path)
    assert len(file.read_events(row[0] for row in _make_rows(603))) == 603
    file.close()


def test_events_that_come_alone_are_read_at_once_and_written_later_also_after_a_kill(settings: Settings, tmp_path: Path) -> None:
    directory = settings.storage.directory
    app = open_app(settings)
    assert isinstance(app.storage, DuckStorage)
    app.storage.copy_rows(never)
    log = directory / "indexes" / "rows.sqlite-wal"
    written = log.stat().st_size
    for number in range(5):
        app.append([draft(f"Alone at {number} in the lock.", at=f"2026-02-03 10:0{number}", session="alone")], "test")
        app.derivation.run()
        [stored] = app.storage.events.search_words(Scope(), ["alone at", f"{number} in"], 5)
        app.storage.events.drop_recent()
        with asked_of_the_store() as asked:
            assert len(app.storage.events.get_neighbours(stored, 9, 9)[0]) == number
            assert app.storage.events.search_words(Scope(), ["alone at", f"{number} in"], 1) == [stored]
        assert asked.statements == []
    assert log.stat().st_size == written
    killed = replace(settings, storage=StorageSettings(str(tmp_path / "killed"), "Europe/Berlin"))
    shutil.copytree(directory, tmp_path / "killed")
    expected = read_by_key(app.storage)
    app.close()
    app = open_app(killed)
    assert read_by_key(app.storage) == expected
    app.storage.copy_rows(never)
    assert read_by_key(app.storage) == expected
    app.close()


@pytest.mark.parametrize(("table", "column"), [("stream", "names"), ("block", "body"), ("dictionary", "body")], ids=str)
def test_a_flipped_bit_is_noticed_or_changes_no_row(tmp_path: Path, table: str, column: str) -> None:
    rng = random.Random(3)
    rows = [
        (
            *((key := make_key(1_770_000_000_000 + number, rng.getrandbits(80))), key >> 80),
            *(f"session {number % 3}", "codex", "/home/project", "", "", "user_message", "user", "user", "codex", f"{number}"),
            *("".join(rng.choices("abcdefgh ", k=300)), "{}"),
        )
        for number in range(600)
    ]
    file = KeyedFile(tmp_path / "indexes" / "rows.sqlite")
    for start in range(0, len(rows), 100):
        with file.begin_transaction():
            file.add_events([(number % 3, rows[number]) for number in range(start, start + 100)])
    file.close()
    file = KeyedFile(tmp_path / "indexes" / "rows.sqlite")
    stored = file._con.execute(f"SELECT rowid, {column} FROM {table}").fetchall()
    numbers = [number for (number,) in file._con.execute("SELECT number FROM block")]
    by_key = {row[0]: row for row in rows}
    assert len(file.read_events(by_key)) == len(rows)
    assert file.read_groups(numbers, [b"a"])
    for _ in range(60):
        rowid, value = rng.choice(stored)
        damaged = bytearray(value.encode() if isinstance(value, str) else value)
        damaged[rng.randrange(min(len(damaged), 200))] ^= 1 << rng.randrange(7)
        flipped = damaged.decode() if isinstance(value, str) else bytes(damaged)
        file._con.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (flipped, rowid))
        file._clear_caches()
        try:
            read = [*file.read_events(by_key), *file.read_groups(numbers, [b"a"])]
        except ValueError:
            read = []
        assert [row for row in read if row != by_key.get(row[0])] == []
        file._con.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, rowid))
    file.close()


def test_what_is_counted_anew_before_the_copy_is_opened_is_not_read_as_it_was(settings: Settings) -> None:
    storage = open_storage(settings.storage.directory)
    storage.copy_rows(never)
    storage.close()
    again = open_storage(settings.storage.directory)
    day = again.toc.list_ids(TocLevel.DAY)[0]
    node = again.toc.get_nodes([day])[day]
    version = again.toc.current_version()
    again.toc.publish_build(Build(count_updates=(replace(node, event_count=node.event_count + 7),)))
    assert again.toc.current_version() == version
    again.copy_rows(never)
    again.toc.drop_caches()
    with asked_of_the_store() as read:
        assert again.toc.get_nodes([day])[day].event_count == node.event_count + 7
    assert not any("FROM node" in statement for statement in read.statements)
    again.close()


def test_a_read_that_has_what_waits_stored_ends_though_the_engine_gives_the_file_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_storage(tmp_path / "data")
    events = [event(f"number {n}", at=1_767_225_600_000 + n) for n in range(6)]
    store.events.append(events[:5])
    store.copy_rows(never)
    store.events.append(events[5:])
    assert store.events.deferred
    assert store.events.deferred.is_waiting
    store.events.drop_recent()
    read, given_up, insert_rows = dict[EventId, Event](), list[bool](), DeferredWrites.insert_rows

    def give_up(waiting: DeferredWrites, con: Any) -> None:
        if not given_up:
            given_up.append(True)
            store.connection._con.close()
        insert_rows(waiting, con)

    monkeypatch.setattr(DeferredWrites, "insert_rows", give_up)
    together(lambda: read.update(store.events.get_events([e.event_id for e in events])))
    assert given_up
    assert [read[e.event_id].text for e in events] == [e.text for e in events]
    store.close()
