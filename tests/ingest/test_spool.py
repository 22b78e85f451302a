"""The spool: what hooks left is stored in order, once, and nothing that cannot be read stops or loses anything."""

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.app import App, Callbacks
from memory_mcp.base import paths
from memory_mcp.base.errors import StorageError
from memory_mcp.capture.spool import REPEATED, REPEATED_MS, STALE_S, DrainReport
from memory_mcp.config import Settings
from memory_mcp.model.event import HOOK, EventType, Role
from memory_mcp.search.layers.base import Query
from memory_mcp.storage.settings import StorageSettings
from memory_mcp.storage.values import Scope
from tests.factories import draft
from tests.ingest.suite import write
from tests.spooled import left
from tests.toc.helpers import findings, rebuild
from tests.waiting import together

SESSION = "0c9a5f0e-1111-4222-8333-444455556666"


@pytest.fixture
def app(data_dir: Path) -> Iterator[App]:
    opened = App(Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin")))
    yield opened
    opened.close()


@pytest.fixture
def spool(data_dir: Path) -> Path:
    return Path(paths.spool_dir(str(data_dir)))


def prompt(words: str, **more: Any) -> bytes:
    told = {"session_id": SESSION, "cwd": "/home/dev/shop", "hook_event_name": "UserPromptSubmit", "prompt": words}
    return json.dumps(told | more).encode()


def keep(spool: Path, payload: bytes, client: str = "claude-code") -> None:
    left(spool, payload, client)


def told(app: App) -> list[str]:
    return [e.text for e in app.storage.events.list_events(Scope(), limit=1000)]


def names(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir()) if place.exists() else []


def test_what_hooks_left_is_stored_in_order_and_once(app: App, spool: Path) -> None:
    assert app.drain().files == 0
    wanted = [f"prompt {n}" for n in range(250)]
    for words in wanted:
        keep(spool, prompt(words))
    report = app.drain()
    assert (report.files, report.lines, report.new, report.known, report.bad, report.left) == (250, 250, 250, 0, 0, 0)
    times = {e.text: e.timestamp for e in app.storage.events.list_events(Scope(), limit=1000)}
    assert sorted(times) == sorted(wanted)
    assert [times[words] for words in wanted] == sorted(times.values())
    assert names(spool / "new") == names(spool / "tmp") == []
    assert app.drain().files == 0
    app.derivation.run()
    assert findings(app) == []


def test_payloads_of_several_clients_keep_their_order_and_their_names(app: App, spool: Path) -> None:
    event = {"session_id": "s2", "role": "user"}
    for n in range(6):
        if n % 2:
            keep(spool, json.dumps(event | {"text": f"words {n}"}).encode(), "json")
        else:
            keep(spool, prompt(f"words {n}"))
    assert app.drain().new == 6
    found = app.storage.events.read_after(0, 10)
    wanted = [(f"words {n}", "hook:json" if n % 2 else "hook:claude-code") for n in range(6)]
    assert [(s.event.text, s.event.source) for s in found] == wanted


def test_files_that_come_back_after_they_were_stored_store_nothing_twice(app: App, spool: Path, tmp_path: Path) -> None:
    for n in range(5):
        keep(spool, prompt(f"prompt {n}"))
    shutil.copytree(spool / "new", tmp_path / "copy")
    assert app.drain().new == 5
    for file in (tmp_path / "copy").iterdir():
        shutil.copy(file, spool / "new")
    report = app.drain()
    assert (report.files, report.new, report.known) == (5, 0, 5)
    assert len(told(app)) == 5


@pytest.mark.parametrize("at_once", [True, False])
def test_what_two_hooks_are_told_of_one_event_is_stored_once(at_once: bool, app: App, spool: Path) -> None:
    events = [
        prompt("words"),
        prompt(
            "", hook_event_name="PostToolUse", tool_name="Bash", tool_input={"command": "ls"}, tool_response="a", tool_use_id="t"
        ),
        prompt("", hook_event_name="Stop", last_assistant_message="Done."),
    ]
    reports = []
    for payload in events:
        for _ in range(2):
            keep(spool, payload)
            reports += [] if at_once else [app.drain()]
    reports += [app.drain()] if at_once else []
    assert sum(r.new for r in reports) == 4
    assert sum(r.skipped[REPEATED] for r in reports) == 3
    assert sorted(told(app)) == ["Bash: ls", "Done.", "a", "words"]
    assert names(spool / "new") == []


def test_deliveries_of_one_event_are_one_however_they_differ_and_events_of_their_own_ids_or_times_are_two(
    app: App, spool: Path
) -> None:
    """A plugin beside hooks set by hand: of one event the ids and words agree, not where and when each hook was started."""
    rollout = f"/home/dev/.codex/sessions/2026/11/29/rollout-2026-11-29T01-09-27-{SESSION}.jsonl"
    codex = {"transcript_path": rollout, "model": "m", "permission_mode": "default"}
    message = {"role": "user", "message_id": "msg_1", "parts": [{"id": "prt_1", "type": "text", "text": "opencode's"}]}
    deliveries = [
        ("claude-code", prompt("go on", prompt_id="p1", cwd="/home/dev/shop/src")),
        ("claude-code", prompt("go on", prompt_id="p1")),
        ("claude-code", prompt("go on", prompt_id="p2")),
        # Codex loads Claude Code's plugins, whose hook names Claude Code.
        ("claude-code", prompt("codex's", turn_id="t1", **codex)),
        ("codex", prompt("codex's", turn_id="t1", **codex)),
        ("claude-code", prompt("", hook_event_name="SessionStart", source="startup", **codex)),
        ("claude-code", prompt("no file", turn_id="t2", transcript_path=None)),
        ("opencode", prompt("opencode's", time=time.time_ns() // 1_000_000, **message)),
        ("opencode", prompt("opencode's", time=time.time_ns() // 1_000_000 + 40, **message)),
        ("gemini", prompt("yes", hook_event_name="BeforeAgent", timestamp="2026-01-12T08:00:01.250Z")),
        ("gemini", prompt("yes", hook_event_name="BeforeAgent", timestamp="2026-01-12T08:00:01.250Z")),
        ("gemini", prompt("yes", hook_event_name="BeforeAgent", timestamp="2026-01-12T08:00:05.250Z")),
    ]
    for client, payload in deliveries:
        keep(spool, payload, client)
    app.drain()
    stored = app.storage.events.list_events(Scope(), limit=1000)
    assert Counter((e.agent, e.text) for e in stored) == {
        ("claude-code", "go on"): 2,
        ("codex", "codex's"): 1,
        ("codex", "Session started (startup)"): 1,
        ("codex", "no file"): 1,
        ("opencode", "opencode's"): 1,
        ("gemini", "yes"): 2,
    }
    assert {e.source for e in stored if e.agent == "codex"} == {HOOK + "codex"}


def test_the_same_words_a_while_later_are_said_again(app: App, spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns()
    for seconds in (0, REPEATED_MS // 1000 + 1):
        monkeypatch.setattr(time, "time_ns", lambda s=seconds: now + s * 1_000_000_000)
        keep(spool, prompt("go on"))
    assert app.drain().new == 2


def test_whoever_writes_its_own_hook_may_say_the_same_twice(app: App, spool: Path) -> None:
    for _ in range(2):
        keep(spool, b'{"session_id": "s", "role": "user", "text": "tick"}', "json")
    assert app.drain().new == 2


def test_a_store_that_refuses_leaves_the_files_and_a_payload_that_was_not_stored_is_no_second_telling(
    app: App, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(spool, prompt("words"))
    keep(spool, prompt("words"))
    with monkeypatch.context() as patched:
        patched.setattr(app.storage.events, "append", lambda *_, **__: (_ for _ in ()).throw(StorageError("full")))
        with pytest.raises(StorageError):
            app.drain()
    assert len(names(spool / "new")) == 2
    assert app.drain().new == 1


def test_only_so_many_are_stored_when_so_many_are_asked_for(app: App, spool: Path) -> None:
    for n in range(5):
        keep(spool, prompt(f"prompt {n}"))
    assert app.spool is not None
    report = app.drain(limit=2)
    assert (report.new, report.left, app.spool.count_waiting()) == (2, 3, 3)
    assert sorted(told(app)) == ["prompt 0", "prompt 1"]
    assert app.drain().new == 3


def test_two_that_drain_at_once_store_everything_once(app: App, spool: Path) -> None:
    for n in range(60):
        keep(spool, prompt(f"prompt {n}"))
    reports: list[DrainReport] = []
    together(*[lambda: reports.append(app.drain())] * 4)
    assert sum(r.new for r in reports) == 60
    assert sum(r.known + r.files_failed for r in reports) == 0
    assert len(told(app)) == 60


# what cannot be read

HEADER = {"v": 1, "client": "claude-code", "at_ns": 1_768_204_800_000_000_000}


def enveloped(payload: bytes, **more: Any) -> bytes:
    return json.dumps(HEADER | more).encode() + b"\n" + payload


BAD = {
    "empty file": (b"", "no envelope"),
    "no header": (prompt("x"), "no envelope"),
    "header that is no object": (b"7\n" + prompt("x"), "no envelope"),
    "header without time": (b'{"v":1,"client":"json"}\n{}', "no envelope"),
    "endless header": (b"x" * 100_000, "no envelope"),
    "another form": (enveloped(prompt("x"), v=2), "an envelope of form 2"),
    "unknown client": (enveloped(prompt("x"), client="nobody"), "unknown client"),
    "longer than is kept": (enveloped(prompt("x"), cut=True), "longer than a hook keeps"),
    "no payload": (enveloped(b""), "not JSON"),
    "torn payload": (enveloped(prompt("x")[:-9]), "not JSON"),
    "not an object": (enveloped(b"[1]"), "not a JSON object"),
    "no event": (enveloped(b'{"session_id": "s"}'), "no hook_event_name"),
    "no session": (enveloped(b'{"hook_event_name": "Stop"}'), "no session_id"),
    "a time nobody can live in": (enveloped(prompt("x"), at_ns=10**30), "Error"),
    "bytes": (enveloped(b"\xff\xfe\x00\x01"), "not JSON"),
}


def test_what_cannot_be_read_is_set_aside_told_and_stops_nothing(app: App, spool: Path) -> None:
    for kind, (raw, reason) in BAD.items():
        keep(spool, prompt(f"before {kind}"))
        bad = ["00000000000000000001-bad", "09999999999999999999-bad"]
        for name in bad:
            (spool / "new" / name).write_bytes(raw)
        report = app.drain()
        assert (report.bad, report.new) == (2, 1), kind
        text = raw.decode("utf-8", "replace").replace("\0", "\ufffd")
        aside = [spool / "bad" / name for name in names(spool / "bad")]
        assert [file.read_text("utf-8").partition("\n")[2] for file in aside] == [text, text], kind
        assert names(spool / "new") == []
        (quoted,) = report.quotes.values()
        assert reason in next(iter(report.quotes))
        assert [q.file for q in quoted] == bad
        assert app.drain().files == 0
        for file in aside:
            file.unlink()
    assert sorted(told(app)) == sorted(f"before {kind}" for kind in BAD)


def test_invalid_bytes_inside_words_cost_only_themselves(app: App, spool: Path) -> None:
    keep(spool, prompt("wXords").replace(b"X", b"\xff"))
    keep(spool, b"\xef\xbb\xbf" + prompt("marked"))
    assert app.drain().new == 2
    assert sorted(told(app)) == ["marked", "w\ufffdords"]


def test_a_quoted_payload_shows_no_secret_and_what_passes_is_clean_as_from_any_source(app: App, spool: Path) -> None:
    keep(spool, b'{"prompt": "my key is AKIAIOSFODNN7EXAMPL3", ')
    report = app.drain()
    (quotes,) = report.quotes.values()
    assert "[REDACTED" in quotes[0].text
    assert "AKIAIOSFODNN7EXAMPL3" not in repr(report)
    keep(spool, prompt("use AKIAIOSFODNN7EXAMPL3 and <private>my diary</private> now"))
    keep(spool, prompt("<recalled-by-memory-mcp>\nold words\n</recalled-by-memory-mcp>"))
    report = app.drain()
    assert (report.new, report.dropped, report.redacted.total()) == (1, {"own output": 1}, 1)
    (kept,) = told(app)
    assert "AKIA" not in kept
    assert "diary" not in kept
    assert kept.startswith("use [REDACTED")


def test_what_cannot_be_opened_is_left_and_counted(app: App, spool: Path) -> None:
    keep(spool, prompt("words"))
    (spool / "new" / "00000000000000000001-dir").mkdir()
    report = app.drain()
    assert (report.new, report.files_failed, report.left) == (1, 1, 1)
    assert names(spool / "new") == ["00000000000000000001-dir"]


def test_what_a_killed_hook_left_half_written_is_swept_after_a_day(app: App, spool: Path) -> None:
    keep(spool, prompt("words"))
    old, fresh = spool / "tmp" / "old", spool / "tmp" / "fresh"
    for file in (old, fresh):
        file.write_bytes(b'{"v":1,')
    past = time.time() - STALE_S - 60
    os.utime(old, (past, past))
    assert app.drain().swept == 1
    assert names(spool / "tmp") == ["fresh"]


def test_one_that_another_process_sweeps_first_keeps_no_other_from_being_swept(
    app: App, spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(spool, prompt("words"))
    past = time.time() - STALE_S - 60
    for name in ("first", "second"):
        (spool / "tmp" / name).write_bytes(b'{"v":1,')
        os.utime(spool / "tmp" / name, (past, past))
    unlink = Path.unlink

    def unlink_too_late(path: Path, missing_ok: bool = False) -> None:
        if path.name == "first":
            unlink(path)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink_too_late)
    assert app.drain().swept == 1
    assert names(spool / "tmp") == []


# with the transcript


@pytest.mark.parametrize("hooks_first", [True, False])
def test_a_session_captured_and_imported_is_remembered_once(hooks_first: bool, app: App, spool: Path, tmp_path: Path) -> None:
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    common = {"sessionId": SESSION, "cwd": "/home/dev/shop", "timestamp": at}
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest"}}
    answer = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3 passed in 0.1s (zirconium)"}
    lines = [
        {**common, "type": "user", "uuid": "1", "message": {"role": "user", "content": "Run the tests of the queue."}},
        {**common, "type": "assistant", "uuid": "2", "message": {"role": "assistant", "content": [call]}},
        {**common, "type": "user", "uuid": "3", "message": {"role": "user", "content": [answer]}},
        {**common, "type": "assistant", "uuid": "4", "message": {"role": "assistant", "content": "They pass."}},
    ]
    transcript = write(tmp_path / f"{SESSION}.jsonl", *map(json.dumps, lines))
    tool = {"tool_name": "Bash", "tool_input": {"command": "pytest"}, "tool_use_id": "toolu_1"}
    tool["tool_response"] = {"stdout": "3 passed"}

    def capture() -> None:
        keep(spool, prompt("Run the tests of the queue."))
        keep(spool, prompt("", hook_event_name="PostToolUse", **tool))
        keep(spool, prompt("", hook_event_name="Stop", last_assistant_message="They pass."))
        assert app.drain().new == 4

    def imported() -> None:
        assert app.run_import("claude-code", transcript).new == 4

    for step in (capture, imported) if hooks_first else (imported, capture):
        step()
        app.derivation.run()
        assert findings(app) == []
    assert sorted(told(app)) == sorted(
        ["Run the tests of the queue.", "Bash: pytest", "3 passed in 0.1s (zirconium)", "They pass."]
    )
    assert app.tree.tally().events == 4
    assert len(app.ask(Query("zirconium", 5)).hits) == 1
    report = rebuild(app)
    assert (report.nodes_changed, report.nodes_dropped, report.terms_rewritten) == (0, 0, 0)
    assert app.run_import("claude-code", transcript).new == 0


def test_writes_and_ends_of_sessions_are_announced_whoever_tells_of_them_and_nothing_else_is(data_dir: Path, spool: Path) -> None:
    heard = list[str]()
    settings = Settings(storage=StorageSettings(str(data_dir), "Europe/Berlin"))
    calls = Callbacks(on_write=lambda: heard.append("write"), on_session_end=lambda: heard.append("end"))
    app = App(settings, callbacks=calls)
    app.drain()
    keep(spool, prompt("x", hook_event_name="PreToolUse"))
    assert (app.drain().skipped, heard) == ({"PreToolUse": 1}, [])
    keep(spool, prompt("words"))
    app.drain()
    keep(spool, prompt("", hook_event_name="SessionEnd", reason="exit"))
    app.drain()
    app.write([draft("Session ended", kind=EventType.SESSION_END, role=Role.SYSTEM)], "test")
    app.close()
    assert heard == ["write", "write", "end", "write", "end"]
