"""What every reader must do with words, over the registry: who said them, and that none is lost without being counted.

Each property changes the samples of a reader in one position at a time. A reader without samples fails.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.capture.hooks.base import Envelope
from memory_mcp.capture.hooks.registry import HOOKS
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.parts import EMPTY
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType, Role
from tests.ingest.mutations import KINDS, Cells, Path_, Position, iter_positions, replace_value, samples_of, shape_of

pytestmark = pytest.mark.usefixtures("home")

NAMES = sorted(IMPORTERS)
#: No client stands between the person and these: account exports, notes, and events from elsewhere.
VERBATIM = frozenset(name for name, make in IMPORTERS.items() if not make(IngestSettings()).default_paths())
NO_OUTPUT = "(no output)"
BEFORE = '<zz-invented path="a > b">\nINSIDE the first\n</zz-invented>\n<zzplain>INSIDE the second</zzplain>\n'
BEHIND = "\n<zz_outer>\nINSIDE the <zz_outer>nested</zz_outer> third\n</zz_outer>"
MIDST = " and <zzcode>what was pasted</zzcode> in the midst"
#: What is added to a text of the person.
HERS = "PROBE of hers"
#: Keys that a message has, or the entry of a list that holds it.
MESSAGE = frozenset({*KINDS, "requestId", "message", "content"}) - {"kind"}
#: Fields that name another author than the person, each enough.
OTHERS = ({"origin": {"kind": "peer"}}, {"isSynthetic": True}, {"promptSource": "system"})


def read(name: str, file: Path) -> tuple[list[EventDraft], ImportReport]:
    report = ImportReport()
    steps = list(IMPORTERS[name](IngestSettings()).read_file(file, 0, report))
    return [draft for step in steps for draft in step.drafts], report


def count_losses(report: ImportReport) -> Counter[str]:
    """What a person sees of what was not read or not understood; "no content" says nothing of words."""
    reasons = Counter({reason: count for reason, count in report.skipped.items() if reason != EMPTY})
    return reasons + report.left_out + Counter({f"unknown {kind}": count for kind, count in report.unknown.items()})


def flatten(text: str) -> str:
    return " ".join(text.split())


def lines_in(value: Any) -> Iterator[str]:
    """The lines with several words in the texts of a JSON value."""
    if isinstance(value, str):
        yield from (flatten(line) for line in value.splitlines() if " " in line.strip())
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from lines_in(inner)


def join_texts(drafts: list[EventDraft]) -> str:
    return "\n".join(flatten(draft.text) for draft in drafts)


def iter_changes(position: Position, words: set[str]) -> Iterator[tuple[str, Any]]:
    """A kind gets another name; a text with words becomes an object or a list of it, a list with words an object."""
    key, value = position.keys[-1] if position.keys else None, position.value
    if key in KINDS and isinstance(value, str | int) and not isinstance(value, bool):
        yield "renamed", "zz_unknown" if isinstance(value, str) else 99
    if position.keys and not words.isdisjoint(lines_in(value)):
        if isinstance(value, str):
            yield "object", {"zz": {"text": value}}
            yield "list", [{"text": value}]
        elif isinstance(value, list):
            yield "object of a list", {"zz": value}


@pytest.mark.parametrize("name", NAMES)
def test_words_of_an_unknown_kind_or_form_stay_or_their_loss_is_counted(name: str, tmp_path: Path) -> None:
    shapes: set[object] = set()
    faults: list[object] = []
    for file in samples_of(name, tmp_path):
        cells = Cells(file)
        drafts, report = read(name, file)
        text, counted = join_texts(drafts), count_losses(report)
        words = {line for value in cells.values for line in lines_in(value) if line in text}
        not_the_persons = {flatten(d.text) for d in drafts} - {flatten(d.text) for d in drafts if d.role is Role.USER}
        for position in iter_positions(cells):
            for change, value in iter_changes(position, words):
                shape = (change, shape_of(cells, position))
                if shape in shapes:
                    continue
                shapes.add(shape)
                cells.write({position.cell: replace_value(cells.values[position.cell], position.keys, value)})
                drafts_after, after = read(name, file)
                lost = [line for line in words if line not in join_texts(drafts_after)]
                if lost and not count_losses(after) - counted:
                    faults.append((file.name, position.keys, change, "lost", lost[0]))
                if join_texts(drafts_after).count(NO_OUTPUT) > text.count(NO_OUTPUT):
                    faults.append((file.name, position.keys, change, NO_OUTPUT))
                if any(d.role is Role.USER and flatten(d.text) in not_the_persons for d in drafts_after):
                    faults.append((file.name, position.keys, change, "became the person's"))
                cells.write({position.cell: cells.values[position.cell]})
    assert not faults
    assert shapes or name == "markdown"


def iter_prompts(name: str, cells: Cells) -> Iterator[tuple[Position, str]]:
    """The texts of a sample that give a message of the person, each with a word of hers added to it."""
    shapes: set[object] = set()
    for position in iter_positions(cells):
        shape = shape_of(cells, position)
        if isinstance(position.value, str) and " " in position.value and position.keys[-1] != "command" and shape not in shapes:
            shapes.add(shape)
            text = f"{position.value} {HERS}"
            drafts_after = read_changed(name, cells, position.cell, position.keys, text)[0]
            if HERS in join_texts([d for d in drafts_after if d.type is EventType.USER_MESSAGE]):
                yield position, text


def read_changed(name: str, cells: Cells, cell: int, keys: Path_, value: Any) -> tuple[list[EventDraft], ImportReport]:
    """What a reader finds where one value of a sample is another; the sample stays as it is."""
    cells.write({cell: replace_value(cells.values[cell], keys, value)})
    try:
        return read(name, cells.file)
    finally:
        cells.write({cell: cells.values[cell]})


@pytest.mark.parametrize("name", sorted({*NAMES} - {"markdown"}))
def test_an_element_is_never_the_persons_whatever_its_name_and_her_words_around_it_always_are(name: str, tmp_path: Path) -> None:
    faults: list[object] = []
    count = 0
    for file in samples_of(name, tmp_path):
        cells = Cells(file)
        for position, text in iter_prompts(name, cells):
            count += 1
            drafts_after = read_changed(name, cells, position.cell, position.keys, BEFORE + text + BEHIND)[0]
            typed = join_texts([d for d in drafts_after if d.type is EventType.USER_MESSAGE])
            others = join_texts([d for d in drafts_after if d.role is not Role.USER])
            if name in VERBATIM:
                right = flatten(BEFORE + text + BEHIND) in typed
            else:
                right = HERS in typed and "INSIDE" not in typed and all(part in others for part in ("first", "second", "third"))
            drafts_after = read_changed(name, cells, position.cell, position.keys, text + MIDST)[0]
            if not right or flatten(MIDST) not in join_texts([d for d in drafts_after if d.role is Role.USER]):
                faults.append((file.name, position.keys, typed))
    assert not faults
    assert count


@pytest.mark.parametrize("name", sorted({*NAMES} - VERBATIM))
def test_a_records_own_fields_decide_who_said_it(name: str, tmp_path: Path) -> None:
    faults: list[object] = []
    for file in samples_of(name, tmp_path):
        cells = Cells(file)
        for position, text in iter_prompts(name, cells):
            keys = find_message(cells, position)
            if name == "goose" and file.suffix == ".db":
                # A row's message is in columns of its own.
                continue
            for fields in OTHERS:
                tree = replace_value(cells.values[position.cell], position.keys, text)
                for key in keys:
                    tree = tree[key]
                drafts_after, report = read_changed(name, cells, position.cell, keys, {**tree, **fields})
                if HERS in join_texts([d for d in drafts_after if d.role is Role.USER]):
                    faults.append((file.name, position.keys, keys, fields))
                if HERS not in join_texts(drafts_after) and not count_losses(report):
                    faults.append((file.name, position.keys, keys, fields, "lost"))
    assert not faults


def find_message(cells: Cells, position: Position) -> Path_:
    """The keys of the message that a text is in: the outermost object that says what it is, else the record."""
    tree = cells.values[position.cell]
    for depth, key in enumerate(position.keys):
        if isinstance(tree, dict) and MESSAGE & tree.keys():
            return position.keys[:depth]
        tree = tree[key]
    return ()


#: A prompt of each client whose hooks are read, as it reports one.
PROMPTS: dict[str, dict[str, Any]] = {
    "claude-code": {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": ""},
    "codex": {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": ""},
    "gemini": {"hook_event_name": "BeforeAgent", "session_id": "s1", "prompt": ""},
    "opencode": {"session_id": "s1", "role": "user", "message_id": "m1", "parts": [{"type": "text", "text": ""}]},
}


@pytest.mark.parametrize("name", sorted({*HOOKS} - {"json"}))
def test_hooks_decide_who_said_it_as_readers_do(name: str) -> None:
    def drafts_of(words: str, **fields: object) -> list[EventDraft]:
        payload = {**PROMPTS[name], **fields}
        payload |= {"parts": [{"type": "text", "text": words}]} if "parts" in payload else {"prompt": words}
        return HOOKS[name].parse_payload(json.dumps(payload), Envelope("p1", 1_772_442_000_000)).drafts

    drafts = drafts_of(f"{BEFORE}what she typed{MIDST}{BEHIND}")
    assert [d.text for d in drafts if d.role is Role.USER] == [f"what she typed{MIDST}"]
    assert "INSIDE the first" in join_texts(drafts)
    assert "third" in join_texts(drafts)
    for fields in OTHERS:
        assert [d.role for d in drafts_of("what a peer wrote", **fields)] in ([Role.ASSISTANT], [Role.SYSTEM]), fields
