"""The suite of the importer family: each check runs over every registered importer."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base.errors import SourceUnreadable
from memory_mcp.capture.finding import find_owners
from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.importers import elements
from memory_mcp.importers.base import BEGINNING, Growth, Importer, ImportReport
from memory_mcp.importers.blocks import result_text
from memory_mcp.importers.elements import cut_elements
from memory_mcp.importers.json_records import iter_records
from memory_mcp.importers.parts import folder_in
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import Role
from tests.examples import examples
from tests.ingest.suite import LINES, SESSIONS, Line, ids, peak, read, session_of, texts, write

Member = tuple[Importer, Line]


@pytest.fixture(params=sorted(LINES))
def member(request: pytest.FixtureRequest) -> Member:
    return IMPORTERS[request.param](IngestSettings()), LINES[request.param]


def test_every_importer_is_registered_under_its_own_name() -> None:
    assert {name: make(IngestSettings()).name for name, make in IMPORTERS.items()} == {name: name for name in IMPORTERS}
    assert {*LINES, *SESSIONS} == set(IMPORTERS)
    assert not LINES.keys() & SESSIONS.keys()


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_file_is_recognised_by_its_own_importer_and_no_other(name: str, tmp_path: Path) -> None:
    file = session_of(name)(tmp_path, 3)
    assert dict(find_owners([make(IngestSettings()) for make in IMPORTERS.values()], [file])) == {file: name}


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_twice_gives_nothing_new_and_a_grown_session_its_end(name: str, tmp_path: Path, pipeline: Pipeline) -> None:
    importer = IMPORTERS[name](IngestSettings())
    file = session_of(name)(tmp_path, 3)
    assert pipeline.import_source(importer, file).new == 3
    again = pipeline.import_source(importer, file)
    assert (again.new, again.lines, again.files_unchanged) == (0, 0, 1)
    session_of(name)(tmp_path, 5)
    grown = pipeline.import_source(importer, file)
    assert grown.new == 2
    if importer.growth is not Growth.REWRITTEN:
        assert grown.known == 0


def test_the_same_file_gives_the_same_drafts_twice_and_the_same_record_in_two_files_has_one_id(
    member: Member, tmp_path: Path
) -> None:
    importer, line = member
    file = write(tmp_path / "a.jsonl", *map(line, range(5)))
    assert texts(read(importer, file)[0]) == [f"words of {n}" for n in range(5)]
    assert read(importer, file)[0] == read(importer, file)[0]
    importer, line = member
    one = write(tmp_path / "c.jsonl", line(1), line(2))
    other = write(tmp_path / "b.jsonl", line(0), line(2))
    assert ids(read(importer, one)[0])[-1] == ids(read(importer, other)[0])[-1]


def test_reading_goes_on_behind_any_record_with_the_same_drafts(member: Member, tmp_path: Path) -> None:
    importer, line = member
    file = write(tmp_path / "a.jsonl", line(0), "", "no json", line(1), "42", line(2))
    whole, _ = read(importer, file)
    for done, step in enumerate(whole, 1):
        assert read(importer, file, step.offset)[0] == whole[done:]


def test_a_torn_last_line_waits_for_its_rest(member: Member, tmp_path: Path) -> None:
    importer, line = member
    torn = line(1)
    for cut in (1, len(torn) // 2, len(torn) - 1):
        file = write(tmp_path / "a.jsonl", line(0), torn[:cut], end="")
        steps, report = read(importer, file)
        assert texts(steps) == ["words of 0"]
        assert (report.lines, report.skipped.total()) == (1, 0)
        write(file, line(0), torn, line(2))
        assert texts(read(importer, file, steps[-1].offset)[0]) == ["words of 1", "words of 2"]


def test_a_last_line_without_line_feed_is_taken_when_it_is_whole_and_a_tail_behind_it_found(
    member: Member, tmp_path: Path
) -> None:
    importer, line = member
    file = write(tmp_path / "a.jsonl", line(0), line(1), end="")
    steps, _ = read(importer, file)
    assert texts(steps) == ["words of 0", "words of 1"]
    assert steps[-1].offset == file.stat().st_size
    with file.open("a", encoding="utf-8") as stream:
        stream.write(f"\n{line(2)}\n")
    assert texts(read(importer, file, steps[-1].offset)[0]) == ["words of 2"]


def test_windows_line_ends_a_mark_of_order_and_blank_lines_change_nothing(member: Member, tmp_path: Path) -> None:
    importer, line = member
    file = tmp_path / "a.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + f"{line(0)}\r\n\r\n  \r\n{line(1)}\r\n".encode())
    steps, report = read(importer, file)
    assert texts(steps) == ["words of 0", "words of 1"]
    assert (report.lines, report.lines_used) == (2, 2)


def test_broken_lines_are_counted_quoted_and_cost_only_themselves(member: Member, tmp_path: Path) -> None:
    importer, line = member
    broken = ["plain words", '{"a": ', '{"b": "un', "[1, 2", '"text"', "42", "null", line(9)[:-3], "[[[", "}", "{{"]
    mixed = [part for n, bad in enumerate(broken) for part in (bad, line(n))]
    steps, report = read(importer, write(tmp_path / "a.jsonl", *mixed))
    assert texts(steps) == [f"words of {n}" for n in range(len(broken))]
    assert report.skipped.total() == len(broken)
    assert report.quotes["not JSON"][0].text == "plain words"
    assert report.quotes["not JSON"][0].line == 1


def test_what_a_crash_left_before_a_record_costs_no_other_record(member: Member, tmp_path: Path) -> None:
    """Zeros in front of it, or half a record on the same line, cut anywhere: at most the cut one is missing, and counted."""
    importer, line = member
    half = line(1)
    for cut in (*range(0, len(half), max(1, len(half) // 40)), len(half) - 1):
        for zeros in ("", "\0" * 600):
            file = write(tmp_path / "a.jsonl", line(0), half[:cut] + zeros + line(2), line(3))
            steps, report = read(importer, file)
            assert texts(steps) == ["words of 0", "words of 2", "words of 3"], half[:cut]
            assert report.skipped.total() == bool(cut)


def test_a_file_is_recognised_behind_records_of_no_kind_and_long_strings(member: Member, tmp_path: Path) -> None:
    importer, line = member
    books = [json.dumps({"kind_of_books": n, "note": f'told "{n}" \\'}) for n in range(200)]
    image = json.dumps({"pasted": 'aGVsbG8\\u00e9"' * 300_000})
    file = write(tmp_path / "a.jsonl", *books, image, line(0))
    every = [make(IngestSettings()) for make in IMPORTERS.values()]
    assert dict(find_owners(every, [file])) == {file: importer.name}


@pytest.mark.parametrize(
    "bad", ["[" + "1," * 60_000, "[" + "1," * 60_000 + "1]", '{"a": "' + "x" * 200_000, "[[1], [2]]", "[INFO] x"]
)
def test_a_long_line_that_is_no_record_costs_only_itself(bad: str, member: Member, tmp_path: Path) -> None:
    importer, line = member
    steps, report = read(importer, write(tmp_path / "a.jsonl", line(0), bad, line(1)))
    assert texts(steps) == ["words of 0", "words of 1"]
    assert report.skipped.total() == 1


@pytest.mark.parametrize("unit", ["[", "{", '{"a":', '[{"a":1}', '[{"a":1},', '{"a":{"b":1},', "{{", '{"a":1}{"b":2}'])
def test_a_file_of_broken_lines_is_read_in_time(unit: str, tmp_path: Path) -> None:
    """Many lines that open what they do not close; each followed to its end would take hours."""
    for _ in iter_records(write(tmp_path / "a.jsonl", *[unit] * (40_000 // len(unit)))):
        pass


def test_invalid_utf8_is_read_with_replacements(member: Member, tmp_path: Path) -> None:
    importer, line = member
    file = tmp_path / "a.jsonl"
    file.write_bytes(line(0).encode().replace(b"words", b"w\xff\xfeds") + b"\n" + line(1).encode() + b"\n")
    assert texts(read(importer, file)[0]) == ["w\ufffd\ufffdds of 0", "words of 1"]


def test_an_array_and_objects_spread_over_lines_are_read(member: Member, tmp_path: Path) -> None:
    importer, line = member
    values = [json.loads(line(n)) for n in range(3)]
    for n, text in enumerate((json.dumps(values), json.dumps(values, indent=2), json.dumps(values, indent=2) + "\n")):
        assert texts(read(importer, write(tmp_path / f"array{n}.jsonl", text, end=""))[0]) == [f"words of {i}" for i in range(3)]
    spread = "\n".join(json.dumps(value, indent=2) for value in values)
    steps, report = read(importer, write(tmp_path / "spread.jsonl", spread, line(3)))
    assert texts(steps) == [f"words of {n}" for n in range(4)]
    assert report.lines == 4


def test_an_open_array_gives_what_is_there_and_starts_again_when_it_grew(member: Member, tmp_path: Path) -> None:
    importer, line = member
    file = write(tmp_path / "a.jsonl", "[", line(0) + ",", line(1)[:-9], end="")
    steps, _ = read(importer, file)
    assert texts(steps) == ["words of 0"]
    write(file, "[", line(0) + ",", line(1), "]")
    assert texts(read(importer, file, steps[-1].offset)[0]) == ["words of 0", "words of 1"]


def test_files_are_found_below_a_folder_in_a_fixed_order(member: Member, tmp_path: Path) -> None:
    importer, _ = member
    for name in ("b/2.jsonl", "b/1.jsonl", "a/3.jsonl", "a/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert [f.relative_to(tmp_path).as_posix() for f in importer.iter_files(tmp_path)] == ["a/3.jsonl", "b/1.jsonl", "b/2.jsonl"]
    assert list(importer.iter_files(tmp_path / "a/notes.txt")) == [tmp_path / "a/notes.txt"]
    with pytest.raises(SourceUnreadable, match="there is no file"):
        importer.iter_files(tmp_path / "nowhere")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(
    "type uuid sessionId timestamp cwd message content role text isSidechain isMeta agentId parentUuid toolUseResult name"
    " input id tool_use_id planContent attachment prompt operation session_id metadata summary subtype compactMetadata"
    " prUrl prNumber customTitle model thinking source data payload call_id output arguments git parts functionCall"
    " functionResponse toolCalls messages $set thoughts systemPayload messageId chatMessages requests kind k v i".split()
)
_KINDS = st.sampled_from(
    "user assistant system summary pr-link queue-operation attachment custom-title text tool_use tool_result image thinking"
    " session_meta response_item event_msg message function_call function_call_output gemini session.start user.message"
    " compact_boundary enqueue remove queued_command".split()
)
_RECORDS = st.recursive(
    _JSON | _KINDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner | _KINDS, max_size=6), max_leaves=20
)


@examples(12)
@given(lines=st.lists(_RECORDS.map(json.dumps) | st.text(max_size=40) | st.binary(max_size=40), max_size=8))
@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_nothing_that_a_file_holds_raises(name: str, lines: list[str | bytes], tmp_path_factory: pytest.TempPathFactory) -> None:
    raw = b"\n".join(line if isinstance(line, bytes) else line.encode("utf-8", "surrogatepass") for line in lines)
    file = tmp_path_factory.getbasetemp() / f"{name}.jsonl"
    file.write_bytes(raw)
    importer = IMPORTERS[name](IngestSettings(include_thinking=True))
    steps, _ = read(importer, file)
    assert read(importer, file)[0] == steps
    assert importer.growth is not Growth.APPENDED or all(0 <= step.offset <= len(raw) for step in steps)
    importer.recognises_file(file, raw[:BEGINNING])


@pytest.mark.parametrize("form", ["lines", "array"])
@pytest.mark.few(2)
@pytest.mark.usefixtures("processes")
def test_memory_stays_flat_over_a_large_file(member: Member, form: str, tmp_path: Path) -> None:
    """Ours: 20 MB more of input cost at most 12 MB more of memory, in lines and in one array on one line."""
    importer, line = member
    front, between, behind = ("[", ",", "]") if form == "array" else ("", "\n", "\n")
    block = between.join(line(n).replace("words of", "words " * 160 + "of") for n in range(200))
    peaks = []
    for times in (1, 100):
        file = tmp_path / f"{times}.jsonl"
        # Bit by bit: a process begins with the most memory that the one which started it ever had.
        with file.open("w", encoding="utf-8") as stream:
            stream.write(front + block)
            stream.writelines(between + block for _ in range(times - 1))
            stream.write(behind)
        events, most = peak(importer.name, file)
        assert events == 200 * times
        peaks.append(most)
    assert peaks[1] - peaks[0] <= 12


def test_reasons_do_not_multiply_without_end(tmp_path: Path) -> None:
    report = ImportReport()
    for n in range(1000):
        report.skip_record(f"reason {n}", tmp_path, n, "text")
    assert report.skipped.total() == 1000
    assert report.skipped["other reasons"] == 900


@pytest.mark.parametrize(
    ("record", "folder"),
    [
        ({"type": "config.update", "cwd": "/srv/app"}, "/srv/app"),
        ({"config": {"workDir": "/srv/app"}}, "/srv/app"),
        ({"project_path": "C:\\work\\app"}, "C:\\work\\app"),
        ({"workspaceFolder": "file:///srv/my%20app"}, "/srv/my app"),
        ({"working_directory": "app", "text": "/srv/app"}, ""),
        ({"filePath": "/srv/app/a.py", "cwd": 5}, ""),
    ],
)
def test_a_folder_is_what_a_field_of_a_record_says(record: dict[str, object], folder: str) -> None:
    assert folder_in(record) == folder


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"responseParts": {"functionResponse": {"id": "x", "response": {"output": "two words"}}}}, "two words"),
        ([{"type": "novel_result", "payload": [{"deep": {"note": "a whole sentence"}}]}], "a whole sentence"),
        ({"type": "novel", "count": 3, "call_id": "c"}, '{"count":3}'),
        ([{"type": "picture", "imageUrl": {"url": "data:image/png;base64,iVBORw0KGgo="}}], ""),
        ([{"type": "text", "text": ""}], ""),
        ({}, ""),
    ],
)
def test_a_result_of_any_form_keeps_its_words(content: object, text: str) -> None:
    assert result_text(content) == text


@pytest.mark.parametrize("name", ["claude-code", "codex", "copilot", "qwen"])
@pytest.mark.parametrize("tag", ["novel_context", "zork-note source='x'", "INVENTED", "ext:thing", "ide_selection"])
def test_an_element_of_any_name_is_never_the_persons_words_and_what_is_around_it_always(
    name: str, tag: str, tmp_path: Path
) -> None:
    importer, line = IMPORTERS[name](IngestSettings()), LINES[name]
    lines = [line(n) for n in range(2)]
    typed_by = [step.drafts[0].role for step in read(importer, write(tmp_path / "a.jsonl", *lines))[0]].index(Role.USER)
    element = f"<{tag}>\nnot <b>theirs</b>\n</{tag.split(maxsplit=1)[0]}>"
    inner = f"before\n{element}\nbehind" if {"_", "-"} & set(tag.split(maxsplit=1)[0]) else f"before\n{element}"
    texts_by = {
        "alone": element,
        "first": f"{element}\nbehind",
        "last": f"before\n{element}",
        "inside": inner,
        "two": element * 2,
    }
    for place, text in texts_by.items():
        escaped = json.dumps(text)[1:-1]
        file = write(tmp_path / "a.jsonl", lines[typed_by].replace(f"words of {typed_by}", escaped))
        drafts = [draft for step in read(importer, file)[0] for draft in step.drafts]
        typed = "\n".join(draft.text for draft in drafts if draft.role is Role.USER)
        assert "theirs" not in typed, place
        assert [word in typed for word in ("before", "behind")] == [word in text for word in ("before", "behind")], place


def test_what_a_person_shows_stays_theirs() -> None:
    shown = [
        "<div class='a'>\n  <my_part>x</my_part>\n</div>\nwhy is this empty?",
        "```xml\n<a_config>\n</a_config>\n```\nis this right",
        "make <b>this</b> bold, and a < b > c",
        "use <T> and </T> as it is",
        "<unended_thing> is what it prints",
    ]
    assert [cut_elements(text) for text in shown] == [(text, []) for text in shown]
    assert cut_elements("<a_b>1<a_b>2</a_b>3</a_b>") == ("", [("a_b", "1<a_b>2</a_b>3")])
    assert cut_elements("<a_b " * 20_000)[1] == []


def test_elements_without_an_end_are_passed_over_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are: the end of each is looked for through the rest of the text."""
    searches = 0
    find_end = elements._end_of

    def count(text: str, opening: re.Match[str]) -> int:
        nonlocal searches
        searches += 1
        return find_end(text, opening)

    monkeypatch.setattr(elements, "_end_of", count)
    text = "before\n" + "\n".join(f"<a_{n}>" for n in range(5000)) + "\nbehind"
    assert cut_elements(text) == (text, [])
    assert searches <= 200
