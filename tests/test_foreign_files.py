"""What others wrote is opened and unpacked in one place: which files, how far, and that nothing else opens any."""

import ast
import io
import os
import socket
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_mcp.base import foreign_files
from memory_mcp.base.foreign_files import RATIO, SLACK, NotAFile, TooLarge, Zip

SOURCE = Path(__file__).parents[1] / "src"
#: What may open files itself, and why: a module, or a folder with "/" behind it.
OPENERS = {
    "base/foreign_files.py": "opens what others wrote",
    "storage/duckdb/": "the store's own files, which are locked and looked at for links before",
    "storage/lock.py": "the lock, and a table of the system",
    "indexes/files.py": "the index's own files, through no link",
    "indexes/generation.py": "the index's own files, looked at before",
    "base/machine.py": "tables of the system, names of a folder",
    "base/children.py": "standard input and output",
    "service/client/door.py": "refuses the file of another user",
    "service/client/handshake.py": "refuses the file of another user, and what is no plain file",
    "service/daemon/token.py": "refuses the file of another user",
    "service/daemon/process_memory.py": "a table of the system",
    "service/daemon/security.py": "tables of the system",
    "server/pipe.py": "the null device",
    "server/apps.py": "data of the program",
    "tree/summarize/contradictions.py": "data of the program",
    "web/site.py": "data of the program",
    "capture/respelling.py": "data of the program",
}
#: Modules that unpack without a bound, and the names of `zlib` that do.
PACKERS = {"zipfile", "gzip", "bz2", "lzma", "tarfile", "shutil.unpack_archive"}
UNPACKERS = {"zlib.decompress", "zlib.decompressobj"}

#: What has an `open` that opens no path.
NO_PATHS = {"self", "self._doors", "self._pool", "self.nodes", "self.quotes", "webbrowser", "get_engine(settings.storage.engine)"}


def is_reading(call: ast.Call) -> bool:
    """Whether a call opens or reads a file: not data of the package, not for writing alone, nothing else's `open`."""
    name = ast.unparse(call.func)
    receiver, _, method = name.rpartition(".")
    if method not in ("open", "read_text", "read_bytes") or receiver in NO_PATHS or "files(" in receiver:
        return False
    if name == "os.open":
        return not any(isinstance(n, ast.Attribute) and n.attr in ("O_WRONLY", "O_RDWR") for n in ast.walk(call))
    modes = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    return not any(mode[:1] in ("w", "a", "x") or mode in ("r+b", "rb+") for mode in modes)


def violations(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and is_reading(node):
            found.append(ast.unparse(node.func))
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name in PACKERS]
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found += sorted(names & UNPACKERS) + ([node.module] if node.module in PACKERS else [])
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in UNPACKERS:
            found.append(ast.unparse(node))
    return found


def is_opener(name: str) -> bool:
    return any(name == opener or (opener.endswith("/") and name.startswith(opener)) for opener in OPENERS)


def test_files_are_opened_and_unpacked_in_one_place_alone() -> None:
    named = {path.relative_to(SOURCE).as_posix().removeprefix("memory_mcp/"): path for path in SOURCE.rglob("*.py")}
    modules = {name: path for name, path in named.items() if not name.startswith("samples/")}
    found = {name: violations(path.read_text(encoding="utf-8")) for name, path in sorted(modules.items())}
    assert {name: calls for name, calls in found.items() if calls and not is_opener(name)} == {}
    assert [o for o in OPENERS if not any(calls for name, calls in found.items() if name.startswith(o))] == []


@pytest.mark.parametrize(
    "line",
    [
        *("file.open()", "open(path)", "open(path, 'rb')", "path.open(encoding='utf-8')", "Path(p).read_bytes()"),
        *("(a / b).read_text()", "os.open(p, os.O_RDONLY)", "zlib.decompress(x)", "import gzip", "from zlib import decompress"),
        *("from zipfile import ZipFile", "zlib.decompressobj()", "import tarfile"),
    ],
)
def test_another_way_of_reading_is_seen(line: str) -> None:
    assert violations(line)


@pytest.mark.parametrize("line", ["path.open('wb')", "os.open(p, os.O_WRONLY)", "files('x').read_text()", "zlib.compress(x)"])
def test_writing_and_data_of_the_program_are_no_reading(line: str) -> None:
    assert violations(line) == []


def make_link(path: Path) -> None:
    path.with_name("target").write_text("words of somebody else")
    path.symlink_to(path.with_name("target"))


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        here = Path.cwd()
        os.chdir(path.parent)
        try:
            sock.bind(path.name)
        finally:
            os.chdir(here)


ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo if sys.platform != "win32" else lambda _: None,
    "link": make_link,
    "link to nothing": lambda path: path.symlink_to("nowhere"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "socket": make_socket,
    "folder": lambda path: path.mkdir(),
}


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize(
    "read", [foreign_files.open_file, foreign_files.open_text, foreign_files.read_file, foreign_files.is_zip, Zip]
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str, read: Callable[[Path], object]) -> None:
    ODD[kind](tmp_path / "x")
    with pytest.raises(NotAFile):
        read(tmp_path / "x")


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        foreign_files.open_file(tmp_path / "x")


@given(st.binary(max_size=2000), st.integers(0, 3000))
def test_unpacking_ends_at_its_bound_and_gives_all_below_it(content: bytes, most: int) -> None:
    packed = zlib.compress(content)
    if len(content) <= most:
        assert foreign_files.unpack(packed, most) == content
    else:
        with pytest.raises(TooLarge):
            foreign_files.unpack(packed, most)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_half_of_it_and_anything_else_is_an_error(content: bytes, end: int) -> None:
    packed = zlib.compress(content)
    for broken in (packed[: min(end, len(packed) - 1)], content):
        with pytest.raises(ValueError, match="unpack"):
            foreign_files.unpack(broken, 1000)


def members(path: Path, **contents: bytes) -> Iterator[str]:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    with Zip(path) as opened:
        yield from opened.names()


def test_a_member_that_unpacks_to_more_than_it_may_is_refused(tmp_path: Path) -> None:
    bomb = bytes(SLACK + 1000 * RATIO * 100)
    assert list(members(tmp_path / "x.zip", small=b"words", large=bomb)) == ["small", "large"]
    with Zip(tmp_path / "x.zip") as archive:
        sink = io.BytesIO()
        archive.unpack("small", sink)
        assert sink.getvalue() == b"words"
        with pytest.raises(OSError, match="refused"):
            archive.unpack("large", sink)
        assert len(sink.getvalue()) == 5


def test_what_is_no_archive_is_an_error_and_leaves_no_file_open(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 and nothing more")
    with pytest.raises(OSError, match="cannot be read"):
        Zip(tmp_path / "x.zip")
