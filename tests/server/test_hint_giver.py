"""Hints without a daemon: what is said, kept, judged and forgotten of them in a memory of this process."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.capture.hooks.base import Envelope
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.config import Settings
from memory_mcp.forgetting.copies import ArchiveFiles
from memory_mcp.model.event import Event, Trust
from memory_mcp.model.hint import Hint, HintKind, HintRecord
from memory_mcp.requests.hint_leads import LeadReader
from memory_mcp.requests.hints import ListHints, list_hints, list_unwanted
from memory_mcp.requests.scope import Caller
from memory_mcp.server.hinting import HintGiver, PendingHint
from memory_mcp.storage.archive import TableRows
from tests.factories import draft
from tests.waiting import until

HERE, PROJECT = "/home/u/shop", "/home/u/shop"
BUILD, INSTALL = "npm run build", "npm install"
UNKNOWN, PLAIN = "git show --no-stat HEAD", "git show HEAD"
LACKING = "Error: Cannot find module 'left-pad'"


def payload_of(session: str, command: str, error: str | None = "", event: str = "", number: int = 0) -> bytes:
    """A payload of a call of a shell; `error` None: it is about to run."""
    event = event or {None: "PreToolUse", "": "PostToolUse"}.get(error, "PostToolUseFailure")
    fields: dict[str, Any] = {"hook_event_name": event, "session_id": session, "cwd": HERE, "tool_name": "Bash"}
    outcome = {} if error is None else {"error": error} if error else {"tool_response": "done"}
    return json.dumps({**fields, "tool_input": {"command": command}, "tool_use_id": f"t{number}", **outcome}).encode()


class Shop:
    """A memory of this process, and the giver of its hints."""

    def __init__(self) -> None:
        self.app = App(Settings(), in_memory=True)
        self.giver = HintGiver()
        self._number = 0

    def store(self, session: str, *calls: tuple[str, str]) -> None:
        """Store calls of a session, each with its error."""
        for command, error in calls:
            self._number += 1
            now = self.app.clock.now_ms() + self._number
            text = payload_of(session, command, error, number=self._number).decode()
            drafts = HOOKS["claude-code"].parse_payload(text, Envelope("name", now, HERE, HERE)).drafts
            self.app.write(list(drafts), "test")
        self.app.derivation.run()

    def ask(self, session: str, command: str, error: str | None = None, seconds: float = 60.0) -> tuple[str, PendingHint | None]:
        """Return what is printed for a call, and the hint, once what is known was read."""
        leads = self.giver._projects.get(PROJECT)
        if leads is not None:
            until(lambda: not leads.loading.locked(), "leads to be read")
        payload = payload_of(session, command, error)
        return self.giver.answer_hook(self.app, "claude-code", payload, {"cwd": HERE}, time.monotonic() + seconds)

    def give(self, session: str, command: str, error: str | None = None) -> str:
        """Return what is printed for a call; the hint is sent, and recorded."""
        count = len(self.app.storage.hints.list_hints())
        printed, pending = self.ask(session, command, error)
        if pending is not None:
            pending.confirm_sent()
            pending.settle()
            until(lambda: len(self.app.storage.hints.list_hints()) > count, "the hint to be recorded")
        return printed

    def read_again(self) -> None:
        """Have what hints are made from read now."""
        self.giver._projects[PROJECT].next_load = 0.0
        self.ask("reader", "true")
        until(lambda: not self.giver._projects[PROJECT].loading.locked(), "leads to be read")

    def forget(self, is_gone: Callable[[Event], bool]) -> None:
        """Forget some events."""
        self.app.storage.erase_forgotten(Keep(is_gone))
        self.app.derivation.reread()
        self.app.derivation.run()


class Keep:
    """What is kept: all events but some."""

    def __init__(self, is_gone: Callable[[Event], bool]) -> None:
        self._is_gone = is_gone

    def clean_event(self, event: Event) -> Event | None:
        return None if self._is_gone(event) else event

    def clean_text(self, text: str) -> str:
        return text


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    shop.store("first", (UNKNOWN, "fatal: unrecognized argument: --no-stat"), (PLAIN, ""))
    shop.store("first", (BUILD, LACKING), (INSTALL, ""), (BUILD, ""))
    shop.ask("reader", "true")
    shop.read_again()
    yield shop
    shop.app.close()


def test_a_hint_that_comes_late_or_is_not_sent_may_be_given_again(shop: Shop) -> None:
    assert shop.ask("second", UNKNOWN, seconds=0.0) == ("", None)
    printed, pending = shop.ask("third", UNKNOWN)
    assert pending is not None
    assert "worked" in printed
    assert shop.ask("third", f"{UNKNOWN}~1") == ("", None), "it is on its way"
    pending.settle()
    assert "worked" in shop.give("third", f"{UNKNOWN}~2"), "the hook was gone"
    assert shop.ask("third", f"{UNKNOWN}~3") == ("", None)
    assert [record.session_id for record in shop.app.storage.hints.list_hints()] == ["third"]


def test_the_daemon_is_silent_where_its_settings_say_so(shop: Shop) -> None:
    shop.app.settings = replace(shop.app.settings, hooks=replace(shop.app.settings.hooks, hints=False))
    assert shop.ask("second", UNKNOWN) == ("", None)


def test_a_secret_in_a_call_is_taken_out_before_it_is_cut(shop: Shop) -> None:
    secret = "ghp_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7xY9zB1dF3hJ5"
    filler = "a " * 80
    shop.give("second", f"{UNKNOWN} {filler}{secret}")
    [record] = shop.app.storage.hints.list_hints()
    assert len(record.hint.subject) <= 200
    assert "ghp_" not in record.hint.subject


def test_forgetting_any_quoted_event_takes_the_hint_and_leaves_a_rejection(shop: Shop) -> None:
    shop.give("second", UNKNOWN)
    shop.give("third", BUILD, LACKING)
    kept, rejected = shop.app.storage.hints.list_hints()
    shop.app.storage.hints.reject_hint(rejected.hint_id)
    printed, pending = shop.ask("fourth", UNKNOWN)
    shop.forget(lambda event: event.text == LACKING or ("--no-stat" in event.text and event.role.value == "tool"))
    assert shop.ask("fifth", UNKNOWN) == ("", None), "what is in memory is not said either"
    [left] = shop.app.storage.hints.list_hints()
    wordless = Hint(kind=HintKind.ERROR, subject="", text="", grip_id="", evidence=(), topic=rejected.hint.topic)
    assert left == HintRecord(rejected.hint_id, rejected.at_ms, "", "", wordless, is_rejected=True)
    assert list_hints(shop.app, ListHints(), Caller()).total == 0
    assert rejected.hint.topic in list_unwanted(shop.app, PROJECT)
    assert printed
    assert pending is not None
    shop.app.storage.hints.record_hint("fourth", PROJECT, kept.hint, 1)
    assert len(shop.app.storage.hints.list_hints()) == 1, "a hint that was on its way is not recorded any more"


def test_backups_lose_hints_as_the_store_does(shop: Shop, tmp_path: Path) -> None:
    shop.give("second", UNKNOWN)
    shop.give("third", BUILD, LACKING)
    shop.app.storage.hints.reject_hint(2)
    files = ArchiveFiles(tmp_path, Keep(lambda event: event.session_id == "first"))  # type: ignore[arg-type]  # of it this much is used
    tables = {rows.table: [dict(zip(rows.columns, row, strict=True)) for row in rows.rows] for rows in read_tables(shop.app)}
    for table in ("event", "hint"):
        tables[table] = [dict(row) for row in (files._clean_row(table, row) for row in tables[table]) if row is not None]
    assert [(row["hint_id"], row["rejected"], row["text"], row["evidence"]) for row in tables["hint"]] == [(2, True, "", "")]


def read_tables(app: App) -> Iterator[TableRows]:
    with app.storage.archive.open_snapshot() as snapshot:
        yield from snapshot.iter_shared("event", 0)
        yield from snapshot.iter_others()


def test_a_slow_reader_puts_no_forgotten_hint_back(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.give("second", UNKNOWN)
    shop.app.storage.drop_caches()
    store: Any = shop.app.storage.hints
    fetch_rows = store._con.fetch_rows

    def forget_meanwhile(sql: str) -> Any:
        rows = fetch_rows(sql)
        monkeypatch.undo()
        shop.forget(lambda event: event.session_id == "first")
        return rows

    monkeypatch.setattr(store._con, "fetch_rows", forget_meanwhile)
    store.list_hints()
    assert list(store.list_hints()) == []


def test_a_hint_that_its_fence_makes_too_long_is_not_given(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.server.hinting.fence_text", lambda text: text + "é" * 200)
    assert shop.ask("second", UNKNOWN) == ("", None)


def test_an_error_is_not_told_what_the_session_did_itself(shop: Shop) -> None:
    shop.ask("second", INSTALL)
    assert shop.ask("second", BUILD, LACKING) == ("", None)
    assert "npm install" in shop.give("third", BUILD, LACKING)


def test_what_a_session_called_before_this_process_began_is_known(shop: Shop) -> None:
    shop.store("second", (UNKNOWN, "fatal: unrecognized argument: --no-stat"))
    shop.read_again()
    shop.giver = HintGiver()
    shop.ask("second", "true")
    shop.read_again()
    until(lambda: len(shop.giver._sessions["second"].calls) > 1, "its calls to be read")
    assert shop.ask("second", UNKNOWN) == ("", None)


def test_an_unknown_subcommand_is_told_before_the_call_however_its_output_is_cut(shop: Shop) -> None:
    unknown = "error: unrecognized subcommand 'bun'"
    shop.store("first", ("rtk bun run test", unknown), ("bun run lint", ""), ("bun run test", ""), ("rtk git status", ""))
    shop.read_again()
    assert "`bun run test` worked" in shop.give("second", "rtk bun run test 2>&1 | tail -20")
    assert shop.ask("third", "rtk git diff") == ("", None)


def test_an_option_of_the_projects_own_program_may_be_there_by_now(shop: Shop) -> None:
    shop.store("first", ("./run.py --all", "error: unrecognized arguments: --all"), ("./run.py", ""))
    shop.read_again()
    assert shop.ask("second", "./run.py --all") == ("", None)


def test_what_came_of_a_hint_is_judged_by_the_whole_call_and_kept(shop: Shop) -> None:
    shop.give("second", UNKNOWN)
    shop.store("second", ("git show --no-stat v2", ""))
    assert outcomes(shop) == ["open"], "another call of the same invocation tells nothing"
    shop.store("second", (PLAIN, ""))
    assert outcomes(shop) == ["used"]
    shop.read_again()
    assert [record.outcome for record in shop.app.storage.hints.list_hints()] == ["used"]


def test_what_led_nowhere_twice_is_given_no_more(shop: Shop) -> None:
    for session in ("second", "third"):
        assert "worked" in shop.give(session, UNKNOWN)
        shop.store(session, (UNKNOWN, "fatal: unrecognized argument: --no-stat"))
        shop.read_again()
    assert outcomes(shop) == ["in_vain", "in_vain"]
    assert shop.ask("fourth", UNKNOWN) == ("", None)


def test_old_hints_go_but_for_rejected_ones(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_mcp.storage.duckdb.records._MOST_HINTS", 3)
    shop.give("second", UNKNOWN)
    store = shop.app.storage.hints
    [record] = store.list_hints()
    store.reject_hint(record.hint_id)
    for number in range(5):
        store.record_hint(f"s{number}", PROJECT, record.hint, number)
    shop.app.storage.drop_caches()
    assert [(record.session_id, record.is_rejected) for record in store.list_hints()] == [
        ("second", True),
        *((f"s{number}", False) for number in (2, 3, 4)),
    ]


def test_an_agents_note_is_no_demand_of_the_user() -> None:
    app = App(Settings(), in_memory=True)
    demand = "Never edit db/schema.sql by hand, always generate it."
    for session, trust in (("one", Trust.AGENT_NOTE), ("two", Trust.USER)):
        app.write([draft(demand, session=session, project=PROJECT)], "test", trust)
    app.derivation.run()
    leads = LeadReader(PROJECT).read_leads(app)
    assert [lead.sessions for lead in leads.files["schema.sql"]] == [frozenset({"two"})]
    app.close()


def outcomes(shop: Shop) -> list[str]:
    return [hint.outcome for hint in list_hints(shop.app, ListHints(), Caller()).hints]
