"""Opens files that others wrote, and unpacks what they packed: a path in, a stream or bounded bytes out.

Invariants
1. Only a regular file is opened, and never through a link: a pipe or a device may keep its reader for ever, a link leads to
   somebody else's words.
2. Nothing is unpacked beyond a bound, whatever the packed bytes claim.

Everything that reads transcripts, archives, settings of clients or files of a shared folder opens them here;
`tests/test_architecture.py` refuses any other way. Standard library only, and each part loads what it needs where it needs it.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, BinaryIO, TextIO

_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_NOINHERIT", "O_BINARY")
)
#: Most that is read of a file that is read whole (bytes).
WHOLE = 64 * 1024 * 1024
#: A member of an archive may unpack to `SLACK` bytes and `RATIO` times its packed length: conversations pack to a fifth to a
#: twentieth, the same log line over and over to a hundredth, and a bomb to a thousandth.
SLACK, RATIO = 16 * 1024 * 1024, 200
_PIECE = 1024 * 1024


class NotAFile(OSError):
    """A path where something other than a regular file is."""


class TooLarge(ValueError):
    """Packed bytes that would unpack to more than they may."""


def open_file(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading and return its stream.

    Raises NotAFile for a link and for anything but a regular file, and OSError when it cannot be opened.
    """
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as error:
        if not _is_other(path):
            raise
        raise NotAFile(error.errno, "not a regular file", os.fspath(path)) from None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return open(descriptor, "rb")  # noqa: PTH123 - a descriptor, no path
    os.close(descriptor)
    raise NotAFile(None, f"not a regular file: '{os.fspath(path)}'")


def _is_other(path: str | os.PathLike[str]) -> bool:
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def open_text(path: str | os.PathLike[str], encoding: str = "utf-8", newline: str | None = None) -> TextIO:
    """Open a regular file as text, broken bytes replaced.

    As `open_file` does; UTF-16 is known by its mark.
    """
    import io

    stream = open_file(path)
    encoding = "utf-16" if stream.read(2) in (b"\xff\xfe", b"\xfe\xff") else encoding
    stream.seek(0)
    return io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline=newline)


def read_file(path: str | os.PathLike[str], most: int = WHOLE) -> bytes:
    """Return the first `most` bytes of a regular file.

    Raises as `open_file` does.
    """
    with open_file(path) as stream:
        return stream.read(most)


def unpack(packed: bytes, most: int) -> bytes:
    """Return what zlib packed.

    Raises TooLarge beyond `most` bytes, ValueError when it cannot be unpacked.
    """
    import zlib

    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(packed, most + 1)
    except zlib.error as error:
        raise ValueError(f"cannot be unpacked: {error}") from None
    if len(unpacked) > most:
        raise TooLarge(f"unpacks to more than {most} bytes")
    if not unpacker.eof:
        raise ValueError("cannot be unpacked: its end is missing")
    return unpacked


class Zip:
    """A zip archive that others made, open for reading.

    Every method raises OSError when it cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        import zipfile
        import zlib

        # What zipfile raises for an archive that is broken, encrypted or packed in an unknown way.
        self._broken = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, ValueError)
        self._stream = open_file(path)
        try:
            self._zip = zipfile.ZipFile(self._stream)
        except self._broken as error:
            self._stream.close()
            raise OSError(f"the archive cannot be read: {error}") from None

    def __enter__(self) -> Zip:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()
        self._stream.close()

    def names(self) -> list[str]:
        """Return the names of the members, in the archive's order."""
        return self._zip.namelist()

    def size(self, name: str) -> int:
        """Return a member's unpacked bytes, by the archive's directory."""
        return self._zip.getinfo(name).file_size

    @contextmanager
    def open_member(self, name: str) -> Iterator[IO[bytes]]:
        """Open a member for reading.

        Raises OSError when it is broken or larger than it may be.
        """
        member = self._zip.getinfo(name)
        if member.file_size > unpacked_limit(member.compress_size):
            raise OSError(f"{name} would unpack from {member.compress_size} to {member.file_size} bytes: refused")
        try:
            with self._zip.open(member) as stream:
                yield stream
        except self._broken as error:
            raise OSError(f"the archive cannot be read: {error}") from None

    def unpack(self, name: str, sink: IO[bytes]) -> None:
        """Write a member's content to a stream.

        Raises OSError when it is broken or larger than it may be.
        """
        most, written = unpacked_limit(self._zip.getinfo(name).compress_size), 0
        with self.open_member(name) as source:
            while piece := source.read(_PIECE):
                written += len(piece)
                if written > most:
                    raise OSError(f"{name} unpacks to more than {most} bytes: refused")
                sink.write(piece)


def unpacked_limit(packed: int) -> int:
    """Return the most bytes that so many packed ones may give."""
    return SLACK + RATIO * packed


def is_zip(path: str | os.PathLike[str]) -> bool:
    """Return whether a regular file is a zip archive.

    Raises as `open_file` does.
    """
    import zipfile

    with open_file(path) as stream:
        return zipfile.is_zipfile(stream)
