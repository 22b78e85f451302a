"""Cursor's databases while the client has them open, and what is told twice."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers import database as store_module
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.cursor.reader import CursorImporter
from memory_mcp.importers.cursor.transcripts import IN_DATABASE
from memory_mcp.importers.cursor.workspaces import slug_of, user_folder
from memory_mcp.importers.settings import IngestSettings
from tests.examples import examples
from tests.ingest.suite import peak, read, texts, write
from tests.ingest.suite_sessions import BEGAN_MS, cursor_bubble, cursor_session, put_cursor

pytestmark = pytest.mark.usefixtures("home")


def importer() -> CursorImporter:
    return CursorImporter(IngestSettings())


def told(file: Path, offset: int = 0) -> list[str]:
    return texts(read(importer(), file, offset)[0])


def logged(file: Path) -> sqlite3.Connection:
    """The database as a client has it open that writes into a log beside it."""
    con = sqlite3.connect(file)
    con.execute("PRAGMA journal_mode = WAL")
    con.execute("PRAGMA wal_autocheckpoint = 0")
    return con


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_an_open_client_wrote_into_its_log_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    file = cursor_session(tmp_path, 2)
    client = logged(file)
    put_cursor(client, "bubbleId:u1:b2", cursor_bubble(2))
    headers = [{"bubbleId": f"b{n}"} for n in range(3)]
    put_cursor(client, "composerData:u1", {"composerId": "u1", "createdAt": BEGAN_MS, "fullConversationHeadersOnly": headers})
    client.commit()
    before = {name: (tmp_path / name).read_bytes() for name in ("state.vscdb", "state.vscdb-wal")}
    assert told(file) == ["words of 0", "words of 1", "words of 2"]
    assert before == {name: (tmp_path / name).read_bytes() for name in before}
    # The client goes on writing while it is read.
    steps = importer().read_file(file, 0, ImportReport())
    next(steps)
    put_cursor(client, "bubbleId:u1:b3", cursor_bubble(3))
    client.commit()
    list(steps)
    client.close()


def test_a_closed_database_gets_no_files_beside_it(tmp_path: Path) -> None:
    file = cursor_session(tmp_path, 2)
    logged(file).close()
    assert (file.read_bytes()[18], names(tmp_path)) == (2, ["state.vscdb"])
    assert told(file) == ["words of 0", "words of 1"]
    assert names(tmp_path) == ["state.vscdb"]


def test_a_log_that_a_client_left_behind_is_read_from_a_copy(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    client = logged(cursor_session(made, 2))
    put_cursor(client, "bubbleId:u1:b0", {**cursor_bubble(0), "text": "said anew"})
    client.commit()
    left = tmp_path / "left"
    left.mkdir()
    for name in ("state.vscdb", "state.vscdb-wal"):
        (left / name).write_bytes((made / name).read_bytes())
    client.close()
    assert told(left / "state.vscdb") == ["said anew", "words of 1"]
    assert names(left) == ["state.vscdb", "state.vscdb-wal"]


def test_a_locked_database_is_reported_with_what_to_do(
    tmp_path: Path, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_PATIENCE", 0.0)
    file = cursor_session(tmp_path, 2)
    client = sqlite3.connect(file, isolation_level=None)
    client.execute("BEGIN EXCLUSIVE")
    report = pipeline.import_source(importer(), file)
    assert (report.files_failed, report.new) == (1, 0)
    assert "close it, or run the command again" in report.quotes["unreadable file"][0].text
    client.close()
    assert pipeline.import_source(importer(), file).new == 2


@pytest.mark.parametrize("broken", [b"", b"SQLite format 3\x00", b"SQLite format 3\x00" + b"\x01" * 5000, b"plain words"])
def test_what_is_no_database_is_unreadable(broken: bytes, tmp_path: Path, pipeline: Pipeline) -> None:
    (tmp_path / "state.vscdb").write_bytes(broken)
    assert pipeline.import_source(importer(), tmp_path).files_failed == 1


def test_a_message_that_is_being_written_waits_and_so_does_all_behind_it(tmp_path: Path, pipeline: Pipeline) -> None:
    file = cursor_session(tmp_path, 2)
    con = sqlite3.connect(file)
    now = int(file.stat().st_mtime * 1000)
    data: dict[str, Any] = {"createdAt": now, "fullConversationHeadersOnly": [{"bubbleId": "b0"}], "lastUpdatedAt": now}
    put_cursor(con, "bubbleId:u2:b0", {**cursor_bubble(0, "half a"), "createdAt": now})
    put_cursor(con, "composerData:u2", {**data, "status": "generating"})
    con.commit()
    assert pipeline.import_source(importer(), file).new == 2
    put_cursor(con, "bubbleId:u2:b0", {**cursor_bubble(0, "a whole"), "createdAt": now})
    put_cursor(con, "composerData:u2", {**data, "status": "completed"})
    con.commit()
    con.close()
    assert pipeline.import_source(importer(), file).new == 1
    assert "half a 0" not in told(file)


def test_a_conversation_that_was_never_ended_is_read_in_the_end(tmp_path: Path) -> None:
    file = cursor_session(tmp_path, 2)
    headers = [{"bubbleId": "b0"}, {"bubbleId": "b1"}]
    data = {"status": "generating", "lastUpdatedAt": BEGAN_MS, "fullConversationHeadersOnly": headers}
    with closing(sqlite3.connect(file)) as con, con:
        put_cursor(con, "composerData:u1", data)
    assert told(file) == ["words of 0", "words of 1"]


def test_reading_on_gives_what_reading_anew_gives_as_is_done_behind_its_end(tmp_path: Path) -> None:
    file = cursor_session(tmp_path, 3)
    first, _ = read(importer(), file)
    cursor_session(tmp_path, 6)
    rest, _ = read(importer(), file, first[-1].offset)
    anew, _ = read(importer(), file)
    drafts = [[d for step in steps for d in step.drafts] for steps in (first, rest, anew)]
    assert drafts[0] + drafts[1] == drafts[2]
    # A database that was cleaned up is read again.
    assert told(file, 10_000) == [f"words of {n}" for n in range(6)]


def test_a_transcript_of_a_conversation_in_the_database_is_not_told_again(tmp_path: Path) -> None:
    database = user_folder() / "globalStorage"
    database.mkdir(parents=True)
    cursor_session(database, 2)
    folder = tmp_path / "projects" / slug_of("/home/dev/my.shop") / "agent-transcripts"
    folder.mkdir(parents=True)
    workspace = user_folder() / "workspaceStorage" / "w1"
    workspace.mkdir(parents=True)
    (workspace / "workspace.json").write_text(json.dumps({"folder": "file:///home/dev/my.shop"}))
    line = json.dumps({"role": "user", "message": {"content": [{"type": "text", "text": "words"}]}})
    steps, report = read(importer(), write(folder / "u1.jsonl", line))
    assert (texts(steps), report.skipped) == ([], {IN_DATABASE: 1})
    # What the database knows by name alone is told by its transcript.
    with closing(sqlite3.connect(database / "state.vscdb")) as con, con:
        put_cursor(con, "composerData:u9", {"composerId": "u9", "fullConversationHeadersOnly": []})
    steps, _ = read(importer(), write(folder / "u9.jsonl", line))
    assert [(d.text, d.project) for step in steps for d in step.drafts] == [("words", "/home/dev/my.shop")]


def test_a_transcript_that_grew_gives_its_end_with_the_same_times(tmp_path: Path) -> None:
    stamp = "<timestamp>Monday, Mar 2, 2026, 9:00 AM (UTC)</timestamp>\n"
    lines = [
        json.dumps({"role": role, "message": {"content": [{"type": "text", "text": text}]}})
        for role, text in (("user", f"{stamp}<user_query>one</user_query>"), ("assistant", "two"), ("assistant", "three"))
    ]
    file = write(tmp_path / "agent-transcripts.jsonl", *lines)
    whole, _ = read(importer(), file)
    assert [d.timestamp for step in whole for d in step.drafts] == [BEGAN_MS, BEGAN_MS + 2, BEGAN_MS + 3]
    assert read(importer(), file, whole[0].offset)[0] == whole[1:]


def test_only_transcripts_and_databases_are_found(tmp_path: Path) -> None:
    transcripts = ["p/agent-transcripts/a.jsonl", "p/agent-transcripts/a/a.jsonl"]
    for name in (*transcripts, "p/other.jsonl", "state.vscdb.backup", "state.vscdb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    assert [f.relative_to(tmp_path).as_posix() for f in importer().iter_files(tmp_path)] == ["state.vscdb", *transcripts]


_TEXTS = ["\ud800", "completed", '{"command": "x"}', "[1", "2026-03-02T09:00:00Z"]
_KEYS = st.sampled_from(
    "type text bubbleId createdAt toolFormerData name status rawArgs params result error additionalData thinking images uri"
    " context fileSelections fsPath fullConversationHeadersOnly conversation workspaceIdentifier subagentInfo tabs bubbles"
    " allComposers composerId timingInfo modelInfo workspaceUris generatingBubbleIds lastUpdatedAt".split()
)
_VALUE = st.recursive(
    st.none() | st.integers() | st.text(max_size=6) | st.sampled_from(_TEXTS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=5),
    max_leaves=15,
)
_ODD_KEYS = st.sampled_from(["composerData:u1", "bubbleId:u1:b1", "bubbleId:u1:b2", "bubbleId:", "composerData:", "bubbleId:u2"])
_ITEM_KEYS = st.sampled_from(["composer.composerHeaders", "workbench.panel.aichat.view.aichat.chatdata"])


@examples(50)
@given(
    chats=st.dictionaries(_ODD_KEYS, _VALUE.map(json.dumps) | st.binary(max_size=9) | st.none(), max_size=6),
    items=st.dictionaries(_ITEM_KEYS, _VALUE.map(json.dumps), max_size=2),
)
def test_nothing_that_a_database_holds_raises(
    chats: dict[str, Any], items: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "odd" / "state.vscdb"
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file)) as con, con:
        for table, rows in (("ItemTable", items), ("cursorDiskKV", chats)):
            con.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
            con.executemany(f"INSERT INTO {table} VALUES (?, ?)", list(rows.items()))
    assert read(importer(), file)[0] == read(importer(), file)[0]


@pytest.mark.usefixtures("processes")
def test_a_large_database_is_read_message_by_message(tmp_path: Path) -> None:
    """Ours: 30 MB more of messages cost at most 12 MB more of memory."""
    peaks = []
    for size in (20, 3_000):
        folder = tmp_path / str(size)
        folder.mkdir()
        file = cursor_session(folder, 0)
        with closing(sqlite3.connect(file)) as con, con:
            for n in range(size):
                put_cursor(con, f"bubbleId:u{n % 20}:b{n}", cursor_bubble(n, "words " * 1700 + "of"))
            for name in range(20):
                headers = [{"bubbleId": f"b{n}"} for n in range(name, size, 20)]
                put_cursor(con, f"composerData:u{name}", {"createdAt": BEGAN_MS, "fullConversationHeadersOnly": headers})
        events, most = peak("cursor", file)
        assert events == size
        peaks.append(most)
    assert peaks[1] - peaks[0] <= 12
