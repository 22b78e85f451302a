"""Rules for what is never recorded: excluded paths, projects and tools, and anything said while recording was paused.

Invariants
1. A rule drops an event whole; nothing of it is stored, counted words aside.
2. The result of a call that was dropped is dropped too, also where it does not name the path itself.

Change here: what is never recorded.
"""

import os
import re
import time
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from memory_mcp.base import paths, pauses
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.settings import IngestSettings
from memory_mcp.model.event import EventDraft, EventType

EXCLUDED_PATH, EXCLUDED_PROJECT, EXCLUDED_TOOL = "excluded path", "excluded project", "excluded tool"
PAUSED = "recording is paused"

_TOOL_EVENTS = (EventType.TOOL_CALL, EventType.TOOL_RESULT)
#: Words of a command line, or of a call's arguments, that may be paths.
_WORDS = re.compile(r"[^\s\"'`;|&<>()\[\]{},=]+")
_QUOTED = re.compile(r"\"([^\"\n]{1,500})\"|'([^'\n]{1,500})'")
#: Replaces an escaped blank of a shell.
_BLANK = "\0"
_HOME = re.compile(r"\$HOME\b|\$\{HOME\}|%USERPROFILE%|\$env:USERPROFILE\b", re.I)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_AFTER_HOST = re.compile(r"(?:file:(?://[^/]*)?|[^\s/]*[:@])(?=[/~])(.+)", re.I)
#: Dropped calls that are remembered for their results; a result follows its call closely.
_MOST_CALLS = 2_000
#: Of this process: a call and its result may be read in two rounds.
_dropped_calls: dict[tuple[str, str], str] = {}
#: What was read of a directory's pauses last, and by which stamp of their file.
_cached_pauses: dict[str, tuple[tuple[int, int, int], list[pauses.Pause]]] = {}


@dataclass(frozen=True, slots=True)
class CaptureRules:
    """The rules in force; can be handed to another process."""

    paths: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    #: Where pauses are kept; "" for a memory without a directory.
    directory: str = ""

    @classmethod
    def from_settings(cls, settings: IngestSettings, directory: Path | None) -> "CaptureRules":
        """Return the rules of the settings, with a data directory's pauses.

        Pauses are not read here but at each check, so that later ones count.
        """
        lists = (settings.exclude_paths, settings.exclude_projects, settings.exclude_tools)
        files, projects, tools = map(split_rules, lists)
        return cls(files, projects, tools, str(directory.absolute()) if directory else "")

    def find_refusal(self, draft: EventDraft) -> str:
        """Return why a draft is not recorded; "" if it is.

        A draft without a time counts as said now. An excluded call of a tool is remembered in this process, the last
        2,000, so that its result is refused for the same reason.
        """
        now = int(time.time() * 1000)
        if self.is_paused(draft.project, draft.timestamp or now):
            return PAUSED
        if not (self.paths or self.projects or self.tools):
            return ""
        call = (draft.session_id, draft.metadata.get("tool_use_id", ""))
        why = self._find_exclusion(draft)
        if call[1] and draft.type in _TOOL_EVENTS:
            if why:
                while len(_dropped_calls) >= _MOST_CALLS:
                    del _dropped_calls[next(iter(_dropped_calls))]
                _dropped_calls[call] = why
            why = why or _dropped_calls.get(call, "")
        return why

    def is_paused(self, project: str, at_ms: int) -> bool:
        """Return whether a project's recording is paused (UTC ms).

        False without a directory or a file that can be understood.
        """
        if not self.directory:
            return False
        try:
            state = os.lstat(paths.pauses_file(self.directory))
            stamp = (state.st_mtime_ns, state.st_size, state.st_ino)
            if _cached_pauses.get(self.directory, (None, None))[0] != stamp:
                _cached_pauses[self.directory] = (stamp, pauses.read(self.directory))
        except (OSError, ValueError):
            return False
        return any(pause.covers(project, at_ms) for pause in _cached_pauses[self.directory][1])

    def _find_exclusion(self, draft: EventDraft) -> str:
        if any(_matches_rule(rule, draft.project, to_end=True) for rule in self.projects):
            return EXCLUDED_PROJECT
        if (tool := draft.metadata.get("tool", "")) and any(
            re.fullmatch(_translate_glob(rule), tool, re.I) for rule in self.tools
        ):
            return EXCLUDED_TOOL
        if self.paths and any(_matches_rule(rule, path) for path in _iter_paths(draft) for rule in self.paths):
            return EXCLUDED_PATH
        return ""


def split_rules(setting: str) -> tuple[str, ...]:
    """Return the rules of a setting, which are separated by commas."""
    return tuple(rule for word in setting.split(",") if (rule := word.strip()))


def _iter_paths(draft: EventDraft) -> Iterator[str]:
    """Where links lead elsewhere, the real paths are yielded too."""
    metadata, cwd = draft.metadata, draft.metadata.get("cwd", "")
    words = metadata.get("files", "").split("\n")
    if draft.type in _TOOL_EVENTS:
        # A command, and the arguments of a call, stand in its text; of a result only the first lines can name files.
        text = draft.text if draft.type is EventType.TOOL_CALL else ""
        command = _HOME.sub("~", f"{metadata.get('command', '')} {text}")
        # A path with blanks is quoted, or has them escaped.
        words += [
            *_WORDS.findall(command),
            *(a or b for a, b in _QUOTED.findall(command)),
            *_WORDS.findall(command.replace("\\ ", _BLANK)),
        ]
    for path in (cwd, draft.project, *dict.fromkeys(words)):
        for absolute in _iter_readings(path.replace(_BLANK, " "), cwd):
            yield absolute
            if os.path.isabs(absolute) and (real := os.path.realpath(absolute)) != absolute:
                yield real


def _iter_readings(path: str, cwd: str) -> Iterator[str]:
    if _DRIVE.match(path):
        yield path
    elif path:
        yield os.path.normpath(os.path.join(cwd, os.path.expanduser(path)))
        if after_host := _AFTER_HOST.match(path):
            yield os.path.normpath(os.path.expanduser(after_host[1]))


def _matches_rule(rule: str, path: str, to_end: bool = False) -> bool:
    """Paths below a match match; a project only `to_end`."""
    path = _compose_letters(re.sub(r"[\\/]+", "/", path))
    return bool(path) and _compile_rule(rule, to_end).search(path) is not None


def _compose_letters(text: str) -> str:
    """Compose accents, which file systems store in two ways."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=512)
def _compile_rule(rule: str, to_end: bool) -> re.Pattern[str]:
    """A rule with a slash, tilde or drive counts from the root.

    Any other one from any folder on. `to_end`: nothing may follow the match; else folders below it match too.
    """
    spelled = _compose_letters(os.path.expanduser(_HOME.sub("~", rule).replace("\\", "/"))).rstrip("/")
    begin = "^" if re.match(r"/|[A-Za-z]:", spelled) else "(?:^|/)"
    # Paths below match too, except for projects: one may be inside another.
    return re.compile(begin + _translate_glob(spelled) + ("$" if to_end else "(?:/|$)"), re.I)


def _translate_glob(glob: str) -> str:
    out = re.escape(glob).replace(r"\*\*/", "(?:.*/)?").replace(r"\*\*", ".*")
    return out.replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
