"""The project's own JSONL form of an event."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.importers.jsonl import JsonlImporter, draft_of
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType, Role
from tests.ingest.suite import read, write

LEAST: dict[str, Any] = {"session_id": "s1", "timestamp": "2026-03-02T09:00:00Z", "role": "user", "text": "hello"}
NINE = 1_772_442_000_000


def test_a_full_event_keeps_every_field() -> None:
    full = LEAST | {
        "id": "m1",
        "speaker": "Ada",
        "type": "note",
        "agent": "codex",
        "project": "example.org/dev/shop",
        "thread": "helper",
        "metadata": {"tool": "Bash", "exit": 1, "ok": True, "list": ["a"], "none": None},
    }
    assert draft_of(full) == EventDraft(
        session_id="s1",
        role=Role.USER,
        type=EventType.NOTE,
        text="hello",
        timestamp=NINE,
        source_id="m1",
        agent="codex",
        project="example.org/dev/shop",
        thread="helper",
        speaker="Ada",
        metadata={"tool": "Bash", "exit": "1", "ok": "true", "list": '["a"]'},
    )


@pytest.mark.parametrize(
    ("role", "kind"),
    [
        ("user", "user_message"),
        ("assistant", "assistant_message"),
        ("tool", "tool_result"),
        ("system", "note"),
        (" User ", "user_message"),
    ],
)
def test_the_type_follows_from_the_role(role: str, kind: str) -> None:
    assert draft_of(LEAST | {"role": role}).type == kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-02T09:00:00Z", NINE),
        ("2026-03-02T10:00:00+01:00", NINE),
        ("2026-03-02T09:00:00", NINE),
        ("2026-03-02 09:00:00.250", NINE + 250),
        ("2026-03-02", NINE - 9 * 3_600_000),
        (NINE, NINE),
        (NINE // 1000, NINE),
        (NINE / 1000 + 0.25, NINE + 250),
        (float(NINE), NINE),
        (str(NINE), NINE),
        ("1969-12-31T23:59:59Z", -1000),
        ("9998-12-30T23:59:59Z", 253_370_678_399_000),
    ],
)
def test_times_are_read_in_every_accepted_form(value: object, expected: int) -> None:
    assert draft_of(LEAST | {"timestamp": value}).timestamp == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"session_id": None}, "session_id is missing"),
        ({"session_id": " "}, "session_id is empty"),
        ({"timestamp": None}, "timestamp is missing"),
        ({"timestamp": "yesterday"}, "invalid timestamp"),
        ({"timestamp": True}, "invalid timestamp"),
        ({"timestamp": float("nan")}, "invalid timestamp"),
        ({"timestamp": []}, "invalid timestamp"),
        ({"role": None}, "role is missing"),
        ({"role": "Caroline"}, "unknown role 'caroline'"),
        ({"text": ""}, "text is empty"),
        ({"text": ["a"]}, "text is not a text"),
        ({"type": "chat"}, "unknown type 'chat'"),
        ({"metadata": "a"}, "metadata is not an object"),
        ({"sesion": "s"}, "unknown field 'sesion'"),
        ({"trust": "user"}, "unknown field 'trust'"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        draft_of(LEAST | change)
    assert caught.value.message == message
    assert caught.value.hint


def test_a_name_in_place_of_a_role_is_told_where_it_belongs() -> None:
    with pytest.raises(InvalidQuery, match='a person\'s name belongs in "speaker"'):
        draft_of(LEAST | {"role": "Caroline"})


def test_malformed_lines_are_counted_by_reason_and_the_others_kept(tmp_path: Path) -> None:
    bad = [LEAST | {"role": "Bob"}, LEAST | {"text": None}, LEAST | {"text": None}]
    file = write(tmp_path / "a.jsonl", json.dumps(LEAST), *map(json.dumps, bad), "{")
    steps, report = read(JsonlImporter(IngestSettings()), file)
    assert sum(len(step.drafts) for step in steps) == 1
    assert report.skipped == {"unknown role 'bob'": 1, "text is missing": 2, "not JSON": 1}
    assert [quote.line for quote in report.quotes["text is missing"]] == [3, 4]
