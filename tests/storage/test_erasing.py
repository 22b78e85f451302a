"""Forgetting in the store alone: both engines take out the same rows, and what is left is sound."""

from collections.abc import Callable
from dataclasses import replace

from memory_mcp.app import App
from memory_mcp.model.event import Event
from memory_mcp.model.grip import Supersession
from memory_mcp.model.ids import GripId, topic_id
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.model.project import Alias
from memory_mcp.model.topic import TopicLabel, TopicRecord
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import ErasureResult
from memory_mcp.tree.derive.terms import refit_all
from tests.factories import SHOP, a_small_history, draft
from tests.storage.test_archive import tables_of
from tests.toc.helpers import findings, frequencies, memory, rebuild

Where = Callable[[], StorageSettings]
SECRET, GONE = "hunter2", "/srv/gone"
PAINT, OTHER = topic_id("topic", [1]), topic_id("topic", [2])


class Forgotten:
    """A project and a value."""

    def clean_event(self, event: Event) -> Event | None:
        if event.project == GONE:
            return None
        return replace(event, text=self.clean_text(event.text)) if SECRET in event.text else event

    def clean_text(self, text: str) -> str:
        return text.replace(SECRET, "[forgotten]")


def told_secrets(where: StorageSettings) -> App:
    """A memory in which a project and a value are told of in every table that can."""
    drafts = [
        *a_small_history(1),
        *(draft(f"line {i} of the project that goes", session="away", project=GONE) for i in range(6)),
        draft(f"we decided that the password is {SECRET} for good", session="s9", source_id="its own"),
        draft(f"{SECRET} has no id of its source's, and we decided to keep it", session="s9"),
        draft("said after it", session="later", at="2026-03-01 10:00"),
    ]
    app = memory(drafts, where=where)
    store = app.storage
    quoted = [g for batch in store.grips.iter_all() for g in batch]
    gone = {s.event.event_id for s in store.events.read_after(0, 10_000) if s.event.project == GONE}
    away = next(g.grip_id for g in quoted if g.event_id_start in gone)
    stays = next(g.grip_id for g in quoted if g.event_id_start not in gone)
    cut = next(c for c in store.toc.iter_cuts() if c.project == GONE)
    for quotation in (away, stays):
        store.usage.record_usage([quotation], 5)
        store.toc.set_pin(quotation, True, "person")
    store.superseded.record_supersession(Supersession(stays, away, 6, "see there"))
    store.superseded.record_supersession(Supersession(away, stays, 7, "the other way round"))
    store.superseded.record_supersession(Supersession(GripId("grip:1:a"), None, 8, f"it was {SECRET}", "agent"))
    store.audit.record_entry(AuditEntry("correct", 6, "agent", away, "see there"))
    store.audit.record_entry(AuditEntry("alias", 6, "person", f"{GONE} gone-too", SECRET))
    store.topics.replace_topics([TopicRecord(PAINT, 5, members=(cut.key,))])
    store.topics.set_label(TopicLabel(PAINT, None, "Of what goes", "agent", 7))
    store.topics.set_label(TopicLabel(OTHER, SHOP, f"About {SECRET}", "agent", 7))
    store.topics.set_label(TopicLabel(OTHER, None, "Stays", "agent", 8))
    store.projects.add_alias(Alias("gone-too", GONE, "person", 8))
    store.projects.add_alias(Alias("old-shop", SHOP, "person", 9))
    store.outbox.set_position("import:/home/-srv-gone/x.jsonl", "9")
    store.outbox.set_position("import:other", "9")
    store.outbox.set_position("sync:out:folder", str(store.events.last_seq()))
    return app


def erase(app: App, dry: bool = False) -> ErasureResult:
    """Take it out, and derive again what that asks for."""
    erased = app.storage.erase_forgotten(Forgotten(), dry=dry)
    if not dry:
        app.derivation.reread()
        app.derivation.run()
        refit_all(app.storage.toc, erased.days)
        app.derivation.reread()
    return erased


def test_what_is_forgotten_is_counted_first_told_by_no_row_and_the_rest_is_sound_and_goes_on(kept_in: Where) -> None:
    app = told_secrets(kept_in())
    before = tables_of(app)
    told = erase(app, dry=True)
    assert tables_of(app) == before
    erased = erase(app)
    assert (told.removed_events, told.changed_events, told.counts) == (
        erased.removed_events,
        erased.changed_events,
        erased.counts,
    )
    assert (len(erased.removed_events), len(erased.changed_events)) == (6, 2)
    rows = repr(tables_of(app))
    for word in (SECRET, "that goes", GONE, "-srv-gone", "Of what goes", "gone-too"):
        assert word not in rows
    assert findings(app) == []
    last = app.storage.events.last_seq()
    assert [s.seq for s in app.storage.events.read_after(0, 10_000)] == list(range(1, last + 1))
    assert app.storage.outbox.get_checkpoint("deriver") == last
    assert 0 < app.storage.outbox.get_checkpoint("sync:out:folder") < last
    assert erase(app).is_empty
    for drafts in ([], [draft("one more thing", session="s9"), draft("another", session="new")]):
        app.write(drafts, "test")
        app.derivation.run()
        assert findings(app) == []
        report = rebuild(app)
        assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)


def test_every_engine_leaves_the_same_rows(database_url: str) -> None:
    one = told_secrets(StorageSettings(timezone="Europe/Berlin"))
    other = told_secrets(StorageSettings(timezone="Europe/Berlin", engine="postgres", url=database_url, tenant="same rows"))
    identity = ("meta", ("name", "value"))
    first, second = erase(one), erase(other)
    assert (first.removed_events, first.counts, first.last_seq) == (second.removed_events, second.counts, second.last_seq)
    before, after = tables_of(one), tables_of(other)
    assert before.pop(identity) != after.pop(identity), "each has its own"
    assert after == before
    assert frequencies(one) == frequencies(other)
