"""Who looks after the topic graph: reading it, damage, other stores and models, following, grouping anew, what survives that."""

import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from memory_mcp.app import App
from memory_mcp.base import metrics
from memory_mcp.base.errors import IndexNotReady, IndexUnreadable, NotFound
from memory_mcp.indexes.generation import IndexFolder
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.indexes.topics import build
from memory_mcp.indexes.topics import keeper as keeping
from memory_mcp.indexes.topics.base import View
from memory_mcp.indexes.topics.graph import TopicGraph
from memory_mcp.indexes.topics.grouping import group_segments
from memory_mcp.indexes.topics.keeper import TopicKeeper
from memory_mcp.model.calendar import TimeWindow, TocLevel
from memory_mcp.model.event import EventDraft
from memory_mcp.model.ids import NodeId, segment_key_of
from tests.factories import BILLING, SHOP, draft, ms
from tests.fakes import FakeClock
from tests.indexes.helpers import DAMAGES, files_of, truncate
from tests.indexes.test_keeper import counted
from tests.indexes.topics.conftest import Here, over, said, topics_of
from tests.requirements import requirement
from tests.toc.helpers import run_sql
from tests.topics_material import THEMES, themed
from tests.waiting import PATIENCE

VIEW = View(FakeClock().now_ms())


def partition(graph: TopicGraph) -> set[frozenset[str]]:
    """Which segments are together, whatever their topics are called."""
    groups: dict[int, set[str]] = defaultdict(set)
    for place, topic in enumerate(graph.rows.topic.tolist()):
        groups[topic].add(graph.rows.node_id_at(place))
    return {frozenset(nodes) for topic, nodes in groups.items() if topic >= 0}


def ids(graph: TopicGraph) -> set[str]:
    return {name.topic_id for name in graph.topics.names}


def links(graph: TopicGraph) -> dict[str, set[str]]:
    """Segments by topic."""
    return {t: {link.node_id for link in graph.list_links(t, VIEW, 10_000)[0]} for t in ids(graph)}


def grouped_by_job(app: App) -> bool:
    """What a minute does: whether the job began to group, and its end."""
    begun = app.scheduler.run_now("group_topics").counts["begun"]
    thread = topics_of(app).builder
    if begun and thread is not None:
        thread.join(PATIENCE)
    return bool(begun)


# reading


def test_what_was_grouped_is_read_and_not_grouped_again(memory: App, keeper: TopicKeeper) -> None:
    status = keeper.status()
    assert (status.healthy, status.topic_count, status.segments, status.behind) == (True, len(THEMES), 72, 0)
    assert (status.generation, status.last_commit_ms) == (1, memory.clock.now_ms())
    assert status.message == "grouped by terms alone: the vector index is off"
    assert status.size_bytes == sum(p.stat().st_size for p in files_of(keeper.folder.shards_path))
    assert not grouped_by_job(memory)
    assert Here.begun == 0


def test_each_theme_is_a_topic_with_links_to_all_of_its_segments(memory: App, keeper: TopicKeeper) -> None:
    graph = keeper.get_graph()
    by_theme: dict[str, set[str]] = defaultdict(set)
    for node in memory.storage.toc.list_ids(TocLevel.SEGMENT):
        by_theme[theme_of(memory, node)].add(node)
    assert sorted(map(sorted, links(graph).values())) == sorted(map(sorted, by_theme.values()))
    assert all(link.relevance > 0 for t in ids(graph) for link in graph.list_links(t, VIEW, 5)[0])
    assert len({name.overall.label for name in graph.names}) == len(graph.names), "no label is given twice"


def session_of(app: App, node: NodeId) -> str:
    key = segment_key_of(node)
    assert key is not None
    return app.storage.toc.get_segments([key])[key].session_id


def theme_of(app: App, node: NodeId) -> str:
    """The session of a segment names its theme."""
    return session_of(app, node).partition("-")[0]


@pytest.mark.parametrize("count", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 49))])
def test_below_fifty_segments_no_child_begins_and_the_reason_counts(tmp_path: Path, count: int) -> None:
    app = over(tmp_path / "data")
    said(app, themed(count))
    assert not grouped_by_job(app)
    status = topics_of(app).status()
    told = f"topics are looked for from 50 segments on; there {'is' if count == 1 else 'are'} {count}"
    assert (status.healthy, status.message, Here.begun) == (False, told, 0)
    said(app, themed(2, start=count))
    assert str(count + 2) in topics_of(app).status().message or count + 2 >= 50, "counted as of now"
    app.close()


def test_the_fiftieth_segment_is_the_first_that_topics_are_looked_for_with(tmp_path: Path) -> None:
    app = over(tmp_path / "data")
    said(app, themed(49))
    status = topics_of(app).status()
    assert (status.healthy, "there are 49" in status.message) == (False, True)
    assert not grouped_by_job(app)
    said(app, themed(1, start=49))
    assert topics_of(app).status().message == "topics are looked for within a minute"
    assert grouped_by_job(app)
    assert topics_of(app).status().segments == 50
    assert Here.begun == 1
    app.close()


# damage

#: One of each sort that a generation is made of.
FILES = ("CURRENT", "gen-*.json", "rows", "topics.json")


def newest(directory: Path, name: str) -> Path:
    return max(p for p in files_of(directory) if p.match(name))


@requirement("contract:topics-declared")
@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.few(1)
def test_damage_under_a_running_process_is_noticed_told_and_healed_by_the_next_grouping(
    memory: App, keeper: TopicKeeper, keeper_clock: FakeClock, damage: Callable[[Path], None]
) -> None:
    before = links(keeper.get_graph())
    for name in FILES:
        damage(newest(keeper.folder.directory, name))
        keeper_clock.advance(1.1)
        status = keeper.status()
        assert not status.healthy, name
        assert status.message == "its files were changed or removed from outside; it is built again"
        with pytest.raises(IndexUnreadable, match="changed or removed"):
            keeper.get_graph()
        assert grouped_by_job(memory)
        assert keeper.status().healthy
        assert links(keeper.get_graph()) == before
        assert not grouped_by_job(memory)


@pytest.mark.parametrize("damage", [d for d in DAMAGES if d is not truncate])  # CURRENT may lack its end of line
@pytest.mark.few(1)
def test_damage_met_at_the_start_is_never_believed(directory: Path, damage: Callable[[Path], None]) -> None:
    before = over(directory)
    wanted = links(topics_of(before).get_graph())
    before.close()
    for name in FILES:
        damage(newest(directory / "indexes" / "topics", name))
        app = over(directory)
        status = topics_of(app).status()
        assert not status.healthy, name
        assert "index" in status.message or "looked for" in status.message
        assert grouped_by_job(app)
        assert links(topics_of(app).get_graph()) == wanted
        app.close()


def test_damage_that_nobody_asked_about_is_noticed_by_the_job(memory: App, keeper: TopicKeeper, keeper_clock: FakeClock) -> None:
    keeper.get_graph()
    shutil.rmtree(keeper.folder.directory)
    keeper_clock.advance(1.1)
    assert grouped_by_job(memory)
    assert keeper.status().healthy


def test_the_folder_deleted_the_same_ids_labels_pins_and_history_come_back(memory: App, keeper: TopicKeeper) -> None:
    graph = keeper.get_graph()
    before, told = links(graph), {t: graph.topic_history(t) for t in ids(graph)}
    named = min(before)
    memory.topics.label_topic(named, "What we sell", None, "agent")
    memory.topics.pin_topic(named, True, None, "agent")
    memory.close()
    shutil.rmtree(keeper.folder.directory)
    again = over(memory.settings.storage.directory)
    assert grouped_by_job(again)
    graph = topics_of(again).get_graph()
    assert links(graph) == before
    assert {t: graph.topic_history(t) for t in ids(graph)} == told
    topic = graph.get_topic(named, VIEW)
    assert (topic.label, topic.labelled_by, topic.pinned) == ("What we sell", "agent", True)
    assert graph.list_topics(VIEW, 100, areas=False)[0][0].topic_id == named, "a pinned topic comes first"
    again.close()


def test_the_folder_of_another_memory_is_never_believed(directory: Path, tmp_path: Path) -> None:
    other = over(tmp_path / "other")
    said(other, themed(60, themes=["login", "ledger"]))
    assert grouped_by_job(other)
    other.close()
    shutil.rmtree(directory / "indexes" / "topics")
    shutil.copytree(tmp_path / "other" / "indexes" / "topics", directory / "indexes" / "topics")
    app = over(directory)
    assert topics_of(app).status().message == "it belongs to another store"
    assert grouped_by_job(app)
    assert topics_of(app).status().topic_count == len(THEMES)
    app.close()


def test_a_store_that_is_an_older_copy_is_grouped_anew(directory: Path, tmp_path: Path) -> None:
    older = Path(shutil.copytree(directory, tmp_path / "older"))
    app = over(directory)
    said(app, themed(12, start=72))
    topics_of(app).rebuild()
    app.close()
    shutil.rmtree(older / "indexes")
    shutil.copytree(directory / "indexes", older / "indexes")
    app = over(older)
    assert "the store is an older copy" in topics_of(app).status().message
    assert grouped_by_job(app)
    assert topics_of(app).status().segments == 72
    app.close()


def test_a_store_that_went_back_and_grew_another_way_is_grouped_anew(memory: App, directory: Path) -> None:
    run_sql(memory, "UPDATE outbox SET subject = 'toc:day:1999-01-01' WHERE seq = (SELECT max(seq) FROM outbox)")
    keeper = topics_of(memory)
    assert "another history" in keeper.status().message
    assert keeper.is_due()


@pytest.mark.parametrize("what", ["VERSION", "FORMAT"])
def test_another_version_of_the_program_groups_anew_with_the_same_ids(
    memory: App, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    before = links(topics_of(memory).get_graph())
    monkeypatch.setattr(keeping, what, 99)
    memory.close()
    again = over(memory.settings.storage.directory)
    assert topics_of(again).status().message == "it was built by another version or with other settings"
    assert grouped_by_job(again)
    assert links(topics_of(again).get_graph()) == before
    again.close()


# following


def themes_of(app: App, graph: TopicGraph) -> set[frozenset[str]]:
    """The themes of each topic's segments."""
    return {frozenset(theme_of(app, NodeId(n)) for n in nodes) for nodes in links(graph).values()}


def test_a_segment_that_comes_is_found_by_the_next_question_without_a_grouping(memory: App, keeper: TopicKeeper) -> None:
    before = keeper.status()
    said(memory, themed(3, start=72))
    assert keeper.status().behind == 3
    graph = keeper.get_graph()
    assert set().union(*links(graph).values()) == set(memory.storage.toc.list_ids(TocLevel.SEGMENT))
    assert len(graph.rows) == 75
    assert themes_of(memory, graph) == {frozenset({theme}) for theme in THEMES}
    after = keeper.status()
    assert (after.healthy, after.behind, after.segments, after.generation) == (True, 3, 75, before.generation)
    assert Here.begun == 0


def test_placing_again_after_a_start_comes_to_the_same(memory: App, keeper: TopicKeeper) -> None:
    said(memory, themed(5, start=72))
    wanted = links(keeper.get_graph())
    memory.close()
    again = over(memory.settings.storage.directory)
    assert links(topics_of(again).get_graph()) == wanted
    assert Here.begun == 0
    again.close()


def passkeys(at: str) -> EventDraft:
    text = "The passkey enrolment of the login form needs the refresh token."
    return draft(text, at=f"2026-02-10 {at}", session="passkeys", source_id=at)


def test_a_segment_that_changed_is_replaced_and_one_that_is_gone_is_dropped(memory: App, keeper: TopicKeeper) -> None:
    keeper.get_graph()
    said(memory, [passkeys("09:00")])
    graph = keeper.get_graph()
    (row,) = (n for n in range(73) if session_of(memory, graph.rows.node_id_at(n)) == "passkeys")
    node = graph.rows.node_id_at(row)
    assert (int(graph.rows.events[row]), graph.rows.topic[row] >= 0) == (1, True)
    said(memory, [passkeys("09:02")])
    graph = keeper.get_graph()
    assert [int(graph.rows.events[n]) for n in range(len(graph.rows)) if graph.rows.node_id_at(n) == node] == [2]
    memory.storage.toc.drop_nodes([node])
    graph = keeper.get_graph()
    assert set().union(*links(graph).values()) == set(memory.storage.toc.list_ids(TocLevel.SEGMENT))
    assert len(graph.rows) == 72
    assert Here.begun == 0


def test_a_grouping_after_following_gives_the_links_of_one_from_nothing(directory: Path, tmp_path: Path) -> None:
    app = over(directory)
    for start in range(72, 84, 6):
        said(app, themed(6, start=start))
        topics_of(app).get_graph()
    topics_of(app).rebuild()
    fresh = over(tmp_path / "fresh")
    said(fresh, themed(84))
    topics_of(fresh).rebuild()
    assert partition(topics_of(app).get_graph()) == partition(topics_of(fresh).get_graph())
    relevance = [
        {
            link.node_id: link.relevance
            for t in ids(topics_of(a).get_graph())
            for link in topics_of(a).get_graph().list_links(t, VIEW, 1000)[0]
        }
        for a in (app, fresh)
    ]
    assert relevance[0] == relevance[1]
    app.close()
    fresh.close()


def test_the_same_store_gives_the_same_groups_ids_and_names(directory: Path, tmp_path: Path) -> None:
    one, other = over(directory), over(tmp_path / "fresh")
    said(other, themed())
    topics_of(other).rebuild()
    found = [{(n.topic_id, n.overall) for n in topics_of(app).get_graph().names} for app in (one, other)]
    assert found[0] == found[1]
    one.close()
    other.close()


def test_few_changes_are_no_reason_to_group_anew_and_a_tenth_is_which_is_told_until_then(
    memory: App, keeper: TopicKeeper
) -> None:
    said(memory, themed(7, start=72))
    assert not grouped_by_job(memory)
    keeper.get_graph()
    assert not grouped_by_job(memory), "placed or not, they are as many"
    assert keeper.status().healthy
    said(memory, themed(1, start=79))
    keeper.get_graph()
    status = keeper.status()
    assert (status.healthy, status.is_renewed, status.behind) == (False, True, 8)
    assert status.message == "being renewed: at least 8 of 80 segments came since topics were looked for"
    assert grouped_by_job(memory)
    assert (keeper.status().healthy, keeper.status().segments, keeper.status().generation) == (True, 80, 2)


def test_so_many_changes_that_they_are_grouped_in_a_moment_are_not_placed_while_somebody_waits(
    memory: App, keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper.get_graph()
    monkeypatch.setattr(keeping, "_PLACED", 5)
    said(memory, themed(6, start=72))
    outbox = memory.storage.outbox
    with patch.object(outbox, "read_after", wraps=outbox.read_after) as read:
        assert len(keeper.get_graph().rows) == 72
    assert read.call_count == 1
    assert keeper.status().behind == 6


# identity


def test_a_tenth_more_segments_keeps_the_ids_of_nine_topics_in_ten(memory: App, keeper: TopicKeeper) -> None:
    before = links(keeper.get_graph())
    said(memory, themed(8, start=72))
    keeper.rebuild()
    after = links(keeper.get_graph())
    kept = [t for t in before if t in after and len(before[t] & after[t]) > len(before[t]) / 2]
    assert len(kept) >= 0.9 * len(before)


def test_a_merge_and_a_split_are_told_and_an_old_id_leads_on(keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = keeper.get_graph()
    before = links(graph)
    found = group_segments
    first, second = sorted(before)[:2]

    def merged(*given: Any) -> Any:
        number = found(*given)
        one, other = (place_of(first), place_of(second))
        number[number == number[other]] = number[one]
        _, dense = np.unique(number, return_inverse=True)
        return dense.astype(number.dtype)

    def place_of(topic: str) -> int:
        nodes = [graph.rows.node_id_at(n) for n in range(len(graph.rows))]
        return next(n for n, node in enumerate(nodes) if node in before[topic])

    monkeypatch.setattr(build, "group_segments", merged)
    keeper.rebuild()
    graph = keeper.get_graph()
    left = next(t for t in (first, second) if t in ids(graph))
    gone = second if left == first else first
    assert graph.get_topic(gone, VIEW).topic_id == left
    assert {link.node_id for link in graph.list_links(gone, VIEW, 100)[0]} == before[first] | before[second]
    assert [t.kind for t in graph.topic_history(gone)][-1] == "merged into"
    assert [(t.kind, t.other) for t in graph.topic_history(left)][-1] == ("took in", gone)
    monkeypatch.setattr(build, "group_segments", found)
    keeper.rebuild()
    graph = keeper.get_graph()
    assert set(map(frozenset, links(graph).values())) == set(map(frozenset, before.values()))
    (new,) = ids(graph) - set(before)
    assert [(t.kind, t.other) for t in graph.topic_history(new)] == [("split from", left)]
    assert [(t.kind, t.other) for t in graph.topic_history(left)][-1] == ("split off", new)


def test_an_id_that_leads_nowhere_is_not_found(keeper: TopicKeeper) -> None:
    with pytest.raises(NotFound):
        keeper.get_graph().get_topic("topic:0000000000aa", VIEW)


def test_what_a_graph_tells_of_is_found_while_the_store_knows_a_newer_grouping(
    memory: App, keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ids(keeper.get_graph())
    with monkeypatch.context() as cut_off:
        found = group_segments
        cut_off.setattr(build, "group_segments", lambda *given: found(*given) * 0)
        cut_off.setattr(keeper.folder, "make_current", lambda _: (_ for _ in ()).throw(OSError("No space left on device")))
        with pytest.raises(OSError, match="No space"):
            keeper.rebuild()
    memory.close()
    again = over(memory.settings.storage.directory)
    graph = topics_of(again).get_graph()
    assert {graph.get_topic(t, VIEW).topic_id for t in before} == before
    again.close()


# what somebody gave


def test_labels_and_pins_survive_grouping_anew_and_a_restart(memory: App, keeper: TopicKeeper) -> None:
    graph = keeper.get_graph()
    named = next(t for t in sorted(ids(graph)) if {theme_of(memory, NodeId(n)) for n in links(graph)[t]} == {"login"})
    pinned = next(t for t in sorted(ids(graph)) if t != named)
    memory.topics.label_topic(named, "Ours", None, "agent")
    memory.topics.label_topic(named, "The shop's", SHOP, "agent")
    memory.topics.pin_topic(pinned, True, None, "agent")
    said(memory, themed(12, start=72))
    keeper.rebuild()
    memory.close()
    again = over(memory.settings.storage.directory)
    graph = topics_of(again).get_graph()
    told = {project: graph.get_topic(named, View(VIEW.now_ms, project)) for project in (None, SHOP, BILLING)}
    assert {p: t.label for p, t in told.items() if t.labelled_by} == {None: "Ours", SHOP: "The shop's"}
    assert told[BILLING].label not in ("", "Ours", "The shop's"), "a label of those who see all is no word of one project"
    assert graph.get_topic(pinned, VIEW).pinned
    again.topics.label_topic(named, "", None, "agent")
    again.topics.pin_topic(pinned, False, None, "agent")
    graph = topics_of(again).get_graph()
    assert graph.get_topic(named, VIEW).labelled_by == ""
    assert not graph.get_topic(pinned, VIEW).pinned
    again.close()


def test_silent_topics_are_left_out_of_the_graph_alone_and_pinned_ones_are_not(directory: Path) -> None:
    app = over(directory, topics=TopicsSettings(prune_days=10, min_segments=12))
    keeper = topics_of(app)
    everything = ids(keeper.get_graph())
    said(app, themed(6, first="2026-02-08", themes=["ledger"]))
    assert len(keeper.get_graph().list_topics(VIEW, 100, areas=False)[0]) == len(everything), "the memory has hardly gone on yet"
    segments = set(app.storage.toc.list_ids(TocLevel.SEGMENT))
    # Three weeks later the ledger alone is talked about.
    said(app, themed(12, first="2026-02-09", themes=["ledger"]))
    graph = keeper.get_graph()
    told = {t.topic_id for t in graph.list_topics(VIEW, 100, areas=False)[0]}
    assert len(told) == 1
    assert (graph.pruned_count, graph.topic_count, keeper.status().pruned) == (5, 1, 5)
    pinned = min(everything - told)
    app.topics.pin_topic(pinned, True, None, "agent")
    assert {t.topic_id for t in keeper.get_graph().list_topics(VIEW, 100, areas=False)[0]} == told | {pinned}
    assert segments < set(app.storage.toc.list_ids(TocLevel.SEGMENT))
    assert {t for t in everything if keeper.get_graph().list_links(t, VIEW, 1)[0]} == everything, "by its id it is there"
    then = replace(VIEW, window=TimeWindow(ms("2026-01-05 00:00"), ms("2026-01-20 00:00")))
    assert {t.topic_id for t in keeper.get_graph().list_topics(then, 100, areas=False)[0]} == everything, (
        "a time that is asked for is told of"
    )
    app.close()


def test_a_topic_becomes_dormant_and_is_revived_with_dates(memory: App, keeper: TopicKeeper) -> None:
    day = 86_400_000
    graph = keeper.get_graph()
    (topic,) = (t for t, nodes in links(graph).items() if {theme_of(memory, NodeId(n)) for n in nodes} == {"ledger"})
    active = graph.get_topic(topic, View(graph.get_topic(topic, VIEW).last_ms + day))
    assert (active.state, active.since_ms) == ("active", active.first_ms)
    dormant = graph.get_topic(topic, VIEW)
    assert (dormant.state, dormant.since_ms) == ("dormant", dormant.last_ms + 30 * day)
    said(memory, themed(6, first="2026-03-01", themes=["ledger"]))
    revived = keeper.get_graph().get_topic(topic, VIEW)
    assert revived.state == "revived"
    assert revived.since_ms == min(d.timestamp or 0 for d in themed(6, first="2026-03-01", themes=["ledger"]))


# failures


def test_a_grouping_that_fails_is_told_counted_and_tried_again_in_a_minute(
    memory: App, keeper: TopicKeeper, keeper_clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    metrics.start()
    errors, runs = counted("topics_rebuild_errors_total"), counted("topics_rebuild_total")
    said(memory, themed(12, start=72))
    before = ids(keeper.get_graph())
    with monkeypatch.context() as broken, caplog.at_level(logging.ERROR):
        broken.setattr(Here, "ask", lambda *_: (_ for _ in ()).throw(MemoryError("the child ran out of memory")))
        assert grouped_by_job(memory)
        assert keeper.status().last_error == "the child ran out of memory"
        assert keeper.status().is_renewed
        assert ids(keeper.get_graph()) == before, "what there was goes on"
        assert not grouped_by_job(memory), "it waits"
    assert "could not be found" in caplog.text
    keeper_clock.advance(60.1)
    assert grouped_by_job(memory)
    assert keeper.status().last_error == ""
    assert (counted("topics_rebuild_errors_total") - errors, counted("topics_rebuild_total") - runs) == (1, 2)
    parts = {p.name for p in (keeper.folder.directory / "parts").iterdir()}
    manifest = IndexFolder(keeper.folder.directory).read_current()
    assert manifest is not None
    assert parts == {p.name for p in manifest.shards}, "nothing is left lying about"


def test_a_second_grouping_at_the_same_time_is_refused(keeper: TopicKeeper, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Here.ask
    refused: list[str] = []

    def again(self: Here, request: object) -> object:
        try:
            keeper.rebuild()
        except IndexNotReady as error:
            refused.append(error.message)
        return asked(self, request)

    monkeypatch.setattr(Here, "ask", again)
    keeper.rebuild()
    assert set(refused) == {"topics are being looked for already"}


def test_a_folder_that_cannot_be_made_costs_topics_and_nothing_else(directory: Path, keeper_clock: FakeClock) -> None:
    shutil.rmtree(directory / "indexes" / "topics")
    (directory / "indexes" / "topics").write_text("a file")
    app = over(directory)
    assert not topics_of(app).status().healthy
    assert grouped_by_job(app)
    assert topics_of(app).status().last_error
    os.unlink(directory / "indexes" / "topics")  # noqa: PTH108
    keeper_clock.advance(60.1)
    assert grouped_by_job(app)
    assert topics_of(app).status().healthy
    app.close()
