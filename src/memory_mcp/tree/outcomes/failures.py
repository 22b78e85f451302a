"""The normal form of an error: its telling lines, without what differs when it comes again. Pure.

By structure alone: paths, addresses, numbers, hashes, times and quoted values are replaced by a mark of their kind.
Change here: what counts as the same error.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.tree.summarize.sentences import error_spans

#: Telling lines of an error, and characters of a line and of a text that are read for them.
_MOST_LINES, _LINE_WIDTH, _READ = 6, 400, 4_000
_QUOTED, _ADDRESS, _PATH, _NUMBER = "'", "@", "/", "#"
_VARIABLE = lazy_pattern(
    r"(?P<quoted>\"[^\"\n]{0,300}\"|`[^`\n]{0,300}`|(?<!\w)'[^'\n]{0,300}'(?!\w)|[‘“][^’”\n]{0,300}[’”])"
    r"|(?P<address>(?<![\w+.-])[A-Za-z][\w+.-]*+://[^\s\"'<>)]+|(?<![\w.+-])[\w.+-]++@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<path>(?<!\w)(?:[A-Za-z]:)?(?:~|\.{1,2})?(?:[\\/]+(?:[\w.@+~$*-]+|[\[(][\w.-]+[\])](?=[\\/])))+[\\/]?"
    r"|(?<![\w.@+-])(?=[\w.@+-]*[A-Za-z_])[\w.@+-]++(?:[\\/]+(?:[\w.@+~*-]+|[\[(][\w.-]+[\])](?=[\\/])))+[\\/]?"
    r"|(?<![\w.-])[A-Za-z_][\w-]*(?:\.[\w-]+)*\.[A-Za-z]\w{0,4}\b(?=[:(\s,]|$))"
    r"|(?P<number>\b0[xX][0-9a-fA-F]+\b|\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}(?:-[0-9a-f]{4,12})*\b"
    r"|(?<![A-Za-z_\d])[vV]?\d+(?:[.,:/_+\-T]\d+)*(?:%|(?:[a-zA-Z]{1,3}\b))?)"
)
_MARKS = {"quoted": _QUOTED, "address": _ADDRESS, "path": _PATH, "number": _NUMBER}
#: Marks one after the other, as in lists of any length and positions behind a path.
_REPEATED = lazy_pattern(r"([#'@/])(?:[\s,:;=()\[\]<>|-]*[#'@/])+")
_NOISE = lazy_pattern(r"[^\w#'@/ .:;,()=<>!?+*-]+")
_SPACE = lazy_pattern(r"\s+")
_WORD = lazy_pattern(r"[^\W\d_]{3,}")
_NAMED_ERROR = lazy_pattern(r"\b[A-Za-z]\w*(?:Error|Exception)\b")
_FAILING = lazy_pattern(
    r"\b(?:errors?|fail(?:s|ed|ure|ures)?|fatal|panic|exception|cannot|can't|could not|couldn't|unable|not found|no such|denied|"
    r"refused|undefined|unexpected|invalid|missing|unresolved|unknown|timed out|conflict|does not|doesn't|is not|must)\b",
    re.I,
)
#: The place in a file that a line begins with, as checkers and compilers write it (line and column: what `grep -n` prints has a
#: line alone, and goes on with whatever the file says), and a name that such a line ends in: what a
#: message speaks of, with the rule in brackets after it.
_LOCATED = lazy_pattern(r"\s*(?:\w[\w-]*: )?[\w@.+~/\\-]*\.[A-Za-z]\w{0,4}(?::\d+:\d+|\(\d+(?:,\d+)?\)):? \S")
_ENDS_IN_NAME = lazy_pattern(r"(?<=: )[\w.$]+(?=(?: \([\w-]+\))?\s*\Z)")
#: Words of which lines consist that only say that something failed.
_EMPTY_WORDS = frozenset("error errors exit exited code status process command script failed failure fail with the and".split())
#: How clients say that a person or the client itself ended a call: no outcome of the call.
_ENDED_BY_PERSON = lazy_pattern(
    r"\A\W*(?:Error: )?(?:The user (?:doesn['’]t want|rejected|denied)|Permission for this tool use was denied|"
    r"\[?Request interrupted|Sibling tool call errored|Command aborted|"
    r"Tool (?:execution|call) (?:was )?(?:aborted|cancelled|rejected))"
)
#: How outputs end whose status is not told.
_FAILED_END = lazy_pattern(
    r"(?:^|\n)\W*(?:(?i:(?:command |process )?exit(?:ed)?(?: with)?(?: status| code)?:?) [1-9]\d{0,2}\W*|FAIL(?:ED)?\b[^\n]*)\Z"
)


def ended_by_person(text: str) -> bool:
    """Return whether a result tells of a refusal or an interruption."""
    return _ENDED_BY_PERSON.match(text) is not None


def ends_in_failure(text: str) -> bool:
    """Return whether an output ends in a status other than 0, or in a test runner's FAIL."""
    return _FAILED_END.search(text[-300:].rstrip()) is not None


def normalize_line(line: str, least_words: int = 2) -> str:
    """Return a line without what varies; "" if it says nothing alone: fewer than `least_words` words that tell."""
    marked = _VARIABLE.sub(_mark, line[:_LINE_WIDTH])
    joined = _REPEATED.sub(r"\1", _NOISE.sub(" ", marked))
    text = _SPACE.sub(" ", joined).strip(" .:;,-=*+<>()").casefold()
    words = {word for word in _WORD.findall(text) if word not in _EMPTY_WORDS}
    return text if len(words) >= least_words or (words and _NAMED_ERROR.search(line, 0, _LINE_WIDTH)) else ""


def _drop_name(line: str) -> str:
    """Return the normal form of a located line without the name that it ends in; "" if it has none, or says nothing else."""
    head = line[:_LINE_WIDTH]
    if not _LOCATED.match(head) or (name := _ENDS_IN_NAME.search(head)) is None:
        return ""
    return normalize_line(f"{head[: name.start()]}{_QUOTED}{head[name.end() :]}", 1)


def telling_line(text: str, signs: Collection[str] = ()) -> str:
    """Return the line of an error that says most, as it was printed.

    A line whose normal form is among `signs`, where there is one; without any the last line that is not empty, "" for none.
    """
    lines = list(_iter_lines(text))
    by_use = sorted(error_signs(text), key=lambda sign: sign not in signs)
    telling_lines = (_find_line(lines, sign) for sign in by_use)
    return next(filter(None, telling_lines), lines[-1] if lines else "").strip()


def _find_line(lines: Iterable[str], sign: str) -> str | None:
    """Return the first line of a normal form: only lines that hold all its words are normalised, which is dear."""
    words = _WORD.findall(sign)
    alike = (line for line in lines if all(word in line.casefold() for word in words))
    return next((line for line in alike if sign in (normalize_line(line), _drop_name(line))), None)


def _mark(match: re.Match[str]) -> str:
    return _MARKS[match.lastgroup or ""]


@lru_cache(maxsize=256)
def error_signs(text: str) -> tuple[str, ...]:
    """Return the telling lines of an error in their normal form.

    Each once, at most six, the last ones first where there are more. Lines that report an error come before lines that only
    speak of something failing or begin with a place in a file, these before the first and the last line; () if no line says
    anything.
    """
    reported = [text[span.start : span.end] for span in error_spans(text, _MOST_LINES)]
    signs = dict.fromkeys(filter(None, map(normalize_line, reported)))
    failing: list[str] = []
    if len(signs) < 2:
        lines = list(_iter_lines(text))
        failing = [line for line in lines if _FAILING.search(line) or _LOCATED.match(line)][-_MOST_LINES:]
        outer = [lines[-1], lines[0]] if lines and not (signs or failing) else []
        signs |= dict.fromkeys(filter(None, map(normalize_line, [*failing, *outer])))
    # Whatever name a compiler speaks of, it is the same error; that of the same name shares one line more.
    signs |= dict.fromkeys(filter(None, map(_drop_name, [*reported, *failing])))
    # A message of one word that tells is an error too, where nothing else is said.
    return tuple(signs or filter(None, [normalize_line(text, 1) if "\n" not in text.strip() else ""]))[:_MOST_LINES]


def _iter_lines(text: str) -> Iterator[str]:
    """Yield the lines that are not empty, of a long text those at both ends."""
    parts = (text,) if len(text) <= 2 * _READ else (text[:_READ], text[-_READ:])
    for part in parts:
        yield from (line for line in part.splitlines() if line.strip())
