"""Files of others among those that the program reads: each costs itself alone, is named, and can neither keep nor fill it."""

import dataclasses
import hashlib
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.place import Place
from memory_mcp.upkeep.archive import frames
from memory_mcp.upkeep.archive.blocks import Archive
from memory_mcp.upkeep.archive.frames import Block
from tests.daemon.inside import BARE, Inside
from tests.daemon.test_sync import held, say
from tests.test_foreign_files import ODD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")

LINE = json.dumps({"session_id": "s", "role": "user", "text": "walnut harbor", "timestamp": 1_790_000_000_000})


def rows_of(file: Path) -> tuple[dict[str, Any], tuple[str, ...], list[list[Any]]]:
    with Archive(file) as archive:
        [block] = [part for part in archive if isinstance(part, Block)]
        return archive.about, block.head.columns, block.rows


def other_rows(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Path], None]:
    """A file whose checksums hold, with changed rows."""

    def write(file: Path) -> None:
        _, columns, rows = rows_of(file)
        changed = [list(change(dict(zip(columns, row, strict=True))).values()) for row in rows]
        with_body(zlib.compress(b"\n".join(map(frames.encode_json, changed))), len(changed))(file)

    return write


def with_body(body: bytes, rows: int = 2) -> Callable[[Path], None]:
    """A file whose checksums hold, with a block of this body."""

    def write(file: Path) -> None:
        about, columns, _ = rows_of(file)
        first = zlib.compress(frames.encode_json(about))
        heads = (
            frames.make_head(0, "", (), [], first),
            dataclasses.replace(frames.make_head(1, "event", columns, [], body), rows=rows),
        )
        content, places = frames.MAGIC, list[list[Any]]()
        for head, packed in zip(heads, (first, body), strict=True):
            content += frames.make_frame(head)
            places.append([len(content), dataclasses.asdict(head)])
            content += packed
        file.write_bytes(content + ending(frames.encode_json({"about": about, "blocks": places}), len(content)))

    return write


def ending(index: bytes, at: int) -> bytes:
    told = zlib.compress(index)
    return frames.INDEX + frames.FRAME.pack(len(told), hashlib.sha256(told).digest()) + told + frames.TAIL.pack(at)


def with_index(index: bytes) -> Callable[[Path], None]:
    """A file that ends with an index of this content, whose checksum holds."""

    def write(file: Path) -> None:
        content = file.read_bytes()
        file.write_bytes(content + ending(index, len(content)))

    return write


def odd(kind: str) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        file.unlink()
        ODD[kind](file)

    return make


FOREIGN: dict[str, Callable[[Path], None]] = {
    **{kind: odd(kind) for kind in ODD},
    "one long row": with_body(zlib.compress(b"[" + b" " * 200_000_000 + b"]"), rows=1),
    "many rows": with_body(zlib.compress(b"[]\n" * 50_000_000)),
    "nested": with_body(zlib.compress(b"[" * 500_000)),
    "no JSON": with_body(zlib.compress(b"walnut")),
    "not packed": with_body(b"walnut"),
    "a number for a text": other_rows(lambda row: {**row, "text": 7}),
    "a list for a session": other_rows(lambda row: {**row, "session_id": ["s"]}),
    "a text for a time": other_rows(lambda row: {**row, "ts": "soon"}),
    "an unknown role": other_rows(lambda row: {**row, "role": "king"}),
    "a text for an id": other_rows(lambda row: {**row, "event_id": "x"}),
    "metadata of another kind": other_rows(lambda row: {**row, "metadata": "[1]"}),
    "too few columns": other_rows(lambda row: {"ts": row["ts"]}),
}


@pytest.fixture
def shared(tmp_path: Path) -> tuple[Path, Path]:
    """A shared folder, and a copy of a machine's file in it that sorts before the machine's own."""
    folder = tmp_path / "shared"
    folder.mkdir()
    one = Inside(tmp_path / "one", more=BARE)
    say(one, "both", "walnut harbor")
    one.ok("sync", str(folder))
    [file] = folder.glob("*/*.archive")
    copy = file.with_name("events-00000000-aaaaaaaa.archive")
    copy.write_bytes(file.read_bytes())
    return folder, copy


def sync(place: Place, folder: Path) -> dict[str, Any]:
    return dict(json.loads(place.ok("sync", str(folder), "--json")))


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_in_the_shared_folder_costs_itself_alone(tmp_path: Path, shared: tuple[Path, Path], kind: str) -> None:
    folder, copy = shared
    FOREIGN[kind](copy)
    two = Inside(tmp_path / "two", more=BARE)
    for _ in range(2):
        done = sync(two, folder)
        assert (done["refused"], done["waiting"]) == ([str(copy)], 0)
    assert list(held(two).values()) == ["walnut harbor"]
    assert f"Refused {copy}" in two.ok("sync", str(folder))
    # Once it is a file of ours, it is read.
    if copy.is_dir():
        copy.rmdir()
    else:
        copy.unlink()
    copy.write_bytes(next(file for file in folder.glob("*/events-*.archive") if file != copy).read_bytes())
    assert sync(two, folder)["refused"] == []


@pytest.mark.parametrize("index", [b" " * 200_000_000, b"[" * 500_000, b"[]", b'{"about": 7, "blocks": [[1]]}', b"walnut"])
def test_an_index_of_another_form_is_passed_over(tmp_path: Path, shared: tuple[Path, Path], index: bytes) -> None:
    folder, copy = shared
    with_index(index)(copy)
    two = Inside(tmp_path / "two", more=BARE)
    sync(two, folder)
    assert list(held(two).values()) == ["walnut harbor"]


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("client", ["claude-code", "cursor", "goose", "opencode", "gemini", "markdown", "chatgpt", "jsonl"])
def test_what_is_no_file_among_transcripts_keeps_no_import(tmp_path: Path, kind: str, client: str) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in (
        "a.jsonl",
        "chats.json",
        "note.md",
        "state.vscdb",
        "sessions.db",
        "opencode.db",
        "export.zip",
        "conversations.json",
    ):
        ODD[kind](folder / name) if kind != "link" or name == "a.jsonl" else None
    (folder / "target").unlink(missing_ok=True)
    (folder / "b.jsonl").write_text(LINE + "\n")
    place = Inside(tmp_path / "place", more=BARE)
    done = place.run("import", client, str(folder), patience=60)
    assert "Traceback" not in done.stderr
    place.run("import", "jsonl", str(folder), patience=60)
    assert "walnut harbor" in held(place).values()


def test_a_file_that_is_named_by_a_link_is_read_and_one_that_is_found_is_not(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(LINE + "\n")
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(tmp_path / "b.jsonl")
    place = Inside(tmp_path / "place", more=BARE)
    place.run("import", "jsonl", str(folder))
    assert place.ok("query", "events", "--all", "--json").count("walnut harbor") == 0
    place.ok("import", "jsonl", str(folder / "link.jsonl"))
    assert list(held(place).values()) == ["walnut harbor"]


def test_a_pipe_that_is_named_is_refused_by_name(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.jsonl")
    place = Inside(tmp_path / "place", more=BARE)
    done = place.run("import", "jsonl", str(tmp_path / "x.jsonl"), patience=60)
    assert "not a regular file" in done.stdout + done.stderr


def test_an_export_that_unpacks_to_a_thousand_times_its_length_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b'[{"mapping": {}, "title": "' + b" " * 60_000_000 + b'"}]')
    place = Inside(tmp_path / "place", more=BARE)
    done = place.run("import", "chatgpt", str(tmp_path / "export.zip"), patience=60)
    assert "refused" in done.stdout + done.stderr
