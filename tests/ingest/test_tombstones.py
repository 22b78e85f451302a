"""What was forgotten is known again in other spellings, and nothing else is."""

import base64
import hashlib
import json
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from memory_mcp.base import paths
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.capture.exclusions import CaptureRules
from memory_mcp.capture.gate import FORGOTTEN, Gate
from memory_mcp.capture.tombstone_file import find_old_values
from memory_mcp.capture.tombstones import MARK, ForgetRequest, TimeRange, Tombstones
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import Event, EventDraft, EventType, Role, Trust
from memory_mcp.model.ids import event_id

VALUE = "Project Bluefin-77"
SPELLINGS = {
    "as it was": "Project Bluefin-77",
    "case": "pROJECT bLUEFIN-77",
    "white space": "Project\n\t  Bluefin 77",
    "look-alikes": "Рrоjеct Вluеfіn-77",
    "invisible": "Pro\u200bject Blue\u00adfin\u2060-7\ufe0f7",
    "full width": "\uff30\uff52\uff4f\uff4a\uff45\uff43\uff54\u3000Bluefin\uff0d77",
    "accents": "Pro\u0301ject Blu\u00e9fin-77",
}
#: What programs make of it.
WRAPPED = {
    "entities": "".join(f"&#{ord(c)};" for c in VALUE),
    "named entities": "Project&nbsp;Blue&shy;fin&#x2d;77",
    "percent": "Project%20%42luefin%2D77",
    "escapes of JSON": "".join(f"\\u{ord(c):04x}" for c in VALUE),
    "a line break of JSON": "Project\\nBluefin-77",
    "JSON in JSON": "Project\\\\u0020Bluefin-77",
    "escapes of programs": "\\x50roject\\u{20}Bluefin\\05577",
    "quoted printable": "Project=20Bluefin=2D77",
    "a terminal's colours": "\x1b[1mProject\x1b[0m Blue\x1b[31mfin\x1b[0m-77",
    "tags": "<b>Project</b> Blue<i>fin</i>-77",
    "a table": "Project | Bluefin | 77",
    "base64": base64.b64encode(f"it is {VALUE}, yes".encode()).decode(),
    "hexadecimal": VALUE.encode().hex(),
    "an identifier": "getProjectBluefin77Size"[3:19],
    "digits of Arabic": "Project Bluefin-\u0667\u0667",
    "small capitals": "\u1d18\u0280\u1d0f\u1d0a\u1d07\u1d04\u1d1b Bluefin-77",
    "white on black": "Project \U0001f171luefin-77",
    "of flags": "Project \U0001f1e7luefin-77",
    "invisible tags": "".join(chr(0xE0000 + ord(c)) for c in VALUE),
}
DRAFT = EventDraft("s1", Role.USER, EventType.USER_MESSAGE, "the launch of the boat is on a Tuesday in May", 1_000, "u1")


def stored(draft: EventDraft) -> Event:
    return Event(
        event_id(draft.timestamp or 0, "x", draft.source_id or draft.text),
        *(draft.session_id, draft.timestamp or 0, draft.type, draft.role, Trust.USER, draft.text, "claude-code"),
        source_id=draft.source_id,
        project=draft.project,
    )


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_value_is_known_in_every_spelling_inside_other_text(tmp_path: Path, spelling: str) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[VALUE]))
    assert Tombstones(tmp_path).clean_text(f"We call it {spelling}, don't we?") == f"We call it {MARK}, don't we?"
    assert tombstones.clean_text(f"xx{spelling}yy{spelling}") == f"xx{MARK}yy{MARK}"


@pytest.mark.parametrize("spelling", WRAPPED.values(), ids=WRAPPED)
def test_a_value_is_known_in_what_programs_make_of_it(tmp_path: Path, spelling: str) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[VALUE]))
    cleaned = tombstones.clean_text(f"We call it ({spelling}), don't we? 50% & more <or> less = C:\\new | \\")
    assert cleaned in (
        f"We call it ({MARK}), don't we? 50% & more <or> less = C:\\new | \\",
        # Marks around it are none of its letters.
        f"We call it (<b>{MARK}), don't we? 50% & more <or> less = C:\\new | \\",
        f"We call it (\x1b[1m{MARK}), don't we? 50% & more <or> less = C:\\new | \\",
    )


def test_a_long_value_is_known_inside_an_identifier_and_a_short_one_is_no_part_of_two_words(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[VALUE, "the me", "\u738b\u5c0f\u660e"]))
    assert tombstones.clean_text("getProjectBluefin77Size") == f"get{MARK}Size"
    assert tombstones.clean_text("themesh; themes") == "themesh; themes"
    assert tombstones.clean_text("\u6211\u53eb\u738b\u5c0f\u660e\u3002") == f"\u6211\u53eb{MARK}\u3002"
    with pytest.raises(InvalidQuery):
        tombstones.add(ForgetRequest(values=["\u738b"]))


@pytest.mark.parametrize("value", ["a.*b'; DROP TABLE event; --", "C:\\*?[a-z]%_$HOME", "x y" * 33_000])
def test_signs_of_other_languages_mean_themselves(tmp_path: Path, value: str) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[value]))
    other = "acb DROP the event table; C:/Users/abc; SELECT * FROM x"
    assert tombstones.clean_text(other) == other
    assert MARK in tombstones.clean_text(f"before {value} after")


def test_other_words_for_it_stay(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=[VALUE, "theme"]))
    for text in ("the tuna project, number seventy-seven", "Project Blue", "of the men", "Bluefin tuna, 77 of them"):
        assert tombstones.clean_text(text) == text


def test_nothing_of_the_value_is_in_the_files_and_they_are_private(tmp_path: Path) -> None:
    Tombstones(tmp_path).add(
        ForgetRequest(values=[VALUE], events=[stored(DRAFT)], ranges=[TimeRange(0, 9, "secret-session", "secret-project")])
    )
    for name in (paths.TOMBSTONES, paths.TOMBSTONES_KEY):
        raw = (tmp_path / name).read_bytes().lower()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert not any(word in raw for word in (b"blue", b"launch", b"secret"))


def test_a_forgotten_event_is_known_by_id_source_and_words_of_its_session(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(events=[stored(DRAFT)]))
    assert tombstones.covers_event(stored(DRAFT))
    assert tombstones.covers_event(replace(DRAFT, text="otherwise"))
    assert tombstones.covers_event(replace(DRAFT, source_id="", timestamp=5, text=DRAFT.text.upper()))
    assert not tombstones.covers_event(replace(DRAFT, source_id="u2", text="the rest of the session"))
    # The same at the same time is a copy; said again later in another session it is not.
    assert tombstones.covers_event(replace(DRAFT, session_id="s2", source_id="u3"))
    assert not tombstones.covers_event(replace(DRAFT, session_id="s2", timestamp=(DRAFT.timestamp or 0) + 1))


def test_a_forgotten_stretch_ends(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(ranges=[TimeRange(0, 1_000, session="s1"), TimeRange(0, 500, project="boats")]))
    assert tombstones.covers_event(DRAFT)
    assert tombstones.covers_event(replace(DRAFT, timestamp=None))
    assert not tombstones.covers_event(replace(DRAFT, timestamp=1_001))
    assert not tombstones.covers_event(replace(DRAFT, session_id="s2"))
    assert tombstones.covers_event(replace(DRAFT, session_id="s2", project="boats", timestamp=500))


def test_the_gate_lets_nothing_forgotten_in_and_sees_what_others_add(tmp_path: Path) -> None:
    gate, report = Gate(CaptureRules(directory=str(tmp_path))), ImportReport()
    told = replace(DRAFT, source_id="u7", text=f"about {SPELLINGS['case']}", metadata={"branch": VALUE}, speaker=VALUE)
    assert gate.clean_draft(told, report) == told
    Tombstones(tmp_path).add(ForgetRequest(values=[VALUE], events=[stored(DRAFT)]))
    kept = gate.clean_draft(told, report)
    assert kept is not None
    assert (kept.text, kept.metadata, kept.speaker) == (f"about {MARK}", {"branch": MARK}, MARK)
    assert gate.check_draft(DRAFT, report) == FORGOTTEN
    assert gate.check_draft(replace(DRAFT, source_id="u8", text=VALUE), report) == FORGOTTEN
    assert gate.clean_text(f"a note on {VALUE}") == f"a note on {MARK}"


#: The lines of a file, by letter: a short and a long value, an event as earlier versions and as this one wrote it, a time. How
#: many values were named, and which are known for lines of events.
LINES_OF_EVENTS = [
    ("LLe", 0, [0, 1]),
    ("sLe", 1, [1]),
    ("sLeLLLe", 1, [1, 3, 4, 5]),
    ("LtLe", 1, [2]),
    # One of them was named, and nobody knows which.
    ("LLe", 1, []),
    ("LeLe", 1, []),
    ("Le", 1, []),
    # Named, and then an event was forgotten by this version.
    ("Ln", 1, []),
    ("LnLe", 1, [2]),
]


@pytest.mark.parametrize(("kinds", "named", "lines"), LINES_OF_EVENTS)
def test_values_that_were_lines_of_events_are_told_from_those_that_were_named(kinds: str, named: int, lines: list[int]) -> None:
    made = {"e": {"event": ["0"]}, "n": {"event": ["0"], "v": 2}, "t": {"scope": "0", "since": 0, "until": 1}}
    rows = [
        made.get(kind, {"value": f"{n}", "length": 40 if kind == "L" else 9, "tokens": 3, "gram": [12, n]})
        for n, kind in enumerate(kinds)
    ]
    found = find_old_values([json.dumps(row) for row in rows], named)
    assert [row[-1] for row in found] == [str(n) for n in lines]


def test_a_torn_line_costs_nothing_but_itself(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(ForgetRequest(values=["first value"]))
    with (tmp_path / paths.TOMBSTONES).open("ab") as file:
        file.write(b'{"value": "12')
    tombstones.add(ForgetRequest(values=["second value"]))
    assert Tombstones(tmp_path).clean_text("first value, second value") == f"{MARK}, {MARK}"


def test_a_short_value_is_refused_and_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidQuery, match="at least 4"):
        Tombstones(tmp_path).add(ForgetRequest(values=["a-1"]))
    assert Tombstones.preview(ForgetRequest(values=[VALUE])).clean_text(VALUE) == MARK
    assert not (tmp_path / paths.TOMBSTONES).exists()


@pytest.mark.usefixtures("processes")
def test_with_nothing_forgotten_nothing_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from memory_mcp.capture.tombstones import Tombstones; "
        f"t = Tombstones(Path({str(tmp_path)!r})); assert t.clean_text('abc') == 'abc'; "
        "print([m for m in ('numpy',) if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_thousand_values_are_looked_for_in_one_pass(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path)
    tombstones.add(
        ForgetRequest(values=[f"a value of its own, number {n:04d}" for n in range(500)] + [f"q{n:05d}" for n in range(500)])
    )
    text = "ordinary words about the work of a day, as they stand in every session " * 10
    tombstones.clean_text(text)
    with patch.object(hashlib, "blake2b", wraps=hashlib.blake2b) as hashed:
        assert tombstones.clean_text(text) == text
    assert hashed.call_count <= len(text) / 100
