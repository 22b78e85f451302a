"""The normal form of a command line: program, subcommand and flags, without what varies from call to call. Pure.

Change here: what counts as the same command.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.patterns import lazy_pattern

#: Characters of a command line that are read, and programs of it that are named.
_MOST_READ, _MOST_PROGRAMS = 2_000, 4
_HEREDOC = lazy_pattern(r"<<-?\s*[\"']?\w")
#: Quoted texts belong to the word around them; operators end a command.
_TOKEN = lazy_pattern(
    r"(?P<operator>&&|\|\||[;\n]|\|&?|(?<![<>&\d])&(?![>\d]))"
    r"|(?P<redirect>\d?(?:>>?|<)&?\s*\S*|&>>?\s*\S*)"
    r"|(?P<word>(?:[^\s\"'|&;<>\\`]|\\.|\"(?:\\.|[^\"\\])*\"|'[^']*'|`[^`]*`|[\"'])+)",
    re.S,
)
_ASSIGNMENT = lazy_pattern(r"([A-Za-z_]\w*)=")
#: A word that may name a subcommand, and a flag.
_SUBCOMMAND = lazy_pattern(r"[a-z][a-z0-9:_-]{0,30}\Z")
_FLAG = lazy_pattern(r"--?[A-Za-z][\w-]*")
_DURATION = lazy_pattern(r"\d+(?:\.\d+)?[smhd]?\Z")
#: Programs that run another one, whose outcome theirs is; `timeout` takes a duration first.
_WRAPPERS = frozenset("sudo env time nice nohup command exec timeout stdbuf caffeinate".split())
#: Programs whose first argument is a program or script of the project.
_INTERPRETERS = frozenset("python python3 node bash sh zsh ruby perl php tsx ts-node deno".split())
#: Words after which another one names what is run: npm run build, uv run pytest, bundle exec rspec.
_RUNNERS = frozenset("run exec run-script x dlx".split())
#: Commands that only prepare the next one.
_PREPARING = frozenset("cd pushd popd export source . set unset echo printf true sleep mkdir wait".split())


@dataclass(frozen=True, slots=True)
class CommandForm:
    """What of a command line stays the same when it is called again."""

    #: Its programs with subcommands and flags, joined by "&&".
    invocation: str
    #: Each program with its subcommand.
    programs: tuple[str, ...]
    #: Names of environment variables that are set for it.
    variables: tuple[str, ...]


@lru_cache(maxsize=1024)
def parse_command(line: str) -> CommandForm:
    """Return the normal form of a command line.

    Of a pipe the first program counts. Words that only prepare, such as `cd`, count where there is nothing else.
    """
    heredoc = _HEREDOC.search(line, 0, _MOST_READ)
    commands = [_name_command(words) for words in _split_commands(line[: heredoc.start() if heredoc else _MOST_READ])]
    variables = tuple(dict.fromkeys(name for _, _, names in commands for name in names))
    programs_called = [command for command in commands if command[0]]
    acting = [command for command in programs_called if command[0].split(" ", 1)[0] not in _PREPARING] or programs_called
    programs = tuple(dict.fromkeys(program for program, _, _ in acting))[:_MOST_PROGRAMS]
    invocation = " && ".join(dict.fromkeys(" ".join((program, *flags)) for program, flags, _ in acting[:_MOST_PROGRAMS]))
    return CommandForm(invocation, programs, variables)


def list_moves(line: str) -> list[tuple[str, str]]:
    """Return the pairs of old and new path that a command line moves, by `mv` or `git mv`."""
    if "mv " not in line:
        return []
    moves = []
    for words in _split_commands(line[:_MOST_READ]):
        rest = _skip_wrappers(words)[0]
        start = (
            2 if [_base_name(word) for word in rest[:2]] == ["git", "mv"] else 1 if rest and _base_name(rest[0]) == "mv" else 0
        )
        paths = [word.strip("\"'") for word in rest[start:] if not word.startswith("-")] if start else []
        if len(paths) > 1:
            target = paths[-1]
            is_folder = target.endswith("/") or len(paths) > 2
            moves += [(old, f"{target.rstrip('/')}/{_base_name(old)}" if is_folder else target) for old in paths[:-1]]
    return moves


def _split_commands(line: str) -> Iterator[list[str]]:
    """Yield the words of each command that is not fed by a pipe."""
    words: list[str] = []
    is_fed = False
    for token in _TOKEN.finditer(line):
        if word := token["word"]:
            words.append(word)
        elif operator := token["operator"]:
            if words and not is_fed:
                yield words
            words, is_fed = [], operator.startswith("|") and operator != "||"
    if words and not is_fed:
        yield words


def _name_command(words: Sequence[str]) -> tuple[str, tuple[str, ...], list[str]]:
    """Return program with subcommand, flags, and variables set."""
    rest, variables = _skip_wrappers(words)
    if not rest:
        return "", (), variables
    program = _base_name(rest[0].strip("\"'(){}"))
    names = [program]
    follows = program in _INTERPRETERS
    for position, word in enumerate(rest[1:], 1):
        if follows and word == "-m" and position == 1:
            continue
        if follows and not word.startswith("-"):
            names.append(_base_name(word.strip("\"'")))
        elif _SUBCOMMAND.match(word):
            names.append(word)
        else:
            break
        follows = word in _RUNNERS
        if not follows:
            break
    flags = sorted({flag[0] for word in rest[1:] if (flag := _FLAG.match(word))})
    return " ".join(filter(None, names)), tuple(flags), variables


def _skip_wrappers(words: Sequence[str]) -> tuple[Sequence[str], list[str]]:
    variables: list[str] = []
    position, after_wrapper = 0, False
    while position < len(words):
        word = words[position]
        if assigned := _ASSIGNMENT.match(word):
            variables.append(assigned[1])
        elif word in _WRAPPERS:
            after_wrapper = True
        elif not (after_wrapper and (word.startswith("-") or _DURATION.match(word))):
            break
        position += 1
    return words[position:], variables


def _base_name(word: str) -> str:
    return word.rstrip("/").replace("\\", "/").rsplit("/", 1)[-1]
