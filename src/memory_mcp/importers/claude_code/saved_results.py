"""Read the whole result of a tool that the client saved next to a session's transcript, in `<session>/tool-results/`.

Invariants
1. Only a regular file directly in the session's own folder is read, and none of the folders on the way to it is a link: a
   record names a file there, never a path.
2. What is read enters no id: a result has the same id with its file and without.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.importers.blocks import as_mapping, as_text, result_text

_FOLDER, _SUBAGENTS = "tool-results", "subagents"
#: How a shortened result begins: with an element, or of a server's tool as an error; its first paragraph names the file.
_SHORTENED = re.compile(
    r"\A\s*(?:<persisted-output>|(?:Error: )?result \([^\n()]{1,40}\) )\s*(?P<notice>.{0,2000}?)(?=\n\s*\n|\Z)", re.S
)
_NAME = re.compile(r"[\\/](?P<name>[^\\/\s]{1,200}\.(?:txt|json))(?=[.,;:]?(?:\s|$))")
_END = "</persisted-output>"
_PREVIEW = re.compile(r"^Preview\b[^\n]*:\n", re.M)
#: Characters with which a preview and the whole must begin alike.
_SAME = 200
_PLAIN_NAME = re.compile(r"\w[\w.-]{0,199}")
#: Bytes of a file that are read; of a longer one its two ends.
_MOST = 1024 * 1024


def read_saved_result(text: str, details: object, transcript: Path, session: str) -> str | None:
    """Return the whole text of a shortened result; None for others.

    From its file, else from the record's details; "" where neither has it. `text` is what the record holds, `transcript` the
    file that it is in, `session` the id of its session.
    """
    described = as_mapping(details)
    notice = as_text(described.get("persistedOutputPath")) or (match["notice"] if (match := _SHORTENED.match(text)) else "")
    if not notice:
        return None
    file_name = _NAME.search(notice)
    for folder in _session_folders(transcript, session):
        if file_name is not None and (saved_text := _read_saved(folder, file_name["name"])):
            return saved_text
    return _field_that_goes_on(described, text)


def _session_folders(transcript: Path, session: str) -> list[Path]:
    """Return the folders that belong to a transcript's session.

    A subagent's transcript is in a folder of its session, older ones next to the session's own.
    """
    for above in transcript.parents:
        if above.name == _SUBAGENTS:
            return [above.parent]
    names = [transcript.stem, *([session] if _PLAIN_NAME.fullmatch(session) else [])]
    return [transcript.parent / name for name in dict.fromkeys(names)]


def _read_saved(folder: Path, name: str) -> str:
    """Return a file's text; "" if missing or reached through a link."""
    file = folder / _FOLDER / name
    try:
        if file.resolve() != folder.parent.resolve() / folder.name / _FOLDER / name:
            return ""
        with foreign_files.open_file(file) as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(0)
            raw = stream.read(_MOST if size <= _MOST else _MOST // 2)
            if size > _MOST:
                stream.seek(-(_MOST // 2), os.SEEK_END)
                raw += b"\n[... %d bytes left out ...]\n" % (size - _MOST) + stream.read(_MOST // 2)
    except (OSError, ValueError, RuntimeError):
        return ""
    saved_text = raw.decode("utf-8", "replace")
    if name.endswith(".json"):
        try:
            return result_text(json.loads(saved_text)) or result_text(saved_text)
        except (ValueError, RecursionError):
            pass
    return result_text(saved_text)


def _field_that_goes_on(details: Mapping[str, object], text: str) -> str:
    preview = text[match.end() :].removesuffix(_END).strip("\n") if (match := _PREVIEW.search(text)) else ""
    for name in ("stdout", "content"):
        field_text = as_text(details.get(name))
        if preview and len(field_text) > len(preview) and field_text.lstrip("\n").startswith(preview[:_SAME]):
            return result_text(field_text)
    return ""
