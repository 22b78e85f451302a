"""What every importer must do, as checks to run over the registry.

A member whose files are JSON records, one after the other, brings `line(n)`: the n-th valid record of its format as text
without a line feed, whose only event says "words of n". Any other member brings `session(folder, count)`: it writes a
session of `count` such messages and gives the file; called again with a higher count it writes the same session, grown.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from memory_mcp.importers.base import Importer, ImportReport, ReadStep
from memory_mcp.model.event import FILE_TIME, EventDraft
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


def at(n: int) -> str:
    """A second later for each n."""
    return f"2026-03-02T{9 + n // 3600:02d}:{n // 60 % 60:02d}:{n % 60:02d}.000Z"


def claude_line(n: int) -> str:
    told = {"type": "user" if n % 2 else "assistant", "uuid": f"{n:08d}-0000-4000-8000-000000000000", "sessionId": "s1"}
    message = {"role": "user", "content": f"words of {n}"}
    return json.dumps(told | {"timestamp": at(n), "cwd": "/home/dev/shop", "message": message})


def codex_line(n: int) -> str:
    content = [{"type": "input_text", "text": f"words of {n}"}]
    payload = {"type": "message", "id": f"msg_{n}", "role": "user", "content": content}
    return json.dumps({"timestamp": at(n), "type": "response_item", "payload": payload})


def gemini_line(n: int) -> str:
    return json.dumps({"id": f"g{n}", "timestamp": at(n), "type": "gemini", "content": f"words of {n}"})


def qwen_line(n: int) -> str:
    message = {"role": "user", "parts": [{"text": f"words of {n}"}]}
    return json.dumps({"uuid": f"q{n}", "sessionId": "s1", "timestamp": at(n), "type": "user", "message": message})


def copilot_line(n: int) -> str:
    data = {"content": f"words of {n}"}
    return json.dumps({"type": "user.message", "data": data, "id": f"c{n}", "timestamp": at(n), "parentId": None})


def opencode_session(folder: Path, count: int) -> Path:
    """A database as the client makes it, as far as it is read."""
    file = folder / "opencode.db"
    with closing(sqlite3.connect(file)) as con, con:
        con.execute("CREATE TABLE IF NOT EXISTS session (id, parent_id, directory, version)")
        con.execute("CREATE TABLE IF NOT EXISTS message (id PRIMARY KEY, session_id, time_created, data)")
        con.execute("CREATE TABLE IF NOT EXISTS part (id PRIMARY KEY, message_id, data)")
        con.execute("INSERT INTO session SELECT 's1', NULL, '/home/dev/shop', '1.0' WHERE NOT EXISTS (SELECT 1 FROM session)")
        for n in range(count):
            made = 1_772_442_000_000 + n * 1000
            info = json.dumps({"role": "user", "time": {"created": made}})
            con.execute("INSERT OR IGNORE INTO message VALUES (?, 's1', ?, ?)", (f"m{n}", made, info))
            text = json.dumps({"type": "text", "text": f"words of {n}"})
            con.execute("INSERT OR IGNORE INTO part VALUES (?, ?, ?)", (f"p{n}", f"m{n}", text))
    return file


def pi_line(n: int) -> str:
    message = {"role": "user", "content": f"words of {n}", "timestamp": 1_772_442_000_000 + n * 1000}
    return json.dumps({"type": "message", "id": f"{n:08x}", "timestamp": at(n), "message": message})


def cline_session(folder: Path, count: int) -> Path:
    task = folder / "tasks" / "1772442000000"
    task.mkdir(parents=True, exist_ok=True)
    said = [{"role": "user", "content": f"words of {n}", "ts": 1_772_442_000_000 + n * 5000} for n in range(count)]
    (task / "api_conversation_history.json").write_text(json.dumps(said), encoding="utf-8")
    return task / "api_conversation_history.json"


def _lines_at(place: str, record: Callable[[int], dict[str, object]]) -> Session:
    def write_session(folder: Path, count: int) -> Path:
        file = folder / place
        file.parent.mkdir(parents=True, exist_ok=True)
        return write(file, *(json.dumps(record(n)) for n in range(count)))

    return write_session


def _antigravity(n: int) -> dict[str, object]:
    return {"step_index": n, "source": "USER_EXPLICIT", "created_at": f"2026-03-02T09:00:{n:02d}Z", "content": f"words of {n}"}


def _deepseek(n: int) -> dict[str, object]:
    data = {"role": "user", "source": {"kind": "user"}, "content": [{"type": "text", "text": f"words of {n}"}]}
    return {"type": "user/message", "seq": n, "time": 1_772_442_000_000 + n * 1000, "data": data}


def _grok(n: int) -> dict[str, object]:
    kind = "agent_message_chunk" if n % 2 else "user_message_chunk"
    update = {"sessionUpdate": kind, "content": {"type": "text", "text": f"words of {n}"}}
    return {"timestamp": 1_772_442_000 + n, "params": {"sessionId": "s1", "update": update}}


def _kimi(n: int) -> dict[str, object]:
    message = {"role": "user", "content": [{"type": "text", "text": f"words of {n}"}]}
    return {"type": "context.append_message", "message": message, "time": 1_772_442_000_000 + n * 1000}


def goose_session(folder: Path, count: int) -> Path:
    """The columns that Goose's database has had since its first version, and those of a newer one that are read."""
    file = folder / "sessions.db"
    with closing(sqlite3.connect(file)) as base, base:
        base.execute(
            "CREATE TABLE IF NOT EXISTS sessions (id TEXT PRIMARY KEY, description TEXT, working_dir TEXT NOT NULL,"
            " session_type TEXT NOT NULL DEFAULT 'user', parent_session_id TEXT)"
        )
        base.execute(
            "CREATE TABLE IF NOT EXISTS messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL,"
            " role TEXT NOT NULL, content_json TEXT NOT NULL, created_timestamp INTEGER NOT NULL, metadata_json TEXT)"
        )
        base.execute("INSERT OR IGNORE INTO sessions (id, working_dir) VALUES ('20260302_1', '/home/dev/shop')")
        for n in range(base.execute("SELECT count(*) FROM messages").fetchone()[0], count):
            words = json.dumps([{"type": "text", "text": f"words of {n}"}])
            base.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp) VALUES ('20260302_1', 'user', ?, ?)",
                (words, 1_772_442_000 + n),
            )
    # Two writes within one tick of the file system's clock would look like none.
    moment = 1_772_442_000 + count
    os.utime(file, (moment, moment))
    return file


def copilot_chat_session(folder: Path, count: int) -> Path:
    """A session as one object."""
    made = 1_772_442_000_000
    requests = [{"requestId": f"r{n}", "timestamp": made + n * 1000, "message": {"text": f"words of {n}"}} for n in range(count)]
    told = {"version": 3, "responderUsername": "Copilot", "sessionId": "s1", "requests": requests}
    return write(folder / "s1.json", json.dumps(told, indent=1))


LINES: dict[str, Line] = {
    "claude-code": claude_line,
    "codex": codex_line,
    "copilot": copilot_line,
    "gemini": gemini_line,
    "jsonl": jsonl_line,
    "pi": pi_line,
    "qwen": qwen_line,
}
SESSIONS: dict[str, Session] = {
    "antigravity": _lines_at("brain/c1/.system_generated/logs/transcript_full.jsonl", _antigravity),
    "cline": cline_session,
    "deepseek": _lines_at("--shop--/s1/session.jsonl", _deepseek),
    "goose": goose_session,
    "grok": _lines_at("shop/s1/updates.jsonl", _grok),
    "kimi": _lines_at("wd_shop/s1/agents/main/wire.jsonl", _kimi),
    "copilot-chat": copilot_chat_session,
    "opencode": opencode_session,
    "kimi-cli": _lines_at("shop/s1/context.jsonl", lambda n: {"role": "user", "content": f"words of {n}"}),
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


def read(importer: Importer, file: Path, offset: int = 0) -> tuple[list[ReadStep], ImportReport]:
    report = ImportReport()
    steps = list(importer.read_file(file, offset, report))
    assert report.lines == report.lines_used + report.skipped.total()
    return steps, report


def plain(draft: EventDraft) -> dict[str, Any]:
    """A draft as the expectations spell it: without empty fields, and without what depends on the checkout."""
    told = {name: getattr(draft, name) for name in EventDraft.__dataclass_fields__ if name != "original"}
    told["metadata"] = {key: value for key, value in draft.metadata.items() if key != FILE_TIME}
    return {name: value for name, value in told.items() if value not in ("", {})}


def outcome(
    steps: list[ReadStep], report: ImportReport, spelled: Callable[[EventDraft], dict[str, Any]] = plain
) -> dict[str, Any]:
    """What was read of a file, as the expectations spell it."""
    return {
        "lines": report.lines,
        "lines_used": report.lines_used,
        "skipped": dict(sorted(report.skipped.items())),
        "left_out": dict(sorted(report.left_out.items())),
        "events": [spelled(draft) for step in steps for draft in step.drafts],
    }


_PEAK = """
import resource, sys
from pathlib import Path
from memory_mcp.importers.base import ImportReport
from memory_mcp.importers.registry import IMPORTERS
from memory_mcp.importers.settings import IngestSettings
events = sum(len(s.drafts) for s in IMPORTERS[sys.argv[1]](IngestSettings()).read_file(Path(sys.argv[2]), 0, ImportReport()))
print(events, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def peak(name: str, file: Path) -> tuple[int, int]:
    """Events of a file, and the most memory a process needs to read it, MiB."""
    done = subprocess.run([sys.executable, "-c", _PEAK, name, file], check=True, capture_output=True, text=True)
    events, most = map(int, done.stdout.split())
    return events, most


def texts(steps: list[ReadStep]) -> list[str]:
    return [draft.text for step in steps for draft in step.drafts]


def ids(steps: list[ReadStep]) -> list[str]:
    return [draft.source_id for step in steps for draft in step.drafts]
