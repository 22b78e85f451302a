"""Transcripts of the clients that share `ingest/chat.py`: our own samples and the events they must give.

A sample is a folder as a client lays it out; what its files must give lies beside it, by file, in `<sample>.expected.json`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.ingest.base import BEGINNING, Growth, Importer
from memory_mcp.ingest.registry import IMPORTERS
from memory_mcp.ingest.settings import IngestSettings
from memory_mcp.model.event import FILE_TIME, EventDraft, EventType, Role
from tests.ingest.suite import ids, read, texts

SAMPLES = Path(__file__).parent / "samples"
KINDS = ("antigravity", "cline", "deepseek", "goose", "grok", "kimi", "kimi-cli", "pi")
CASES = sorted(path.relative_to(SAMPLES).as_posix() for kind in KINDS for path in (SAMPLES / kind).iterdir() if path.is_dir())


def importer_of(case: str, include_thinking: bool = False) -> Importer:
    return IMPORTERS[case.split("/", maxsplit=1)[0]](IngestSettings(include_thinking=include_thinking))


def plain(draft: EventDraft) -> dict[str, Any]:
    """A draft as the expectations spell it: without empty fields, and without what depends on the checkout."""
    told = {name: getattr(draft, name) for name in EventDraft.__dataclass_fields__}
    told["metadata"] = {key: value for key, value in draft.metadata.items() if key != FILE_TIME}
    return {name: value for name, value in told.items() if value not in ("", {})}


def outcome(importer: Importer, file: Path) -> dict[str, Any]:
    """What a file gives, as the expectations spell it."""
    steps, report = read(importer, file)
    return {
        "lines": report.lines,
        "lines_used": report.lines_used,
        "skipped": dict(sorted(report.skipped.items())),
        "left_out": dict(sorted(report.left_out.items())),
        "events": [plain(draft) for step in steps for draft in step.drafts],
    }


def files_of(case: str) -> list[Path]:
    return list(importer_of(case).files(SAMPLES / case))


def drafts_of(case: str) -> list[EventDraft]:
    return [d for f in files_of(case) for step in read(importer_of(case), f)[0] for d in step.drafts]


@pytest.mark.parametrize("case", CASES)
def test_a_sample_gives_its_expected_events(case: str) -> None:
    expected = json.loads((SAMPLES / f"{case}.expected.json").read_text(encoding="utf-8"))
    folder = SAMPLES / case
    assert {f.relative_to(folder).as_posix(): outcome(importer_of(case), f) for f in files_of(case)} == expected


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
        told = next(n for n, make in IMPORTERS.items() if make(IngestSettings()).recognises(file, beginning))
        assert told == case.split("/", maxsplit=1)[0]


@pytest.mark.parametrize("case", CASES)
def test_thinking_is_kept_on_request_and_moves_no_other_id(case: str) -> None:
    for file in files_of(case):
        without = read(importer_of(case), file)[0]
        kept = read(importer_of(case, include_thinking=True), file)[0]
        assert [i for i in ids(kept) if "#t" not in i] == ids(without)
        assert all("#t" not in i for i in ids(without))


@pytest.mark.parametrize("case", CASES)
def test_no_image_data_reaches_a_draft(case: str) -> None:
    assert all("iVBORw0K" not in draft.text for draft in drafts_of(case))


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
