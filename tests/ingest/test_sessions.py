"""Codex, Gemini CLI, Qwen Code, Copilot, opencode: their kinds of record, by our own samples and what they must give."""

import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers.base import Importer, ImportReport
from memory_mcp.importers.json_records import iter_records
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import RECAP, RECORD, EventDraft, EventType, Role
from memory_mcp.model.fencing import fence_text
from memory_mcp.tree.llm.material import Prompt
from tests.ingest.suite import LINES, at, codex_line, gemini_line, opencode_session, outcome, read, texts, write

SAMPLES = Path(__file__).parent / "samples"
NAMES = ("codex", "gemini", "qwen", "copilot", "copilot-chat", "opencode")
GROWING = ("codex", "gemini", "qwen", "copilot")


def samples() -> list[tuple[str, Path]]:
    """Each sample with its importer's name: a file, or a folder that is one store."""
    return [(name, p) for name in NAMES for p in sorted((SAMPLES / name).iterdir()) if ".expected" not in p.name]


def importer(name: str, thinking: bool = False) -> Importer:
    return IMPORTERS[name](IngestSettings(include_thinking=thinking))


def drafts_of(name: str, path: Path, thinking: bool = False) -> list[EventDraft]:
    one = importer(name, thinking)
    return [d for file in one.iter_files(path) for step in read(one, file)[0] for d in step.drafts]


def spelled(draft: EventDraft) -> dict[str, Any]:
    """A draft as the expectations spell it: without empty fields."""
    told = {name: getattr(draft, name) for name in EventDraft.__dataclass_fields__}
    return {name: value for name, value in told.items() if value not in ("", {}, None)}


def told_of(name: str, sample: Path) -> dict[str, Any]:
    """What a sample gives, as the expectations spell it: without empty fields."""
    one, report = importer(name), ImportReport()
    return outcome([step for file in one.iter_files(sample) for step in one.read_file(file, 0, report)], report, spelled)


@pytest.mark.parametrize(("name", "sample"), samples(), ids=lambda value: getattr(value, "name", value))
def test_a_sample_gives_its_expected_events(name: str, sample: Path) -> None:
    expected = json.loads((SAMPLES / name / f"{sample.stem}.expected.json").read_text(encoding="utf-8"))
    assert told_of(name, sample) == expected


@pytest.mark.parametrize(
    ("name", "sample"), [s for s in samples() if s[0] in GROWING and s[1].suffix == ".jsonl"], ids=lambda v: getattr(v, "name", v)
)
def test_a_resumed_read_gives_the_same_drafts_from_every_offset(name: str, sample: Path) -> None:
    steps, _ = read(importer(name), sample)
    for done, step in enumerate(steps, 1):
        assert read(importer(name), sample, step.offset)[0] == steps[done:], done


@pytest.mark.parametrize("name", NAMES)
def test_thinking_is_kept_on_request_and_changes_nothing_else(name: str) -> None:
    without = [draft for other, sample in samples() if other == name for draft in drafts_of(name, sample)]
    with_it = [draft for other, sample in samples() if other == name for draft in drafts_of(name, sample, thinking=True)]
    thoughts = [draft for draft in with_it if draft.metadata.get(RECORD) == "thinking"]
    assert thoughts
    assert [draft for draft in with_it if draft not in thoughts] == without


@pytest.mark.parametrize("name", NAMES)
def test_no_two_events_of_a_sample_share_an_id_or_a_moment(name: str) -> None:
    for other, sample in samples():
        drafts = [d for d in drafts_of(name, sample) if d.timestamp is not None] if other == name else []
        # Gemini CLI tells a message again as a whole: that must be the same event.
        told = {(d.session_id, d.thread, d.timestamp, d.source_id, d.text) for d in drafts}
        assert len({d.source_id for d in drafts}) == len(told), sample
        assert len({moment[:3] for moment in told}) == len(told), sample


def test_what_an_unknown_kind_holds_is_quoted() -> None:
    for name, sample in samples():
        report = ImportReport()
        one = importer(name)
        for file in one.iter_files(sample):
            list(one.read_file(file, 0, report))
        assert set(report.quotes) == set(report.skipped), sample


def prompt_line(name: str, text: str) -> str:
    line = json.loads(LINES[name](1).replace("words of 1", "WORDS").replace('"gemini"', '"user"'))
    return json.dumps(line).replace('"WORDS"', json.dumps(text))


@pytest.mark.parametrize("name", GROWING)
def test_a_session_that_our_own_summarizer_had_gives_nothing_from_any_offset(name: str, tmp_path: Path) -> None:
    prompt = Prompt("Say it better.", fence_text("We decided to use the outbox table.")).whole
    file = write(tmp_path / "own.jsonl", prompt_line(name, prompt), LINES[name](2), LINES[name](3))
    steps, report = read(importer(name), file)
    assert texts(steps) == []
    assert report.skipped == {"the summarizer's own session": 3}
    assert all(texts(read(importer(name), file, step.offset)[0]) == [] for step in steps)


def test_our_own_summarizers_session_in_a_database_gives_nothing(tmp_path: Path) -> None:
    file = opencode_session(tmp_path, 2)
    prompt = Prompt("Say it better.", fence_text("We decided to use the outbox table.")).whole
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("UPDATE part SET data = ? WHERE id = 'p0'", (json.dumps({"type": "text", "text": prompt}),))
    assert read(importer("opencode"), file)[1].skipped == {"the summarizer's own session": 2}


@pytest.mark.parametrize("name", ["codex", "gemini", "copilot"])
def test_a_file_without_a_head_belongs_to_the_session_it_is_named_after(name: str, tmp_path: Path) -> None:
    (draft,) = drafts_of(name, write(tmp_path / "abc.jsonl", LINES[name](1)))
    assert draft.session_id == "abc"


def test_a_rollout_far_behind_its_head_still_knows_session_directory_and_tool(tmp_path: Path) -> None:
    """The look back is bounded; what the head says is not looked for in between."""
    head = (SAMPLES / "codex" / "rollout-2026-03-02T09-00-00-conversation.jsonl").read_text(encoding="utf-8").splitlines()[0]
    called = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd":"ls"}', "call_id": "late"}
    answered = {"type": "function_call_output", "call_id": "late", "output": "a.py"}
    call, answer = (json.dumps({"timestamp": at(900), "type": "response_item", "payload": p}) for p in (called, answered))
    filler = [codex_line(n).replace("words", "words " * 500) for n in range(200)]
    file = write(tmp_path / "rollout.jsonl", head, *filler, call)
    offset = file.stat().st_size
    write(file, head, *filler, call, answer)
    steps, report = read(importer("codex"), file, offset)
    (draft,) = (d for step in steps for d in step.drafts)
    assert (draft.session_id, draft.project) == ("01900000-0000-7000-8000-000000000001", "example.org/acme/shop")
    assert (draft.metadata["tool"], report.lines) == ("exec_command", 1)


def test_a_session_of_gemini_belongs_to_the_directory_its_folder_names_or_whose_hash_it_is_called_by(tmp_path: Path) -> None:
    chats = tmp_path / "tmp" / "shop" / "chats"
    chats.mkdir(parents=True)
    (chats.parent / ".project_root").write_text("/home/dev/shop")
    file = write(chats / "session-2026-03-02T09-00-6e000000.jsonl", gemini_line(1))
    assert drafts_of("gemini", file)[0].project == "/home/dev/shop"
    # A hash is known by the directories that the client lists.
    chats = tmp_path / "tmp" / hashlib.sha256(b"/home/dev/shop").hexdigest() / "chats"
    chats.mkdir(parents=True)
    listed = dict.fromkeys(("/home/dev/shop", "/home/dev/other"), "TRUST_FOLDER")
    (tmp_path / "trustedFolders.json").write_text(json.dumps(listed))
    assert drafts_of("gemini", write(chats / "session-a.jsonl", gemini_line(1)))[0].project == "/home/dev/shop"


def test_a_subagent_of_gemini_is_a_thread_of_the_session_that_called_it(tmp_path: Path) -> None:
    folder = tmp_path / "chats" / "s1"
    folder.mkdir(parents=True)
    head = {"sessionId": "helper", "projectHash": "a", "startTime": at(0), "lastUpdated": at(0), "kind": "subagent"}
    prompt = {"id": "u", "timestamp": at(1), "type": "user", "content": "Count the tests."}
    first, second = drafts_of("gemini", write(folder / "helper.jsonl", *map(json.dumps, (head, prompt)), gemini_line(2)))
    assert (first.session_id, first.thread, first.role, first.type) == ("s1", "helper", Role.ASSISTANT, EventType.SUBAGENT_START)
    assert second.thread == "helper"


def test_the_log_of_prompts_tells_only_sessions_without_a_file_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    write(tmp_path / "chats" / "session-2026-03-02T09-00-6e000000.jsonl", gemini_line(1))
    entries = [
        {"sessionId": session, "messageId": 0, "type": "user", "message": "Mend it.", "timestamp": at(1)}
        for session in ("6e000000-0000-4000-8000-000000000001", "7f000000-0000-4000-8000-000000000001")
    ]
    log = tmp_path / "logs.json"
    log.write_text(json.dumps(entries, indent=2))
    assert [d.session_id for d in drafts_of("gemini", log)] == ["7f000000-0000-4000-8000-000000000001"]


def test_a_session_written_as_a_whole_gives_its_end_when_it_has_grown(tmp_path: Path, pipeline: Pipeline) -> None:
    def session(count: int) -> None:
        messages = [json.loads(gemini_line(n)) for n in range(count)]
        told = {"sessionId": "s1", "projectHash": "a", "startTime": at(0), "lastUpdated": at(count), "messages": messages}
        (tmp_path / "session-a.json").write_text(json.dumps(told, indent=2))

    found = []
    for count in (2, 2, 5):
        session(count)
        report = pipeline.import_source(importer("gemini"), tmp_path)
        found.append((report.new, report.known, report.files_unchanged))
    assert found == [(2, 0, 0), (0, 0, 1), (3, 2, 0)]


def test_an_answer_of_opencode_is_told_once_it_is_finished(tmp_path: Path) -> None:
    file = opencode_session(tmp_path, 2)
    made = 1_772_442_009_000
    info: dict[str, Any] = {"role": "assistant", "time": {"created": made}}
    with closing(sqlite3.connect(file)) as con:
        con.execute("INSERT INTO message VALUES ('m9', 's1', ?, ?)", (made, json.dumps(info)))
        con.execute("INSERT INTO part VALUES ('p9', 'm9', ?)", (json.dumps({"type": "text", "text": "half a wo"}),))
        con.commit()
        steps, report = read(importer("opencode"), file)
        assert texts(steps) == ["words of 0", "words of 1"]
        assert report.skipped == {"not finished yet": 1}
        info["time"]["completed"] = made + 1
        con.execute("UPDATE message SET data = ? WHERE id = 'm9'", (json.dumps(info),))
        con.execute("UPDATE part SET data = ? WHERE id = 'p9'", (json.dumps({"type": "text", "text": "half a word more"}),))
        con.commit()
    again, report = read(importer("opencode"), file, steps[-1].offset)
    assert (texts(again), report.lines) == (["half a word more"], 1)


def test_what_was_written_just_now_is_looked_at_again(tmp_path: Path) -> None:
    """Another process may still add a message of the same millisecond."""
    file = opencode_session(tmp_path, 3)
    last = 1_772_442_002_000
    os.utime(file, ns=(0, (last + 1000) * 1_000_000))
    steps, _ = read(importer("opencode"), file)
    assert steps[-1].offset == 0


#: A database of OpenCode 2, as far as it is read.
OPENCODE_2 = """
CREATE TABLE session_v2 (id text, parent_id text, directory text, version text, time_updated integer);
CREATE TABLE session_message (id text, session_id text, type text, seq integer, time_created integer, data text);
INSERT INTO session_v2 VALUES ('s2', NULL, '/home/dev/shop', '2.0.1', 1772442000000);
INSERT INTO session_message VALUES ('a', 's2', 'user', 0, 1772442000000, '{"text": "which port"}');
INSERT INTO session_message VALUES ('b', 's2', 'assistant', 1, 1772442001000, '{"content": [
 {"type": "text", "text": "it is 8443"},
 {"type": "tool", "id": "c", "name": "bash", "state": {"status": "completed", "input": {"command": "ss"},
  "content": [{"type": "text", "text": "listening"}]}}], "time": {"created": 1772442001000, "completed": 1772442002000}}');
INSERT INTO session_message VALUES ('d', 's2', 'novel', 2, 1772442003000, '{"note": {"inner": "some words"}}');
"""


@pytest.mark.parametrize("version", [1, 2])
def test_a_database_of_opencode_is_read_by_its_columns(version: int, tmp_path: Path) -> None:
    """Each table under another name, and without any column that is not needed: the same words, by the same roles."""
    file = opencode_session(tmp_path, 2)
    if version == 2:
        file.unlink()
        with closing(sqlite3.connect(file)) as con:
            con.executescript(OPENCODE_2)
    expected = [(draft.role.value, draft.text) for step in read(importer("opencode"), file)[0] for draft in step.drafts]
    assert len(expected) == (2 if version == 1 else 5)
    optional = {"parent_id", "directory", "version", "time_created", "time_updated", "seq"}
    with closing(sqlite3.connect(file)) as con:
        tables = [name for (name,) in con.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        changes = [f"ALTER TABLE {table} RENAME TO renamed_{table}" for table in tables]
        for table in tables:
            columns = {row[1] for row in con.execute(f"PRAGMA table_info({table})")}
            changes += [f"ALTER TABLE {table} DROP COLUMN {column}" for column in sorted(columns & optional)]
    for change in changes:
        changed = tmp_path / "changed" / "opencode.db"
        changed.parent.mkdir(exist_ok=True)
        shutil.copy(file, changed)
        with closing(sqlite3.connect(changed)) as con:
            con.execute(change)
            con.commit()
        steps, _ = read(importer("opencode"), changed)
        assert [(draft.role.value, draft.text) for step in steps for draft in step.drafts] == expected, change


def test_a_session_of_opencode_that_comes_later_with_older_times_is_read_and_a_table_of_no_kind_is_named(tmp_path: Path) -> None:
    file = opencode_session(tmp_path, 2)
    done = read(importer("opencode"), file)[0][-1].offset
    with closing(sqlite3.connect(file)) as con:
        info = json.dumps({"role": "user", "time": {"created": 1_600_000_000_000}})
        con.execute("INSERT INTO message VALUES ('old', 's0', 1600000000000, ?)", (info,))
        con.execute("INSERT INTO part VALUES ('po', 'old', ?)", (json.dumps({"type": "text", "text": "carried in"}),))
        con.execute("CREATE TABLE conversation_v9 (session_ref, body)")
        con.execute("INSERT INTO conversation_v9 VALUES ('s', 'words')")
        con.commit()
    steps, report = read(importer("opencode"), file, done)
    assert texts(steps) == ["carried in"]
    assert report.skipped == {"unknown table conversation_v9": 1}
    # A position that an earlier version stored is the time of a message: all is read again, and known by its ids.
    assert len(texts(read(importer("opencode"), file, 1_772_442_001_000)[0])) == 3


def test_a_part_that_breaks_off_is_reported_and_read_when_it_is_whole(tmp_path: Path, pipeline: Pipeline) -> None:
    store = tmp_path / "storage"
    shutil.copytree(SAMPLES / "opencode" / "storage", store)
    part = store / "part" / "msg_2" / "prt_22.json"
    content = part.read_bytes()
    part.write_bytes(content[: len(content) // 2])
    first = pipeline.import_source(importer("opencode"), store)
    assert first.files_failed == 1
    assert "prt_22.json" in first.quotes["unreadable file"][0].text
    part.write_bytes(content)
    assert pipeline.import_source(importer("opencode"), store).new == 1
    assert pipeline.import_source(importer("opencode"), store).files_failed == 0


def test_a_damaged_database_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = opencode_session(tmp_path, 3)
    file.write_bytes(file.read_bytes()[:100] + b"\0" * 4000)
    with pytest.raises(OSError, match="database cannot be read"):
        read(importer("opencode"), file)


def test_recaps_are_marked_so_that_they_are_not_told_as_what_happened() -> None:
    for name, sample in samples():
        notes = [d for d in drafts_of(name, sample) if d.metadata.get(RECORD) == "compacted"]
        assert all(d.metadata[RECAP] == "true" and d.role is Role.SYSTEM for d in notes)
    recapped = {name for name, s in samples() if any(d.metadata.get(RECAP) for d in drafts_of(name, s))}
    assert recapped == set(NAMES) - {"copilot-chat"}


def test_a_session_taken_up_again_tells_no_message_twice_though_its_times_are_new(tmp_path: Path) -> None:
    """Gemini CLI writes all messages again, with new times; a read far behind the first telling must know theirs."""
    old = [json.loads(gemini_line(n).replace("words", "words " * 600)) for n in range(200)]
    again = {"$set": {"messages": [message | {"timestamp": at(5000)} for message in old]}}
    file = write(tmp_path / "session-a.jsonl", *map(json.dumps, old), gemini_line(300))
    offset = file.stat().st_size
    assert offset > 512 * 1024
    write(file, *map(json.dumps, old), gemini_line(300), json.dumps(again), gemini_line(5001))
    steps, report = read(importer("gemini"), file, offset)
    assert texts(steps) == ["words of 5001"]
    assert report.skipped == {"told by another record": 1}


def test_a_log_of_changes_gives_what_the_session_it_describes_gives(tmp_path: Path) -> None:
    """VS Code writes a session as one object, or as one and what changed since."""
    whole = SAMPLES / "copilot-chat" / "session.json"
    session = json.loads(whole.read_text(encoding="utf-8"))
    first, second, third = session["requests"]
    changes: list[dict[str, Any]] = [
        {"kind": 0, "v": session | {"requests": []}},
        {"kind": 2, "k": ["requests"], "v": [first | {"result": {}}, {"requestId": "taken back"}]},
        {"kind": 2, "k": ["requests"], "v": [second | {"surplus": 1}, third], "i": 1},
        {"kind": 1, "k": ["requests", 0, "result"], "v": first["result"]},
        {"kind": 3, "k": ["requests", 1, "surplus"]},
        {"kind": 1, "k": ["requests", 9, "result"], "v": {}},
    ]
    log = write(tmp_path / "session.jsonl", *map(json.dumps, changes))
    steps, report = read(importer("copilot-chat"), log)
    assert [d for step in steps for d in step.drafts] == drafts_of("copilot-chat", whole)
    assert report.skipped == {"unknown kind of record": 1}


def test_a_chat_belongs_to_the_folder_of_its_workspace(tmp_path: Path) -> None:
    chats = tmp_path / "0a1b" / "chatSessions"
    chats.mkdir(parents=True)
    (tmp_path / "0a1b" / "workspace.json").write_text(json.dumps({"folder": "file:///home/dev/my%20shop"}))
    (chats / "s1.json").write_bytes((SAMPLES / "copilot-chat" / "session.json").read_bytes())
    assert {d.project for d in drafts_of("copilot-chat", tmp_path)} == {"/home/dev/my shop"}


ODD: list[Any] = [None, 7, "odd", ["odd", None, [{}]], {}, {"text": {"odd": []}}]


def twisted(value: Any) -> Iterator[Any]:
    """Each value that is like the given one but for one odd thing at one place."""
    yield from ODD
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for odd in twisted(value[key]):
            copy = value.copy()
            copy[key] = odd
            yield copy


@pytest.mark.parametrize("name", [n for n in NAMES if n != "opencode"])
def test_nothing_odd_in_the_place_of_anything_raises(name: str, tmp_path: Path) -> None:
    one = importer(name, thinking=True)
    for other, sample in samples():
        text = sample.read_text(encoding="utf-8") if other == name else ""
        records = [record.value for record in iter_records(sample) if not record.error] if text else []
        for record in records:
            # The strange ones come one after the other, as records of one file do, or each as a file of its own.
            if sample.suffix == ".jsonl":
                file = write(tmp_path / sample.name, *map(json.dumps, twisted(record)))
                assert read(one, file)[0] == read(one, file)[0]
            for strange in twisted(record) if sample.suffix == ".json" else ():
                read(one, write(tmp_path / sample.name, json.dumps(strange)))


def test_nothing_odd_in_a_message_of_opencode_or_its_parts_raises(tmp_path: Path) -> None:
    store = tmp_path / "storage"
    shutil.copytree(SAMPLES / "opencode" / "storage", store)
    messages = sorted((store / "message").glob("*/*.json"))
    for file in (*messages, *sorted(store.glob("part/*/*.json")), *sorted(store.glob("session/*/*.json"))):
        raw = file.read_bytes()
        # A part belongs to the message that its folder is named after.
        read_with = [m for m in messages if m == file or m.stem == file.parent.name or m.parent.name == file.stem][:1]
        for strange in twisted(json.loads(raw)):
            file.write_text(json.dumps(strange))
            for message in read_with:
                read(importer("opencode", thinking=True), message)
        file.write_bytes(raw)


ASKED = {"questions": [{"id": "store", "header": "Store", "question": "Which store?", "options": [{"label": "Tables"}]}]}
DENIED = "The user rejected permission to use this specific tool call with the following feedback: "


def opencode_tool(folder: Path, tool: str, state: dict[str, Any]) -> Path:
    file = opencode_session(folder, 1)
    with closing(sqlite3.connect(file)) as con, con:
        info = json.dumps({"role": "assistant", "time": {"created": 1_772_442_060_000, "completed": 1_772_442_061_000}})
        con.execute("INSERT INTO message VALUES ('m9', 's1', 1772442060000, ?)", (info,))
        part = {"type": "tool", "tool": tool, "callID": "c1", "state": state}
        con.execute("INSERT INTO part VALUES ('p9', 'm9', ?)", (json.dumps(part),))
    return file


def test_what_a_person_answers_to_a_tool_is_the_persons_in_every_client(tmp_path: Path) -> None:
    def lines(name: str, *records: dict[str, Any]) -> Path:
        (tmp_path / name).mkdir()
        return write(tmp_path / name / "session-a.jsonl", *(json.dumps({"timestamp": at(n)} | r) for n, r in enumerate(records)))

    output = json.dumps({"answers": {"store": {"answers": ["Files", "user_note: as before"]}}})
    call = {"type": "function_call", "name": "request_user_input", "arguments": json.dumps(ASKED), "call_id": "c1"}
    back = {"type": "function_call_output", "call_id": "c1", "output": output}
    codex = lines("codex", {"type": "response_item", "payload": call}, {"type": "response_item", "payload": back})
    response = {
        "functionResponse": {"id": "c1", "name": "ask_user", "response": {"output": json.dumps({"answers": {"0": "Files"}})}}
    }
    asks = {"id": "c1", "name": "ask_user", "args": ASKED, "status": "success", "result": [response]}
    gemini = lines("gemini", {"id": "g1", "type": "gemini", "content": "", "toolCalls": [asks]})
    start = {"toolCallId": "c1", "toolName": "ask_user", "arguments": {"question": "Which store?", "choices": ["Tables"]}}
    done = {"toolCallId": "c1", "success": True, "result": {"content": "User responded: Files"}}
    kinds = ("tool.execution_start", "tool.execution_complete")
    copilot = lines(
        "copilot", *({"type": kind, "data": data, "id": kind} for kind, data in zip(kinds, (start, done), strict=True))
    )
    state = {"status": "completed", "input": ASKED, "output": "?", "metadata": {"answers": [["Files", "as before"]]}}
    (tmp_path / "opencode").mkdir()
    (tmp_path / "refused").mkdir()
    opencode = opencode_tool(tmp_path / "opencode", "question", state)
    refused = opencode_tool(
        tmp_path / "refused", "bash", {"status": "error", "input": {"command": "x"}, "error": DENIED + "use make"}
    )
    told = "The user denied this operation and provided the following feedback:\n<feedback>\nuse make\n</feedback>"
    called = {"type": "tool_use", "id": "c1", "name": "execute_command", "input": {"command": "npm i"}}
    answered = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": told}]}
    cline = tmp_path / "tasks" / "1772442000000" / "api_conversation_history.json"
    cline.parent.mkdir(parents=True)
    cline.write_text(json.dumps([{"role": r, "content": [b]} for r, b in (("assistant", called), ("user", answered))]))
    for name, file, words in (
        ("cline", cline, "use make"),
        ("codex", codex, "> Which store?\nFiles, as before"),
        ("gemini", gemini, "> Which store?\nFiles"),
        ("copilot", copilot, "> Which store?\nFiles"),
        ("opencode", opencode, "> Which store?\nFiles, as before"),
        ("opencode", refused, "use make"),
    ):
        draft = drafts_of(name, file)[-1]
        assert (draft.role, draft.type, draft.text) == (Role.USER, EventType.USER_MESSAGE, words), name
        assert draft.source_id == "c1#result" or name == "cline"


def test_calls_that_only_the_answer_shows_are_events_like_others(tmp_path: Path) -> None:
    tool = {
        "kind": "toolInvocationSerialized",
        "isComplete": True,
        "invocationMessage": {"value": "Reading [](file:///home/a.py#1-1)"},
    }
    terminal = {"kind": "terminal", "commandLine": {"original": "make"}, "terminalCommandOutput": {"text": "1 failed"}}
    found = [{"path": "/home/b.py", "scheme": "file"}, {"uri": {"path": "/home/c.py"}, "range": {"startLineNumber": 7}}]
    served = {"input": '{"q": "tides"}', "output": [{"type": "embed", "isText": True, "value": "high at noon"}], "isError": True}
    response = [
        {"value": "I look."},
        tool | {"toolId": "read", "toolCallId": "c1", "pastTenseMessage": {"value": "Read [](file:///home/a.py)"}},
        tool | {"toolId": "run", "toolCallId": "c2", "toolSpecificData": terminal | {"terminalCommandState": {"exitCode": 2}}},
        tool | {"toolId": "find", "toolCallId": "c3", "resultDetails": found},
        tool | {"toolId": "serve", "resultDetails": served},
        {"kind": "markdownContent", "content": {"value": "Done."}},
    ]
    request = {
        "requestId": "r1",
        "timestamp": 1_772_442_000_000,
        "message": {"text": "go"},
        "responseId": "a1",
        "response": response,
    }
    session = {
        "responderUsername": "x",
        "sessionId": "s1",
        "requests": [request | {"result": {"timings": {"totalElapsed": 5000}}}],
    }
    file = tmp_path / "chatSessions" / "s1.json"
    file.parent.mkdir()
    file.write_text(json.dumps(session))
    drafts = drafts_of("copilot-chat", file)
    assert [(d.source_id, d.type.value, d.text) for d in drafts] == [
        ("r1", "user_message", "go"),
        ("c1", "tool_call", "read: /home/a.py\ndescription: Reading /home/a.py"),
        ("c1#result", "tool_result", "Read /home/a.py"),
        ("c2", "tool_call", "run: make"),
        ("c2#result", "tool_result", "1 failed"),
        ("c3", "tool_call", "find: /home/a.py\ndescription: Reading /home/a.py"),
        ("c3#result", "tool_result", "/home/b.py\n/home/c.py:7"),
        ("r1#tool3", "tool_call", "serve: tides"),
        ("r1#tool3#result", "tool_result", "high at noon"),
        ("a1", "assistant_message", "I look.\nDone."),
    ]
    assert [d.metadata.get("exit_status") for d in drafts if d.source_id == "c2#result"] == ["2"]
    assert drafts[-1].timestamp == 1_772_442_005_000


def test_a_folder_that_is_gone_gives_way_to_the_one_that_a_record_calls_its_origin(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    gone, shop = f"{tmp_path}/gone", f"{tmp_path}/shop"
    meta = {"id": "01", "cwd": gone, "mainWorktreePath": shop}
    codex = write(tmp_path / "rollout.jsonl", json.dumps({"type": "session_meta", "payload": meta}), codex_line(1))
    file = opencode_session(tmp_path, 1)
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("CREATE TABLE project (id, worktree)")
        con.execute("INSERT INTO project VALUES ('p1', ?)", (shop,))
        con.execute("ALTER TABLE session ADD COLUMN project_id")
        con.execute("UPDATE session SET project_id = 'p1', directory = ?", (gone,))
    assert [drafts_of(name, path)[-1].project for name, path in (("codex", codex), ("opencode", file))] == [shop, shop]
    store = tmp_path / "storage"
    for name, value in (
        ("project/p1", {"id": "p1", "worktree": shop}),
        ("session/p1/s1", {"id": "s1", "projectID": "p1"}),
        ("message/s1/m1", {"role": "user", "time": {"created": 1_772_442_000_000}}),
        ("part/m1/a", {"type": "text", "text": "words"}),
    ):
        (store / name).parent.mkdir(parents=True)
        (store / f"{name}.json").write_text(json.dumps(value))
    assert [d.project for d in drafts_of("opencode", store)] == [shop]
