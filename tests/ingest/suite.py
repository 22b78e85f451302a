"""What every importer must do, as checks to run over the registry.

A member whose files are JSON records, one after the other, brings `line(n)`: the n-th valid record of its format as text
without a line feed, whose only event says "words of n". Any other member brings `session(folder, count)`: it writes a
session of `count` such messages and gives the file; called again with a higher count it writes the same session, grown.
"""

import json
from collections.abc import Callable
from pathlib import Path

from memory_mcp.ingest.base import Importer, ImportReport, Read
from tests.ingest.suite_sessions import (
    amp_session,
    chatgpt_session,
    claude_ai_session,
    continue_session,
    cursor_session,
    markdown_session,
)

Line = Callable[[int], str]
Session = Callable[[Path, int], Path]


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
SESSIONS: dict[str, Session] = {
    "cursor": cursor_session,
    "amp": amp_session,
    "continue": continue_session,
    "chatgpt": chatgpt_session,
    "claude-ai": claude_ai_session,
    "markdown": markdown_session,
}


def session_of(name: str) -> Session:
    """How a member's session is written."""
    if name in SESSIONS:
        return SESSIONS[name]
    return lambda folder, count: write(folder / "a.jsonl", *map(LINES[name], range(count)))


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
