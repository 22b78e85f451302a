"""Transcripts of the clients that share `ingest/chat.py`: our own samples and the events they must give.

A sample is a folder as a client lays it out; what its files must give lies beside it, by file, in `<sample>.expected.json`.
"""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.importers.base import BEGINNING, Growth, Importer
from memory_mcp.importers.json_records import iter_records
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import RECORD, EventDraft, EventType, Role
from tests.ingest.suite import goose_session, ids, outcome, pi_line, plain, read, texts

SAMPLES = Path(__file__).parent / "samples"
KINDS = ("antigravity", "cline", "deepseek", "goose", "grok", "kimi", "kimi-cli", "pi")
CASES = sorted(path.relative_to(SAMPLES).as_posix() for kind in KINDS for path in (SAMPLES / kind).iterdir() if path.is_dir())


def importer_of(case: str, include_thinking: bool = False) -> Importer:
    return IMPORTERS[case.split("/", maxsplit=1)[0]](IngestSettings(include_thinking=include_thinking))


def files_of(case: str) -> list[Path]:
    return list(importer_of(case).iter_files(SAMPLES / case))


def drafts_of(case: str) -> list[EventDraft]:
    return [d for f in files_of(case) for step in read(importer_of(case), f)[0] for d in step.drafts]


@pytest.mark.parametrize("case", CASES)
def test_a_sample_gives_its_expected_events_each_at_a_time_of_its_own_and_no_image_data(case: str) -> None:
    expected = json.loads((SAMPLES / f"{case}.expected.json").read_text(encoding="utf-8"))
    folder = SAMPLES / case
    assert {f.relative_to(folder).as_posix(): outcome(*read(importer_of(case), f)) for f in files_of(case)} == expected
    for file in files_of(case):
        drafts = [d for step in read(importer_of(case), file)[0] for d in step.drafts]
        assert all("iVBORw0K" not in draft.text for draft in drafts)
        times = [draft.timestamp for draft in drafts if draft.timestamp is not None]
        # Parts that share a time keep their order.
        assert len(set(times)) == len(times)


@pytest.mark.parametrize("case", CASES)
def test_reading_goes_on_behind_any_record_of_a_sample(case: str) -> None:
    importer = importer_of(case)
    for file in files_of(case) if importer.growth is Growth.APPENDED else ():
        whole = read(importer, file)[0]
        for done, step in enumerate(whole, 1):
            assert read(importer, file, step.offset)[0] == whole[done:]


@pytest.mark.parametrize("case", CASES)
def test_every_file_of_a_sample_is_recognised_by_its_own_importer_first(case: str) -> None:
    for file in files_of(case):
        beginning = file.read_bytes()[:BEGINNING]
        told = next(n for n, make in IMPORTERS.items() if make(IngestSettings()).recognises_file(file, beginning))
        assert told == case.split("/", maxsplit=1)[0]


@pytest.mark.parametrize("case", CASES)
def test_thinking_is_kept_on_request_and_moves_no_id_and_no_time(case: str) -> None:
    for file in files_of(case):
        without = read(importer_of(case), file)[0]
        kept = read(importer_of(case, include_thinking=True), file)[0]
        others = [d for step in kept for d in step.drafts if d.metadata.get(RECORD) != "thinking"]
        assert others == [d for step in without for d in step.drafts]


def odd_forms(value: Any, depth: int = 0) -> Iterator[Any]:
    """A record in every form that it has once one of its values is another."""
    if depth:
        yield from (None, 7, "x", [], {}, [[]], [{}], {"a": [None]}, True)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        for form in odd_forms(inner, depth + 1):
            changed = value.copy()
            changed[key] = form
            yield changed


@pytest.mark.parametrize("kind", KINDS)
def test_no_record_of_a_sample_raises_whatever_one_of_its_values_is(kind: str, tmp_path: Path) -> None:
    importer = importer_of(kind, include_thinking=True)
    for file in [f for case in CASES if case.startswith(f"{kind}/") for f in files_of(case)]:
        records = [record.value for record in iter_records(file)]
        forms = [form for record in records for form in odd_forms(record)]
        changed = tmp_path / file.parent.name / file.name
        changed.parent.mkdir(exist_ok=True)
        changed.write_text("\n".join(map(json.dumps, forms)) + "\n", encoding="utf-8")
        assert read(importer, changed)[1].lines
        for form in forms:
            importer.recognises_file(file, json.dumps(form).encode())


def test_a_record_nested_as_deeply_as_can_be_read_costs_only_itself(tmp_path: Path) -> None:
    """Some depth is the last that can be read; what is done with the value then goes a few calls deeper."""
    message = {"role": "assistant", "content": [{"type": "toolCall", "id": "c1", "name": "x", "arguments": {"a": "deep"}}]}
    record = json.dumps({"type": "message", "timestamp": "2026-03-02T09:00:00Z", "message": message})
    for depth in range(850, 1000):
        deep = record.replace('"deep"', "[" * depth + "]" * depth)
        file = tmp_path / f"{depth}.jsonl"
        file.write_text(f"{deep}\n{pi_line(1)}\n", encoding="utf-8")
        steps, report = read(importer_of("pi"), file)
        assert texts(steps)[-1] == "words of 1"
        assert report.lines == 2


def test_entries_of_pis_first_format_keep_their_ids_when_the_client_gives_them_some(tmp_path: Path) -> None:
    file = next((SAMPLES / "pi" / "first_format").glob("*.jsonl"))
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    migrated = [{**r, "id": f"{n:08x}", "parentId": f"{n - 1:08x}" if n > 1 else None} for n, r in enumerate(records)]
    migrated[0] = {**records[0], "version": 3}
    moved = tmp_path / file.name
    moved.write_text("\n".join(map(json.dumps, migrated)) + "\n", encoding="utf-8")
    importer = importer_of("pi")
    assert ids(read(importer, moved)[0]) == ids(read(importer, file)[0])


def test_a_fork_of_a_pi_session_repeats_no_event() -> None:
    parent, fork = files_of("pi/fork")
    told = ids(read(importer_of("pi"), parent)[0])
    repeated = ids(read(importer_of("pi"), fork)[0])
    assert repeated[: len(told)] == told
    assert texts(read(importer_of("pi"), fork)[0])[len(told) :] == ["Go on elsewhere."]


def test_copies_of_an_openclaw_session_are_not_read_and_its_archives_are() -> None:
    names = [file.name for file in files_of("pi/openclaw")]
    assert [".checkpoint." in name or ".trajectory." in name or name == "sessions.json" for name in names] == [False, False]
    assert len({draft.session_id for draft in drafts_of("pi/openclaw")}) == 2


def test_what_a_subagent_is_asked_never_has_the_users_role() -> None:
    helper = [draft for draft in drafts_of("pi/omp") if draft.thread]
    assert [(d.role, d.type) for d in helper] == [
        (Role.ASSISTANT, EventType.SUBAGENT_START),
        (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE),
        (Role.ASSISTANT, EventType.NOTE),
    ]
    assert {d.session_id for d in drafts_of("pi/omp")} == {"33333333-0000-4000-8000-000000000000"}


def goose_database(folder: Path, *sessions: tuple[str, str, str, list[dict[str, Any]]]) -> Path:
    """A database of Goose with sessions: id, kind, caller, messages as a file of lines holds them."""
    file = goose_session(folder, 0)
    columns = "session_id, role, content_json, created_timestamp, metadata_json"
    with closing(sqlite3.connect(file)) as base, base:
        base.execute("DELETE FROM sessions")
        for name, kind, caller, messages in sessions:
            base.execute("INSERT INTO sessions VALUES (?, '', '/home/dev/shop', ?, ?)", (name, kind, caller))
            for m in messages:
                told = (name, m["role"], json.dumps(m["content"]), m["created"], json.dumps(m.get("metadata")))
                base.execute(f"INSERT INTO messages ({columns}) VALUES (?, ?, ?, ?, ?)", told)
    return file


def goose_messages() -> list[dict[str, Any]]:
    file = files_of("goose/lines")[0]
    return [record.value for record in iter_records(file) if "created" in record.value]


def test_gooses_database_holds_the_same_events_as_the_file_it_was_made_from(tmp_path: Path) -> None:
    importer = importer_of("goose")
    base = goose_database(tmp_path, ("20260302_1", "user", "", goose_messages()))
    steps, report = read(importer, base)
    assert [plain(d) for step in steps for d in step.drafts] == [plain(d) for d in drafts_of("goose/lines")]
    assert report.lines == len(goose_messages())
    for done, step in enumerate(steps, 1):
        assert read(importer, base, step.offset)[0] == steps[done:]
    assert read(importer, base, steps[-1].offset)[1].lines == 0


def test_a_subagent_of_goose_is_a_thread_of_its_callers_session(tmp_path: Path) -> None:
    said = {"role": "user", "created": 1_772_442_000, "content": [{"type": "text", "text": "Look for loops."}]}
    steps, _ = read(importer_of("goose"), goose_database(tmp_path, ("20260302_2", "sub_agent", "20260302_1", [said])))
    (draft,) = steps[0].drafts
    assert (draft.session_id, draft.thread, draft.type) == ("20260302_1", "20260302_2", EventType.SUBAGENT_START)
    assert draft.role is Role.ASSISTANT


def test_a_database_that_is_broken_is_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    file = goose_database(tmp_path, ("20260302_1", "user", "", goose_messages()))
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(OSError, match="database cannot be read"):
        read(importer_of("goose"), file)


def test_only_the_whole_transcript_of_antigravity_and_the_newest_generation_of_deepseek_are_read() -> None:
    assert [file.name for file in files_of("antigravity/conversation")] == ["transcript_full.jsonl"]
    assert [file.name for file in files_of("deepseek/log")] == ["session.v1.jsonl", "session.jsonl"]


def test_what_both_contexts_of_a_kimi_session_hold_is_one_event() -> None:
    now, before = (read(importer_of("kimi-cli"), file)[0] for file in files_of("kimi-cli/session")[:2])
    assert len(set(ids(now)) & set(ids(before))) == 1


def test_a_clients_own_places_are_asked_of_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = {
        "pi": ("PI_CODING_AGENT_DIR", "sessions"),
        "cline": ("CLINE_DIR", "data/sessions"),
        "deepseek": ("DSH_HOME", "sessions"),
        "goose": ("GOOSE_PATH_ROOT", "data/sessions"),
        "grok": ("GROK_HOME", "sessions"),
        "kimi": ("KIMI_CODE_HOME", "sessions"),
        "kimi-cli": ("KIMI_SHARE_DIR", "sessions"),
    }
    monkeypatch.delenv("PI_CODING_AGENT_SESSION_DIR", raising=False)
    for name, (variable, below) in places.items():
        monkeypatch.setenv(variable, str(tmp_path / name))
        assert importer_of(name).default_paths()[0] == tmp_path / name / below
