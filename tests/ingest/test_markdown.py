"""Folders of Markdown notes: what is found, when it was written, and what of it is new after a change."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers.base import BEGINNING
from memory_mcp.importers.markdown.note import MAX_SECTION, front_matter, iter_sections, time_of
from memory_mcp.importers.markdown.reader import MarkdownImporter
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import FILE_TIME, INFERRED, EventDraft, EventType
from memory_mcp.storage.base import Storage
from memory_mcp.storage.values import Scope
from tests.examples import examples
from tests.ingest.suite import peak, read


def importer() -> MarkdownImporter:
    return MarkdownImporter(IngestSettings())


def note(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def drafts(file: Path) -> list[EventDraft]:
    return [draft for step in read(importer(), file)[0] for draft in step.drafts]


def claimed(file: Path) -> bool:
    return importer().recognises_file(file, file.read_bytes()[:BEGINNING])


def test_folders_of_programs_and_packages_hold_no_notes(tmp_path: Path) -> None:
    for name in ("a.md", "b/c.Markdown", ".obsidian/x.md", ".git/x.md", "node_modules/p/README.md", ".trash/x.md", "b/d.txt"):
        note(tmp_path / name, "words")
    assert [f.relative_to(tmp_path).as_posix() for f in importer().iter_files(tmp_path)] == ["a.md", "b/c.Markdown"]


def test_a_repository_full_of_documents_is_never_taken_for_notes_but_read_when_it_is_named(tmp_path: Path) -> None:
    note(tmp_path / "pyproject.toml", "")
    dated = "---\ndate: 2026-03-02\ntags: [a]\n---\n[[link]]\n"
    files = [note(tmp_path / name, dated) for name in ("README.md", "docs/guide.md", "docs/2026-03-02.md", "CHANGELOG.md")]
    assert not any(claimed(file) for file in files)
    assert sum(len(drafts(file)) for file in importer().iter_files(tmp_path)) == 4


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("---\ntags: [a]\n---\nwords", True),
        ("see [[Other note]]", True),
        ("# Title\n\nPlain words, a [link](x.md) and an image ![[x.png]].", False),
        ("---\ntitle: Guide\nsidebar_position: 1\n---\nwords", False),
    ],
)
def test_only_what_looks_like_a_note_is_claimed(text: str, looks: bool, tmp_path: Path) -> None:
    assert claimed(note(tmp_path / "a.md", text)) is looks
    assert not claimed(note(tmp_path / "README.md", text))


def test_everything_in_the_folder_of_a_notes_program_is_claimed(tmp_path: Path) -> None:
    (tmp_path / ".obsidian").mkdir()
    file = note(tmp_path / "deep/er/a.md", "plain words")
    assert claimed(file)
    assert drafts(file)[0].project == str(tmp_path)


def test_notes_of_a_plain_folder_are_one_project(tmp_path: Path) -> None:
    files = [note(tmp_path / name, "words") for name in ("far/x/y/notes/one.md", "far/x/y/notes/a/b/two.md", "far/above.md")]
    assert [drafts(file)[0].project for file in files] == [f"{tmp_path}/far/x/y/notes"] * 2 + [f"{tmp_path}/far"]


def test_a_section_is_a_note_event_of_the_session_that_the_note_is(tmp_path: Path) -> None:
    file = note(tmp_path / "a.md", "---\ndate: 2026-03-02\n---\nintro\n# One\nfirst\n## Two\nsecond\n")
    found = drafts(file)
    assert [d.text for d in found] == ["intro", "# One\nfirst", "## Two\nsecond"]
    assert {d.type for d in found} == {EventType.NOTE}
    assert len({d.session_id for d in found}) == 1
    assert [d.metadata.get("heading", "") for d in found] == ["", "One", "One > Two"]


def test_a_changed_section_is_new_and_one_put_in_between_moves_no_other(
    tmp_path: Path, pipeline: Pipeline, storage: Storage
) -> None:
    head = "---\ndate: 2026-03-02\n---\n# One\nfirst\n"
    file = note(tmp_path / "a.md", head + "# Two\nsecond\n# Three\nthird\n")
    assert pipeline.import_source(importer(), file).new == 3
    note(file, head + "# Between\nput in\n# Two\nsecond\n# Three\nthird, changed\n")
    report = pipeline.import_source(importer(), file)
    assert (report.new, report.known) == (2, 2)
    times = {event.text.splitlines()[1]: event.timestamp for event in storage.events.list_events(Scope())}
    assert times["first"] < times["put in"] <= times["second"] < times["third"] < times["third, changed"]


def test_a_file_s_own_time_is_the_last_resort_and_said(tmp_path: Path, pipeline: Pipeline, storage: Storage) -> None:
    file = note(tmp_path / "a.md", "# One\nfirst\n# Two\nsecond\n")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    pipeline.import_source(importer(), tmp_path)
    events = storage.events.list_events(Scope())
    assert [(e.text, e.timestamp) for e in events] == [("# One\nfirst", 1_700_000_000_000), ("# Two\nsecond", 1_700_000_000_001)]
    assert all((e.metadata[INFERRED], e.metadata[FILE_TIME]) == ("inferred", "1700000000000") for e in events)
    dated = note(tmp_path / "b.md", "---\ncreated: 2026-03-02 09:00\n---\nwords\n")
    assert FILE_TIME not in drafts(dated)[0].metadata


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2026-03-02", 1_772_452_800_000),
        ("2026-03-02T09:00:00Z", 1_772_442_000_000),
        ("2026-03-02 09:00", 1_772_442_000_000),
        ("2026-03-02T10:00:00+01:00", 1_772_442_000_000),
        ("2026-03-02 and more", 1_772_452_800_000),
        ("2026-02-30", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_day_alone_is_its_noon(text: str, time_ms: int | None) -> None:
    assert time_of(text) == time_ms


def test_front_matter_that_does_not_end_is_none(tmp_path: Path) -> None:
    assert front_matter(["---", "a: b"]) == ({}, 0)
    assert front_matter(["words", "---"]) == ({}, 0)
    first, second = ["---", "permalink: p", "---"], ["---", "title: T", "tags:", "  - a", "---"]
    merged = {"permalink": ["p"], "title": ["T"], "tags": ["a"]}
    assert front_matter([*first, "", *second, "words"]) == (merged, 9)
    assert front_matter([*first, *second, *first]) == (merged, 11)
    assert front_matter([*first, "", "---", "Note: this is said", "and goes on", "---"]) == ({"permalink": ["p"]}, 3)
    assert front_matter([*first, "", "---", "words", "---"]) == ({"permalink": ["p"]}, 3)
    read_on = {"tags": ["a", "b c"], "x": ["1", "2"]}
    assert front_matter(["---", "tags:", "  - a", '  - "b c"', "x: [1, '2']", "---", "w"]) == (read_on, 6)
    file = note(tmp_path / "a.md", "---\nonly a rule above\n")
    assert [d.text for d in drafts(file)] == ["---\nonly a rule above"]


@examples(100)
@given(
    st.lists(st.sampled_from(["# a", "## b", "### c", "#### d", "```", "~~~~", "words", "", "---", "- x", "#tag"]), max_size=14)
)
def test_no_line_is_lost_or_told_twice(lines: list[str]) -> None:
    told = [line for section in iter_sections(lines, 1) for line in section.lines]
    assert [line for line in told if line] == [line for line in lines if line]


@pytest.mark.usefixtures("processes")
def test_a_long_note_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Ours: 30 MB more without a heading cost at most 16 MB more of memory."""
    peaks = []
    for size in (10_000, 300_000):
        file = note(tmp_path / f"{size}.md", "")
        with file.open("w", encoding="utf-8") as stream:
            for n in range(size):
                stream.write(f"{'words ' * 16}{n}\n")
        events, most = peak("markdown", file)
        assert events == -(-file.stat().st_size // MAX_SECTION)
        peaks.append(most)
    assert peaks[1] - peaks[0] <= 16
