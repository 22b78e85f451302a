"""A yardstick: the least server that keeps and finds texts, over SQLite's own full-text index on stdio.

python -m bench.speed.fts5 FILE
"""

import re
import sqlite3
import sys
from collections.abc import Iterable
from pathlib import Path

from mcp.server import MCPServer

#: Results, and characters shown of each.
_LIMIT, _SHOWN = 10, 300
_WORD = re.compile(r"\w+")


def opened(path: Path) -> sqlite3.Connection:
    """The database, made if there is none. A commit is on disk when it returns."""
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS said USING fts5(text, session UNINDEXED, tokenize='porter unicode61')")
    return connection


def fill(path: Path, said: Iterable[tuple[str, str]]) -> None:
    """Put pairs of session and text into it."""
    connection = opened(path)
    connection.executemany("INSERT INTO said(session, text) VALUES (?, ?)", said)
    connection.commit()
    connection.close()


def server(path: Path) -> MCPServer:
    """Two tools: `add` and `search`; and one that does nothing."""
    connection, server = opened(path), MCPServer("fts5")

    def search(query: str) -> dict[str, list[dict[str, str]]]:
        """Texts with any of the words, best first."""
        words = " OR ".join(f'"{word}"' for word in _WORD.findall(query))
        statement = "SELECT session, substr(text, 1, ?) FROM said WHERE said MATCH ? ORDER BY rank LIMIT ?"
        found = connection.execute(statement, (_SHOWN, words, _LIMIT)).fetchall() if words else []
        return {"results": [{"session": session, "text": text} for session, text in found]}

    def add(session: str, text: str) -> dict[str, int]:
        """Keep a text."""
        with connection:
            stored = connection.execute("INSERT INTO said(session, text) VALUES (?, ?)", (session, text))
        return {"stored": stored.lastrowid or 0}

    for work in (search, add):
        server.tool()(work)
    return server


if __name__ == "__main__":
    server(Path(sys.argv[1])).run("stdio")
