"""Names of calls of tools: the whole call on one line, its one file, where it ran, and the hashes by which it is found again."""

import posixpath
import re
from collections.abc import Set

from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.ids import hash_parts
from memory_mcp.model.tool_run import KeyKind, make_hashes
from memory_mcp.tree.outcomes.runs import files_of, list_files, name_invocation

#: Characters of a command line that are compared.
_READ = 1_000
#: Share of words from which two command lines do the same.
_ALIKE = 0.5
WORD = re.compile(r"[\w@./-]+")
_QUOTED = re.compile(r"\"(?:\\.|[^\"\\])*\"|'[^']*'")
_NUMBER = re.compile(r"\b(?:\d+|[0-9a-f]{7,40})\b")
#: The end of a command line that only cuts its output.
_CUT_OUTPUT = re.compile(r"(?:\s*(?:2>&1|\|&?\s*(?:head|tail|cat|less)\b[^|;&]*))+\s*$")
_REDIRECTED = re.compile(r"\s*2>&1\s*$")
_CD = r"cd\s+(?P<directory>\"[^\"]+\"|'[^']+'|[^\s;&|<>]+)\s*"
#: A change of directory before another command, and those that a command line begins with.
_MOVES, _LEADING_MOVES = re.compile(rf"(?:^|&&|[;\n])\s*{_CD}(?=&&|[;\n])"), re.compile(rf"(?:\s*{_CD}(?:&&|[;\n])\s*)+")


def file_of(call: Event | EventDraft) -> str:
    """Return the file that a call names, below its directory; "" for none or several."""
    names = list_files(call)
    directory = call.metadata.get("cwd", "").rstrip("/") + "/"
    return names[0].removeprefix(directory if len(directory) > 1 else "") if len(names) == 1 else ""


def name_call(call: Event | EventDraft) -> str:
    """Return a call on one line: its command line, or the tool with its file."""
    return line_of(call.metadata.get("command", "")) or f"{call.metadata.get('tool', '')} {file_of(call)}".strip()


def invocation_of(call: Event | EventDraft) -> int:
    """Return the hash by which runs of a call are found; 0 for none."""
    metadata = call.metadata
    invocation, _ = name_invocation(metadata.get("tool", ""), metadata.get("command", ""), files_of(call))
    return next(iter(make_hashes(KeyKind.INVOCATION, [invocation] if invocation else [])), 0)


def hash_call(name: str) -> int:
    """Return the hash of a whole call, by its name; wherever it ran."""
    return hash_parts("call", drop_moves(name), bits=60)


def drop_moves(line: str) -> str:
    """Return a command line without the changes of directory that it begins with."""
    match = _LEADING_MOVES.match(line)
    return line[match.end() :] if match else line


def directory_of(call: Event | EventDraft) -> str:
    """Return the directory in which the last command of a call runs; "" if it is not known."""
    directory = call.metadata.get("cwd", "")
    for move in _MOVES.finditer(call.metadata.get("command", "")[:_READ]):
        directory = posixpath.join(directory, move["directory"].strip("\"'"))
    return posixpath.normpath(directory) if directory else ""


def tell_from(directory: str, call: Event | EventDraft) -> str:
    """Return a call on one line as it works from any directory, where it ran in another one; "" if that cannot be said."""
    name, own_directory, command = name_call(call), directory_of(call), call.metadata.get("command", "")
    if own_directory == directory or not command:
        return name
    line = line_of(drop_moves(command))
    if (move := _MOVES.search(line)) is None:
        return f"cd {own_directory} && {line}" if own_directory else ""
    return name if line == name and move["directory"].startswith(("/", "~")) else ""


def line_of(command: str) -> str:
    """Return a command on one line, without where it sends its errors."""
    return _REDIRECTED.sub("", " ".join(command.split()))


def bare_line(command: str) -> str:
    """Return a command on one line, without the moves before it and an end that cuts its output."""
    return drop_moves(" ".join(_CUT_OUTPUT.sub("", command).split()))


def words_of(command: str) -> frozenset[str]:
    """Return the words of a command line."""
    return frozenset(WORD.findall(command[:_READ]))


def shape_of(command: str) -> frozenset[str]:
    """Return the words of a command line, any number as "#".

    Without quoted texts and an end that cuts its output, such as `| tail`.
    """
    bare_command = _QUOTED.sub(" ", _CUT_OUTPUT.sub("", command[:_READ]))
    return frozenset(_NUMBER.sub("#", word) for word in WORD.findall(bare_command))


def measure_overlap(words: Set[str], other: Set[str]) -> float:
    """Return the share of words of either that are in both, 0 to 1."""
    return len(words & other) / (len(words | other) or 1)


def is_alike(shape: Set[str], other: Set[str]) -> bool:
    """Return whether two command lines share enough words to do the same."""
    return measure_overlap(shape, other) >= _ALIKE
