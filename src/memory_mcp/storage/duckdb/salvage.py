"""Saves what is whole of a damaged file or log; sets the rest aside in `damaged/<time>/`.

First, headers are mended by each other, and one damaged byte of a block where checksums say which it was. Else the log is
replayed up to the damage, and events after it are read from its whole entries; what can be read of the file is stored again.

Invariants
1. Nothing is invented: what is stored again has the hash that it was stored with.
2. `salvage.json` says what is under way: when a process is killed meanwhile, the next one finishes it.
"""

import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import duckdb

from memory_mcp.base import machine
from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event
from memory_mcp.storage.duckdb import blocks, logs, migrations
from memory_mcp.storage.duckdb.connection import Connection, Row
from memory_mcp.storage.duckdb.doubtful import SALVAGED
from memory_mcp.storage.duckdb.files import log_path, make_copy_config
from memory_mcp.storage.duckdb.headers import HeaderMends, find_header_mends
from memory_mcp.storage.duckdb.saved import APPENDED, accept_blocks, iter_events, iter_tables, read_log_rows
from memory_mcp.storage.highwater import DAMAGE_FILE, is_damage_noted

log = logging.getLogger(__name__)

FOLDER = "damaged"
EVENTS = "event"
#: Tables whose rows are taken out of a log behind its damage.
SAVED = (EVENTS, *APPENDED)
_MEMORY_MB = 64
#: What is lost, perhaps, where the header that leads to the last checkpoint was damaged.
_CHECKPOINT = {"checkpoint of all tables, which may be missing": 1}


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """What was done about damage, before the file was opened."""

    #: Relative to the data directory; "" where nothing was damaged.
    folder: str = ""
    #: Bytes that are again what they were.
    mended_bytes: int = 0
    #: Whether there are events that are to be stored anew.
    is_unfinished: bool = False


def note_damage(directory: Path) -> None:
    """Write `salvage.json`, so that the next start looks for damage."""
    if not is_damage_noted(directory):
        _write_note(directory, {"place": ""})


def check_log(file: Path, now_ms: int) -> SalvageResult:
    """Mend or cut the log before DuckDB reads it; return what was done.

    DuckDB silently leaves out what it cannot read.
    """
    path = log_path(file)
    if not path.exists() or not file.exists():
        return SalvageResult()
    content = path.read_bytes()
    expected = logs.make_header(file)
    return SalvageResult() if not content or logs.is_whole(content, expected) else _mend_log(file, content, expected, now_ms)


def salvage_store(file: Path, now_ms: int) -> SalvageResult:
    """Mend what can be mended, set aside the rest; return what was done.

    The file has to be closed. A salvage that was begun is only reported as unfinished. Otherwise headers are mended, the log is
    mended or cut, then single bytes of blocks; if blocks stay damaged, the file cannot be opened or is certainly older than its
    log, a fresh file without events takes its place. `salvage.json` is removed where nothing is left to be stored.
    """
    if begun := _find_begun(file.parent):
        return SalvageResult(begun, 0, is_unfinished=True)
    mends = _mend_headers(file, now_ms)
    path, done = log_path(file), SalvageResult()
    if not mends.is_older:
        done = check_log(file, now_ms)
        if not done.folder and path.exists():
            done = _mend_log(file, path.read_bytes(), logs.make_header(file), now_ms)
    mended, unmended = _mend_file(file, now_ms)
    mended += len(mends.headers)
    if mended or unmended:
        done = SalvageResult(_relative_folder(_make_folder(file.parent, now_ms)), done.mended_bytes + mended, done.is_unfinished)
    if mends.is_older or unmended or not _can_open(file):
        _replace_file(file, now_ms, mends)
        done = SalvageResult(_relative_folder(_make_folder(file.parent, now_ms)), done.mended_bytes, is_unfinished=True)
    elif mends.may_be_older:
        _write_note(file.parent, {"place": done.folder, "lost": _CHECKPOINT})
        done = replace(done, is_unfinished=True)
    if not done.is_unfinished:
        finish_salvage(file.parent)
    return done


def set_aside(file: Path, now_ms: int) -> str:
    """Copy a damaged file into a folder of its own; return that, relative to the data directory."""
    folder = _make_folder(file.parent, now_ms)
    shutil.copy2(file, folder / file.name)
    return _relative_folder(folder)


def finish_salvage(directory: Path) -> None:
    """Remove `salvage.json`, since everything is stored."""
    (directory / DAMAGE_FILE).unlink(missing_ok=True)


def iter_saved(directory: Path) -> Iterator[tuple[str, list[Event] | list[Row]]]:
    """Yield (table, events or rows) to be stored again, if any."""
    if begun := _find_begun(directory):
        for file in sorted((directory / begun).glob("*.duckdb")):
            for events in iter_events(file):
                yield EVENTS, events
        for part in sorted((directory / begun).glob("*.events")):
            yield from read_log_rows(part)


def _find_begun(directory: Path) -> str:
    """Return the relative folder of a salvage under way, or ""."""
    try:
        folder = str(json.loads((directory / DAMAGE_FILE).read_text(encoding="utf-8"))["place"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return folder if folder.startswith(f"{FOLDER}/") and ".." not in folder else ""


def _mend_log(file: Path, content: bytes, expected: bytes, now_ms: int) -> SalvageResult:
    """Mend or cut a damaged log; a copy is set aside first.

    A log that is empty but for a header, or of another file or an earlier round, is left alone: an empty result. Where an
    entry cannot be mended, the log is cut at the end of the last whole transaction, and rows after it are set aside for
    `left`.
    """
    path, fixed, mended = log_path(file), bytearray(content), 0
    start = len(expected)
    wrong = [n for n in range(min(start, len(content))) if content[n] != expected[n]]
    if (
        len(content) <= start
        or len(wrong) > 1
        or (wrong and content[wrong[0]] == expected[wrong[0]] - 1 and wrong[0] > start - 5)
    ):
        # Of the round of the file before this one: it was taken in already, which DuckDB knows. More is another file's.
        return SalvageResult()
    for n in wrong:
        fixed[n], mended = expected[n], mended + 1
    begun, cut = start, None
    for entry in logs.iter_entries(content, start):
        if entry.mend is not None:
            fixed[entry.mend.offset], mended = entry.mend.becomes, mended + 1
        elif entry.content is None:
            cut = begun
            break
        elif entry.content.startswith(logs.FLUSH):
            begun = entry.offset + logs.FRAME + len(entry.content)
    if not mended and cut is None:
        return SalvageResult()
    folder = _make_folder(file.parent, now_ms)
    shutil.copy2(path, folder / (path.name + ".damaged"))
    if cut is not None:
        (folder / f"{path.name}.events").write_bytes(logs.extract_rows(bytes(fixed), cut, SAVED))
        _write_note(file.parent, {"place": _relative_folder(folder)})
        del fixed[cut:]
    machine.put(path, bytes(fixed))
    log.error("the log was damaged: %d bytes mended, %s", mended, "nothing lost" if cut is None else f"cut at byte {cut}")
    return SalvageResult(_relative_folder(folder), mended, cut is not None)


def _mend_headers(file: Path, now_ms: int) -> HeaderMends:
    """Write the headers that can be known, and return them; a copy of each is set aside first."""
    path = log_path(file)
    mends = find_header_mends(file, path.read_bytes() if path.exists() else b"")
    if mends.headers:
        note_damage(file.parent)
    for offset, content in mends.headers.items():
        _write_mend(file, now_ms, (offset, len(content)), (offset, content))
    if mends.headers:
        log.error("the database file was damaged: %d headers mended", len(mends.headers))
    return mends


def _write_mend(file: Path, now_ms: int, block: tuple[int, int], mend: tuple[int, bytes] | None) -> None:
    """Set aside a copy of a block (offset, bytes); then write a mend (offset, content), if there is one, synced."""
    with file.open("rb+") as opened:
        opened.seek(block[0])
        (_make_folder(file.parent, now_ms) / f"{file.name}.block-{block[0]}").write_bytes(opened.read(block[1]))
        if mend:
            opened.seek(mend[0])
            opened.write(mend[1])
            machine.on_disk(opened)


def _mend_file(file: Path, now_ms: int) -> tuple[int, int]:
    """Mend blocks; return how many were mended, and how many cannot be.

    A copy of each damaged block is set aside first, and each mended byte synced.
    """
    mended = unmended = 0
    for block in list(blocks.iter_damaged(file)):
        mend = (block.mend.offset, bytes([block.mend.becomes])) if block.mend else None
        _write_mend(file, now_ms, (block.offset, block.size), mend)
        mended, unmended = mended + (mend is not None), unmended + (mend is None)
    if mended or unmended:
        log.error("the database file was damaged: %d blocks mended, %d that cannot be", mended, unmended)
    return mended, unmended


def _can_open(file: Path) -> bool:
    """Return whether DuckDB can open the file, and it is complete."""
    try:
        with duckdb.connect(str(file), True, make_copy_config()) as con:
            con.execute("SELECT count(*) FROM event").fetchall()
            [(count, size)] = con.execute("SELECT total_blocks, block_size FROM pragma_database_size()").fetchall()
    except duckdb.Error:
        return False
    # A file that was cut short opens, and fails with whoever reads what lay behind the cut.
    return bool(file.stat().st_size >= blocks.HEADER * blocks.HEADERS + count * size)


def _replace_file(file: Path, now_ms: int, mends: HeaderMends) -> None:
    """Set file and log aside, and put a fresh file without events in place.

    It has what is not derived. Notes in `salvage.json` the folder and how many rows of which tables could not be read;
    events are stored by the caller.
    """
    folder, fresh = _make_folder(file.parent, now_ms), file.with_name(file.name + ".salvage")
    for path in (file, log_path(file)):
        if path.exists() and not (folder / path.name).exists():
            shutil.copy2(path, folder / path.name)
    if (old_log := log_path(file)).exists():
        content = old_log.read_bytes()
        (folder / f"{old_log.name}.whole.events").write_bytes(logs.extract_rows(content, len(logs.make_header(file)), SAVED))
    fresh.unlink(missing_ok=True)
    lost: dict[str, int] = {**_CHECKPOINT} if mends.may_be_older else {}
    con = Connection(fresh, _MEMORY_MB, 1)
    try:
        with con.begin_transaction() as writer:
            migrations.create_tables(writer)
            accept_blocks(folder / file.name, mends.is_older)
            for table, rows, missing in iter_tables(folder / file.name):
                if missing:
                    lost[f"rows of {table}"] = missing
                if rows:
                    marks = ", ".join("?" * len(rows[0]))
                    writer.executemany(f"INSERT INTO {table} VALUES ({marks})", [list(row) for row in rows])
    finally:
        con.close()
    fresh.chmod(0o600)
    _write_note(file.parent, {"place": _relative_folder(folder), "lost": lost})
    log_path(file).unlink(missing_ok=True)
    os.replace(fresh, file)


def _make_folder(directory: Path, now_ms: int) -> Path:
    name = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H-%M-%SZ")
    folder = directory / FOLDER / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _relative_folder(folder: Path) -> str:
    return f"{FOLDER}/{folder.name}"


def _write_note(directory: Path, what: dict[str, Any]) -> None:
    machine.put(directory / DAMAGE_FILE, json.dumps(what).encode("ascii"))


def store_saved(
    directory: Path, append: Callable[[list[Event]], object], add: Callable[[str, list[Row]], object]
) -> dict[str, int]:
    """Store what could be saved; return how much was lost, by what.

    The keys are "rows of TABLE" for rows that could not be read, and one for events stored without some of their columns.
    `append` stores events, `add` the rows of a table by its name. `salvage.json` is removed.
    """
    lost, narrowed = dict[str, int](), 0
    with suppress(OSError, ValueError, TypeError, AttributeError):
        stored_counts = json.loads((directory / DAMAGE_FILE).read_text(encoding="utf-8")).get("lost", {})
        lost = {str(what): int(count) for what, count in stored_counts.items()}
    for table, rows in iter_saved(directory):
        if table == EVENTS:
            events = cast("list[Event]", rows)
            append(events)
            narrowed += sum(SALVAGED in event.metadata for event in events)
        else:
            add(table, cast("list[Row]", rows))
    finish_salvage(directory)
    return lost | ({"events without all that was known of them": narrowed} if narrowed else {})
