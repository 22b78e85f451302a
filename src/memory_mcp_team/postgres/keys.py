"""128-bit keys in PostgreSQL: kept as uuid, which is 16 bytes in the order of the numbers; in Python they are integers."""

from collections.abc import Iterable

from psycopg import Connection as Raw
from psycopg.adapt import Loader
from psycopg.pq import Format


class _FromText(Loader):
    """Turns uuids that the database sends as texts into integers."""

    format = Format.TEXT

    def load(self, data: "bytes | bytearray | memoryview") -> int:
        """Return a uuid's text as an integer."""
        return int(bytes(data).replace(b"-", b""), 16)


class _FromBinary(Loader):
    """Turns uuids that the database sends as 16 bytes into integers."""

    format = Format.BINARY

    def load(self, data: "bytes | bytearray | memoryview") -> int:
        """Return a uuid's 16 bytes as an integer."""
        return int.from_bytes(data, "big")


def uuid_of(key: int) -> str:
    """Return a 128-bit key as 32 hexadecimal digits, for a parameter that is cast: `%(id)s::uuid`."""
    return f"{key:032x}"


def uuids_of(keys: Iterable[int]) -> list[str]:
    """Return 128-bit keys as 32 hexadecimal digits each, in their order, for a parameter such as `ANY(%(ids)s::uuid[])`."""
    return [f"{key:032x}" for key in keys]


def load_as_integers(raw: "Raw") -> None:
    """Have a connection return uuids as integers, whether the database sends them as texts or as bytes."""
    raw.adapters.register_loader("uuid", _FromText)
    raw.adapters.register_loader("uuid", _FromBinary)
