# ruff: noqa: ISC004, E501 - a long pattern goes on in the next line
"""Find secrets in code, settings and command lines, by their names, programs, blocks and form.

A finder takes a text and its lower case of equal length, and yields the (start, end) of secrets, in any order, in linear time.
"""

import re
from collections.abc import Callable, Iterable, Iterator

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.redact.secret_checks import NAME, NAME_END, is_assigned_secret, is_secret_of, names_password, names_secret
from memory_mcp.redact.secret_values import (
    is_chosen,
    is_drawn,
    is_hard,
    is_placeholder,
    is_random,
    is_strong,
    is_word,
    is_worded,
    long_runs_pattern,
)

Place = tuple[int, int]
Finder = Callable[[str, str], Iterable[Place]]

# private keys

_KEY_END = lazy_pattern(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
#: A line of a key's body, with what quoting puts around it.
_BODY_LINE = lazy_pattern(r"[\s>|+\"',\d\u2192-]{0,16}[A-Za-z0-9+/=]{4,80}[\s\"',\\n]{0,6}")
#: No key is longer, characters.
_LONGEST_KEY = 16_384
_KEY_LINE = lazy_pattern(r"[A-Za-z0-9+/=]{24}|(?:[A-Za-z0-9+/=]{16,}\s*){2}")
# The body is what key lines, their line numbers and their quoting are made of, so that code about keys is not swallowed.
_KEY_BLOCK = lazy_pattern(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[A-Za-z0-9+/=\s\\:,.\"'>|\u2192]|-(?!----))*+(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
    r"|Private-Lines: \d+\s++(?:[A-Za-z0-9+/=]{16,64}\s*+)++"
)


def find_key_blocks(text: str, _lowered: str) -> Iterator[Place]:
    """Yield private key blocks, also without their first line."""
    for match in _KEY_BLOCK.finditer(text):
        if _KEY_LINE.search(match[0]):
            yield match.span()
    for match in _KEY_END.finditer(text):
        start = end = match.start()
        while start > 0 and end - start < _LONGEST_KEY:
            line = text.rfind("\n", 0, start - 1) + 1
            if not _BODY_LINE.fullmatch(text, line, start) or " " in text[line:start].strip():
                break
            start = line
        if _KEY_LINE.search(text, start, end):
            yield start, match.end()


# addresses

_URL_PASSWORD = lazy_pattern(r"://(?P<user>[^\s/:@\"'<>`]{0,64}):(?P<secret>[^\s/\"'<>`]{3,256})@(?=[\w.\[-])")
_OWN_HOST = lazy_pattern(r"@(?:localhost|127\.|\[::1\]|(?:[\w-]+\.)*example\.|%s|[{$<]|[a-z]+/)")


def find_url_passwords(text: str, _lowered: str) -> Iterator[Place]:
    """Yield passwords in addresses that may be real.

    No placeholder, number or user's name, and no word for a server on the same machine, which is what a manual writes.
    """
    for match in _URL_PASSWORD.finditer(text):
        user, value = match["user"], match["secret"]
        if is_placeholder(value) or value.rstrip("]").lower() in ("pass", "pwd", "port", "user", user.lower()) or value.isdigit():
            continue
        if "://" not in value and not (is_word(value) and _OWN_HOST.match(text, match.end() - 1)):
            yield match.span("secret")


# a name and what is assigned to it

#: A secret's name with something assigned to it; prose that only speaks of keys and tokens is passed over.
ASSIGNMENT_HINTS = tuple(
    rf"{word}[a-z0-9_\"'`\\\])-]{{0,60}}+[ \t]{{0,8}}+[:=]"
    for word in ("pass", "pwd", "secret", "token", "credential", "key", "pat(?![a-z])", "pw(?![a-z])", "kennwort")
)
_ASSIGNMENT_HINTS = tuple(map(lazy_pattern, ASSIGNMENT_HINTS))
_VALUE_GROUPS = ("escaped", "double", "single", "tick", "bare")
_VALUE = (
    r"(?:\\[\"'](?P<escaped>[^\"'\\\r\n]++)"
    r"|\"(?P<double>(?:[^\"\\\r\n]|\\[^\r\n])++)"
    r"|'(?P<single>(?:[^'\\\r\n]|\\[^\r\n])++)"
    r"|`(?P<tick>[^`\\\r\n]++)"
    r"|(?P<bare>[^\s\"'`,;&<>(){}\[\]\\|=]{1,2000}+={0,2}))"
)
#: What is judged of an unquoted value is bounded, since every name inside it begins another; the rest goes with it.
_BARE_REST = lazy_pattern(r"[^\s\"'`,;&<>(){}\[\]\\|=]*+")
#: Up to the next blank or quote, for passwords with signs that end a value in code.
_RUN = lazy_pattern(r"[^\s\"'`<>\\|]{10,64}")
_ASSIGNED = lazy_pattern(
    rf"(?P<key>{NAME}{NAME_END})(?:\\?[\"'`\])]){{0,2}}[ \t]{{0,8}}(?P<op>:=|=>|={{1,3}}|:)[ \t]{{0,8}}{_VALUE}"
)
_FLAG = lazy_pattern(rf"(?:--|(?<=\s)-)(?:[a-z0-9]{{1,20}}+-){{0,4}}(?P<key>{NAME}(?:-[a-z]{{1,20}})?)(?P<op>[ \t]){_VALUE}")
#: The name `pass` alone, which is a word of programs and of test reports as well.
_BARE_PASS = lazy_pattern(r"(?i)pass[ \t]{0,8}[=:](?![=:])(?<![A-Za-z0-9]pass.)(?<!\.pass.)")


def _iter_hints(hint: re.Pattern[str], lowered: str) -> Iterator[re.Match[str]]:
    """Yield matches also inside others: `keycloak_api_key` holds two."""
    match = hint.search(lowered)
    while match:
        yield match
        match = hint.search(lowered, match.start() + 1)


def find_assignments(text: str, lowered: str) -> Iterator[Place]:
    """Yield values of `name = value` in code, settings and JSON.

    After `pass` alone only those that look like a secret by themselves.
    """
    for hint in _ASSIGNMENT_HINTS:
        done = 0
        for name in _iter_hints(hint, lowered):
            start = name.start()
            if start < done:
                continue
            prefix = text[max(0, start - 16) : start]
            bare = _BARE_PASS.match(text, start) is not None and not prefix.endswith(("_", "-"))
            if not bare and not names_secret(name[0], prefix):
                continue
            if (match := _ASSIGNED.match(text, start)) and (span := _assigned_place(text, match)):
                if bare and not is_secret_of("pass", text[slice(*span)]):
                    continue
                done = span[1]
                yield span


def find_flags(text: str, _lowered: str) -> Iterator[Place]:
    """Yield the values of options such as `--password value`."""
    for match in _FLAG.finditer(text):
        name = match["key"].lower()
        if name.startswith(("key", "token")) and not names_secret(name, text[match.start() : match.start("key")]):
            continue
        if span := _assigned_place(text, match):
            yield span


def _assigned_place(text: str, match: re.Match[str]) -> Place | None:
    group = next(g for g in _VALUE_GROUPS if match[g] is not None)
    value, start, end = match[group], match.start(group), match.end(group)
    quoted = group != "bare"
    if not quoted and names_password(match["key"]):
        # A password in its whole run of signs.
        run = _RUN.match(text, start)
        if run and len(run[0]) > len(value) and is_hard(run[0].rstrip(",;")):
            return start, start + len(run[0].rstrip(",;"))
    is_call = not quoted and (
        text[match.end() : match.end() + 1] in ("(", "[", "{") or (value[0] == "+" and not is_random(value)) or value[-1] == ":"
    )
    if is_call or not is_assigned_secret(match["key"], match["op"], value, quoted):
        return None
    tail = _BARE_REST.match(text, end) if not quoted and end - start >= 2000 else None
    return start, tail.end() if tail else end


_QUOTE = r"\\?[\"'`]"
#: Forms of a setting: the signs between a name and its value, and the value.
_FORMS = (
    # Arguments of a call: of define, of setProperty, of type behind the selector of a field.
    rf"[\])]{{0,2}}{_QUOTE}\)?[ \t]{{0,4}}(?:,|\.(?:type|fill|send_?[kK]eys|set[A-Z]?\w{{0,12}})\()\s{{0,12}}{_QUOTE}"
    rf"(?P<argument>[^\"'`\\\s]{{6,400}}){_QUOTE}",
    # {"name": "NAME", "value": "value"} and the same in two lines of YAML
    rf"{_QUOTE}?[ \t]{{0,4}},?\s{{0,24}}{_QUOTE}?(?i:default_?)?(?i:value){_QUOTE}?[ \t]{{0,4}}[:=][ \t]{{0,4}}{_QUOTE}?"
    r"(?P<pair>[^\"'`\\\s,}]{6,400})",
    # variable "name" { default = "value" }
    r"\"[ \t]{0,4}\{\s{0,40}(?:\w{1,20}[ \t]{0,20}=[^\n]{0,200}\n\s{0,20}){0,4}?default[ \t]{0,20}=[ \t]{0,4}"
    r"\"(?P<default>[^\"\\\s]{6,400})\"",
    # <name>value</name>, <property name="name">value</property>
    rf"{_QUOTE}?>(?P<element>[^<>\s]{{6,400}})</",
    # | name | `value` |
    r"[`*\"]{0,2}[ \t]{1,40}\|[ \t]{1,40}[`\"]?(?P<cell>[^\s|`\"]{6,400})",
    # storePassword 'value'
    rf"[ \t]{{1,4}}{_QUOTE}(?P<quoted>[^\"'`\\\s]{{6,400}}){_QUOTE}",
    # ENV NAME value
    r"[ \t]{1,4}(?P<plain>[!#-&*-+\--:=?@A-Z^_a-z~]{12,400})(?=\s|$|[,;\u3002\uff0c])",
    # SECRET = Buffer.from("value", "hex"), key := []byte("value"), KEY = b"value"
    r"[\"']?[ \t]{0,4}(?::?=|:)[ \t]{0,4}(?:new )?(?:[A-Za-z_\[][\w.\[\]]{0,40}\(\s{0,8}[bru]?|[bruBRU]{1,2})"
    r"[\"'`](?P<made>[^\"'`\\\s]{6,400})[\"'`]",
    # const SECRET: &str = "value", let token: String = "value", SECRET: Final[str] = "value"
    rf"[ \t]{{0,2}}:[ \t]{{0,2}}&?(?:'static )?[A-Za-z][\w.\[\]<>]{{1,30}}[?!]?[ \t]{{0,4}}=[ \t]{{0,4}}{_QUOTE}"
    r"(?P<typed>[^\"'`\\\s]{6,400})[\"'`]",
    # NAME=value up to the end of its line, whatever signs it holds
    r"=(?P<line>[^\s\"'`$][^\s\"'`]{7,400})$",
)
_NAMED = lazy_pattern(rf"(?m)(?P<key>{NAME}{NAME_END})(?:{'|'.join(_FORMS)})")
_NAMED_GROUPS = ("argument", "pair", "default", "element", "cell", "quoted", "plain", "made", "typed", "line")
#: A name for machines has a sign or a capital inside; what only follows a word of prose is left to other rules.
_MACHINE_NAME = lazy_pattern(r"[A-Za-z0-9][_-][A-Za-z0-9]|[a-z][A-Z]|:_[a-z]")
#: Names of things in code that stand behind each other, such as in a definition; and words joined by dashes.
_IN_CODE = lazy_pattern(r"^(?:[A-Za-z]\w*_\w*_\w*,?|[a-z]+\d?(?:-[a-z]+\d?)+)$")
NAMED_HINTS = tuple(
    rf"{word}[a-z0-9_-]{{0,60}}+(?:[\])]{{0,2}}{_QUOTE}\)?[ \t]{{0,4}}[,.>{{|\n:=v]|>|[`*\"]{{0,2}}[ \t]{{1,40}}\||[ \t]{{1,4}}\S{{8}}|\s{{1,24}}value|[:= ]{{1,4}}[\[\w&]|=\S{{8}})"
    for word in ("pass", "pwd", "secret", "token", "credential", "key")
)
_NAMED_HINTS = tuple(map(lazy_pattern, NAMED_HINTS))


def find_named(text: str, lowered: str) -> Iterator[Place]:
    """Yield values after a secret's name: arguments, pairs, cells, lines."""
    for hint in _NAMED_HINTS:
        for name in _iter_hints(hint, lowered):
            start = name.start()
            prefix = text[max(0, start - 24) : start]
            if not names_secret(name[0], prefix) or not (match := _NAMED.match(text, start)):
                continue
            group = next(g for g in _NAMED_GROUPS if match[g] is not None)
            if group in ("quoted", "plain") and not _MACHINE_NAME.search(prefix.rpartition(" ")[2] + match["key"]):
                continue
            if group == "line" and not (match["key"].isupper() and match[group][-1] not in ",;)"):
                continue
            if group not in ("argument", "pair") and _IN_CODE.match(match[group]):
                continue
            if is_secret_of(match["key"], match[group], paired=group in ("pair", "element")):
                yield match.span(group)


# programs and files

_WORD = r"(?:\\?[\"'](?P<secret>[^\"'\\\r\n]{4,200})|(?P<plain>[^\s\"'`|;&<>()$\\-][^\s\"'`|;&<>()\\]{3,200}))"
#: The options passwords are handed over by; many texts have others only.
_OPTION = lazy_pattern(r"-(?:[pauwkn](?<=\s-.)|-p(?:w|ass)|pw|\w{0,9}pass|\w{0,8}b\w{0,8}\s)")


def make_command_finder(words: str, pattern: str) -> Finder:
    """Return what finds a password given by a program's option.

    `words` are separated by blanks: the line with one of them, or the next one, has the option. `pattern` leads to the
    value, which is quoted or goes to the next blank. Placeholders and variables are none.
    """
    names, option = words.split(), lazy_pattern(pattern + _WORD)

    def find(text: str, lowered: str) -> Iterable[Place]:
        # Most texts have none of the words; a generator for each of the commands would cost more than the look.
        for name in names:
            if name in lowered:
                return search(text, lowered)
        return ()

    def search(text: str, lowered: str) -> Iterator[Place]:
        if not (_OPTION.search(lowered) or "/p:" in lowered):
            return
        for start, end in _iter_lines(lowered, names):
            for match in option.finditer(text, start, end):
                group = "secret" if match["secret"] is not None else "plain"
                if not is_placeholder(match[group]) and not match[group].startswith("$"):
                    yield match.span(group)

    return find


def _iter_lines(lowered: str, words: list[str]) -> Iterator[Place]:
    """Each line with a word and an option after it, with the next line."""
    end = 0
    for at in sorted(match.start() for word in words for match in re.finditer(re.escape(word), lowered)):
        if at < end:
            continue
        start = lowered.rfind("\n", 0, at) + 1
        end = lowered.find("\n", at) + 1 or len(lowered)
        stop = lowered.find("\n", end) + 1 or len(lowered)
        if lowered.find("-", at, stop) >= 0 or lowered.find("/p:", at, stop) >= 0:
            yield start, stop


_COOKIE = lazy_pattern(
    r"(?i)(?:(?:set-)?cookie2?\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"'`]?|(?:\s-b|--cookie)[ =]\\?[\"'])(?P<pairs>[^\r\n\"'`]{8,4096})"
)
_PAIR = lazy_pattern(r"(?P<name>[A-Za-z_][\w.%-]{0,63})=(?P<value>[^;\s\\]{8,})")
_SESSION = lazy_pattern(r"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|identity|secret")
_ATTRIBUTE = lazy_pattern(r"(?i)^(?:path|domain|expires|max-age|samesite|version|comment)$")


def find_cookies(text: str, _lowered: str) -> Iterator[Place]:
    """Yield values of cookies that identify a user."""
    for line in _COOKIE.finditer(text):
        for match in _PAIR.finditer(text, *line.span("pairs")):
            value = match["value"]
            if _ATTRIBUTE.match(match["name"]) or is_placeholder(value):
                continue
            if (_SESSION.search(match["name"]) and any(c.isdigit() for c in value) and "(" not in value) or is_random(value, 20):
                yield match.span("value")


_MANIFEST = lazy_pattern(r"(?m)^(?P<deep>[ \t#]*)(?:data|stringData):[ \t]*\n(?P<body>(?:(?P=deep)[ \t]+\S[^\n]*(?:\n|\Z))+)")
_MANIFEST_ENTRY = lazy_pattern(r"(?m)^[ \t#]+[\w.-]+:[ \t]+[\"']?(?P<secret>[^\s\"'|>{][^\s\"']{5,})")


def find_manifest_values(text: str, _lowered: str) -> Iterator[Place]:
    """Yield the values in the data of a Kubernetes secret."""
    for block in _MANIFEST.finditer(text):
        for match in _MANIFEST_ENTRY.finditer(text, *block.span("body")):
            if not is_placeholder(match["secret"]):
                yield match.span("secret")


# random values that the text around them assigns, passes or pipes

#: Names of values that are random and no secret, and words for them.
_OPEN_WORD = (
    r"ids?|uuid|guid|sha\d*|hash|digest|checksum|sum|md5|commit|rev|revision|ref|versions?|image|tags?|path|file|dir|home|url|uri|link"
    r"|host|domain|server|pub|public|cert|certificate|ca|fingerprint|integrity|etag|cursor|nonce|name|user|flags|opts|args|data|body"
    r"|text|content|expected|output|result|value|thumbprint|address|addr|signature|sig|class|type|model|format|build|branch|session"
    r"|request|trace|span|icon|svg|font|src|href|prompt|template|patterns?|regex|query|sql|ps1|accept|websocket|next|continuation|placeholder|spec|status"
)
#: Parts of signed and encrypted messages, and of public keys.
_PART = r"protected|payload|header|iv|ciphertext|x5t|x5c|kid|sub|aud|jti|pub[xy]?|base64\w?"
_OPEN_NAME = lazy_pattern(rf"(?i)^[nexy]$|(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?:{_OPEN_WORD}|{_PART})s?(?:$|[_.-]|(?-i:(?=[A-Z])))")
_VARIABLE = lazy_pattern(
    r"(?<![A-Za-z0-9_$.])(?P<name>[A-Z][A-Z0-9_]{2,60}+)=(?P<quote>[\"']?)(?P<secret>[^\s\"'`$<>]{8,400}+)(?=(?P=quote)(?:\s|$))"
)
#: What may stand before a variable: the beginning of a line, a command that sets it, an option.
_SETS = lazy_pattern(r"(?:^|\n)[ \t#>$]{0,8}(?:export |set |-e |ENV )?\Z| -e \Z|--env \Z")
_DRAWN_RUN = long_runs_pattern("A-Za-z0-9_+/.~-", 20, "={0,2}")
_WHOLE = lazy_pattern(r"[A-Za-z0-9_+/-]{20,400}={0,2}")
#: A token behind the prefix of who gave it, in small letters alone; shorter ones are ids and file names as often.
_PREFIXED = lazy_pattern(r"(?P<prefix>[a-z][a-z0-9]{1,11}(?:[_-](?:[a-z]{2,12}|v?\d{1,2})){0,2})[_-](?P<body>[a-z0-9]{40,})")
_SHORTEST_BODY, _SHORTEST_PREFIXED = 40, 43
_ENTRY = lazy_pattern(
    r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][\w.-]{1,60}+)(?:: |[\"'](?:: ?|[ \t]?=>?[ \t])|[ \t]=>?[ \t])(?P<open>[\"']?)\Z"
)
_SENTENCE = lazy_pattern(
    r"(?i)\b(?:use|using|try|with|has|have|gave|got|get|needs?|wants?|takes?|accepts?|put|paste|pass|is|now|one|this|sweep|enter|typed?|key|as)"
    r":? [\"'`]?\Z"
)
#: A label with some words of prose between it and the value.
_LABEL_BEFORE = lazy_pattern(
    r"(?i)(?<![A-Za-z0-9_-])(?:token|secret|credential|key)s?(?:[ ][^\W\d_]{1,16}){1,8}[:,]?[ ][\"'`]?\Z"
)
_GOES_ON = lazy_pattern(r"(?i)[\"'`,;]?(?:[ ][a-z]{1,12}[ ]|[.]?\s*(?:\n|\Z))")
_PIPE = lazy_pattern(r"\b(?:echo|printf)\s+(?:-n\s+)?[\"']?\Z")
_PIPED = lazy_pattern(r"[\"']?\s*\|")
#: How far before and behind a value its surroundings say what it is, characters.
_BEFORE, _AFTER = 80, 20
_ABOUT_OPEN = lazy_pattern(rf"(?i)\b(?:{_OPEN_WORD})\b")


def find_variables(text: str, _lowered: str) -> Iterator[Place]:
    """Yield values of `NAME=value` that look random or like passwords.

    Not those of names known as public, or elsewhere than at a line's beginning, an export, a set or an option.
    """
    for match in _VARIABLE.finditer(text):
        value, start = match["secret"], match.start()
        if _OPEN_NAME.search(match["name"]) or not _SETS.search(text[max(0, start - _AFTER) : start]):
            continue
        # Else a password that somebody chose: no path or address, but words with a number, or mixed signs.
        is_short = len(value) <= 40 and "/" not in value and ":" not in value
        if is_strong(value) or (
            is_short and (is_worded(value) or (is_chosen(value) and is_drawn(value))) and not is_placeholder(value)
        ):
            yield match.span("secret")


def find_drawn(text: str, _lowered: str) -> Iterator[Place]:
    """Yield random runs that the text hands over, and does not call public."""
    for run in _DRAWN_RUN.finditer(text):
        value, start = run[1] or "", run.start(1)
        is_lower = value.islower()
        if (is_lower and len(value) < _SHORTEST_PREFIXED) or value.isupper() or value.isalpha() or value.startswith("eyJ"):
            continue
        value = value.rstrip(".")
        if not _WHOLE.fullmatch(value) or not (_is_prefixed(value) if is_lower else is_strong(value)):
            continue
        end = start + len(value)
        line_before = text[max(0, start - _BEFORE) : start].rpartition("\n")[2]
        if not _ABOUT_OPEN.search(line_before) and _is_handed_over(line_before, text[end : end + _AFTER]):
            yield start, end


def _is_prefixed(value: str) -> bool:
    match = _PREFIXED.fullmatch(value)
    return match is not None and is_random(match["body"], _SHORTEST_BODY) and not _OPEN_NAME.search(match["prefix"])


def _is_handed_over(line_before: str, after: str) -> bool:
    if entry := _ENTRY.search(line_before):
        return not _OPEN_NAME.search(entry["name"]) and (
            after[:1] == entry["open"] or not (entry["open"] or after[:1].strip(" \r\n\t,;}])"))
        )
    if _SENTENCE.search(line_before) and _GOES_ON.match(after):
        return True
    if _LABEL_BEFORE.search(line_before):
        return after[:1].strip("\"'`.,;)") in ("", " ")
    return _PIPE.search(line_before) is not None and _PIPED.match(after) is not None
