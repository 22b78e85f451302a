"""Rules for secrets known by the text around them: assignments, headers, addresses, key blocks, JWTs."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from memory_mcp.ingest.secret_values import (
    is_chosen,
    is_dotted,
    is_drawn,
    is_foreign,
    is_hard,
    is_location,
    is_login,
    is_mixed,
    is_phrase,
    is_placeholder,
    is_random,
    is_word,
    is_worded,
    login_in,
)

#: A place where a token may begin: not inside a word, but behind an escaped line feed of quoted text.
BEGIN = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"


@dataclass(frozen=True, slots=True)
class Span:
    """A secret's place, and the rule that found it."""

    start: int
    end: int
    rule: str


class Rule(Protocol):
    """Finds one kind of secret in texts that hold one of its anchors."""

    @property
    def anchors(self) -> tuple[str, ...]:
        """Lower-case texts without which the rule finds nothing; one that begins with ~ is a pattern."""
        ...

    def find(self, text: str, lowered: str, /) -> Iterator[Span]:
        """Yield the secrets in `text`, of which `lowered` is the lower case of equal length, in any order; in linear time."""
        ...


#: The plain text a pattern begins with.
_PLAIN = re.compile(r"(?:[^\\.\[\](){}|?*+^$]|\\[^\w])+(?![?*{+])")


def plain_start(anchor: str) -> str:
    """Return the literal text that a pattern begins with; "" if it begins with a choice."""
    if not anchor.startswith("~"):
        return anchor
    start = _PLAIN.match(anchor, 1)
    return start[0].replace("\\", "") if start else ""


@dataclass(frozen=True, slots=True)
class PatternRule:
    """A pattern; the group named `secret`, else the whole match, is replaced."""

    name: str
    anchors: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[re.Match[str]], bool] | None = None

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield the matches of the pattern, or their group `secret`, that pass the check."""
        group = "secret" if "secret" in self.pattern.groupindex else 0
        for match in self.pattern.finditer(text):
            if self.check is None or self.check(match):
                yield Span(match.start(group), match.end(group), self.name)


@dataclass(frozen=True, slots=True)
class AssignmentRule:
    """`name = value` in code, environment files, YAML, JSON and connection strings, with a name that marks a secret."""

    name: str
    anchors: tuple[str, ...]

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield values assigned to names of secrets that look like one; behind `pass` alone those that do by themselves."""
        for hint in _HINTS:
            done = 0
            for place in every(hint, lowered):
                start = place.start()
                if start < done:
                    continue
                before = text[max(0, start - 16) : start]
                bare = _BARE_PASS.match(text, start) is not None and not before.endswith(("_", "-"))
                if not bare and not names_secret(place[0], before):
                    continue
                if match := _ASSIGNED.match(text, start):
                    for span in _assigned(text, match, self.name):
                        if bare and not gives_away_plainly("pass", text[span.start : span.end]):
                            continue
                        done = span.end
                        yield span


@dataclass(frozen=True, slots=True)
class FlagRule:
    """`--password value` on a command line."""

    name: str
    anchors: tuple[str, ...]

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield the values behind options such as --password or --api-key, if they look like secrets."""
        for match in _FLAG.finditer(text):
            name = match["key"].lower()
            if name.startswith(("key", "token")) and not names_secret(name, text[match.start() : match.start("key")]):
                continue
            yield from _assigned(text, match, self.name)


@dataclass(frozen=True, slots=True)
class KeyBlockRule:
    """Whole private key blocks; the first line alone does not count."""

    name: str = "private-key"
    anchors: tuple[str, ...] = ("private key", "private-lines:")

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield private key blocks with a line of key, also those whose first line is missing."""
        for match in _KEY_BLOCK.finditer(text):
            if _KEY_LINE.search(match[0]):
                yield Span(match.start(), match.end(), self.name)
        for match in _KEY_END.finditer(text):
            start = end = match.start()
            while start > 0 and end - start < _LONGEST_KEY:
                line = text.rfind("\n", 0, start - 1) + 1
                if not _BODY_LINE.fullmatch(text, line, start) or " " in text[line:start].strip():
                    break
                start = line
            if _KEY_LINE.search(text, start, end):
                yield Span(start, match.end(), self.name)


def every(hint: re.Pattern[str], lowered: str) -> Iterator[re.Match[str]]:
    """Yield the matches of a name in a text in lower case, also one that begins inside another: `keycloak_api_key` holds two."""
    place = hint.search(lowered)
    while place:
        yield place
        place = hint.search(lowered, place.start() + 1)


_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: A line of a key's body, with what quoting puts around it.
_BODY_LINE = re.compile(r"[\s>|+\"',\d\u2192-]{0,16}[A-Za-z0-9+/=]{4,80}[\s\"',\\n]{0,6}")
#: No key is longer, characters.
_LONGEST_KEY = 16_384


_KEY_LINE = re.compile(r"[A-Za-z0-9+/=]{24}|(?:[A-Za-z0-9+/=]{16,}\s*){2}")
# The body is what key lines, their line numbers and their quoting are made of, so that code about keys is not swallowed.
_KEY_BLOCK = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s\\:,.\"'>|\u2192]|-(?!----))*+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|Private-Lines: \d+\s++(?:[A-Za-z0-9+/=]{16,64}\s*+)++"
)

#: A secret's name with something assigned to it; prose that only speaks of keys and tokens is passed over.
_HINTS = tuple(
    re.compile(rf"{word}[a-z0-9_\"'`\\\])-]{{0,60}}+[ \t]{{0,8}}+[:=]")
    for word in ("pass", "pwd", "secret", "token", "credential", "key", "pat(?![a-z])", "pw(?![a-z])", "kennwort")
)
NAME = r"(?i:pass(?!port)(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|key|pat(?![A-Za-z])|pw(?![A-Za-z])|kennwort)"
NAME_END = r"(?:s?(?:[_-][A-Za-z0-9_-]{0,40}+|[A-Z0-9][A-Za-z0-9_]{0,40}+)?)"
#: What makes a key a secret one; a key alone, a primary or a public key is none.
_KEY_OF = re.compile(
    r"(?:(?i:api|access|auth|private|priv|pvt|account|encryption|encrypt|signing|master|service|shared|secret|deploy"
    r"|license|functions?|app|admin|server|pre-?shared)[ _.-]?"
    r"|(?<!PUBLIC)(?<=[A-Z0-9])_)\Z"
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode")
#: Capitals before PASS with which it is another word.
_OTHER_PASS = ("BY", "COM", "TRES", "SUR", "EN", "OVER", "UNDER", "MULTI")
_BLANK = ("", " ", "\n", "\t", "=", ":", '"', "'", "(", ",", ".")
_VALUE_GROUPS = ("escaped", "double", "single", "tick", "bare")
_VALUE = (
    r"(?:\\[\"'](?P<escaped>[^\"'\\\r\n]++)"
    r"|\"(?P<double>(?:[^\"\\\r\n]|\\[^\r\n])++)"
    r"|'(?P<single>(?:[^'\\\r\n]|\\[^\r\n])++)"
    r"|`(?P<tick>[^`\\\r\n]++)"
    r"|(?P<bare>[^\s\"'`,;&<>(){}\[\]\\|=]{1,2000}+={0,2}))"
)
#: What is judged of an unquoted value is bounded, since every name inside it begins another; the rest goes with it.
_BARE_REST = re.compile(r"[^\s\"'`,;&<>(){}\[\]\\|=]*+")
#: Up to the next blank or quote, for passwords with signs that end a value in code.
_RUN = re.compile(r"[^\s\"'`<>\\|]{10,64}")
_ASSIGNED = re.compile(
    rf"(?P<key>{NAME}{NAME_END})(?:\\?[\"'`\])]){{0,2}}[ \t]{{0,8}}(?P<op>:=|=>|={{1,3}}|:)[ \t]{{0,8}}{_VALUE}"
)
_FLAG = re.compile(rf"(?:--|(?<=\s)-)(?:[a-z0-9]{{1,20}}+-){{0,4}}(?P<key>{NAME}(?:-[a-z]{{1,20}})?)(?P<op>[ \t]){_VALUE}")

#: Names with these ends describe a secret and do not hold one.
_HARMLESS_END = re.compile(
    r"(?:[_-]|(?<=[a-z]))(?i:urls?|uris?|endpoint|names?|ids?|types?|paths?|files?|dir|counts?|limit|length|len|size|expiry"
    r"|expires?|expiration|ttl|age|lifetime|at|in|headers?|fields?|label|hint|prompt|policy|env|vars?|regex|pattern"
    r"|placeholder|message|errors?|status|budget|usage|used|index|position|format|strategy|manager|provider|store|refs?"
    r"|versions?|enabled|required|input|estimate|factor|algo|algorithm|method|mode|scheme|rounds|iterations|strength|class|func|handler|callback|rules?|scopes?|changed|match(?:es)?|uuid|function)$"
)
_PASSWORD_NAME = re.compile(r"(?i)pass|pwd|^pw|kennwort")
#: The name `pass` alone, which is a word of programs and of test reports as well.
_BARE_PASS = re.compile(r"(?i)pass[ \t]{0,8}[=:](?![=:])(?<![A-Za-z0-9]pass.)(?<!\.pass.)")
_SECRET_NAME = re.compile(r"(?i)secret")
_CHOSEN_NAME = re.compile(r"(?i)pass|pwd|^pw|kennwort|secret")
_OWN_SIGN = re.compile(r"\d\W*_?$")
_IDENTIFIER = re.compile(r"^\w+$")
#: Names in code end in one digit if in any; a password of two words and a dot ends in a number.
_TWO_DIGITS = re.compile(r"^[^._]*\.[^._]*\d\d$")


#: Tokens that only say where a list goes on or which request it was; names of types and resources.
_OTHER_TOKEN = re.compile(
    r"(?i:next|page|pagination|continuation|change|request|idempotency|sequence|sync|cancel|cancellation|start|starting|resume|lock|(?<!trans)action)[_-]?\Z"
)
_TYPE_OR_RESOURCE = re.compile(r"::[A-Za-z]{0,15}\Z|\d:\Z")


def names_secret(name: str, before: str) -> bool:
    """Return whether a lower-case name behind `before` is a secret's: a key must be of something, `pass` part of a name."""
    if _TYPE_OR_RESOURCE.search(before) or (name.startswith("token") and _OTHER_TOKEN.search(before)):
        return False
    if name.startswith("key"):
        return before[-1:] not in _BLANK and _KEY_OF.search(before) is not None
    if name.startswith("pw") and not name.startswith("pwd"):
        return before[-1:] in ("_", "-")
    if name.startswith("pat"):
        return before[-1:] == "_" or before[-1:].islower()
    if name.startswith("pass") and not name.startswith(_PASSWORDS):
        if before[-1:].isupper():
            return not before.endswith(_OTHER_PASS)
        return before.endswith(("_", "-")) or (before.endswith(('"', "'")) and name[4:5] in ('"', "'", "\\"))
    return not before.lower().endswith(("publickey", "public_key", "public-key"))


def _assigned(text: str, match: re.Match[str], rule: str) -> Iterator[Span]:
    """Yield the span of an assigned value, if it looks like a secret; a password in its whole run of signs."""
    group = next(g for g in _VALUE_GROUPS if match[g] is not None)
    called = group == "bare" and (
        text[match.end() : match.end() + 1] in ("(", "[", "{")
        or (match[group][0] == "+" and not is_random(match[group]))
        or match[group][-1] == ":"
    )
    if group == "bare" and _PASSWORD_NAME.search(match["key"]) and not _HARMLESS_END.search(match["key"]):
        whole = _RUN.match(text, match.start(group))
        if whole and len(whole[0]) > len(match[group]) and is_hard(whole[0].rstrip(",;")):
            yield Span(match.start(group), match.start(group) + len(whole[0].rstrip(",;")), rule)
            return
    if not called and _gives_away(match, match[group], quoted=group != "bare"):
        end = match.end(group)
        rest = _BARE_REST.match(text, end) if group == "bare" and end - match.start(group) >= 2000 else None
        yield Span(match.start(group), rest.end() if rest else end, rule)


def _gives_away(match: re.Match[str], value: str, quoted: bool) -> bool:
    """Return whether a value assigned to a secret's name is one: not if the name describes one (`token_url`) or it is a name."""
    key, value = match["key"], value.strip()
    if quoted and _PASSWORD_NAME.search(key) and is_phrase(value):
        return not _HARMLESS_END.search(key)
    if len(value) < 6 or len(value.split(None, 1)) > 1 or is_placeholder(value):
        return False
    if _HARMLESS_END.search(key) or (is_dotted(value) and not (_PASSWORD_NAME.search(key) and _TWO_DIGITS.search(value))):
        return False
    if is_location(value) or is_foreign(value):
        return False
    if not _PASSWORD_NAME.search(key):
        return is_random(value) or is_worded(value) or (_SECRET_NAME.search(key) is not None and is_chosen(value))
    if is_word(value):
        return not quoted and match["op"] == "=" and key.isupper()
    if quoted or is_mixed(value) or is_drawn(value):
        return True
    return match["op"] == "=" and (key.isupper() or not _IDENTIFIER.match(value))


def gives_away_plainly(key: str, value: str, paired: bool = False) -> bool:
    """Return whether a value is a secret by its key, where the two belong together less surely than in an assignment.

    The value has to look like a secret by itself. With `paired` the link is beyond doubt, so that a value with letters
    and digits and a digit at its end may be a password.
    """
    if is_placeholder(value) or _HARMLESS_END.search(key) or is_dotted(value) or is_location(value):
        return False
    if paired and _PASSWORD_NAME.search(key) and is_mixed(value) and _OWN_SIGN.search(value):
        return True
    return is_random(value) or (
        _CHOSEN_NAME.search(key) is not None and (is_chosen(value) or is_drawn(value) or is_worded(value))
    )


def _is_credential(match: re.Match[str]) -> bool:
    """Return whether the value of a header is a credential: random, chosen, worded, or ending in =; no placeholder."""
    value = match["secret"]
    if is_placeholder(value) or (login_in(value) and not is_login(value)):
        return False
    return is_random(value) or (value.endswith("=") and len(value) >= 8) or is_chosen(value) or is_worded(value)


def _is_login(match: re.Match[str]) -> bool:
    """Return whether the password in an address may be real: no placeholder, number or user's name, no word for a local host."""
    user, value = match["user"], match["secret"]
    if is_placeholder(value) or value.rstrip("]").lower() in ("pass", "pwd", "port", "user", user.lower()) or value.isdigit():
        return False
    # A word for a server on the same machine is what a manual writes.
    return "://" not in value and not (is_word(value) and _OWN_HOST.match(match.string, match.end() - 1))


_OWN_HOST = re.compile(r"@(?:localhost|127\.|\[::1\]|(?:[\w-]+\.)*example\.|%s|[{$<]|[a-z]+/)")


def _is_long_user(match: re.Match[str]) -> bool:
    """Return whether a user name in an address is a random token of at least 20 characters."""
    return not is_placeholder(match["secret"]) and is_random(match["secret"], 20)


#: Where something is assigned to a name that may be a secret's.
_ASSIGNMENT = tuple(f"~{hint.pattern}" for hint in _HINTS)

RULES: tuple[Rule, ...] = (
    KeyBlockRule(),
    PatternRule(
        "jwt",
        ("~eyj[a-z0-9_-]{8}",),
        re.compile(
            r"eyJ(?:(?<![A-Za-z0-9_-]eyJ)|(?<=\\[nrt]eyJ))[A-Za-z0-9_-]{8,}+(?:\.eyJ[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+)?"
            r"|(?:\.[A-Za-z0-9_-]*+){4})"
        ),
    ),
    PatternRule(
        "url-password",
        (r"~://[^\s/@]{0,330}@",),
        re.compile(r"://(?P<user>[^\s/:@\"'<>`]{0,64}):(?P<secret>[^\s/\"'<>`]{3,256})@(?=[\w.\[-])"),
        _is_login,
    ),
    # Behind the scheme of a web page a slash ends host and port; elsewhere people leave it unescaped in passwords.
    PatternRule(
        "url-password",
        (r"~://[^\s/]{0,330}/[^\s]{0,80}@",),
        re.compile(r"(?<!http)(?<!https)://[^\s/:@\"'<>`]{0,64}:(?!\d{1,5}/)(?P<secret>[^\s\"'<>`]{6,64})@(?=[\w.\[-])"),
        lambda match: not is_placeholder(match["secret"]) and (is_chosen(match["secret"]) or is_mixed(match["secret"])),
    ),
    PatternRule(
        "url-token", (r"~://[^\s/@]{0,330}@",), re.compile(r"://(?P<secret>[A-Za-z0-9_-]{20,256})@(?=[\w.\[-])"), _is_long_user
    ),
    PatternRule(
        "authorization",
        ("authorization",),
        re.compile(
            r"(?<![A-Za-z])(?i:authorization)\\?[\"']?\s{0,4}[:=,]\s{0,4}\\?[\"'`]?(?:[A-Za-z][A-Za-z0-9-]{1,24}\s{1,4})?"
            r"(?P<secret>[A-Za-z0-9._~+/=!$*-]{6,}+)"
        ),
        _is_credential,
    ),
    PatternRule(
        "bearer",
        ("~bearer[ \t]{1,4}[a-z0-9._~+/=-]{16}",),
        re.compile(r"(?i:\bbearer)[ \t]{1,4}(?P<secret>[A-Za-z0-9._~+/=-]{16,}+)"),
        _is_credential,
    ),
    PatternRule(
        "aws-secret-key",
        ("~secret(?:_?access_?key|(?<=aws_secret)|(?<=awssecret))",),
        re.compile(
            r"(?i:secret_?access_?key|aws_?secret(?:_?key)?)\\?[\"']?\s{0,4}(?:[:=]|=>)\s{0,4}\\?[\"']?"
            r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])"
        ),
        lambda match: not is_placeholder(match["secret"]),
    ),
    PatternRule(
        "curl-login",
        (r"~ -u[ =][^\s:]{1,66}:", r"~--user[ =][^\s:]{1,66}:", r"~http[s]? -a [^\s:]{1,66}:", r"~--auth[ =][^\s:]{1,66}:"),
        re.compile(r"(?: -u|--user|https? -a|--auth)[ =][\"']?[^\s:\"']{1,64}:(?P<secret>[^\s\"']{6,200})"),
        lambda match: not is_placeholder(match["secret"]) and is_mixed(match["secret"]),
    ),
    AssignmentRule("assignment", _ASSIGNMENT),
    FlagRule("assignment", (r"~--[a-z-]{0,42}(?:pass|pwd|secret|token|credential|key)", " -pass", " -secret", " -token")),
)
