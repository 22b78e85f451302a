"""What every importer must do, as checks to run over the registry.

A member brings one thing: `line(n)`, the n-th valid record of its format as text without a line feed.
"""

import json
from collections.abc import Callable
from pathlib import Path

from memory_mcp.ingest.base import Importer, ImportReport, Read

Line = Callable[[int], str]


def jsonl_line(n: int) -> str:
    return json.dumps(
        {"session_id": "s1", "timestamp": 1_772_442_000_000 + n * 1000, "role": "user", "text": f"words of {n}", "id": f"m{n}"}
    )


def claude_line(n: int) -> str:
    return json.dumps(
        {
            "type": "user" if n % 2 else "assistant",
            "uuid": f"{n:08d}-0000-4000-8000-000000000000",
            "sessionId": "s1",
            "timestamp": f"2026-03-02T09:{n // 60 % 60:02d}:{n % 60:02d}.000Z",
            "cwd": "/home/dev/shop",
            "message": {"role": "user", "content": f"words of {n}"},
        }
    )


LINES: dict[str, Line] = {"claude-code": claude_line, "jsonl": jsonl_line}


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return path


def read(importer: Importer, file: Path, offset: int = 0) -> tuple[list[Read], ImportReport]:
    report = ImportReport()
    steps = list(importer.read(file, offset, report))
    assert report.lines == report.lines_used + report.skipped.total()
    return steps, report


def texts(steps: list[Read]) -> list[str]:
    return [draft.text for step in steps for draft in step.drafts]


def ids(steps: list[Read]) -> list[str]:
    return [draft.source_id for step in steps for draft in step.drafts]
