"""Classify a value by its form: placeholder, name, path, passphrase, or random."""

import base64
import binascii
import re
from itertools import pairwise
from math import log2

from memory_mcp.base.patterns import lazy_pattern


def long_runs_pattern(characters: str, shortest: int, ending: str = "") -> re.Pattern[str]:
    """Match runs of at least `shortest` characters as group 1.

    `characters` is a class, `ending` a pattern. Shorter runs are passed over whole, where a search would try each of their
    characters. The last match has no group.
    """
    short = rf"[{characters}]{{1,{shortest - 1}}}+(?![{characters}])[^{characters}]*+"
    return lazy_pattern(rf"[^{characters}]*+(?:{short})*+(?:([{characters}]{{{shortest},}}+{ending})|\Z)")


_SIGN = lazy_pattern(r"[!?#*@%^&+~$](?![({\[])")
_JUMBLE = lazy_pattern(r"[bcdfghjklmnpqrstvwxz]{5}")
_CALL = lazy_pattern(r"[(){}<>\[\]|;]|://|&&|\.\w+\(")
_PLACEHOLDER = lazy_pattern(
    r"(?i)^(?:[<$%{\[*#@)\]},]|=\{\{|(?P<word>your|my|the|some|any|our|insert|enter|add|put|paste|replace|dummy|fake|sample|example"
    r"|test|mock|redacted|hidden|changeme|change|todo|tbd|none|null|nil|undefined|true|false|string|str|text|bytes|bool"
    r"|int|number|any|object|required|optional|password|passwd|secret|token|apikey|api|key|value|default|invalid"
    r"|incorrect|missing|wrong|empty|uint8array|enabled|disabled|process|os|env|config|settings|self|this|await|new|return|function)"
    r"(?:$|[^A-Za-z0-9]|(?<=y)api|(?<=your)[a-z]))"
)
_PLACEHOLDER_WORD = lazy_pattern(
    r"(?i)placeholder|x{4}|\.{3}|\u2026|\*{3}|(?!^(?:redacted|example)[^A-Za-z0-9])(?:redacted|example)|1234567890?$"
    r"|^(?:test|some|bad|my|wrong|good|new|old|challenge|fake)[_-]?pass?(?:word|phrase|wd)?\d?$|^\d+(?:\.\d+){3,}$"
    r"|\$\{?(?:pass|secret|token|key)|(?:asd|sdf|dfg|jkl|qwe|zxc).*(?:asd|sdf|dfg|jkl|qwe|zxc)"
)
#: Words that stand for a value, wherever they stand in it.
_STAND_IN = lazy_pattern(r"(?i)your[_-]|[_-]here\b")
#: Parts of a value between its signs; a word, a number, a word with a number, and how long they are at most.
_PARTS = lazy_pattern(r"[A-Za-z0-9+/]+")
_PLAIN_PART = lazy_pattern(
    r"\d{1,8}|(?:[A-Z]?[a-z]{1,19}|[A-Z]{1,19}|[a-z]{2,}(?:[A-Z][a-z]{2,}){1,4}|(?:[A-Z][a-z]{2,}){2,5})\d{0,4}|\w{1,3}"
)
#: Drawn characters behind words from which on they are a secret: a name has a short id at most, no key is shorter.
_FEWEST_DRAWN = 16
#: What everybody tries first gives nothing away.
_FIRST_GUESS = (
    r"pa(?:ss?|ee)word|pass|se[ck]ret|guest|admin|root|user|test(?:ing)?|demo|foo(?:bar)?|letmein|qwerty|welcome|default"
)
_COMMON_GUESS = lazy_pattern(rf"(?i)(?:(?:{_FIRST_GUESS}|p@ss?word|passw0rd|p@ssw0rd)[\d!@#$]{{0,4}}|hunter2)$")
#: The same in the digits and signs that stand for letters, and in a row.
_DISGUISED = lazy_pattern(rf"(?:(?:my|the|super|top)[_-]?)?(?:(?:{_FIRST_GUESS})[_-]?)+")
_LETTER_OF_SIGN = str.maketrans("013457@$", "oieastas")
_LONGEST_COMMON = 24
#: Values of code and of reports: a date, a constant of C, a version of a package, a part of a pattern, an index;
#: and words that only name a password.
_CODE_VALUE = lazy_pattern(
    r"(?i)^(?:\d{4}-\d\d-\d\d[t ]\d\d:|0x[0-9a-f]{1,8}u?l{0,2}$|(?:\d+:)?\d+\.\d+[.+~-]?\d*[+~-][a-z]|\d+:\d+\.\d"
    r"|[^\s(]{0,40}\(\?:|[^\s{]{0,40}\{[a-z_]+\}|\w+\[-?\d+\]|\d+:\d+$|\d\.\d+-[0-9a-f]{32}$|[0-9a-f:]{2,30}::[0-9a-f:]{0,20}$"
    r"|\w+:[x*!]?:\d+:\d+:|\^\S{0,40}\[[^\]\s]+\][?*+{]|[a-z_$][\w$]*(?:\??\.[a-z_$][\w$]*)+(?:\?\?|\?\w|[!=]==?)|[a-z]+_$"
    r"|[a-z]{0,24}[_-]?pass(?:[\W_]|%[0-9a-f]{2})?word[_-]?[a-z]{0,24}\d{0,3}[!@#.]{0,3}$|(?:top|new|old|my|your)[_-]?secret\d{0,3}$)"
)
_SNAKE = lazy_pattern(
    r"^_?(?:[a-z]+\d{0,2}(?:_[a-z]+\d{0,2})+|[A-Z]+\d{0,2}(?:_[A-Z]+\d{0,2})+|[A-Z][A-Z0-9]{0,15}(?:_[A-Z0-9]{1,15}){2,}|[A-Z][a-z]+(?:To)?-[A-Z][A-Za-z]+"
    r"|\d[\d_]*[._][\d_.e]+)$"
)
_SECRET_WORD = lazy_pattern(r"(?i)pass(?:w|phrase|$)|pwd|secret|token")
#: Words with a number behind them: `client-valid-token-1`.
_NUMBERED = lazy_pattern(r"[a-z]+(?:[-_][a-z]+)+[-_]?\d{1,2}$")
_DOTTED = lazy_pattern(r"^(?:[abglsvwt]:)?[A-Za-z_$][\w$]*(?:(?:\?\.|\.|::|->)[A-Za-z_$][\w$]*)+$")
_STOP = frozenset(
    "the a an your my his her our their this that is are be must should enter for of and or not at in with to from on by no "
    "invalid incorrect wrong missing required please password passphrase confirm new old current repeat has been was were "
    "least characters field value string optional default reset forgot change".split()
)
_LOCATION = lazy_pattern(r"^(?:arn:|[a-z][a-z0-9+.-]*://|/|\./|\.\./|~/|[A-Za-z]:\\)")
_PIECES = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+|\d+")
#: Random text changes between letters, capitals and digits every other character; words and names do not.
_RANDOM_PIECE = 3.4
#: Names of classes and functions have longer pieces, even where short words and initials follow each other.
_MANY_PIECES, _JUMBLED_PIECE, _SIGNED_PIECE = 4, 2.2, 3.0
#: From so many characters on, of both cases and of one.
_LONG, _LOWER = 32, 24
#: Of drawn letters one in 26 follows the one before it, of hexadecimal ones one in seven.
_FEWEST_STEPS, _IN_ORDER = 6, 0.6
_BASE64 = lazy_pattern(r"^[A-Za-z0-9+/]+={0,2}$")
_HEX = lazy_pattern(r"^(?:0x)?(?=[a-f]{0,40}\d)(?=\d{0,40}[a-f])[0-9a-f]+$")
#: Words of a translation: how many, how long, and a character as programs escape it.
_ESCAPED, _BETWEEN_WORDS = lazy_pattern(r"\\u([0-9a-fA-F]{4})"), lazy_pattern(r"[-/ ']")
_IN_PHRASES, _SHORTEST_LOGIN = " -:.'/()", 5
_MOST_WORDS, _LONGEST_WORD, _LONGEST_NAME = 2, 12, 24
_SHORTEST_TEXT, _FEWEST_BLANKS = 20, 2
_WORDED = lazy_pattern(r"[a-z]{4,10}(?:-[a-z]{4,10}){2,5}-?\d{2,4}[!$*_#?]?|[A-Z][a-z]{3,11}(?:\d{4}|\d{2,4}[!$*_#?])")
#: Code: several assigned or listed names.
_LISTED = lazy_pattern(r"\w=\w+,|[a-z_]{4,}[=,(][a-z_]{4,}|\w\(\)|,,|==|\)[.,]\w{3}")
_SHORTEST_STRONG, _FEWEST_DIGITS, _STRONG_PIECE = 20, 2, 2.4
#: A value in hexadecimal, or one with an id in it.
_HEX_GROUPS = lazy_pattern(r"^(?:0x)?[0-9a-f]+$|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_CALLED = lazy_pattern(r"[A-Za-z_][\w.]*\Z")
_BASE32 = lazy_pattern(r"^(?:(?=[A-Z]{0,40}[2-7])[A-Z2-7]+|(?=[a-z]{0,40}[2-7])[a-z2-7]+)$")


def is_dotted(value: str) -> bool:
    """Return whether a value is a dotted name of code: `config.token`."""
    return _DOTTED.match(value) is not None and not is_random(value.replace(".", ""))


def is_location(value: str) -> bool:
    """Return whether a value is a path or an address.

    Random base64 of 32 characters or more that begins with a slash is not.
    """
    if not _LOCATION.match(value):
        return False
    return not (value[0] == "/" and len(value) >= _LONG and _BASE64.match(value) and is_random(value))


def is_chosen(value: str) -> bool:
    """Return whether a value looks like a password that somebody chose.

    8 to 64 characters with letters, digits and a sign, and no code.
    """
    return 8 <= len(value) <= 64 and is_mixed(value) and _SIGN.search(value) is not None and not _CALL.search(value)


def is_drawn(value: str) -> bool:
    """Return whether 10 or more ASCII characters look drawn by chance.

    By many changes of kind, or five consonants in a row.
    """
    if len(value) < 10 or not value.isascii():
        return False
    pieces = _PIECES.findall(value)
    if sum(map(str.isdigit, value)) >= 2 and not value.islower() and not value.isupper():
        return sum(map(len, pieces)) < _RANDOM_PIECE * len(pieces)
    if len(pieces) >= _MANY_PIECES and not value.isupper() and not value.islower():
        return sum(map(len, pieces)) <= (_SIGNED_PIECE if _SIGN.search(value) else _JUMBLED_PIECE) * len(pieces)
    return value.islower() and value.isalpha() and _JUMBLE.search(value) is not None


def is_worded(value: str) -> bool:
    """Return whether a value is words and a number: `Sommer2041!`."""
    return _WORDED.fullmatch(value) is not None


def is_hard(value: str) -> bool:
    """Return whether a bare value with signs of code is a password.

    10 to 40 characters of both cases with a digit that change often, begin with a letter or digit and list no names.
    """
    if (
        not (10 <= len(value) <= 40 and value[:1].isalnum() and any(map(str.isdigit, value)))
        or value.islower()
        or value.isupper()
    ):
        return False
    if value.count("(") == value.count(")") and "(" in value and not is_drawn(value.partition("(")[0]):
        return False
    pieces = _PIECES.findall(value)
    return sum(map(len, pieces)) <= _SIGNED_PIECE * len(pieces) and not _LISTED.search(value)


def is_strong(value: str) -> bool:
    """Return whether 20 or more mixed characters look random.

    Both cases and two digits; not hexadecimal, an id, a placeholder or a path.
    """
    if len(value) < _SHORTEST_STRONG or value.islower() or value.isupper() or sum(map(str.isdigit, value)) < _FEWEST_DIGITS:
        return False
    pieces = _PIECES.findall(value)
    return (
        sum(map(len, pieces)) <= _STRONG_PIECE * len(pieces)
        and not _HEX_GROUPS.search(value.lower())
        and not is_placeholder(value)
        and not is_location(value)
    )


def is_mixed(value: str) -> bool:
    """Return whether a value has both letters and digits."""
    return any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


def is_phrase(value: str) -> bool:
    """Return whether quoted words are a passphrase.

    3 to 10 words in small letters, none of which a message about one has.
    """
    words = value.split(" ")
    return 3 <= len(words) <= 10 and all(3 <= len(w) <= 12 and w.isalpha() and w.islower() and w not in _STOP for w in words)


def is_placeholder(value: str) -> bool:
    """Return whether a value only represents a secret.

    Such as a name, variable, row of stars, sequence, common guess, text or code.
    """
    if is_sequence(value) or _CODE_VALUE.match(value) or says_text(value):
        return True
    if len(set(value)) <= 3 or _PLACEHOLDER_WORD.search(value) or is_common(value):
        return True
    if (match := _PLACEHOLDER.match(value)) and not match["word"]:
        return True
    # Names of what would stand there, in the spellings of code, and of a command that is called.
    is_named = (
        match is not None
        or _STAND_IN.search(value) is not None
        or _SNAKE.match(value) is not None
        or (
            _SECRET_WORD.search(value) is not None
            and (sum(map(str.isdigit, value)) <= value.isalnum() or _NUMBERED.match(value) is not None)
        )
    )
    return is_named and not holds_drawn(value)


def holds_drawn(value: str) -> bool:
    """Return whether words have a drawn part: `key_` and 64 digits.

    Words, numbers and short ids between its signs count as words; the others need `_FEWEST_DRAWN` characters.
    """
    parts = [part for part in _PARTS.findall(value) if not _PLAIN_PART.fullmatch(part) or _JUMBLE.search(part.lower())]
    drawn = [part for part in parts if not is_sequence(part) and len(set(part)) > 3]
    if sum(map(len, drawn)) < _FEWEST_DRAWN:
        return False
    return is_random("".join(drawn)) or any(is_random(part, _FEWEST_DRAWN) or _is_jumbled(part) for part in drawn)


def _is_jumbled(part: str) -> bool:
    return len(part) >= _SHORTEST_STRONG and _JUMBLE.search(part.lower()) is not None


def is_common(value: str) -> bool:
    """Return whether a value is a common guess: `secret1`, `s3cr3t`, `My$ecretPassword`."""
    if len(value) > _LONGEST_COMMON:
        return False
    return bool(_COMMON_GUESS.match(value) or _DISGUISED.fullmatch(value.lower().translate(_LETTER_OF_SIGN)))


def is_word(value: str) -> bool:
    """Return whether a value is one or two words of a language.

    Digits, other signs or capitals inside make it none. Each word has at most 12 letters (24 with a capital first). Text
    with other than ASCII letters is one if its ASCII characters are letters or signs between words.
    """
    if "\\u" in value:
        value = _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    if not value.isascii():
        return not any(c.isascii() and not c.isalpha() and c not in _IN_PHRASES for c in value)
    words = _BETWEEN_WORDS.split(value)
    if len(words) > _MOST_WORDS or not all(map(str.isalpha, words)) or _JUMBLE.search(value.lower()):
        return False
    if not all(word.islower() or word.isupper() or word.istitle() for word in words):
        return False
    return max(map(len, words)) <= (_LONGEST_NAME if value.istitle() else _LONGEST_WORD)


def is_foreign(value: str) -> bool:
    """Return whether a value is a word in letters of no key."""
    return ("\\u" in value or not value.isascii()) and is_word(value)


def login_in(value: str) -> str:
    """Return the password of base64 of user:password; "" for others."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return ""
    user, _, password = decoded.partition(":")
    return password if user and decoded.isprintable() else ""


def is_login(value: str) -> bool:
    """Return whether base64 decodes to user:password with a real password."""
    password = login_in(value)
    return len(password) >= _SHORTEST_LOGIN and " " not in password and not is_placeholder(password) and not is_foreign(password)


def says_text(value: str) -> bool:
    """Return whether base64 decodes to words or lines."""
    if len(value) < _SHORTEST_TEXT or not _BASE64.match(value):
        return False
    try:
        decoded = base64.b64decode(value[: len(value) // 4 * 4], validate=True).decode("ascii")
    except (ValueError, binascii.Error):
        return False
    return len(re.findall(r"[ \n]", decoded)) >= _FEWEST_BLANKS and decoded.replace("\n", "").isprintable()


def is_called(text: str, start: int, end: int) -> bool:
    """Return whether the name at a place of a text is called."""
    return text[end : end + 1] == "(" and _CALLED.match(text, start, end) is not None


def is_sequence(value: str) -> bool:
    """Return whether most of six or more pairs are consecutive: `a1b2c3d4`."""
    letters = [ord(c) for c in value.lower() if "a" <= c <= "z"]
    digits = [int(c) for c in value if "0" <= c <= "9"]
    up = sum(b - a == 1 for a, b in pairwise(letters)) + sum((b - a) % 10 == 1 for a, b in pairwise(digits))
    down = sum((a - b) % 10 == 1 for a, b in pairwise(digits)) if not letters else 0
    pairs = max(0, len(letters) - 1) + max(0, len(digits) - 1)
    return pairs >= _FEWEST_STEPS and max(up, down) >= _IN_ORDER * pairs


def is_random(value: str, shortest: int = 12) -> bool:
    """Return whether a value looks drawn by a machine.

    By how often it changes between small letters, capitals and digits, and by its entropy; shorter ones never do.
    """
    pieces = _PIECES.findall(value)
    if len(value) < shortest or not pieces:
        return False
    # What was drawn stays drawn behind a word.
    if (match := _PLACEHOLDER.match(value)) and match["word"] and is_random(value[match.end("word") :].lstrip("_-. :"), shortest):
        return True
    if len(value) >= _LONG and _HEX.match(value):
        return entropy(value) >= 2.8
    average = sum(map(len, pieces)) / len(pieces)
    if len(value) >= _LONG and _BASE32.match(value):
        return average < 2 * _RANDOM_PIECE and entropy(value) >= 3.5
    if any(c.isdigit() for c in value) and any(c.isalpha() for c in value):
        long = value.isalnum() and (len(value) >= _LONG or (value.islower() and len(value) >= _LOWER))
        return average < (5 if long else _RANDOM_PIECE) and entropy(value) >= 2.8
    mixed_case = not value.islower() and not value.isupper()
    if mixed_case and len(value) >= 20:
        # So long a text of both cases and no digit is less often a name.
        return average < (3 if len(value) >= _LONG else 2.5)
    return len(value) >= _LONG and value.isalpha() and len(pieces) == 1 and entropy(value) >= 3.5


def entropy(value: str) -> float:
    """Return the bits per character of the first 512."""
    head = value[:512]
    return -sum((n := head.count(c) / len(head)) * log2(n) for c in set(head))
