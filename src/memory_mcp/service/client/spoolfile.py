"""Writes one payload of a hook as a file of the spool: a line of JSON about its origin, then the payload.

Invariants
1. A file is written aside, is on disk, and only then has its name in `new/`: what lies there is whole.
2. A name is of one payload. Who writes it a second time writes the same file, and its events have the same ids.
3. Standard library only, and little of it: a hook loads this with every tool call.
"""

import os

from memory_mcp.base import machine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: Folders inside the data directory; that itself may be a link.
_OURS = ("spool", "tmp", "new")
#: Lengths of the parts of a name, characters: the time, a checksum with the process, and the shortest name of a client.
_TIME, _REST = 20, 16


def name_of(client: str, payload: bytes) -> str:
    """Return a new name for a payload that came now, TIME-CHECKSUM-CLIENT.

    Names sort by time, and no other payload has it. The time is in nanoseconds, 20 digits; the checksum is 8 hexadecimal digits
    of the payload and 8 of the process id.
    """
    import time
    import zlib

    # Two hooks may be given the same words in the same moment, but not by the same process.
    return f"{time.time_ns():0{_TIME}d}-{zlib.crc32(payload):08x}{os.getpid() & 0xFFFFFFFF:08x}-{client}"


def client_of(name: str) -> str:
    """Return the client in the name of a spool file.

    Raises ValueError for any other name, such as a path.
    """
    at, digits, client = (*name.split("-", 2), "", "")[:3]
    is_client = client.replace("-", "").isalpha() and client.isascii() and client.islower()
    hexadecimal = len(digits) == _REST and not digits.strip("0123456789abcdef")
    if len(at) == _TIME and at.isascii() and at.isdigit() and hexadecimal and is_client:
        return client
    raise ValueError(f"no name of a spool file: {name!r}")


def make_header(name: str, fields: "Mapping[str, str]", cut: bool = False, raw: bool = False) -> bytes:
    """Return the first line of a spool file, as JSON.

    It has what the payload does not say: client, time, `fields`, `cut` and `raw`. `fields`: "project_dir", "cwd", "pids", left
    out where empty; `cut`: the payload is only the beginning of what came; `raw`: secrets could not be taken out of it. Raises
    ValueError for a `name` that `name_of` did not make.
    """
    words = "".join(f',"{key}":{quote_json(value)}' for key, value in fields.items() if value)
    words += (',"cut":true' if cut else "") + (',"raw":true' if raw else "")
    return f'{{"v":1,"client":"{client_of(name)}","at_ns":{int(name[:_TIME])}{words}}}\n'.encode("ascii")


def quote_json(text: str) -> str:
    """Return a text as a JSON string in ASCII.

    Loading the json module would take a third of the time that Python starts in.
    """
    raw = text.encode("utf-16-be", "surrogatepass")
    units = [raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2)]
    return '"' + "".join(chr(u) if 32 <= u < 127 and u not in (34, 92) else f"\\u{u:04x}" for u in units) + '"'


def write_payload(spool: str, name: str, head: bytes, payload: bytes, by: str = "") -> None:
    """Write one file of the spool, on disk once this returns.

    Raises OSError when that fails, and then nothing of it is left. Folders are made, mode 0700, where there are none, but not in
    a folder that holds other programs' files or that others may write into; one that is a link is refused. `by` distinguishes
    writers of one name while they write: a hook that no longer waits, and the daemon it asked.
    """
    from memory_mcp.base import ownership

    if why := (ownership.open_to_others if os.path.isdir(spool) else ownership.unfit)(os.path.dirname(spool)):
        raise OSError(why)
    for folder in (os.path.dirname(spool), spool, *(os.path.join(spool, child) for child in ("tmp", "new"))):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            if folder.endswith(_OURS) and os.path.islink(folder):
                raise OSError(f"{folder} is a link") from None
        except FileNotFoundError:
            os.makedirs(folder, 0o700, exist_ok=True)
    aside = os.path.join(spool, "tmp", name + by)
    with machine.Aside(os.path.join(spool, "new", name), aside, names=False) as stream:
        stream.write(head)
        stream.write(payload)
