"""Sessions of the members whose files are no lines: each writes `count` messages that say "words of n"."""

import json
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

#: 2026-03-02T09:00:00Z.
BEGAN_MS = 1_772_442_000_000


def amp_session(folder: Path, count: int) -> Path:
    messages = [
        {
            "role": "assistant" if n % 2 else "user",
            "messageId": n,
            "content": [{"type": "text", "text": f"words of {n}"}],
            "meta": {"sentAt": BEGAN_MS + n * 1000},
        }
        for n in range(count)
    ]
    thread = {"v": count, "id": "T-00000000-0000-4000-8000-000000000001", "created": BEGAN_MS, "messages": messages}
    return _json(folder / "T-00000000-0000-4000-8000-000000000001.json", thread)


def continue_session(folder: Path, count: int) -> Path:
    history = [
        {"message": {"role": "assistant" if n % 2 else "user", "content": f"words of {n}"}, "contextItems": []}
        for n in range(count)
    ]
    listed = [{"sessionId": "c1", "title": "", "dateCreated": str(BEGAN_MS), "workspaceDirectory": "/home/dev/shop"}]
    _json(folder / "sessions.json", listed)
    return _json(folder / "c1.json", {"sessionId": "c1", "title": "", "workspaceDirectory": "/home/dev/shop", "history": history})


def chatgpt_conversation(count: int, words: str = "words of", name: str = "g1") -> dict[str, Any]:
    mapping: dict[str, Any] = {f"{name}-root": {"id": f"{name}-root", "message": None, "parent": None, "children": [f"{name}-0"]}}
    for n in range(count):
        mapping[f"{name}-{n}"] = {
            "id": f"{name}-{n}",
            "parent": f"{name}-{n - 1}" if n else f"{name}-root",
            "children": [f"{name}-{n + 1}"] if n + 1 < count else [],
            "message": {
                "id": f"{name}-{n}",
                "author": {"role": "assistant" if n % 2 else "user"},
                "create_time": BEGAN_MS / 1000 + n,
                "content": {"content_type": "text", "parts": [f"{words} {n}"]},
                "recipient": "all",
            },
        }
    return {"title": "", "create_time": BEGAN_MS / 1000, "mapping": mapping, "current_node": f"{name}-{count - 1}", "id": name}


def chatgpt_session(folder: Path, count: int) -> Path:
    file = folder / "export.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps([chatgpt_conversation(count)]))
    return file


def claude_ai_conversation(count: int, words: str = "words of", name: str = "a1") -> dict[str, Any]:
    messages = [
        {
            "uuid": f"{name}-{n}",
            "text": "",
            "content": [{"type": "text", "text": f"{words} {n}"}],
            "sender": "assistant" if n % 2 else "human",
            "created_at": f"2026-03-02T09:{n // 60 % 60:02d}:{n % 60:02d}.000000Z",
            "attachments": [],
            "files": [],
        }
        for n in range(count)
    ]
    return {"uuid": name, "name": "", "created_at": "2026-03-02T08:59:59.000000Z", "chat_messages": messages}


def claude_ai_session(folder: Path, count: int) -> Path:
    return _json(folder / "conversations.json", [claude_ai_conversation(count)])


def cursor_session(folder: Path, count: int) -> Path:
    """Its tables are the client's own; a session that grew has rows more, as the client writes them."""
    file = folder / "state.vscdb"
    with closing(sqlite3.connect(file)) as con, con:
        for table in ("ItemTable", "cursorDiskKV"):
            con.execute(f"CREATE TABLE IF NOT EXISTS {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        known = con.execute("SELECT count(*) FROM cursorDiskKV WHERE key LIKE 'bubbleId:%'").fetchone()[0]
        for n in range(known, count):
            put_cursor(con, f"bubbleId:u1:b{n}", cursor_bubble(n))
        headers = [{"bubbleId": f"b{n}", "type": 2 if n % 2 else 1} for n in range(count)]
        told = {"_v": 10, "composerId": "u1", "createdAt": BEGAN_MS, "fullConversationHeadersOnly": headers}
        put_cursor(con, "composerData:u1", told)
    return file


def cursor_bubble(n: int, words: str = "words of") -> dict[str, Any]:
    stamp = f"2026-03-02T09:{n // 60 % 60:02d}:{n % 60:02d}.000Z"
    return {"_v": 3, "type": 2 if n % 2 else 1, "bubbleId": f"b{n}", "text": f"{words} {n}", "createdAt": stamp}


def put_cursor(con: sqlite3.Connection, key: str, value: object) -> None:
    con.execute("INSERT INTO cursorDiskKV (key, value) VALUES (?, ?)", [key, json.dumps(value)])


def markdown_session(folder: Path, count: int) -> Path:
    file = folder / "2026-03-02 cart.md"
    sections = [f"## Part {n}\n\nwords of {n}\n" for n in range(count)]
    file.write_text("---\ntags: [shop]\n---\n" + "\n".join(sections), encoding="utf-8")
    return file


def _json(file: Path, value: Any) -> Path:
    file.write_text(json.dumps(value), encoding="utf-8")
    return file
