"""Tell a line of prose from a line of output, code or a listing, by its shape and its share of symbols and plain words.

Invariants
1. No line is output for its first character alone: what precedes a sentence (a tag, a time, a number, a mark) is skipped, and
the rest is judged.
2. It is decided by forms, not by the words of any language.
"""

from string import ascii_letters, digits

from memory_mcp.base.patterns import lazy_pattern

_SYMBOLS = b"{}()[];=<>$|&"
#: A line with one symbol per this many characters is code.
_PER_SYMBOL = 8
# Forms that only output, diffs, listings and traces have.
_OUTPUT = lazy_pattern(
    r"[┌├└│╭╰⎿]|diff --git |index [0-9a-f]{5,}|@@ |\+\+\+ |--- |[-=*_]{3,}(?:$|[ ])|"
    r"at (?:async |new )?\S+ ?(?:\[as \S+\] ?)?\([^()]*\)$|at \S+:\d+(?::\d+)?\)?$|File \"|\$ [a-z./~]|❯ |> ?\w+ --?\w|\d+[→\t]|"
    r"/\*|\* @|-\S+$|#include|\"[\w.\- ]+\" ?: |[-d][rwxst-]{9}\S* |[\w.\-]+@[\w.\-]+[: ]\S* ?[%$#] "
)
#: Lines of prose may begin with these characters as well, so that such lines are judged.
NOISE_STARTS = frozenset('"|┌├└│╭╰⎿⏺✓✗✔✖→{}()[];@+-=*_$❯>/<#' + digits) | frozenset("diaF")
# Most lines of prose begin with these and do not end with those; they need no closer check unless dense with symbols.
PLAIN_STARTS = frozenset(ascii_letters + "'") - NOISE_STARTS
CLOSELY_ENDS = frozenset(":：){;>&|\\(,[")
#: What begins a line that is judged after its tags, times and marks; of digits only those of a time or of a numbered line.
_TAGGED = frozenset("|⏺✓✗✔✖→{}()[];<")
_STAMPED = lazy_pattern(r"\d{4}-\d\d-\d\d[T ]\d|\d\d?:\d\d|\d+[|:]")
_STATEMENT = lazy_pattern(
    r"(?:import|from|def|class|func|const|let|var|return|package|public|private|async|export|fn|use|elif|else|SELECT|INSERT|if|for|while|switch|"
    r"case|type|struct|try|with)\b"
)
_BRACKETS = frozenset("=()[]{}")
_CODE_END = ("{", ";", "=>", "&&", "||", "\\", "(", "},", "),", "[")
_CLOCK = r"\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?:Z|[+-]\d\d:?\d\d)?"
_STAMP = rf"\d{{4}}[-/.]\d\d?[-/.]\d\d?(?:[T ,]+{_CLOCK})?|{_CLOCK}"
#: One thing that may precede a sentence: a tag in brackets with the target of its link, an element, a time, a number, marks.
_PREFIX = lazy_pattern(
    r"(?:(?P<tag>\[+(?![\"'])[^\[\]{}]{1,120}\]+(?:\([^()\s]*\))?|\((?![\"'])[^(){}]{1,120}\)|\{[\w -]{1,40}\}|"
    r"[【「『〈《〔［（][^】」』〉》〕］）]{1,120}[】」』〉》〕］）])|"
    r"(?P<element><([A-Za-z][\w:.\-]*)[^<>]*>(?:[^<>]*</\3>)?)|"
    rf"(?P<time>{_STAMP})(?![\w.])|(?P<number>#?\d{{1,9}}[.):|]?)(?=\s)|(?P<mark>[^\w\s\"'\[\](){{}}<>`┌├└│╭╰⎿]{{1,3}})(?=\s))"
    r"[\s:,|–—-]*"
)
_TAG_OF_WORDS = lazy_pattern(r"\{[\w -]{1,40}\}")
#: Most of them before one sentence.
_MOST_PREFIXES = 5
_TIME = lazy_pattern(_STAMP)
#: Tags of output: a share, seconds since a start; and what a shell writes after its own.
_METER, _SHELL = lazy_pattern(r".*\d ?%|\W+.|\s*\d+\.\d{3,}$"), ("$ ", "# ", "% ")
#: What a log writes after the time: a level, a process, a name with dots; or, anywhere, a value by its key.
_LEVELS = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL|SEVERE)"
_LOGGED = lazy_pattern(rf"\W*{_LEVELS}\b|[\w.\-/]+\[\d+\]|[\w$]+(?:\.[\w$]+)+ ?[:-]|.*?[\w.\-]+=\S")
_LEVEL_LINE = lazy_pattern(rf"(?m)^[^\w\n]*{_LEVELS}\b")
#: Lines of one message that begin with a level, from which they are a log.
_LOG_LINES = 3
#: A word of prose without the punctuation around it: letters, also of scripts with marks of their own.
_PLAIN_WORD = lazy_pattern(r"(?:[A-Za-z]|[^\x00-\x7f])(?:['’-]?(?:[A-Za-z]|[^\x00-\x7f]))*")
#: A capital after a small letter, as in identifiers.
_HUMP = lazy_pattern(r"[a-z][A-Z]")
_EDGES = ".,;:!?…()[]\"'“”‘’«»„*_`~-–—¿¡。！？、，：；|"
#: Scripts whose words need no blank between them: some two characters make one.
_UNSPACED = lazy_pattern(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
#: Least words, and least share of plain ones among them: of a sentence after something, and of one that looks like code.
_SENTENCE_WORDS, _CODELIKE_WORDS = (2, 0.6), (4, 0.8)


def count_symbols(text: str) -> int:
    """Return the number of symbols of code."""
    # Deleting bytes by a table takes a sixth of the time of counting each symbol.
    raw = text.encode(errors="replace")
    return len(raw) - len(raw.translate(None, _SYMBOLS))


def is_dense(text: str) -> bool:
    """Return whether symbols exceed one in 8 characters."""
    return _PER_SYMBOL * count_symbols(text) > len(text)


def safe_length(text: str) -> int:
    """Return the length from which no line is dense."""
    return _PER_SYMBOL * count_symbols(text)


def is_prose(text: str, least: int, share: float) -> bool:
    """Return whether enough words, and such a share, are plain.

    Plain are letters without symbols, digits or humps.
    """
    plain_count = odd = 0
    for token in text.split():
        word = token.strip(_EDGES)
        if not any(map(str.isalpha, word)):
            odd += word != ""
        elif unspaced := len(_UNSPACED.findall(word)):
            plain_count += max(unspaced // 2, 1)
        elif _PLAIN_WORD.fullmatch(word) and not _HUMP.search(word):
            plain_count += 1
        else:
            odd += 1
    return plain_count >= least and plain_count >= share * (plain_count + odd)


def is_log(text: str) -> bool:
    """Return whether several lines begin with a log level."""
    return len(_LEVEL_LINE.findall(text)) >= _LOG_LINES


def sentence_start(bare: str, is_in_log: bool) -> int:
    """Return where the sentence begins; -1 in output.

    A tag of words ("[JIRA-12]", "(draft)") belongs to its sentence; the number of a list, a time and a speaker do not.
    """
    at, first_tag, is_timed, match = 0, -1, False, None
    for _ in range(_MOST_PREFIXES):
        match = _PREFIX.match(bare, at)
        if match is None:
            break
        if tag := match["tag"]:
            words = tag.strip("[]")
            if (_METER.match(words) and not any(map(str.isalpha, words))) or bare.startswith(_SHELL, match.end("tag")):
                return -1
            is_stamp = _TIME.match(words.strip()) is not None
            is_timed |= is_stamp
            if first_tag < 0 and not is_stamp and sum(map(str.isalpha, words)) > 1:
                first_tag = at
        is_timed |= match["time"] is not None
        at = match.end()
    sentence = bare[at:]
    if not sentence and match is None and first_tag == 0:
        # The whole line is in brackets.
        return 0 if is_prose(bare, *_CODELIKE_WORDS) else -1
    if (is_timed and _LOGGED.match(sentence)) or (is_in_log and _LEVEL_LINE.match(bare)) or _is_row(bare):
        return -1
    is_firm = at == 0 or bare.startswith("//") or bare.endswith(_CODE_END)
    if not is_prose(sentence, *(_CODELIKE_WORDS if is_firm else _SENTENCE_WORDS)):
        return -1
    return at if first_tag < 0 else first_tag


def _is_row(bare: str) -> bool:
    if bare[0] in "{}":
        return _TAG_OF_WORDS.match(bare) is None
    return (bare[0] == "|" and "|" in bare[1:]) or (bare[0] in "[(" and bare[1:2] in ('"', "'", "{"))


def is_output(line: str, bare: str, is_first: bool, safe: int) -> bool:
    """Return whether a line is output, code or a listing.

    `bare` is the line without blanks around it. An indented line is code, unless it goes on from prose (not `is_first`) or
    consists of plain words. Lines of at least `safe` characters are not dense.
    """
    if (bare[0] in NOISE_STARTS or "@" in bare) and _OUTPUT.match(bare):
        return True
    if line[0] in " \t" and is_first:
        return line.startswith(("    ", "\t")) and not is_prose(bare, *_CODELIKE_WORDS)
    if bare.endswith(_CODE_END):
        return not is_prose(bare, *_CODELIKE_WORDS)
    if bare[-1] in ":)" and _STATEMENT.match(bare) and not _BRACKETS.isdisjoint(bare) and bare.count(" ") < 8:
        return not is_prose(bare, *_CODELIKE_WORDS)
    return len(bare) < safe and is_dense(bare)


def is_tagged(bare: str) -> bool:
    """Return whether `sentence_start` must judge a line."""
    return bare[0] in _TAGGED or bare.startswith("//") or (bare[0].isdigit() and _STAMPED.match(bare) is not None)
