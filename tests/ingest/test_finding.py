"""What lies on a machine, and whose a file is."""

from pathlib import Path

from memory_mcp.capture.finding import assign_files, summarize_files
from memory_mcp.importers.marks import Mark, mark_name
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from tests.ingest.suite import claude_line, jsonl_line, write

ALL = [make(IngestSettings()) for make in IMPORTERS.values()]
CLAUDE = IMPORTERS["claude-code"](IngestSettings())


def names(found: dict[str, list[Path]]) -> dict[str, list[str]]:
    return {importer: [file.name for file in files] for importer, files in found.items()}


def test_a_file_of_another_client_goes_to_its_own_importer(tmp_path: Path) -> None:
    for name, line in (("a", claude_line), ("b", jsonl_line), ("c", claude_line)):
        write(tmp_path / f"{name}.jsonl", *map(line, range(3)))
    write(tmp_path / "d.jsonl", "no conversation at all")
    own = {"claude-code": ["a.jsonl", "c.jsonl"], "jsonl": ["b.jsonl"]}
    assert names(assign_files(ALL, "", tmp_path, {})) == own
    # Named, what nobody recognises is read by who was named, and its lines are counted.
    named = assign_files(ALL, "claude-code", tmp_path, {})
    assert names(named) == {"claude-code": ["a.jsonl", "c.jsonl", "d.jsonl"], "jsonl": ["b.jsonl"]}
    assert next(iter(named)) == "claude-code"


def test_who_read_a_file_before_reads_it_again(tmp_path: Path) -> None:
    file = write(tmp_path / "b.jsonl", jsonl_line(0))
    assert names(assign_files(ALL, "claude-code", tmp_path, {})) == {"jsonl": ["b.jsonl"]}
    marks = {mark_name("claude-code", file): Mark(0, 0, "", 0).to_text()}
    assert names(assign_files(ALL, "claude-code", tmp_path, marks)) == {"claude-code": ["b.jsonl"]}


def test_a_file_that_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", claude_line(0))
    (tmp_path / "gone.jsonl").symlink_to(tmp_path / "nowhere")
    assert names(assign_files(ALL, "", tmp_path, {})) == {"claude-code": ["a.jsonl", "gone.jsonl"]}


def test_what_is_new_at_a_place_is_counted_by_what_changed(tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", claude_line(0))
    write(tmp_path / "b.jsonl", claude_line(2))
    size = file.stat().st_size
    marks = {mark_name("claude-code", file): Mark(size, size, "", 0).to_text()}
    found = summarize_files(CLAUDE, tmp_path, marks)
    assert (found.files, found.new_files, found.new_size) == (2, 1, size)
    with file.open("a", encoding="utf-8") as stream:
        stream.write("x" * 100)
    found = summarize_files(CLAUDE, tmp_path, marks)
    assert (found.new_files, found.new_size) == (2, size + 100)
    assert found.oldest <= found.newest
