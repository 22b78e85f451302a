"""Read safetensors files: a length, a header in JSON, and the numbers."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory_mcp.base import foreign_files

#: Numpy types by their names in the format.
_TYPES = {"I8": np.int8, "F16": np.float16, "F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Return a safetensors file's header and the data's offset in bytes.

    The header maps each array's name to its dtype, shape and data_offsets (from the offset on), and may have an entry
    "__metadata__". Raises ValueError if it is truncated or no JSON, struct.error if it has fewer than 8 bytes, OSError if
    it cannot be read.
    """
    with foreign_files.open_file(path.resolve()) as f:
        size = struct.unpack("<Q", f.read(8))[0]
        if size > path.stat().st_size:
            raise ValueError(f"{path.name} is cut off")
        return json.loads(f.read(size)), 8 + size


def read_tensors(path: Path, mapped: bool) -> dict[str, NDArray[Any]]:
    """Return a safetensors file's arrays by name, as views.

    Views of the mapped file, or of a copy in memory if not `mapped`. Raises ValueError or KeyError for another format or an
    unsupported type, struct.error or OSError as `read_header`.
    """
    entries, start = read_header(path)
    raw = np.asarray(np.memmap(path, dtype=np.uint8, mode="r")) if mapped else np.fromfile(path, dtype=np.uint8)
    arrays = {}
    for name, entry in entries.items():
        if name != "__metadata__":
            first, last = (start + int(at) for at in entry["data_offsets"])
            if entry["dtype"] not in _TYPES:
                raise ValueError(f"numbers of type {entry['dtype']} are not supported")
            arrays[name] = raw[first:last].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
