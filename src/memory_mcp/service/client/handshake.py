"""What the last daemon answered to a client's first requests, kept in a file: the next client need not wait for a daemon's start.

The daemon writes the file; a relay reads it while it starts the next daemon. Standard library only.

Invariants
1. An answer counts only for the code, settings and Python that gave it, and for a request that says the same.
2. A file that is missing, damaged, of another user or a link is none: then the client waits for the daemon.
"""

import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from memory_mcp import __version__
from memory_mcp.base import machine, paths

#: Requests by which a client gets to know a server; their answers are the same as long as that is.
_INITIALIZE = "initialize"
_METHODS = frozenset(
    {
        *(_INITIALIZE, "server/discover", "tools/list", "prompts/list"),
        *("resources/list", "resources/templates/list"),
    }
)
#: In `_meta`: what tells clients of a kind apart by name alone, and what differs with each request. The pump loads nothing of the
#: server, which has these names too.
_CLIENT_INFO, _PROTOCOL = "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/protocolVersion"
_TOKEN = "progressToken"
#: A longer file is none of ours (bytes).
_LONGEST = 1 << 20
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def compute_fingerprint(settings: Mapping[str, str]) -> str:
    """Return a hash of all that the answers of a daemon depend on.

    That is version, Python, files of this package, settings file and `settings`, as `Wanted.settings` has them.
    """
    settings_file = settings.get("config") or paths.config_file()
    parts = [__version__, sys.version, *sorted(f"{key}={text}" for key, text in settings.items() if key != "config")]
    parts += [settings_file, str(file_stamp(settings_file)), *_list_files(_PACKAGE)]
    return paths.name_of("\n".join(parts))


def file_stamp(path: str) -> list[int]:
    """Return a file's size and time of change (ns); [] if it is missing."""
    try:
        state = os.stat(path)
    except OSError:
        return []
    return [state.st_size, state.st_mtime_ns]


def _list_files(folder: str) -> list[str]:
    """Return path, size and time of each file of the package, in order."""
    lines = []
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                lines += [] if entry.name == "__pycache__" else _list_files(entry.path)
            else:
                state = entry.stat()
                lines.append(f"{entry.path} {state.st_size} {state.st_mtime_ns}")
    return lines


def handshake_file(directory: str) -> str:
    """Return the file of a data directory that holds the answers."""
    return os.path.join(directory, "handshake.json")


def load_results(directory: str, current: str) -> dict[str, str]:
    """Return the results (JSON) of the last daemon, by request.

    {} where there are none of the fingerprint `current`, or a file they depend on has changed.
    """
    try:
        handle = os.open(handshake_file(directory), os.O_RDONLY | machine.PRIVATE)
        with os.fdopen(handle, "rb") as stream:
            state = os.fstat(handle)
            if not (machine.owns(state) and stat.S_ISREG(state.st_mode) and state.st_size < _LONGEST):
                return {}
            saved = json.loads(stream.read())
        unchanged = saved["fingerprint"] == current and all(file_stamp(path) == stamp for path, stamp in saved["files"].items())
        return {str(name): str(result) for name, result in saved["results"].items()} if unchanged else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def save_results(directory: str, current: str, files: Mapping[str, list[int]], results: Mapping[str, str]) -> None:
    """Write the results for the next start; raise OSError on failure.

    `files` are others that they depend on, each with its `file_stamp`.
    """
    content = json.dumps({"fingerprint": current, "files": dict(files), "results": dict(results)}).encode()
    if len(content) < _LONGEST:
        machine.put(handshake_file(directory), content)


class Opening:
    """The requests of one connection by which its client gets to know the server."""

    def __init__(self) -> None:
        #: The name of the answered `initialize`, on which answers of its era depend.
        self.initialized = ""

    def name_request(self, method: str, params: object) -> str:
        """Return what a request says, "" for one whose answer is not kept.

        Without its id, its progress token and the client's own name: what remains decides the answer.
        """
        if method not in _METHODS or not isinstance(params, dict | None):
            return ""
        content = dict(params or {})
        meta = content.pop("_meta", None) or {}
        if not isinstance(meta, dict) or not (method == _INITIALIZE or self.initialized or _PROTOCOL in meta):
            return ""
        meta = {key: value for key, value in meta.items() if key != _TOKEN}
        for fields, key in ((content, "clientInfo"), (meta, _CLIENT_INFO)):
            if isinstance(info := fields.get(key), dict) and all(isinstance(value, str) for value in info.values()):
                fields[key] = sorted(info)
        opening = "" if method == _INITIALIZE else self.initialized
        return json.dumps([method, content, meta, opening], sort_keys=True, separators=(",", ":"))

    def note_answer(self, method: str, name: str) -> None:
        """Note that a request was answered with a result."""
        if method == _INITIALIZE:
            self.initialized = name


def name_requests(requests: Sequence[Mapping[str, Any]]) -> str:
    """Return what the last of a connection's requests says, as if those before it were answered; "" for one not kept."""
    opening, name = Opening(), ""
    for request in requests:
        name = opening.name_request(request["method"], request.get("params"))
        opening.note_answer(request["method"], name)
    return name


class SavedAnswers:
    """Answers a client in place of a daemon that is still starting."""

    def __init__(self, results: Mapping[str, str]) -> None:
        self._results = results
        self._opening = Opening()

    def answer_request(self, message: Mapping[str, Any]) -> bytes:
        """Return the answer line of a request, b"" for none."""
        method, number = message["method"], message["id"]
        name = self._opening.name_request(method, message.get("params"))
        result = self._results.get(name)
        if result is None or isinstance(number, float):
            return b""
        self._opening.note_answer(method, name)
        return f'{{"jsonrpc":"2.0","id":{json.dumps(number, ensure_ascii=False)},"result":{result}}}\n'.encode()
