# ruff: noqa: ISC004, E501 - a long pattern goes on in the next line of its row
"""Rules for secrets known only by context: command lines, sentences, cookies, login files, manifests."""

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from memory_mcp.ingest.command_rules import CommandRule
from memory_mcp.ingest.list_rules import seed_words
from memory_mcp.ingest.secret_rules import PatternRule, Rule, Span, gives_away_plainly
from memory_mcp.ingest.secret_values import (
    is_called,
    is_chosen,
    is_drawn,
    is_foreign,
    is_hard,
    is_login,
    is_mixed,
    is_phrase,
    is_placeholder,
    is_random,
    is_worded,
)

# Words for a secret, and for "is", in several languages.
_TOLD = (
    r"(?:pass(?:word|wort|phrase|code|wd)|auth(?= is )|pwd|pw(?=: )|pass(?=:? \S{0,30}\d)|pass(?= for \S{1,20} is )|pass(?= is )|kennwort|mot de passe|contrase\u00f1a|contrasena|clave|senha|wachtwoord"
    r"|has\u0142o|\u043f\u0430\u0440\u043e\u043b\u044c|\u5bc6\u7801|\u5bc6\u78bc|\u53e3\u4ee4"
    r"|\u30d1\u30b9\u30ef\u30fc\u30c9|\ube44\ubc00\ubc88\ud638)"
)
_IS = (
    r"(?:['\u2019]s|\s(?:(?P<word>(?:is|was|are|ist|lautet|war|hei\u00dft|est|es|\u00e9|\u00e8|era|to|\u044d\u0442\u043e|should be|set to)(?![^\W_]))|:?=)"
    r"(?:\s(?:now|jetzt|still|ahora|adesso))?|\s?[:\uff1a]|\s?(?:\u662f|\u4e3a|\u306f|\ub294|\uc740))"
)
_WORD_AT = re.compile(_TOLD)
_SPOKEN = re.compile(
    rf"(?i){_TOLD}(?:\s[^\s:=\"'`,.;(){{}}\[\]]{{1,20}}){{0,5}}?{_IS}\s?"
    r"(?:\\?[\"'`\u201c\u00ab\u201e](?P<quoted>[^\"'`\\\r\n\u201d\u00bb\u201c]{6,120})"
    r"|(?P<plain>(?(word)(?:[!#-&(-;=?-_a-~]|[^\x00-\x7f\s\u201c\uff0c\u3002])|(?:[^\s\"'`<>(){}\[\],;\u201c\uff0c\u3002]"
    r"|(?<=[!-~])[,;](?!\w{1,20}[:=])(?=[!#-&*+.-9=?-Z^-~]))){6,80}))"
)
#: As programs and notes write it, where the word is of no programming language.
_NOTED = re.compile(
    r"(?i)(?:kennwort|contrase\u00f1a|contrasena|senha|wachtwoord|has\u0142o|[\u0400-\u04ff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]{2,6})"
    r"[\"'`]?\s?(?:[:=\uff1a\uff1d]|\u662f|\u4e3a)\s?(?:[\"'`\u201c](?P<quoted>[^\"'`\\\r\n\u201d]{6,120})|(?P<plain>[!#-&*-+\--:=?-Z^-~]{6,80}))"
)
#: A password straight behind the word, where what stands before or between says that one is handed over.
_HANDING = re.compile(r"(?i)(?:\b(?:with|mit|avec|con|has|hat)|\b(?:login|user|username|connect) \S{1,40})(?: the| dem)? \Z")
_HANDED = re.compile(
    rf"(?i){_TOLD}(?P<of> \u043e\u0442 \w{{1,20}}|(?<=[\u7801\u78bc\u4ee4]))?\s(?P<plain>[^\s\"'`<>(){{}}\[\],;]{{6,80}})"
)
#: Up to the next blank or quote.
_RUN = re.compile(r"[^\s\"'`<>\\|]{10,64}")
_NETRC = re.compile(r"(?i)\bmachine\s+\S+\s+login\s+\S+\s+password\s+(?P<secret>[^\s\"']{3,200})")
_NAMES = re.compile(
    r"(?i)^(?:sha-?\d|md\d|utf|base\d|oauth|argon\d|bcrypt|pbkdf|aes|rsa|hmac|ed25519|v\d|http|(?-i:\d+[-a-z]+|[A-Za-z]?[a-z]+\d?|[A-Z]+\d?)$|\d+$|\S+\.(?:py|js|ts|md|go|rs|txt|json|html|gz|zip|xml|ya?ml)\b)"
)


def _spoken_value(value: str) -> bool:
    """Return whether a word called a password can be one: 6 or more characters, mixed or drawn; no placeholder, name or path."""
    if (
        len(value) < 6
        or is_placeholder(value)
        or is_foreign(value)
        or _NAMES.match(value)
        or ("/" in value and not is_random(value, 32))
        or "](" in value
    ):
        return False
    return is_mixed(value) or is_drawn(value)


@dataclass(frozen=True, slots=True)
class SpokenRule:
    """`the password is X`, in several languages."""

    name: str
    anchors: tuple[str, ...]

    def find(self, text: str, lowered: str) -> Iterator[Span]:
        """Yield places of words called a password ("the password is X") that can be one, in several languages; also in .netrc."""
        for place in _WORD_AT.finditer(lowered):
            # Words of other scripts are written together with these, German ones form compounds.
            before = lowered[place.start() - 1 : place.start()]
            if before.isascii() and before.isalnum() and not place[0].endswith("wort") and place[0].isascii():
                continue
            if match := (_SPOKEN.match(text, place.start()) or _NOTED.match(text, place.start())):
                yield from self._span(match, "plain" if match["quoted"] is None else "quoted")
            elif match := _HANDED.match(text, place.start()):
                before = text[max(0, place.start() - 64) : place.start()]
                told = match["plain"].rstrip(".:!?")
                run = _RUN.match(text, match.start("plain"))
                if (
                    match["of"] is not None
                    or _HANDING.search(before)
                    or is_chosen(told)
                    or is_drawn(told)
                    or is_worded(told)
                    or (run and is_hard(run[0]))
                ):
                    yield from self._span(match, "plain")
        if "machine" in lowered:
            for match in _NETRC.finditer(text):
                if not is_placeholder(match["secret"]):
                    yield Span(match.start("secret"), match.end("secret"), self.name)

    def _span(self, match: re.Match[str], group: str) -> Iterator[Span]:
        """Yield at most one place: of the longer run of characters at a match's `group` if that is a password, else of the group.

        `group` is "plain" or "quoted"; nothing if it cannot be a password.
        """
        value, start = match[group], match.start(group)
        if group == "plain" and (run := _RUN.match(match.string, start)) and len(run[0]) > len(value):
            bare = run[0].rstrip(".:;,")
            if is_hard(bare):
                yield Span(start, start + len(bare), self.name)
                return
        if group == "quoted":
            if _spoken_value(value) or is_phrase(value):
                yield Span(start, match.end(group), self.name)
        elif is_called(match.string, *match.span(group)):
            return
        elif _spoken_value(bare := value.rstrip(".:!?,;)]")):
            # A sign at the end may belong to the password; a full stop hardly does.
            yield Span(start, start + len(value if value[-1] in "!?" else bare), self.name)


_COOKIE = re.compile(
    r"(?i)(?:(?:set-)?cookie2?\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"'`]?|(?:\s-b|--cookie)[ =]\\?[\"'])(?P<pairs>[^\r\n\"'`]{8,4096})"
)
_PAIR = re.compile(r"(?P<name>[A-Za-z_][\w.%-]{0,63})=(?P<value>[^;\s\\]{8,})")
_SESSION = re.compile(r"(?i)sess|sid|token|auth|jwt|csrf|xsrf|remember|login|identity|secret")
_PATHS = re.compile(r"(?i)^(?:path|domain|expires|max-age|samesite|version|comment)$")


@dataclass(frozen=True, slots=True)
class CookieRule:
    """Values of cookies that identify a user."""

    name: str = "cookie"
    anchors: tuple[str, ...] = ("cookie", r"~ -b [\"'][a-z_]")

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield values of cookies, 8 characters or more, that look random or have a digit under a name such as "session"."""
        for line in _COOKIE.finditer(text):
            for match in _PAIR.finditer(text, *line.span("pairs")):
                value = match["value"]
                if _PATHS.match(match["name"]) or is_placeholder(value):
                    continue
                told = _SESSION.search(match["name"]) and any(c.isdigit() for c in value) and "(" not in value
                if told or is_random(value, 20):
                    yield Span(*match.span("value"), self.name)


_LOGIN = re.compile(
    r"(?i)(?:\\?[\"']auth\\?[\"']\s{0,4}:\s{0,4}\\?[\"']|\bauth\s{0,4}[=:]\s{0,4}\"?|_auth\s{0,4}=\s{0,4}\"?|\bbasic\s{1,4})(?P<secret>[A-Za-z0-9+/_-]{8,}={0,2})"
)


_MANIFEST = re.compile(r"(?m)^(?P<deep>[ \t#]*)(?:data|stringData):[ \t]*\n(?P<body>(?:(?P=deep)[ \t]+\S[^\n]*(?:\n|\Z))+)")
_ENTRY = re.compile(r"(?m)^[ \t#]+[\w.-]+:[ \t]+[\"']?(?P<secret>[^\s\"'|>{][^\s\"']{5,})")


@dataclass(frozen=True, slots=True)
class ManifestRule:
    """The values of a Kubernetes secret."""

    name: str = "kubernetes-secret"
    anchors: tuple[str, ...] = ("kind: secret",)

    def find(self, text: str, _lowered: str) -> Iterator[Span]:
        """Yield the values in the data of a Kubernetes secret, at least 6 characters long, placeholders excepted."""
        for block in _MANIFEST.finditer(text):
            for match in _ENTRY.finditer(text, *block.span("body")):
                if not is_placeholder(match["secret"]):
                    yield Span(*match.span("secret"), self.name)


def _mixed(match: re.Match[str]) -> bool:
    """Return whether the value may be a password: letters and digits, or drawn by chance, and no placeholder."""
    value = match["secret"]
    return not is_placeholder(value) and (is_mixed(value) or is_drawn(value))


def _says_password(match: re.Match[str]) -> bool:
    """Return whether the value is base64 of one printable word of at least 8 characters that can be a password."""
    try:
        told = base64.b64decode(match["secret"], validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return False
    return (
        len(told) >= 8
        and told.isprintable()
        and " " not in told
        and (is_mixed(told) or is_drawn(told))
        and not is_placeholder(told)
    )


def _random(match: re.Match[str]) -> bool:
    """Return whether the value, without dots at its end, has 16 or more characters, looks random and is no placeholder."""
    value = match["secret"].rstrip(".")
    return not is_placeholder(value) and is_random(value, 16)


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def _is_wif(match: re.Match[str]) -> bool:
    """Return whether the value's last four bytes are the checksum of the others, as in keys for wallets (Base58Check)."""
    number = 0
    for sign in match["secret"]:
        number = number * 58 + _BASE58.index(sign)
    raw = number.to_bytes(40, "big").lstrip(b"\0")
    return len(raw) in (37, 38) and sha256(sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def _one_word(match: re.Match[str]) -> bool:
    """Return whether the value looks random, is no placeholder, and has no "%0A", "%20", "++", "+%" or "//" in it."""
    value = match["secret"]
    return not any(sign in value for sign in ("%0A", "%20", "++", "+%", "//")) and _random(match)


def _plain(match: re.Match[str]) -> bool:
    """Return whether the value is no placeholder."""
    return not is_placeholder(match["secret"])


def _strong(match: re.Match[str]) -> bool:
    """Return whether the value would count as a secret under the name "password"."""
    return gives_away_plainly("password", match["secret"])


def _strong_or_random(match: re.Match[str]) -> bool:
    """Return whether the value would count as a secret under the name "password", or is base64 of a login."""
    return _strong(match) or is_login(match["secret"])


def _various(match: re.Match[str]) -> bool:
    """Return whether the value has more than 24 different characters, and no blank inside; so it looks drawn by chance."""
    return len(set(match["secret"])) > 24 and " " not in match["secret"].strip()


def _no_words(match: re.Match[str]) -> bool:
    """Return whether none of a password's groups of letters is a word of every day; of drawn groups one in a hundred is one."""
    return not any(group in _FOUR or group.lower() in seed_words() for group in match["secret"].split())


_FOUR = frozenset(
    "this that with from have must will been were when then than they them your also only each such very more most same some what "
    "here does like just into over make sure used uses user pass word text char case long bits byte data file none null true".split()
)


#: Anchors that begin with plain text are looked for at memory speed.
_KEYS = (r"~key(?:(?<=private.key)|(?<=privatekey)|(?<=sharedkey)|(?<=client.key)|(?<=static key))",)
_DOLLARS = (r"~\$(?:2[abxy]|argon2|[1567y]\$|apr1|ansible_vault|production|sandbox|[0-9]{4,7}\$|[a-z0-9]{8,64}\$[0-9a-f]{32})",)
_LOGINS = (r"~://[^\s/@]{0,330}@",)
_LOGIN_CALLS = (
    *("login", "getconnection", "basicauth", "basic_auth", "authenticate", "authentication", "authenticator", "credential"),
    *("credentials", "sign_in", "signin", r"auth\s?="),
)
_HASH = r"(?:[./A-Za-z0-9]{22,}+)"
_Check = Callable[[re.Match[str]], bool] | None
#: Rule, anchors, pattern, check.
_PATTERNS: tuple[tuple[str, tuple[str, ...], str, _Check], ...] = (
    ("login", (r"~auth\\?[\"'=] ?", r"~basic [a-z0-9+/]{8}"), "", lambda m: is_login(m["secret"])),
    ("password-file", (r"~:(?:[0-9]{4,5}|\*):[a-z0-9_*.-]{1,64}:[a-z]",),
     r"(?m)(?:^|(?<=[\s'\"]))[\w.*-]{1,100}:(?:\d{4,5}|\*):[\w*.-]{1,64}:[\w.-]{1,64}:(?P<secret>[^\s:'\"]{4,200})(?=$|[\s'\"])", _mixed),
    ("bitcoin", ("~wif(?![a-z0-9])", "privkey", "bitcoin"), r"(?<![A-Za-z0-9])(?P<secret>[5KL9c][1-9A-HJ-NP-Za-km-z]{50,51})(?![A-Za-z0-9])", _is_wif),
    ("telegram", ("api.telegram.org",), r"api\.telegram\.org/(?:file/)?bot(?P<secret>\d{6,12}:[\w-]{30,40})", None),
    ("private-key-hex", ("accounts",), r"accounts\\?[\"']?\s?:\s?\[\s{0,12}\\?[\"'](?P<secret>(?:0x)?[0-9a-fA-F]{64})(?![0-9a-fA-F])", None),
    ("aws-secret-key", (r"~akia[0-9a-z]{16}\W", r"~asia[0-9a-z]{16}\W"),
     r"\bA[KS]IA[0-9A-Z]{16}(?:\W{1,8}\w{0,24}){1,5}?[\s:=\"'/|,]\s?[\"']?(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])", _random),
    ("salesforce", (r"~00d[a-z0-9]{12,15}!",), r"(?<![A-Za-z0-9])00D[A-Za-z0-9]{12,15}![A-Za-z0-9._]{60,}+", None),
    ("laravel", ("base64:",), r"(?<![a-z])base64:(?P<secret>[A-Za-z0-9+/]{43}=)(?![A-Za-z0-9+/=])", _random),
    ("session", ("sessionid=", "_session="), r"(?i)(?:sessionid|_session)=(?P<secret>[\w.%-]{16,200})", _random),
    ("session", ("sessid=", ".sid="), r"(?i)(?:sessid|\.sid)=(?P<secret>[\w.%-]{16,200})", _mixed),
    ("wireguard", ("wg set",), r"(?P<secret>[A-Za-z0-9+/]{43}=)[\"']?\s{0,2}\|\s{0,2}(?:sudo )?wg set", None),
    ("header", (r"~-h [\"'][a-z0-9-]{2,40}: ?[\w.+/=-]{24}",),
     r"-H\s[\"'](?!(?i:[^:\"']{0,30}(?:request|trace|correlation|if-|etag|span|idempotency)))[A-Za-z0-9-]{2,40}:\s?(?P<secret>[\w.+/=-]{24,400})[\"']", _random),
    ("told-login", tuple(rf"~{word}\s?(?:is |are |ist |sind |[=:])" for word in ("login", "creds", "credentials", "zugangsdaten")),
     r"(?i)\b(?:login|creds|credentials|zugangsdaten)\s?(?:\b(?:is|are|ist|sind)\s|[=:]\s?)[\"'`]?[\w.@-]{1,40}(?:\s/\s|:)"
     r"(?P<secret>[!#-&*-.0-9?-Z^_a-z~]{8,80})", lambda m: _spoken_value(m["secret"].rstrip(".,"))),
    ("identity-number", ("~ssn(?![a-z0-9])", "social security"),
     r"(?i)\b(?:ssn|social[ _-]security(?:[ _-](?:number|no\.?|\#))?)\b\W{1,4}(?:\w{1,6}\W)?(?P<secret>(?!123-45|078-05-1120|(?P<one>\d)(?P=one)+-)\d{3}-\d\d-\d{4})(?![\w-])", None),
    ("openvpn", ("<auth-user-pass>",), r"<auth-user-pass>\s+[^\n]{1,64}\n\s*(?P<secret>\S{4,200})\s+</auth-user-pass>", _plain),
    ("decoded-password", ("base64 -d", "base64 --decode"),
     r"echo\s+(?:-n\s+)?[\"']?(?P<secret>[A-Za-z0-9+/]{8,}={0,2})[\"']?\s*\|\s*base64 (?:-d|--decode|-D)\b", _says_password),
    ("piped-password", ("~pass[pwcde]",), r"echo\s+(?:-n\s+)?[\"']?[\w.-]{1,64}:(?P<secret>[^\s\"'|]{4,200})[\"']?\s*"
     r"\|\s*(?:sudo\s+)?chpasswd", _plain),
    ("piped-password", (r"~\| ?(?:sudo|docker|podman|helm|cryptsetup|nerdctl)",),
     r"(?:echo|printf)\s+(?:-n\s+)?[\"']?(?P<secret>[^\s\"'|$]{4,200})[\"']?\s*\|\s*"
     r"(?:sudo\s+(?:-\w+\s+)*-S|(?:sudo\s+)?[\w./-]+\s[^\n|]{0,120}--password-stdin"
     r"|(?:sudo\s+)?cryptsetup)", _plain),
    ("wifi", ("psk",), r"(?i)\bpsk\s{0,2}=\s{0,2}[\"']?(?P<secret>[^\s\"']{8,64})", _mixed),
    ("wireguard", _KEYS, r"(?i:privatekey|presharedkey)\s{0,4}=\s{0,4}(?P<secret>[A-Za-z0-9+/]{43}=)", None),
    ("kubeconfig", _KEYS, r"client-key-data\\?[\"']?:\s{0,4}\\?[\"']?"
     r"(?P<secret>[A-Za-z0-9+/=]{40,}+)", None),
    ("braintree", _DOLLARS, r"access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}", None),
    ("totp", ("totp", "otpauth:"), r"(?i)(?:otpauth://[^\s\"']{0,200}[?&]secret=|totp (?:secret|key|seed)(?: is|:)? )"
     r"(?P<secret>[A-Za-z2-7]{16,128})", None),
    ("laravel", ("base64:",), r"(?i)key\s{0,2}[:=]\s{0,2}[\"']?base64:(?P<secret>[A-Za-z0-9+/]{43}=)", None),
    ("private-key-hex", _KEYS, r"(?i)private[ _-]?key(?: is|\\?[\"']?\s?[:=])\s{0,3}\\?[\"']?"
     r"(?P<secret>(?:0x)?[0-9a-f]{64})(?![0-9a-f])", _plain),
    ("cloudinary", _LOGINS, r"cloudinary://\d+:(?P<secret>[\w-]{20,})@", None),
    ("password-hash", _DOLLARS, r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}", None),
    ("password-hash", _DOLLARS, r"\$argon2(?:id|i|d)\$(?:v=\d+\$)?"
     r"m=\d+,t=\d+,p=\d+\$[A-Za-z0-9+/]{8,}\$[A-Za-z0-9+/]{16,}+", None),
    ("password-hash", _DOLLARS, rf"\$(?:[156]|apr1|y\$[./A-Za-z0-9]{{3}}|7)\$"
     rf"(?:rounds=\d+\$)?[./A-Za-z0-9]{{1,32}}\${_HASH}", None),
    ("password-hash", _DOLLARS, r"(?:pbkdf2[_:]sha\d+(?::\d+)?|pbkdf2:sha\d+:\d+|scrypt:\d+:\d:\d)\$"
     r"(?:\d+\$)?[^\s$\"']{4,64}\$[A-Za-z0-9+/=]{32,}+", None),
    ("password-hash", ("{ssha",), r"(?i)\{ssha\d*\}[a-z0-9+/]{20,}={0,2}", None),
    ("ansible-vault", _DOLLARS, r"\$ANSIBLE_VAULT;[\d.]+;AES256[^\n]{0,80}\n"
     r"(?P<secret>(?:[ \t]*[0-9a-f]{20,80}(?:\n|\Z))+)", None),
    ("server-password", ("requirepass", "masterauth", "bindpw", "rootpw", "rediscli_auth=", "setapikey ", "vault login "),
     r"\b(?:(?:requirepass|masterauth|setapikey|vault login|bindpw|rootpw)[ \t]+|(?i:REDISCLI_AUTH)=)[\"']?(?P<secret>[^\s\"']{6,200})", _mixed),
    ("windows-password", ("/pass:", "net user", "net use"),
     r"(?i)(?:\bcmdkey\s[^\n]{0,200}?/pass:|\bnet[ ]user[ ]\S{1,64}[ ](?=\S{1,99}[ ]/add)"
     r"|\bnet[ ]use[ ](?:\S{1,99}[ ]){1,2}(?=\S{1,99}[ ]/user))(?P<secret>[^\s\"'/*]\S{3,98})", _plain),
    ("secure-string", ("securestring",),
     r"(?i)ConvertTo-SecureString\s+(?:-(?:String|AsPlainText|Force)\s+){0,3}[\"'](?P<secret>[^\"'$\r\n][^\"'\r\n]{3,200})", _plain),
    ("prompt", ("passphrase for", "password for"),
     r"(?i)\b(?:passphrase|password) for [^\n]{1,120}?: (?P<secret>\S{6,80})", _mixed),
    ("sent-password", (r"~send[ \t-]{1,6}\"",),
     r"(?i)\bsend\s+(?:--\s+)?\"(?=[^\"\\\n]{0,60}\d)(?=[^\"\\\n]{0,60}[a-z])(?P<secret>[^\s\"\\\n]{6,100})\\[rn]", _plain),
    ("login-call", tuple(rf"~{word}\s{{0,2}}\(\s{{0,8}}(?:[\w.]{{1,40}},\s{{0,8}})?[\"']" for word in _LOGIN_CALLS),
     rf"(?i)(?:{'|'.join(_LOGIN_CALLS)})\s{{0,2}}\("
     r"\s{0,8}(?:[\w.]{1,40},\s{0,8})?[\"'][^\"'\n]{1,80}[\"']\s{0,2},\s{0,8}[\"'](?P<secret>[^\"'\\\s]{6,120})[\"']", _strong),
    ("sql-password", ("identified by", "identified with", r"~password(?:[ =\n]{1,3}password)?[ \n(]{1,4}[\"']"),
     r"(?i)\b(?:identified\s+(?:with\s+\S{1,64}\s+)?by(?:\s+password)?|password(?:\s?=\s?password)?)[\s(]{1,4}"
     r"[\"'](?P<secret>[^\"'\s]{6,120})[\"']", _mixed),
    ("erlang-cookie", ("-setcookie", "erlang-cookie", "erlang_cookie", "release_cookie"),
     r"(?i)(?:-setcookie|erlang[_-]cookie|release_cookie)[ =]{1,3}[\"']?(?P<secret>[A-Za-z0-9_-]{12,})", _plain),
    ("bootstrap-token", (r"~token(?:[\"' =:]{1,4}| create )[a-z0-9]{6}\.[a-z0-9]{16}",),
     r"(?i:token)(?:\s+create\s+|\\?[\"']?[ =:]{1,3})[\"']?(?P<secret>[a-z0-9]{6}\.[a-z0-9]{16})(?![\w.])", _mixed),
    ("facebook", ("access_token",), r"access_token=(?P<secret>\d{12,17}\|[\w-]{20,})", None),
    ("signature", ("signature=", "x-amz-security-token="),
     r"(?i)(?:\bsignature=|x-amz-security-token=)(?P<secret>[A-Za-z0-9%/+]{40,}+)", _random),
    ("request-key", ("appid=", "hmac=", "code=", "subscription-key=", "?key=", "&key=", "jwt=", "auth="),
     r"(?i)[?&](?:appid|hmac|code|subscription-key|key|jwt|auth)=(?P<secret>[A-Za-z0-9%_+/=-]{24,}+)", _one_word),
    # An address that lets in whoever knows it.
    ("address-token", (r"~://[^\s\"'<>]{0,200}(?:mcp|hook)",),
     r"://(?=[^\s\"'<>?#]{0,200}(?:mcp|hook))[^\s\"'<>?#]{1,200}/(?P<secret>(?![0-9a-f]{8}-[0-9a-f]{4}-)[A-Za-z0-9_-]{32,}+)(?=[/?#\"'`\s),]|$)", _strong_or_random),
    ("piped-password", ("<(",), r"<\(\s{0,2}(?:echo|printf)\s+(?:-n\s+)?[\"']?(?P<secret>[^\s\"'|$()]{16,400})[\"']?\s{0,2}\)", _strong_or_random),
    ("user-password", ("root:", "admin:", "administrator:", "ubuntu:", "deploy:", "postgres:"),
     r"(?im)(?:^[\s#>-]{0,12}|(?:is|login|creds|credentials|as)[ ]{1,2})(?:root|admin(?:istrator)?|ubuntu|deploy|postgres):(?P<secret>[^\s\"'`<>/:]{8,64})$", _strong),
    ("oracle", ("jdbc:oracle",), r"(?i)jdbc:oracle:\w+:[\w.-]{1,64}/(?P<secret>[^\s@\"'/]{4,64})@", _plain),
    ("oracle", ("sqlplus", "expdp", "impdp", "sqlldr"),
     r"(?i)\b(?:sqlplus|expdp|impdp|sqlldr)\s+(?:-\w\s+)?[\"']?[\w.-]{1,64}/(?P<secret>[^\s@\"'/]{4,64})(?=@|[\s\"']|$)", _mixed),
    ("wifi", ("wifi:",), r"WIFI:[^\s\"']{0,120}?;P:(?P<secret>[^;\s]{8,63});", None),
    ("wordpress-salt", ("define(",),
     r"define\(\s{0,4}['\"]\w{4,20}_(?:KEY|SALT)['\"]\s{0,4},\s{0,24}['\"](?P<secret>[^'\"\n]{40,100})['\"]", _various),
    ("telegram", ("api_hash", "api hash"),
     r"(?i)api[_ ]hash\\?[\"']?(?:\s{0,3}[:=,|]\s{0,3}| is | )\\?[\"'`]?(?P<secret>[0-9a-f]{32})(?![0-9a-f])", None),
    ("app-password", ("passw", "_pass"),
     r"(?i:pass(?:w(?:or)?d)?)\w{0,20}\\?[\"']?\s{0,3}(?:[:=,]|is|->)\s{0,3}\\?[\"']?"
     r"(?P<secret>(?:[a-z]{4}[ ]){3}[a-z]{4}|(?:[A-Za-z0-9]{4}[ ]){5}[A-Za-z0-9]{4})(?![A-Za-z0-9]| [a-z])", _no_words),
    ("app-password", ("-u ", "--user "), r"(?:-u|--user) [\"'][^\s:\"']{1,64}:(?P<secret>(?:[A-Za-z0-9]{4}[ ]){3,5}[A-Za-z0-9]{4})[\"']", None),
    ("auth", (r"~_auth\\?[\"']?[ ]?[=:]", r"~_auth[ ][a-z0-9]"),
     r"(?i)_auth(?:\\?[\"']?\s{0,2}[=:]\s{0,2}|\s)[\"']?(?P<secret>[A-Za-z0-9+/=_.~!@#$%^&*-]{8,200})", _strong_or_random),
    ("openvpn", _KEYS, r"-----BEGIN OpenVPN Static key V1-----\s+(?P<secret>(?:[ \t>+|-]*[0-9a-f]{16,64}\s*)+)", None),
)  # fmt: skip
_OWN_PATTERNS = {"login": _LOGIN}

CONTEXT_RULES: tuple[Rule, ...] = (
    CookieRule(),
    ManifestRule(),
    SpokenRule(
        "told-password",
        (
            *("~pass[pwcde]", "pwd", "pw: ", "auth is ", "~pass (?:for \\S{1,20} )?is ", "kennwort"),
            *("contrase", "clave", "senha", "wachtwoord", "has\u0142o"),
            *("\u043f\u0430\u0440\u043e\u043b\u044c", "\u5bc6\u7801", "\u5bc6\u78bc", "\u53e3\u4ee4"),
            *("\u30d1\u30b9\u30ef\u30fc\u30c9", "\ube44\ubc00\ubc88\ud638"),
        ),
    ),
    CommandRule(),
    *(
        PatternRule(name, anchors, _OWN_PATTERNS.get(name) or re.compile(pattern), check)
        for name, anchors, pattern, check in _PATTERNS
    ),
)
