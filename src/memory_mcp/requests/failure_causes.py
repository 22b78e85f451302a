"""What a call failed on: the options, paths and programs that its error names; and likeness of command lines. Pure."""

import re
from collections.abc import Iterator, Sequence

from memory_mcp.model.event import Event, EventDraft
from memory_mcp.requests.call_names import WORD, file_of, is_alike, name_call, shape_of, words_of
from memory_mcp.tree.outcomes.commands import parse_command
from memory_mcp.tree.outcomes.failures import normalize_line, telling_line

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
    """Return each program of a command line, and with each further word of its subcommand.

    None for one that is called by its path, or with a path of programs.
    """
    written = frozenset[str]() if "PATH=" in command else words_of(command)
    names = (form.split() for form in parse_command(command).programs)
    programs = [words for words in names if words and words[0] in written]
    return [PROGRAM + " ".join(words[:count]) for words in programs for count in range(1, len(words) + 1)]


def _is_option_or_path(word: str) -> bool:
    return len(word) > 2 and (word.startswith("-") or "/" in word or "." in word.strip("."))
