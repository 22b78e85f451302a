"""What a call failed on: the options, paths and programs that its error names; and which change ended it.

Invariants of what ended the report of a checker
1. Only lines count that name a file, a line in it and the rule or code that is broken.
2. Two are the same by the rule and the names that they quote, else by what the source line below them calls.
3. Only a change of that file counts, after which the same call succeeded, with few others in between.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import Event, EventDraft
from memory_mcp.model.tool_run import KeyKind, StoredRun
from memory_mcp.requests.call_names import WORD, file_of, is_alike, name_call, shape_of, words_of
from memory_mcp.requests.run_statements import RunTeller
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.failures import normalize_line, telling_line
from memory_mcp.tree.outcomes.runs import base_name, changes_files, files_of

#: Characters at the end of an error that are read for rules.
_READ_ERROR = 20_000
#: Begins a cause that is a program, alone or with its subcommand.
PROGRAM = "$ "
#: Runs a program of the project, whose options change as it is written.
_OWN_PROGRAM = re.compile(r"\b(?:go|cargo|dotnet|swift) run\b|(?:^|[\s&;|])\.{1,2}/|\.(?:py|[cm]?[jt]s|sh|rb|php)\b")
#: Errors of which what is missing makes all the difference.
_MISSING = re.compile(
    r"no such|does not exist|not found|no module|cannot find|can['’]t (?:read|find|open)|undefined|unresolved", re.I
)
_UNKNOWN_PROGRAM = re.compile(
    r"command not found|not recogni[sz]ed as|no such (?:sub)?command|missing script|invalid choice|is not an? [\w-]+ command"
    r"|(?:unrecogni[sz]ed|unknown|invalid) (?:sub)?command|script not found",
    re.I,
)
#: The end of a line that says only where a text is wrong; how a program marks that place, and what it says of it.
_POSITION = re.compile(r"\bline \d+, col(?:umn)? \d+\)?\W*$", re.I)
_MARKED = re.compile(r"^[ \t]*\^[ \t^~]*(\S.*)$", re.M)
#: What stands for the output of a call that printed nothing.
NO_OUTPUT = frozenset({"", "(no output)"})
#: A line that only repeats the command, and the headings under which a checker reports each rule that is broken.
_ECHO = "$ "
_RULE_HEADING = re.compile(r"^.*?[\w)\]-]\.\w+(?::\d+)* +(?P<rule>[a-z]\w*(?:/\w+)*) +(?:[A-Z]+ +)?[━─═]{3,}", re.M)
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


def list_causes(call: Event | EventDraft, error: str) -> list[str]:
    """Return what of a call its failure was about.

    Of a command line the options, paths and programs that the error's telling line names; of another call of one file that
    call.
    """
    command = call.metadata.get("command", "")
    if not command:
        return [name_call(call)] if file_of(call) else []
    line, words = telling_line(error), words_of(command)
    error_words = [word.rstrip(".,:;") for word in WORD.findall(line)]
    is_own = _OWN_PROGRAM.search(command) is not None
    causes = [
        word for word in error_words if word in words and _is_option_or_path(word) and not (is_own and word.startswith("-"))
    ]
    if _UNKNOWN_PROGRAM.search(line):
        causes += [cause for cause in _list_programs(command) if cause.rsplit(" ", 1)[1] in error_words]
    return list(dict.fromkeys(causes))


def list_possible_causes(call: Event | EventDraft) -> Iterator[str]:
    """Yield what a call may fail on, as `list_causes` names it."""
    if command := call.metadata.get("command", ""):
        yield from filter(_is_option_or_path, words_of(command))
        yield from _list_programs(command)
    elif file_of(call):
        yield name_call(call)


def name_error(error: str) -> str:
    """Return a name that like errors share: the normal form of the telling line.

    The line itself where it says that something is missing; the rules of a checker's report; with a position, what is marked
    there. "" where only the command is repeated.
    """
    line = " ".join(describe_error(error).split())
    if line.startswith(_ECHO) or line in NO_OUTPUT:
        return ""
    if is_position(error) and (marked := _MARKED.search(error)):
        return f"{normalize_line(line)} {marked[1].strip()}"
    return line if _MISSING.search(line) else normalize_line(line) or line


def describe_error(error: str) -> str:
    """Return the rules that a report says are broken, else the error's telling line."""
    return ", ".join(sorted(set(_RULE_HEADING.findall(error[-_READ_ERROR:])))) or telling_line(error)


def is_position(error: str) -> bool:
    """Return whether an error's telling line says only where a text is wrong."""
    return _POSITION.search(telling_line(error)) is not None


def does_same(command: str, other: str, causes: Sequence[str]) -> bool:
    """Return whether another command line does the same as a failed one, but for what that failed on."""
    shape, other_shape = shape_of(command), shape_of(other)
    programs = [cause.removeprefix(PROGRAM).split() for cause in causes if cause.startswith(PROGRAM)]
    if programs:
        # An unknown program or subcommand is left out or replaced; all other words are the same.
        return shape - {word for words in programs for word in (words[0], words[-1])} <= other_shape
    # Less of the same call tells nothing, unless what it leaves out is what failed.
    is_part = other_shape <= shape and not causes
    return is_alike(shape, other_shape) and not is_part and _share_program(command, other)


def _share_program(command: str, other: str) -> bool:
    """Return whether two command lines call the same program with its subcommand, or one that is named after it."""
    programs, other_programs = parse_command(command).programs, parse_command(other).programs
    return any(other_name.startswith(name) or name.startswith(other_name) for name in programs for other_name in other_programs)


def _list_programs(command: str) -> list[str]:
    """Each with further words of its subcommand; none that is called by path."""
    written = frozenset[str]() if "PATH=" in command else words_of(command)
    names = (form.split() for form in parse_command(command).programs)
    programs = [words for words in names if words and words[0] in written]
    return [PROGRAM + " ".join(words[:count]) for words in programs for count in range(1, len(words) + 1)]


def _is_option_or_path(word: str) -> bool:
    return len(word) > 2 and (word.startswith("-") or "/" in word or "." in word.strip("."))


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
