"""Words of an interface, kept in one file beside its tests: tests hold codes and ids, the file what people and agents read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

#: Set to anything, snapshots are written instead of compared; look at the difference before it is committed.
WRITE = "SNAPSHOTS"


def assert_same(file: Path, part: str, current: Mapping[str, object]) -> None:
    """Compare what an interface says now with a part of its snapshot."""
    kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    if os.environ.get(WRITE):
        kept[part] = dict(current)
        file.write_text(json.dumps(kept, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert current == kept[part]
