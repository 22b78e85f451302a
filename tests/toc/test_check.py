"""check(): each kind of damage gives its own finding, and a healthy store gives none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_mcp.app import App
from memory_mcp.storage.values import Loss
from memory_mcp.tree.toc.check import Finding
from tests.factories import draft
from tests.fakes import FakeClock
from tests.filled import filled
from tests.toc.helpers import findings, memory, run_sql

GRIP = "(SELECT grip_id FROM bullet_grip LIMIT 1)"
SEGMENT = "(SELECT key FROM segment_cut ORDER BY stream, start_ts LIMIT 1)"
PERIOD = "(SELECT key FROM node WHERE level = '{level}' AND current ORDER BY start_ms LIMIT 1)"


#: Two segments of one stream on two days, one of another.
DRAFTS = [
    draft("We keep the retry queue because the bank is slow.", at="2026-01-12 09:00"),
    draft("The queue is drained twice a day.", at="2026-01-12 09:01"),
    draft("Now we drop the retry queue.", at="2026-01-13 09:00"),
    draft("The invoice has the wrong rate.", at="2026-01-12 10:00", session="s2"),
]


@pytest.fixture
def app(data_dir: Path) -> Iterator[App]:
    opened = App(filled(data_dir, DRAFTS), FakeClock())
    yield opened
    opened.close()


DAMAGE: dict[str, tuple[list[str], list[str], str]] = {
    "an event in no segment": (
        [
            (
                "INSERT INTO event SELECT 5, event_id + 1, ts, stream + 1, * EXCLUDE (seq, event_id, ts, stream) "
                "FROM event WHERE seq = 1"
            ),
            "UPDATE checkpoint SET value = '5' WHERE name = 'deriver'",
        ],
        ["partition"],
        "is in no segment",
    ),
    "a count that is wrong": (
        [f"UPDATE segment_cut SET events = 9 WHERE key = {SEGMENT}"],
        ["partition"],
        "counts 9 events and holds 2",
    ),
    "an event that is gone": (["DELETE FROM event WHERE seq = 2"], ["partition", "grips"], "counts 2 events and holds 1"),
    "a cut that ends before it starts": (
        ["UPDATE segment_cut SET end_ts = start_ts - 1 WHERE session_id = 's2'"],
        ["cuts", "partition"],
        "starts after its end",
    ),
    "cuts that overlap": (
        [f"UPDATE segment_cut SET end_ts = 1900000000000 WHERE key = {SEGMENT}"],
        ["cuts", "partition", "terms"],
        "overlaps",
    ),
    "an open cut in the middle": (
        [f"UPDATE segment_cut SET open = true WHERE key = {SEGMENT}"],
        ["cuts"],
        "is open although a later",
    ),
    "a segment without its node": ([f"DELETE FROM node WHERE key = {SEGMENT}"], ["nodes"], "has no node"),
    "a period without its node": (["DELETE FROM node WHERE level = 'month'"], ["nodes"], "has no node"),
    "a node without a segment": (
        ["DELETE FROM segment_cut WHERE session_id = 's2'"],
        ["nodes", "partition", "grips"],
        "has a node and nothing below it",
    ),
    "a child that is not listed": (
        ["DELETE FROM node_parent WHERE child_id = 'toc:week:2026-W03'"],
        ["tree"],
        "is not among the children of toc:month:2026-01",
    ),
    "a window that is not the calendar's": (
        [f"UPDATE node SET end_ms = end_ms + 1 WHERE key = {PERIOD.format(level='day')}"],
        ["windows"],
        "does not have its calendar window",
    ),
    "a parent older than its child": (
        [f"UPDATE node SET built = 0 WHERE key = {PERIOD.format(level='year')}"],
        ["freshness"],
        "is older than one of its children",
    ),
    "a bullet without a grip": (
        [f"DELETE FROM bullet_grip WHERE key = {SEGMENT} AND pos = 0"],
        ["evidence"],
        "a bullet names no grip",
    ),
    "a grip that does not exist": (
        ["DELETE FROM grip WHERE grip_id = " + GRIP],
        ["evidence"],
        "names a grip that does not exist",
    ),
    "a quotation whose words changed": (
        ["UPDATE grip SET quote_hash = 5 WHERE grip_id = " + GRIP],
        ["grips"],
        "its hash does not match the stored words",
    ),
    "a grip of an event that is gone": (
        ["UPDATE grip SET event_start = event_start + 1, event_end = event_end + 1 WHERE grip_id = " + GRIP],
        ["grips"],
        "quotes an event that does not exist",
    ),
    "a grip of no segment": (["UPDATE grip SET segment = 5 WHERE grip_id = " + GRIP], ["grips"], "belongs to no segment"),
    "a segment's words missing from its terms": (
        [f"UPDATE term_delta SET hashes = '\\x01\\x00\\x00\\x00'::BLOB WHERE key = {SEGMENT}"],
        ["terms"],
        "words of its events are missing from its term set",
    ),
    "a period's terms that lack a child's": (
        [f"UPDATE term_delta SET hashes = '\\x01\\x00\\x00\\x00'::BLOB WHERE key = {PERIOD.format(level='month')}"],
        ["terms"],
        "does not hold all terms of what lies below it",
    ),
}


def test_a_healthy_store_has_no_findings(app: App) -> None:
    assert findings(app) == []


def test_an_empty_store_and_one_that_is_not_derived_have_none() -> None:
    empty = memory()
    assert findings(empty) == []
    empty.write([draft("not derived yet")], "test")
    assert findings(empty) == []
    empty.close()


@pytest.mark.parametrize(("statements", "rules", "words"), DAMAGE.values(), ids=DAMAGE.keys())
def test_each_kind_of_damage_is_found_and_named(app: App, statements: list[str], rules: list[str], words: str) -> None:
    run_sql(app, *statements)
    found = findings(app)
    assert sorted({f.rule for f in found}) == sorted(rules)
    assert any(words in f.detail for f in found), found
    assert all(f.subject for f in found)


def test_acknowledged_events_that_are_gone_are_found(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    loss = Loss(noticed_ms=1, events=3, exact=True, sources={}, damaged_folder="")
    monkeypatch.setattr(type(app.storage), "loss", loss)
    assert findings(app) == [Finding("acknowledged", "events", loss.description)]
    assert loss.description.startswith("3 acknowledged events are missing")


def test_a_change_of_the_words_themselves_is_found(app: App) -> None:
    run_sql(app, "UPDATE event SET text = 'We keep the retry queue, says the intruder zirconium.' WHERE seq = 1")
    assert {f.rule for f in findings(app)} == {"grips", "terms"}


def test_checking_changes_nothing(app: App) -> None:
    run_sql(app, "DELETE FROM node_parent WHERE child_id = 'toc:week:2026-W03'")
    before = app.storage.get_stats()
    assert findings(app) == findings(app) != []
    assert app.storage.get_stats() == before
