"""What a relay keeps of a client's conversation, so that another daemon can go on with it. Standard library only.

Invariants
1. What was in flight when a daemon died is sent again to the next, under the same request key, so that a write is applied once.
2. The client sees one connection: its handshake is said again to each new daemon in the client's own era, and the second
   answer is swallowed.

Change here: what survives the daemon's death.
"""

import json
from contextlib import suppress
from typing import Any

from memory_mcp.base import lines
from memory_mcp.service.client import handshake

#: Set in a call's `_meta`; see the server's side for what it does.
KEY = "memory-mcp/key"
#: A call that was in flight at so many deaths is not sent again: it may be what kills. Fewer would give up calls that were
#: only slow while something else did (measured with a daemon killed every three seconds).
_DEATHS = 8
#: Requests of a handshake that a new daemon must hear again besides the first, by what they set.
_LASTING = {"logging/setLevel": "level", "resources/subscribe": "uri"}
_UNDONE = {"resources/unsubscribe": "resources/subscribe"}
#: By these a client greets, in one era or the other; an error for one of them would end the connection.
_GREETINGS = frozenset({"initialize", "server/discover"})
#: The code of an error for a call that no daemon could take, and how most answers begin.
_UNAVAILABLE = -32000
_USUAL = b'{"jsonrpc":"2.0","id":'
#: A line may become so much longer with what is added to it (bytes).
_ADDED = 1 << 16


class Relay:
    """What is needed to continue a conversation with another daemon."""

    def __init__(self, name: str, saved: handshake.SavedAnswers | None = None) -> None:
        self._name = name
        #: Answers for while no daemon has been reached, and the first request so answered of a client that says no `initialize`:
        #: the daemon hears from it who the client is.
        self.saved = saved
        self._introduction: bytes = b""
        self._calls = 0
        self._replays = 0
        self._opening: bytes = b""
        self._opening_id = ""
        self._answered = False
        self._initialized: bytes = b""
        self._lasting: dict[tuple[str, str], dict[str, Any]] = {}
        #: Requests without an answer: id, line, how many daemons have died over it, and whether it greets.
        self._pending: dict[str, list[Any]] = {}
        self._swallow: set[str] = set()
        #: Answers of this relay itself, until they are taken out.
        self.answers: list[bytes] = []

    @property
    def waiting(self) -> bool:
        """Whether the client waits for an answer."""
        return bool(self._pending)

    def from_client(self, client_line: bytes | lines.Cut) -> bytes:
        """Return a client's line for the daemon, calls with a key."""
        checked = lines.read_line(client_line.removesuffix(b"\n") if isinstance(client_line, bytes) else client_line)
        line, message = checked.line, checked.message
        if checked.answer:
            self.answers.append(checked.answer)
        if message is None or "method" not in message:
            return line
        method, params = message["method"], message.get("params") or {}
        if "id" not in message:
            if method == "notifications/initialized":
                self._initialized = line
            elif method == "notifications/cancelled":
                self._pending.pop(json.dumps(params.get("requestId")), None)
            return line
        if method == "tools/call":
            self._calls += 1
            meta = params.get("_meta")
            params["_meta"] = {**(meta if isinstance(meta, dict) else {}), KEY: f"{self._name}:{self._calls}"}
            message["params"] = params
            # Not escaped: the daemon bounds a line as this relay does, and escapes would make it longer.
            line = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            if len(line) > lines.LONGEST + _ADDED:
                # Numbers may be written longer than they came; the daemon would close the connection over it.
                self.answers.append(lines.too_long(message["id"]))
                return b""
        name = json.dumps(message["id"])
        answer = self.saved.answer_request(message) if self.saved else b""
        if method == "initialize":
            self._opening, self._opening_id, self._answered = line, name, bool(answer)
        if answer:
            self._introduction = self._introduction or line
            self.answers.append(answer)
            return b""
        self._note_lasting(method, params, message)
        self._pending[name] = [line, 0, method in _GREETINGS]
        return line

    def _note_lasting(self, method: str, params: dict[str, Any], message: dict[str, Any]) -> None:
        if method in _LASTING:
            what = str(params.get("uri", "")) if method == "resources/subscribe" else ""
            self._lasting[method, what] = message
        elif method in _UNDONE:
            self._lasting.pop((_UNDONE[method], str(params.get("uri", ""))), None)

    def from_daemon(self, line: bytes) -> bytes:
        """Return a daemon's line for the client, closing what it answers."""
        name = _find_answered_id(line)
        if name is None:
            return line
        if name in self._swallow:
            self._swallow.discard(name)
            return b""
        if name == self._opening_id:
            # A client whose first greeting timed out greets in the older era too. Refused, it is not to be said again.
            self._answered = b'"result"' in line[:200]
        self._pending.pop(name, None)
        return line

    def count_death(self) -> None:
        """Count one more death of a daemon for each open request."""
        for entry in self._pending.values():
            entry[1] += 1

    def take_replay(self) -> tuple[list[bytes], list[bytes]]:
        """Return lines for a new daemon, and errors for the client.

        Lines: handshake, what lasts, open calls. Errors: for calls given up.
        """
        self._swallow.clear()
        messages: list[bytes] = []
        if self._introduction and not self._opening:
            messages.append(self._introduction)
            self._swallow.add(json.dumps(json.loads(self._introduction)["id"]))
        self.saved, self._introduction = None, b""
        if self._opening and self._answered:
            messages.append(self._opening)
            self._swallow.add(self._opening_id)
            if self._initialized:
                messages.append(self._initialized)
            for message in self._lasting.values():
                self._replays += 1
                name = f"{self._name}:again:{self._replays}"
                self._swallow.add(json.dumps(name))
                messages.append(json.dumps({**message, "id": name}, separators=(",", ":")).encode() + b"\n")
        given_up = [name for name, (_, deaths, _) in self._pending.items() if deaths >= _DEATHS]
        errors = [self._give_up(name, "the daemon ended each time this call was made") for name in given_up]
        return messages + [line for line, *_ in self._pending.values()], errors

    def give_up_all(self, why: str, but_greetings: bool = False) -> list[bytes]:
        """Return errors that give `why` for all open requests.

        These are dropped; with `but_greetings` greetings are left waiting.
        """
        return [self._give_up(name, why) for name, (*_, greets) in list(self._pending.items()) if not (greets and but_greetings)]

    def _give_up(self, name: str, why: str) -> bytes:
        del self._pending[name]
        hint = "memory-mcp doctor looks into it; nothing acknowledged is lost. A retry may help (retryable: true)."
        text = f"UNAVAILABLE: {why}. {hint}"
        error = {"jsonrpc": "2.0", "id": json.loads(name), "error": {"code": _UNAVAILABLE, "message": text}}
        return json.dumps(error, separators=(",", ":")).encode() + b"\n"


def _find_answered_id(line: bytes) -> str | None:
    """Return the id, as JSON, that a daemon's line answers."""
    head = line[:200]
    if head.startswith(_USUAL):
        # The id can be read without reading a long answer.
        token, _, tail = head[len(_USUAL) :].partition(b",")
        if tail.startswith((b'"result"', b'"error"')):
            with suppress(ValueError):
                return json.dumps(json.loads(token))
    try:
        message = json.loads(line)
    except ValueError:
        return None
    if not isinstance(message, dict) or "method" in message or "id" not in message:
        return None
    return json.dumps(message["id"])
