# ruff: noqa: E501 - a long pattern goes on in the next line
"""Find secrets in sentences, tables and lists.

A finder takes a text and its lower case of equal length, and yields the (start, end) of secrets, in any order, in linear time.
"""

import re
from collections.abc import Iterator

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.redact.secret_checks import is_secret_of, is_spoken_password, seed_words
from memory_mcp.redact.secret_values import (
    is_called,
    is_chosen,
    is_drawn,
    is_hard,
    is_phrase,
    is_placeholder,
    is_random,
    is_worded,
)

Place = tuple[int, int]

# a secret that a sentence tells

# Words for a secret, and for "is", in several languages.
_SECRET_WORD = (
    r"(?:pass(?:word|wort|phrase|code|wd)|auth(?= is )|pwd|pw(?=: )|pass(?=:? \S{0,30}\d)|pass(?= for \S{1,20} is )|pass(?= is )|kennwort|mot de passe|contrase\u00f1a|contrasena|clave|senha|wachtwoord"
    r"|has\u0142o|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|\u53e3\u4ee4"
    r"|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638)"
)
_IS = (
    r"(?:['\u2019]s|\s(?:(?P<word>(?:is|was|are|ist|lautet|war|hei\u00dft|est|es|\u00e9|\u00e8|era|to|\u044d\u0442\u043e|should be|set to)(?![^\W_]))|:?=)"
    r"(?:\s(?:now|jetzt|still|ahora|adesso))?|\s?[:\uff1a]|\s?(?:\u662f|\u4e3a|\u306f|\ub294|\uc740))"
)
_WORD_AT = lazy_pattern(_SECRET_WORD)
_SPOKEN = lazy_pattern(
    rf"(?i){_SECRET_WORD}(?:\s[^\s:=\"'`,.;(){{}}\[\]]{{1,20}}){{0,5}}?{_IS}\s?"
    r"(?:\\?[\"'`\u201c\u00ab\u201e](?P<quoted>[^\"'`\\\r\n\u201d\u00bb\u201c]{6,120})"
    r"|(?P<plain>(?(word)(?:[!#-&(-;=?-_a-~]|[^\x00-\x7f\s\u201c\uff0c\u3002])|(?:[^\s\"'`<>(){}\[\],;\u201c\uff0c\u3002]"
    r"|(?<=[!-~])[,;](?!\w{1,20}[:=])(?=[!#-&*+.-9=?-Z^-~]))){6,80}))"
)
#: As programs and notes write it, where the word is of no programming language.
_NOTED = lazy_pattern(
    r"(?i)(?:kennwort|contrase\u00f1a|contrasena|senha|wachtwoord|has\u0142o|[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2,6})"
    r"[\"'`]?\s?(?:[:=\uff1a\uff1d]|\u662f|\u4e3a)\s?(?:[\"'`\u201c](?P<quoted>[^\"'`\\\r\n\u201d]{6,120})|(?P<plain>[!#-&*-+\--:=?-Z^-~]{6,80}))"
)
#: A password straight behind the word, where what stands before or between says that one is handed over.
_HANDING = lazy_pattern(r"(?i)(?:\b(?:with|mit|avec|con|has|hat)|\b(?:login|user|username|connect) \S{1,40})(?: the| dem)? \Z")
_HANDED = lazy_pattern(
    rf"(?i){_SECRET_WORD}(?P<of> \u043e\u0442 \w{{1,20}}|(?<=[\u7801\u78bc\u4ee4]))?\s(?P<plain>[^\s\"'`<>(){{}}\[\],;]{{6,80}})"
)
#: Up to the next blank or quote.
_RUN = lazy_pattern(r"[^\s\"'`<>\\|]{10,64}")
_NETRC = lazy_pattern(r"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<secret>[^\s\"']{3,200})")


def find_spoken(text: str, lowered: str) -> Iterator[Place]:
    """Yield words called a password in several languages; also in .netrc."""
    for word in _WORD_AT.finditer(lowered):
        start = word.start()
        # Words of other scripts are written together with these, German ones form compounds.
        sign = lowered[start - 1 : start]
        if sign.isascii() and sign.isalnum() and not word[0].endswith("wort") and word[0].isascii():
            continue
        span: Place | None = None
        if match := (_SPOKEN.match(text, start) or _NOTED.match(text, start)):
            span = _spoken_place(match, "plain" if match["quoted"] is None else "quoted")
        elif (match := _HANDED.match(text, start)) and _is_handed(text, match, start):
            span = _spoken_place(match, "plain")
        if span:
            yield span
    if "machine" in lowered:
        for match in _NETRC.finditer(text):
            if not is_placeholder(match["secret"]):
                yield match.span("secret")


def _is_handed(text: str, match: re.Match[str], start: int) -> bool:
    value = match["plain"].rstrip(".:!?")
    run = _RUN.match(text, match.start("plain"))
    return bool(
        match["of"] is not None
        or _HANDING.search(text[max(0, start - 64) : start])
        or is_chosen(value)
        or is_drawn(value)
        or is_worded(value)
        or (run and is_hard(run[0]))
    )


def _spoken_place(match: re.Match[str], group: str) -> Place | None:
    """The longer run of signs counts first, if that is a password."""
    value, (start, end) = match[group], match.span(group)
    if group == "quoted":
        return (start, end) if is_spoken_password(value) or is_phrase(value) else None
    if (run := _RUN.match(match.string, start)) and len(run[0]) > len(value) and is_hard(run[0].rstrip(".:;,")):
        return start, start + len(run[0].rstrip(".:;,"))
    bare = value.rstrip(".:!?,;)]")
    if is_called(match.string, start, end) or not is_spoken_password(bare):
        return None
    # A sign at the end may belong to the password; a full stop hardly does.
    return start, start + len(value if value[-1] in "!?" else bare)


# a secret after a label in words

#: A secret of a machine named in words. The key of a door or a table is none, so that a key has to be of one of these.
_KEY_OF = (
    r"(?:api|access|admin|app|auth|application|private|secret|master|server|account|signing"
    r"|encryption|deploy|service|license|function|storage|project|live|pre-?shared)[ _-]"
)
#: The words in other scripts: Chinese, Japanese, Korean, Russian.
FOREIGN_LABELS = (
    "\u4ee4\u724c", "\u5bc6\u94a5", "\u5bc6\u9470", "\u79d8\u94a5", "\u30c8\u30fc\u30af\u30f3", "\ud1a0\ud070", "\u0442\u043e\u043a\u0435\u043d"
)  # fmt: skip
_LABEL = (
    rf"(?:\b(?:token|secret|credential|{_KEY_OF}key|client[ _-]id[ _-]secret|key(?= (?:is|ist) ))|{'|'.join(FOREIGN_LABELS)})"
)
_VALUE = r"\\?[\"'`]?(?:[a-z]{2,8}:)?(?P<secret>[A-Za-z0-9_+/.~%=-]{16,400})"
_LABELLED = lazy_pattern(
    rf"(?i){_LABEL}(?:\s\w{{1,16}}){{0,4}}?"
    r"\s?(?:(?:[:=]|-(?<=\s-)|\bis|\bist|\best|\bes|\bwas)\s{1,2}|[\uff1a\u662f\u4e3a\u70ba\u306f\ub294\uc740]\s?)"
    rf"{_VALUE}"
)
#: The value straight behind its label, where nothing says that the two belong together but what it looks like.
_BEHIND = lazy_pattern(rf"(?i)(?<![A-Za-z0-9_-]){_LABEL} {_VALUE}")
#: Shortest values behind a label, straight behind it, and behind a key that is said to be of nothing.
_SHORTEST, _SHORTEST_BEHIND, _SHORTEST_OF_KEY = 16, 20, 24
#: What a label ends in, and what may stand before that and belong to it.
_LABELS = tuple(lazy_pattern(word) for word in ("token", "secret", "credential", "key", "|".join(FOREIGN_LABELS)))
_LABEL_START = lazy_pattern(rf"(?:\b{_KEY_OF}|\bclient[ _-]id[ _-])\Z")
_VALUES = tuple(
    lazy_pattern(value)
    for value in (
        r": (?:[a-z]{2,8}:)?[a-z0-9_+/.~%=-]{20}",
        r"= [a-z0-9_+/.~%=-]{20}",
        r" (?:is|ist|est|es|was|-) [\"'`]?(?:[a-z]{2,8}:)?[a-z0-9_+/.~%=-]{16}",
        *(rf"{word} [\"'`]?[a-z0-9_+/.~%=-]{{20}}" for word in ("token", "secret", "credential", "key")),
    )
)
_FOREIGN_VALUES = tuple(
    lazy_pattern(value)
    for value in (
        "[\uff1a\u662f\u4e3a\u70ba\u306f\ub294\uc740] ?[\"'`]?[a-z0-9_+/.~%=-]{16}",
        f"(?:{'|'.join(FOREIGN_LABELS)})[: ]{{1,2}}[a-z0-9_+/.~%=-]{{16}}",
    )
)


def find_labelled(text: str, lowered: str) -> Iterator[Place]:
    """Yield random values after a label such as "api key:" or "token is".

    At least 16 characters after a sign or verb, 20 directly after the label, 24 after a bare "key".
    """
    # Most texts with a colon have no label: this is tried first.
    if not any(value.search(lowered) for value in (_VALUES if lowered.isascii() else _VALUES + _FOREIGN_VALUES)):
        return
    starts: set[int] = set()
    for label in _LABELS:
        for word in label.finditer(lowered):
            starts.add(word.start())
            if start := _LABEL_START.search(lowered, max(0, word.start() - 13), word.start()):
                starts.add(start.start())
    done = 0
    for at in sorted(starts):
        if at < done:
            continue
        shortest = _SHORTEST_OF_KEY if lowered.startswith("key", at) else _SHORTEST
        match = _LABELLED.match(text, at)
        if not (match and _is_drawn_value(match, shortest)):
            match, shortest = _BEHIND.match(text, at), _SHORTEST_BEHIND
        if match and _is_drawn_value(match, shortest):
            done = match.end()
            yield match.span("secret")


def _is_drawn_value(match: re.Match[str], shortest: int) -> bool:
    value = match["secret"].rstrip(".")
    if value.startswith("//") or is_called(match.string, *match.span("secret")):
        return False
    return not is_placeholder(value) and is_random(value, shortest)


# cells under a heading

_HEADING = lazy_pattern(r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[ _-]?key)[ *`\"']{0,4}[|,;\t\n]")
#: No heading is longer, characters.
_LONGEST_HEADING = 400
_IS_HEADING = lazy_pattern(r"(?i)(?:[a-z]{0,20}[ _-])?(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[ _-]?key)")
_RULE_LINE = lazy_pattern(r"[\s|:+=-]*")
#: Rows searched under a heading, and the signs around a cell's text.
_MOST_ROWS, _AROUND = 50, " \t#*`\"'"


def find_cells(text: str, lowered: str) -> Iterator[Place]:
    """Yield the secrets under a heading such as `password`, in 50 rows.

    A heading is a line of at most 400 characters with at least two names and no digit, divided by |, tabs, semicolons
    or commas.
    """
    done = 0
    for word in _HEADING.finditer(lowered):
        if word.start() < done:
            continue
        start = text.rfind("\n", 0, word.start()) + 1
        done = text.find("\n", word.end() - 1) + 1
        if not done or done - start > _LONGEST_HEADING:
            continue
        head = text[start:done]
        for sign in "|\t;,":
            cells = [cell.strip(_AROUND) for cell in head.rstrip().split(sign)]
            columns = [n for n, cell in enumerate(cells) if _IS_HEADING.fullmatch(cell)]
            if columns and sum(map(bool, cells)) > 1 and not any(map(str.isdigit, head)):
                yield from _iter_cells(text, done, sign, len(cells), columns)
                break


def _iter_cells(text: str, at: int, sign: str, width: int, columns: list[int]) -> Iterator[Place]:
    """Stops at a row that is not `width` cells wide."""
    for _ in range(_MOST_ROWS):
        end = text.find("\n", at, at + 2000)
        line = text[at : end if end >= 0 else at + 2000]
        cells = line.split(sign)
        if len(cells) != width:
            return
        for column in [] if _RULE_LINE.fullmatch(line) else columns:
            value = cells[column].strip(" \t\r`\"'")
            if value and is_secret_of("password", value):
                start = at + len(sign.join(cells[:column])) + bool(column) + cells[column].index(value)
                yield start, start + len(value)
        if end < 0:
            return
        at = end + 1


# card numbers, seed phrases, recovery codes

#: Lengths and beginnings of the large schemes (ISO/IEC 7812): Visa, Mastercard, American Express, Discover, JCB.
_CARD = lazy_pattern(
    r"(?<![\w.+/=#@:-])(?:(?:4\d{3}|5[1-5]\d\d|2[2-7]\d\d|6011|65\d\d|35\d\d)(?P<gap>[ -]?)\d{4}(?P=gap)\d{4}(?P=gap)\d{4}"
    r"|3[47]\d\d(?P<gap2>[ -]?)\d{6}(?P=gap2)\d{5})(?![\w/=+-]|\.\d)"
)
_CARD_WORD = lazy_pattern(r"card|karte|tarjeta|carte|\u5361|master")
#: Numbers that card schemes publish for tests.
_TEST_CARDS = lazy_pattern(
    r"^(?:4242|4111|5555|4000\d{8}|378282246310005|371449635398431|6011111111111117|6011000990139424|5105105105105100)"
)


def find_card_numbers(text: str, lowered: str) -> Iterator[Place]:
    """Yield card numbers with a valid check digit (Luhn), not those for tests.

    Bare numbers that begin with 2 need a word for a card before them: seeds, sums and times in microseconds are frequent.
    """
    for match in _CARD.finditer(text):
        digits, start = re.sub(r"\D", "", match[0]), match.start()
        if digits[0] == "2" and len(digits) == len(match[0]) and not _CARD_WORD.search(lowered, max(0, start - 60), start):
            continue
        double = sum(sum(divmod(2 * int(d), 10)) for d in digits[-2::-2])
        is_valid = (double + sum(map(int, digits[::-2]))) % 10 == 0
        if is_valid and len(set(digits)) > 3 and not _TEST_CARDS.match(digits):
            yield match.span()


_SEED_RUN = lazy_pattern(r"(?<![a-z])[a-z]{3,8}(?:[ ,\n]{1,2}[a-z]{3,8}(?![a-z])){11,}")
_SEED_WORD = lazy_pattern(r"[a-z]{3,8}")
_SHORTEST_SEED = 12
#: Share of a phrase's words that occur once: of 24 drawn from 2,048 one is drawn twice in one phrase of eight.
_DISTINCT = 0.8


def find_seed_phrases(text: str, _lowered: str) -> Iterator[Place]:
    """Yield 12 or more words of the wallets' list, four in five different."""
    for run in _SEED_RUN.finditer(text):
        words: list[re.Match[str]] = []
        for word in [*_SEED_WORD.finditer(text, *run.span()), None]:
            if word is not None and word[0] in seed_words():
                words.append(word)
                continue
            # Words that are drawn hardly repeat; a text that says few words again and again has some from the list.
            if len(words) >= _SHORTEST_SEED and len({w[0] for w in words}) >= _DISTINCT * len(words):
                yield words[0].start(), words[-1].end()
            words = []


_CODES = lazy_pattern(
    r"codes(?: de (?:secours|r\u00e9cup\u00e9ration))?|c\u00f3digos de (?:recuperaci\u00f3n|respaldo)"
    r"|(?:\u6062\u590d|\u5907\u7528|\u5907\u4efd|\u6551\u63f4)(?:\u4ee3\u7801|\u7801)"
    r"|(?:\u30ea\u30ab\u30d0\u30ea\u30fc|\u30d0\u30c3\u30af\u30a2\u30c3\u30d7)\u30b3\u30fc\u30c9|\ubcf5\uad6c \ucf54\ub4dc"
)
_CODES_OF = lazy_pattern(r"(?:recovery|backup|back-up|scratch|emergency|wiederherstellungs|sicherungs)[-_ ]?\Z")
_CODE = lazy_pattern(
    r"(?<![\w.:/-])(?:(?=[a-z-]{0,12}\d)[0-9a-z]{4,6}-[0-9a-z]{4,6}|\d{4} \d{4}"
    r"|(?=[a-z]{0,11}\d)(?=\d{0,11}[a-z])[0-9a-z]{8,12}|\d{6,8})(?![\w/:-]|\.\w)"
)
_LETTERS = lazy_pattern(r"(?<![\w.:/-])[a-z]{4,6}-[a-z]{4,6}(?![\w/:.-])")
#: How far behind the words the codes may go on, characters, and how many there must be.
_CODES_REACH, _FEWEST_CODES = 600, 4


def find_recovery_codes(text: str, lowered: str) -> Iterator[Place]:
    """Yield at least 4 codes after words such as "recovery codes".

    Codes without a digit count if they have the form of the others.
    """
    for words in _CODES.finditer(lowered):
        start, end = words.span()
        if words[0] == "codes" and not _CODES_OF.search(lowered, max(0, start - 20), start):
            continue
        codes = list(_CODE.finditer(text, end, end + _CODES_REACH))
        if len(codes) >= _FEWEST_CODES:
            # Of drawn codes one in thirty has no digit.
            forms = {_shape_of(code[0]) for code in codes}
            letters = _LETTERS.finditer(text, end, codes[-1].end() + 16)
            codes += [code for code in letters if _shape_of(code[0]) in forms]
            yield from (code.span() for code in codes)


def _shape_of(code: str) -> tuple[int, int]:
    return len(code), code.find("-")
