"""Every reader of the registry against files that are cut, padded, reordered or of another version.

A reader is enrolled by its line in the registry: its files are the session that `suite` writes and its own samples.
"""

import json
import os
import re
import shutil
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_mcp.base.clock import SystemClock
from memory_mcp.capture.finding import find_owners
from memory_mcp.capture.gate import Gate
from memory_mcp.capture.log import EventLog
from memory_mcp.capture.pipeline import Pipeline
from memory_mcp.capture.rescue import forecast_deletions
from memory_mcp.importers.base import Growth, Importer, ImportReport
from memory_mcp.importers.database import MAGIC, DatabaseImporter
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.importers.window import NOT_JSON
from memory_mcp.storage.duckdb import open_storage
from tests.ingest.suite import peak, read, session_of, texts
from tests.ingest.suite_sessions import BEGAN_MS
from tests.ingest.test_sessions import OPENCODE_2

SAMPLES = Path(__file__).parent / "samples"
EVERY = [make(IngestSettings()) for make in IMPORTERS.values()]
#: Bytes of a pasted image before the first message.
IMAGE = 30_000_000
#: Columns without which a row is no message any more.
NEEDED = frozenset("id session_id message_id data type role content_json key value".split())
_TIME_FIELD = re.compile(r"time|created|sentAt|updated|date|began|ended|startAt|stamp|_at\Z|At\Z|\Ats\Z", re.I)

#: Ids of sessions and messages in `suite`.
_ID = re.compile(r'"([a-z]{1,4}_?\d+(?:-\d+|-root)?|[0-9a-f]{8}(?:-0000-4000-8000-\d{12})?|T-[0-9a-f-]+)"')

pytestmark = pytest.mark.usefixtures("home")


def reader(name: str) -> Importer:
    return IMPORTERS[name](IngestSettings())


def write_sources(name: str, folder: Path) -> list[Path]:
    """The files of a reader, each set of them in a folder of its own."""
    (folder / "made").mkdir(parents=True)
    files = [session_of(name)(folder / "made", 4)]
    if name == "opencode":
        files.append(folder / "second" / "opencode.db")
        files[-1].parent.mkdir()
        with closing(sqlite3.connect(files[-1])) as con:
            con.executescript(OPENCODE_2)
    for stem in {name, name.replace("-", "_")}:
        for sample in sorted((SAMPLES / stem).glob("*")) if (SAMPLES / stem).is_dir() else ():
            if ".expected" not in sample.name:
                copy = folder / sample.name / sample.name
                copy.parent.mkdir()
                shutil.copytree(sample, copy) if sample.is_dir() else shutil.copy(sample, copy)
                files += [file for file in reader(name).iter_files(copy.parent) if file.is_file()]
    return files


def is_of_lines(file: Path) -> bool:
    """Whether each line of a file is a record, so that what a line holds can be left out."""
    if file.suffix in (".json", ".md", ".zip") or file.read_bytes().startswith(MAGIC):
        return False
    try:
        return all(isinstance(json.loads(line), dict) for line in file.read_bytes().splitlines())
    except ValueError:
        return False


def words_of(importer: Importer, file: Path) -> tuple[Counter[str], ImportReport]:
    steps, report = read(importer, file)
    return Counter(texts(steps)), report


def spread_positions(length: int, count: int, request: pytest.FixtureRequest) -> range:
    """Positions in a text: all of them in the long form, else so many."""
    return range(1, length, 1 if request.config.getoption("--slow") else max(1, length // count))


@pytest.mark.timeout(3600)  # in the long form each file is read three times for each of its bytes
@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_line_that_is_cut_anywhere_costs_itself_and_is_counted(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The next record glued behind it, with zeros between, or zeros in its place."""
    importer = reader(name)
    for file in filter(is_of_lines, write_sources(name, tmp_path)):
        raw = file.read_bytes()
        expected_texts, _ = words_of(importer, file)
        lines, start = raw.splitlines(keepends=True), 0
        cuts = spread_positions(len(raw), 8, request)
        for number, line in enumerate(lines):
            before, after = raw[:start], raw[start + len(line) :]
            line_cuts = [cut - start for cut in cuts if start < cut < start + len(line)] if after else []
            if line_cuts:
                file.write_bytes(before + after)
                texts_without, report_without = words_of(importer, file)
            for cut in line_cuts:
                broken = {
                    "glued": before + line[:cut] + after,
                    "zeros between": before + line[:cut] + b"\0" * 600 + after,
                    "zeros in front": before + b"\0" * cut + line + after,
                }
                for form, content in broken.items():
                    file.write_bytes(content)
                    read_texts, report = words_of(importer, file)
                    place = (file.name, form, number, cut)
                    if form == "zeros in front":
                        assert read_texts == expected_texts, place
                        continue
                    assert not (expected_texts & texts_without) - read_texts, place
                    assert not expected_texts - read_texts or report.skipped[NOT_JSON] > report_without.skipped[NOT_JSON], place
            start += len(line)
        file.write_bytes(raw)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_document_that_breaks_off_gives_what_is_whole_stops_no_other_file_and_is_read_again(
    name: str, tmp_path: Path, request: pytest.FixtureRequest, pipeline: Pipeline
) -> None:
    importer = reader(name)
    for file in (file for file in write_sources(name, tmp_path) if file.suffix == ".json"):
        raw = file.read_bytes()
        expected_texts, _ = words_of(importer, file)
        for cut in spread_positions(len(raw.rstrip()), 12, request):
            for content in (raw[:cut], raw[:cut] + b"\0" * 600):
                file.write_bytes(content)
                read_texts, report = words_of(importer, file)
                assert not read_texts - expected_texts, (file.name, cut)
                assert report.skipped.total() or read_texts == expected_texts, (file.name, cut)
        file.write_bytes(raw)
    file = session_of(name)(tmp_path / "made", 4)
    if file.suffix != ".json" or (file.read_bytes().startswith(b"[{") and "conversations" in file.name):
        return  # of an export the record is the conversation
    raw = file.read_bytes()
    text = raw.decode()
    file.write_bytes(text[: text.index("words of 3")].encode())
    assert pipeline.import_source(importer, file).new >= 2
    file.write_bytes(raw)
    os.utime(file, (BEGAN_MS, BEGAN_MS))
    pipeline.import_source(importer, file)
    assert pipeline.import_source(importer, file).files_unchanged == 1
    assert {"words of 2", "words of 3"} <= {event.text for event in stored_events(pipeline)}


def stored_events(pipeline: Pipeline) -> Iterator[Any]:
    for batch in pipeline._log._store.iter_all():  # type: ignore[attr-defined]
        yield from (stored.event for stored in batch)


def write_padded(file: Path, fields: str, lines: str) -> None:
    """Put fields before the first of a document, or lines before the first of a file of them."""
    if file.suffix == ".zip":
        with zipfile.ZipFile(file) as archive:
            document = archive.read("conversations.json").decode()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("chat.html", "<html>" + "x" * 1_000_000)
            archive.writestr("conversations.json", document.replace("{", "{" + fields, 1))
    elif file.suffix == ".json":
        file.write_text(file.read_text(encoding="utf-8").replace("{", "{" + fields, 1), encoding="utf-8")
    else:
        file.write_text(lines + file.read_text(encoding="utf-8"), encoding="utf-8")


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_file_is_known_behind_a_long_string_and_many_records_of_no_kind(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    importer = reader(name)
    file = session_of(name)(tmp_path, 4)
    raw = file.read_bytes()
    if raw.startswith(MAGIC) or file.suffix == ".md":
        return
    # Of each form of file, one in full length; in the long form all.
    is_full = name in ("codex", "amp", "chatgpt") or request.config.getoption("--slow")
    image = json.dumps("aGVsbG8" * (IMAGE // 7 // (1 if is_full else 20)))
    wide = [json.dumps({f"field{i}": "x" * (9 if n % 20 else 900) for i in range(60)}) for n in range(200)]
    fields = "".join(f'"field{n}": {{"note": "told \\"{n}\\" \\\\"}}, ' for n in range(200))
    padding = {
        "a long string": (f'"pasted": {image}, ', f'{{"pasted": {image}}}\n'),
        "many records": (fields, "\n".join(wide) + "\n"),
        "many small values": (f'"numbers": {list(range(60_000))}, ', json.dumps({"numbers": list(range(60_000))}) + "\n"),
    }
    for form, (before, lines) in padding.items():
        write_padded(file, before, lines)
        assert dict(find_owners(EVERY, [file])) == {file: name}, form
        if form != "a long string" or importer.growth is not Growth.APPENDED:
            assert [text for text in texts(read(importer, file)[0]) if text.startswith("words of")] == [
                f"words of {n}" for n in range(4)
            ], form
        file.write_bytes(raw)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(IMPORTERS))
@pytest.mark.usefixtures("processes")
def test_memory_is_bounded_behind_a_long_string(name: str, tmp_path: Path) -> None:
    file = session_of(name)(tmp_path, 4)
    if file.read_bytes().startswith(MAGIC) or file.suffix == ".md":
        return
    _, least = peak(name, file)
    image = json.dumps("aGVsbG8" * (IMAGE // 7))
    write_padded(file, f'"pasted": {image}, ', f'{{"pasted": {image}}}\n')
    events, most = peak(name, file)
    assert events == 4
    assert most - least < 10 * IMAGE / 1024 / 1024


def without_times(value: Any, is_dropped: Callable[[], bool]) -> Any:
    """A value without the fields of it that hold times."""
    if isinstance(value, list):
        return [without_times(item, is_dropped) for item in value]
    if not isinstance(value, dict):
        return value
    fields = {}
    for key, item in value.items():
        is_time = key == "time" if isinstance(item, dict) else _TIME_FIELD.search(key) and parse_time(item)
        if not (is_time and is_dropped()):
            fields[key] = without_times(item, is_dropped)
    return fields


def drop_times(file: Path, which: Callable[[int], bool]) -> None:
    """Take the times out of those records of a file of lines or of a document that `which` chooses by their number."""
    if file.suffix == ".json":
        count = iter(range(10_000))
        value = without_times(json.loads(file.read_text(encoding="utf-8")), lambda: which(next(count)))
        file.write_text(json.dumps(value), encoding="utf-8")
        return
    lines = file.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if line.startswith("{") and line.endswith("}") and which(number):
            lines[number] = json.dumps(without_times(json.loads(line), lambda: True))
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def times_of(name: str, files: list[Path]) -> dict[tuple[str, ...], int]:
    """When each event of some files happened, imported in this order into an empty store."""
    storage = open_storage(None, timezone="UTC")
    log = EventLog(storage.events, SystemClock())
    Pipeline(log, storage.outbox, Gate()).import_source(reader(name), files)
    events = [stored.event for batch in storage.events.iter_all() for stored in batch]
    storage.close()
    return {(e.session_id, e.thread, e.source_id, e.text): e.timestamp for e in events}


@pytest.mark.parametrize("which", [lambda _: True, lambda n: n % 2 == 0, lambda n: n > 0], ids=["all", "some", "but the first"])
@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_missing_time_is_guessed_from_the_session_or_its_file_alone(
    name: str, which: Callable[[int], bool], tmp_path: Path
) -> None:
    """Imported behind a session of another year, before it, or alone: the same times, and never that of the import."""
    file = session_of(name)(tmp_path, 4)
    if file.suffix not in (".json", ".jsonl"):
        return
    drop_times(file, which)
    other = tmp_path / "other" / re.sub(r"\b([sca])1\b|\ba\.", "z.", str(file.relative_to(tmp_path)))
    other.parent.mkdir(parents=True)
    content = _ID.sub(r'"\1f"', file.read_text(encoding="utf-8")).replace("words of", "others of")
    other.write_text(content.replace("2026-03", "2031-03").replace("17724", "19224"), encoding="utf-8")
    for number, path in enumerate((file, other)):
        os.utime(path, (BEGAN_MS / 1000 + number * 9_999_999,) * 2)
    alone = times_of(name, [file])
    # The project's own form has no event without a time.
    assert len(alone) + read(reader(name), file)[1].skipped["timestamp is missing"] == 4
    assert all(abs(time_ms - BEGAN_MS) < 86_400_000 for time_ms in alone.values())
    for files in ([file, other], [other, file]):
        mixed = {key: time_ms for key, time_ms in times_of(name, files).items() if key in alone}
        assert mixed == alone


def drop_each_field(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield (path, value without the field there) for each field of a document, at every level."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        if isinstance(value, dict):
            yield (*path, key), {name: item for name, item in value.items() if name != key}
        for inner, changed in drop_each_field(value[key], (*path, key)):
            copy = value.copy()
            copy[key] = changed
            yield inner, copy


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_document_without_any_field_loses_no_other_message(name: str, tmp_path: Path) -> None:
    importer = reader(name)
    file = session_of(name)(tmp_path, 4)
    if file.suffix != ".json":
        return
    document = json.loads(file.read_text(encoding="utf-8"))
    for path, changed in drop_each_field(document):
        file.write_text(json.dumps(changed), encoding="utf-8")
        read_texts, report = words_of(importer, file)
        numbers = {n for n in range(4) if f"words of {n}" not in read_texts}
        # The field of a message costs that message, the one that holds all messages all of them.
        assert len(numbers) <= 1 or len(path) <= 2, path
        assert not numbers or report.skipped.total() or len(path) == 1, path


def databases(name: str, folder: Path) -> list[Path]:
    return [file for file in write_sources(name, folder) if file.read_bytes().startswith(MAGIC)]


DATABASE_READERS = [name for name, make in IMPORTERS.items() if isinstance(make(IngestSettings()), DatabaseImporter)]


@pytest.mark.parametrize("name", DATABASE_READERS)
def test_a_database_is_read_by_what_its_tables_have(name: str, tmp_path: Path) -> None:
    """Each table under another name, without any column that is not needed, and beside tables and columns of no kind."""
    importer = reader(name)
    files = databases(name, tmp_path)
    assert files
    for file in files:
        raw = file.read_bytes()
        expected_texts, _ = words_of(importer, file)
        with closing(sqlite3.connect(file)) as con:
            tables = [
                row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
            ]
            columns = {t: [row[1] for row in con.execute(f"PRAGMA table_info({t})")] for t in tables}
        changes = [(f"ALTER TABLE {t} RENAME TO renamed_{t}", True) for t in tables]
        changes += [(f"ALTER TABLE {t} ADD COLUMN novel", True) for t in tables]
        changes += [(f"ALTER TABLE {t} DROP COLUMN {c}", c not in NEEDED) for t in tables for c in columns[t]]
        changes += [(f"DROP TABLE {t}", False) for t in tables]
        for change, is_harmless in changes:
            file.write_bytes(raw)
            try:
                with closing(sqlite3.connect(file)) as con, con:
                    con.execute(change)
            except sqlite3.OperationalError:
                continue  # a key cannot be dropped
            read_texts, _ = words_of(importer, file)
            assert read_texts == expected_texts or not is_harmless, change
            assert dict(find_owners(EVERY, [file])) == {file: name} or not is_harmless, change
        file.write_bytes(raw)


@pytest.mark.parametrize("name", DATABASE_READERS)
def test_a_table_with_conversation_that_no_reader_knows_is_reported_and_named_by_doctor(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer = reader(name)
    file = databases(name, tmp_path)[0]
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("CREATE TABLE talk_v9 (session_ref, role, body)")
        con.execute("CREATE TABLE empty_v9 (session_ref, role, body)")
        con.execute("CREATE TABLE books_v9 (name, amount)")
        con.execute("INSERT INTO books_v9 VALUES ('a', 1)")
        con.execute("INSERT INTO talk_v9 VALUES ('s', 'user', 'words')")
    expected_texts, report = words_of(importer, file)
    assert sum(expected_texts.values()) == 4
    assert report.skipped == {"unknown table talk_v9": 1}
    monkeypatch.setattr(type(importer), "default_paths", lambda _: (file.parent,))
    assert [fate.unread_tables for fate in forecast_deletions([importer], {}, BEGAN_MS)] == [("talk_v9",)]


def carried(value: Any, ids: set[str]) -> Any:
    """A value of a session that was carried in: other ids, older times, other words."""
    if isinstance(value, int) and value > 1_000_000_000:
        return value - 300_000_000 * (1000 if value > 10**12 else 1)
    if not isinstance(value, str):
        return value
    for name in sorted(ids, key=len, reverse=True):
        value = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", f"{name}x", value)
    value = value.replace("words of", "older words of").replace("2026-03", "2016-03")
    return re.sub(r"\b1772(\d{6,9})\b", r"1472\1", value)


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_session_that_is_carried_in_later_with_older_times_is_read(name: str, tmp_path: Path, pipeline: Pipeline) -> None:
    importer = reader(name)
    file = session_of(name)(tmp_path, 4)
    files = [file]
    assert pipeline.import_source(importer, files).new == 4
    if file.read_bytes().startswith(MAGIC):
        with closing(sqlite3.connect(file)) as con, con:
            tables = [
                row[0] for row in con.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
            ]
            rows = {t: con.execute(f"SELECT * FROM {t}").fetchall() for t in tables}
            ids = {"u1", "s1", "20260302_1", *(f"{kind}{n}" for kind in "mp" for n in range(4))}
            for table, values in rows.items():
                for row in values:
                    # The number of a row is its own.
                    new = [None if type(v) is int and v < 1000 else carried(v, ids) for v in row]
                    con.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(new))})", new)
        moment = BEGAN_MS / 1000 + 99
        os.utime(file, (moment, moment))
    elif file.suffix in (".json", ".jsonl"):
        older = tmp_path / "older" / file.relative_to(tmp_path)
        older.parent.mkdir(parents=True)
        files.append(older)
        content = carried(file.read_text(encoding="utf-8"), {"s1", "c1", "u1", "a1"})
        older.write_text(content, encoding="utf-8")
        os.utime(older, (1_500_000_000, 1_500_000_000))
    else:
        return
    assert pipeline.import_source(importer, files).new == 4
    assert sum(event.text.startswith("older words of") for event in stored_events(pipeline)) == 4


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_empty_files_folders_and_foreign_encodings_stop_nothing(name: str, tmp_path: Path, pipeline: Pipeline) -> None:
    importer = reader(name)
    file = session_of(name)(tmp_path, 4)
    raw = file.read_bytes()
    assert pipeline.import_source(importer, file).new == 4
    third = raw[: len(raw) // 3] if file.suffix != ".md" else b""  # a section of a note that changed is another
    for content in (b"", b"\n", b"\0" * 5000, b"\xef\xbb\xbf", third, raw.decode("latin-1").encode("utf-16")):
        file.write_bytes(content)
        report = pipeline.import_source(importer, file)
        assert (report.files, report.new) == (1, 0), content[:20]
    file.unlink()
    file.mkdir()
    list(importer.iter_files(tmp_path))
