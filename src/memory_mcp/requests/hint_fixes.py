"""Which change ended what a checker reported: one line of the file that its report names. Pure.

Invariants
1. Only lines count that name a file, a line in it and the rule or code that is broken.
2. Two are the same by the rule and the names that they quote, else by what the source line below them calls.
3. Only a change of that file counts, after which the same call succeeded, with few others in between.
"""

import re
from collections.abc import Mapping, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.tool_run import KeyKind, StoredRun
from memory_mcp.requests.call_names import name_call
from memory_mcp.requests.run_statements import RunTeller
from memory_mcp.tree.outcomes.failures import normalize_line
from memory_mcp.tree.outcomes.runs import base_name, changes_files, files_of

#: Changes between a failure and its end, characters of an output that are read, and findings of one failure.
_MOST_CHANGES, _READ, _MOST_FINDINGS = 3, 20_000, 4
#: Characters of a line of a report; longer ones are data.
_LONGEST_LINE = 300
#: A file with a line, and after it a rule's name in brackets, a code such as TS2345, or error[E0308].
_FINDING = re.compile(
    r".*?(?P<file>[\w@.+/\\-]+\.[A-Za-z]\w{0,4})[:(]\d+.*?"
    r"(?P<rule>\((?!line\b)[a-z][\w/-]{2,30}\)$|\[[a-z][\w/-]{2,40}\]$|\b(?:error )?TS\d{4}\b|\b[A-Z]{1,4}\d{3,5}\b)"
)
#: What a finding names: in quotes, behind "undefined:", and its rule at the end.
_NAMES = re.compile(r"[`'\"“]([\w.]{3,})[`'\"”]|undefined: (\w+)|[(\[]([\w/-]{3,})[)\]]$")
#: Names in quotes, what a source line calls, and the mark below one.
_QUOTED, _CALLED = re.compile(r"[`'\"“]([^`'\"“”]+)[`'\"”]"), re.compile(r"\w+(?=\()")
_MARK = re.compile(r"(?:\[[\w:-]+\])?[\s|]*\^[\s^~-]*")
#: A source line that only hands on what it calls.
_RETURNS = re.compile(r"(?:\[[\w:-]+\])?[\s|]*return\b")
_OLD_TEXT = re.compile(r"^(?:old_string|oldString|oldText|old_str): ?", re.M)
_NEW_TEXT = re.compile(r"^(?:new_string|newString|newText|new_str): ?", re.M)
_REMOVED, _ADDED = re.compile(r"^-(?!-)(.*\S.*)$", re.M), re.compile(r"^\+(?!\+)(.*\S.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Fix:
    """A change after which a checker had nothing to report any more."""

    failed: StoredRun
    change: StoredRun
    tool: str
    file: str
    #: The line that it brought in.
    new_line: str
    #: The line of the report that it ended, without what varies and as it was printed.
    finding: str
    printed: str


def list_findings(error: str) -> dict[str, tuple[str, str]]:
    """Return the lines of a checker's report by their form without what varies: the file's name, and the line."""
    findings: dict[str, tuple[str, str]] = {}
    lines = [line.strip() for line in error[-_READ:].splitlines()]
    for line, source, mark in zip(lines, [*lines[1:], ""], [*lines[2:], "", ""], strict=False):
        match = _FINDING.match(line) if len(line) <= _LONGEST_LINE else None
        if match is None:
            continue
        is_marked = _MARK.fullmatch(mark) and not _RETURNS.match(source)
        names = _QUOTED.findall(line) or (_CALLED.findall(source) if is_marked else [])
        form = " ".join((match["rule"], normalize_line(line), *names))
        findings.setdefault(form, (base_name(match["file"]), line))
    return findings


def find_fix(teller: RunTeller, failed: StoredRun, later: Sequence[StoredRun]) -> Fix | None:
    """Return the change that ended a failure; None: there was none, or it is not known which it was."""
    findings = list_findings(teller.result_of(failed).text) if teller.call_of(failed).metadata.get("command", "") else {}
    if not findings or len(findings) > _MOST_FINDINGS:
        return None
    changes: list[StoredRun] = []
    for stored in later:
        if stored.run.failed:
            continue
        if stored.run.hashes(KeyKind.FILE):
            changes.append(stored)
        elif stored.run.hashes(KeyKind.INVOCATION) & failed.run.hashes(KeyKind.INVOCATION):
            return _select_change(teller, failed, changes, findings) if len(changes) <= _MOST_CHANGES else None
    return None


def _select_change(
    teller: RunTeller, failed: StoredRun, changes: Sequence[StoredRun], findings: Mapping[str, tuple[str, str]]
) -> Fix | None:
    for stored in reversed(changes):
        call = teller.call_of(stored)
        files = {base_name(file) for file in files_of(call)} if changes_files(call) else set()
        ended = {form: line for form, (file, line) in findings.items() if file in files}
        for form, line in ended.items():
            if new_line := find_new_line(call.text, line):
                tool, name = call.metadata.get("tool", ""), name_call(call).rsplit(" ", 1)[-1]
                return Fix(failed, stored, tool, name, new_line, form, line)
    return None


def find_new_line(text: str, finding: str) -> str:
    """Return the first line that an edit brings in and that names what a finding names, or its rule; "" for none."""
    if (new := _NEW_TEXT.search(text)) is not None:
        old = _OLD_TEXT.search(text)
        old_end = new.start() if old is not None and old.end() < new.start() else len(text)
        removed = text[old.end() : old_end].splitlines() if old is not None else []
        new_end = old.start() if old is not None and old.start() > new.end() else len(text)
        added = text[new.end() : new_end].splitlines()
    else:
        removed, added = _REMOVED.findall(text), _ADDED.findall(text)
    removed_lines = {line.strip() for line in removed}
    names = {name for group in _NAMES.findall(finding) for name in group if name}
    new_lines = (line.strip() for line in added if line.strip() not in removed_lines)
    return next((line for line in new_lines if any(name in line for name in names)), "")
