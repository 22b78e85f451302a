# ruff: noqa: E501 - a long pattern goes on in the next line
"""Decide whether a name is that of a secret, and whether a value is one under its name or by itself."""

import base64
import binascii
from functools import cache
from hashlib import sha256
from importlib.resources import files

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.redact.secret_values import (
    is_chosen,
    is_dotted,
    is_drawn,
    is_foreign,
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

NAME = r"(?i:pass(?!port)(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|key|pat(?![A-Za-z])|pw(?![A-Za-z])|kennwort)"
NAME_END = r"(?:s?(?:[_-][A-Za-z0-9_-]{0,40}+|[A-Z0-9][A-Za-z0-9_]{0,40}+)?)"
#: What makes a key a secret one; a key alone, a primary or a public key is none.
_KEY_OF = lazy_pattern(
    r"(?:(?i:api|access|auth|private|priv|pvt|account|encryption|encrypt|signing|master|service|shared|secret|deploy"
    r"|license|functions?|app|admin|server|pre-?shared)[ _.-]?"
    r"|(?<!PUBLIC)(?<=[A-Z0-9])_)\Z"
)
_PASSWORDS = ("password", "passwd", "passphrase", "passcode")
#: Capitals before PASS with which it is another word.
_OTHER_PASS = ("BY", "COM", "TRES", "SUR", "EN", "OVER", "UNDER", "MULTI")
_BLANK = ("", " ", "\n", "\t", "=", ":", '"', "'", "(", ",", ".")
#: Tokens that only say where a list goes on or which request it was; names of types and resources.
_OTHER_TOKEN = lazy_pattern(
    r"(?i:next|page|pagination|continuation|change|request|idempotency|sequence|sync|cancel|cancellation|start|starting|resume|lock|(?<!trans)action)[_-]?\Z"
)
_TYPE_OR_RESOURCE = lazy_pattern(r"::[A-Za-z]{0,15}\Z|\d:\Z")
#: Names with these ends describe a secret and do not hold one.
_HARMLESS_END = lazy_pattern(
    r"(?:[_-]|(?<=[a-z]))(?i:urls?|uris?|endpoint|names?|ids?|types?|paths?|files?|dir|counts?|limit|length|len|size|expiry"
    r"|expires?|expiration|ttl|age|lifetime|at|in|headers?|fields?|label|hint|prompt|policy|env|vars?|regex|pattern"
    r"|placeholder|message|errors?|status|budget|usage|used|index|position|format|strategy|manager|provider|store|refs?"
    r"|versions?|enabled|required|input|estimate|factor|algo|algorithm|method|mode|scheme|rounds|iterations|strength|class|func|handler|callback|rules?|scopes?|changed|match(?:es)?|uuid|function)$"
)
_PASSWORD_NAME = lazy_pattern(r"(?i)pass|pwd|^pw|kennwort")
_SECRET_NAME = lazy_pattern(r"(?i)secret")
_CHOSEN_NAME = lazy_pattern(r"(?i)pass|pwd|^pw|kennwort|secret")
_OWN_SIGN = lazy_pattern(r"\d\W*_?$")
_IDENTIFIER = lazy_pattern(r"^\w+$")
#: Names in code end in one digit if in any; a password of two words and a dot ends in a number.
_TWO_DIGITS = lazy_pattern(r"^[^._]*\.[^._]*\d\d$")
_NAME_OR_FILE = lazy_pattern(
    r"(?i)^(?:sha-?\d|md\d|utf|base\d|oauth|argon\d|bcrypt|pbkdf|aes|rsa|hmac|ed25519|v\d|http|(?-i:\d+[-a-z]+|[A-Za-z]?[a-z]+\d?|[A-Z]+\d?)$|\d+$|\S+\.(?:py|js|ts|md|go|rs|txt|json|html|gz|zip|xml|ya?ml)\b)"
)
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_FOUR_LETTERS = frozenset(
    "this that with from have must will been were when then than they them your also only each such very more most same some what "
    "here does like just into over make sure used uses user pass word text char case long bits byte data file none null true".split()
)


def names_secret(name: str, prefix: str) -> bool:
    """Return whether a lower-case name after `prefix` is a secret's.

    A key must be of something, `pass` part of a name.
    """
    if _TYPE_OR_RESOURCE.search(prefix) or (name.startswith("token") and _OTHER_TOKEN.search(prefix)):
        return False
    if name.startswith("key"):
        return prefix[-1:] not in _BLANK and _KEY_OF.search(prefix) is not None
    if name.startswith("pw") and not name.startswith("pwd"):
        return prefix[-1:] in ("_", "-")
    if name.startswith("pat"):
        return prefix[-1:] == "_" or prefix[-1:].islower()
    if name.startswith("pass") and not name.startswith(_PASSWORDS):
        if prefix[-1:].isupper():
            return not prefix.endswith(_OTHER_PASS)
        return prefix.endswith(("_", "-")) or (prefix.endswith(('"', "'")) and name[4:5] in ('"', "'", "\\"))
    return not prefix.lower().endswith(("publickey", "public_key", "public-key"))


def names_password(key: str) -> bool:
    """Return whether a secret's name is that of a password."""
    return _PASSWORD_NAME.search(key) is not None and not _HARMLESS_END.search(key)


def is_assigned_secret(key: str, operator: str, value: str, quoted: bool) -> bool:
    """Return whether a value assigned to a secret's name is one.

    Not if the name describes a secret (`token_url`), or the value is a name.
    """
    value = value.strip()
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
        return not quoted and operator == "=" and key.isupper()
    if quoted or is_mixed(value) or is_drawn(value):
        return True
    return operator == "=" and (key.isupper() or not _IDENTIFIER.match(value))


def is_secret_of(key: str, value: str, paired: bool = False) -> bool:
    """Return whether a value under a loose key is a secret.

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


# what the value of a pattern has to be


def is_real(value: str) -> bool:
    """Return whether a value is no placeholder."""
    return not is_placeholder(value)


def is_mixed_password(value: str) -> bool:
    """Return whether a value has letters and digits and is real."""
    return not is_placeholder(value) and is_mixed(value)


def may_be_password(value: str) -> bool:
    """Return whether a value is mixed or drawn, and real."""
    return not is_placeholder(value) and (is_mixed(value) or is_drawn(value))


def looks_like_password(value: str) -> bool:
    """Return whether a value is a secret under the name "password"."""
    return is_secret_of("password", value)


def is_password_or_login(value: str) -> bool:
    """Return whether a value is a password or an encoded login."""
    return looks_like_password(value) or is_login(value)


def is_key(value: str) -> bool:
    """Return whether a value looks random without dots at its end."""
    value = value.rstrip(".")
    return not is_placeholder(value) and is_random(value, 16)


def is_request_key(value: str) -> bool:
    """Return whether a parameter of an address is a key."""
    return not any(sign in value for sign in ("%0A", "%20", "++", "+%", "//")) and is_key(value)


def is_user_token(value: str) -> bool:
    """Return whether a user name is a random token."""
    return not is_placeholder(value) and is_random(value, 20)


def is_credential(value: str) -> bool:
    """Return whether the value of an authorization header is a credential."""
    if is_placeholder(value) or (login_in(value) and not is_login(value)):
        return False
    return is_random(value) or (value.endswith("=") and len(value) >= 8) or is_chosen(value) or is_worded(value)


def is_spoken_password(value: str) -> bool:
    """Return whether a word called a password can be one."""
    if (
        len(value) < 6
        or is_placeholder(value)
        or is_foreign(value)
        or _NAME_OR_FILE.match(value)
        or ("/" in value and not is_random(value, 32))
        or "](" in value
    ):
        return False
    return is_mixed(value) or is_drawn(value)


def is_spoken_login(value: str) -> bool:
    """Return whether the password of a spoken login can be one."""
    return is_spoken_password(value.rstrip(".,"))


def encodes_password(value: str) -> bool:
    """Return whether base64 decodes to a possible password."""
    try:
        decoded = base64.b64decode(value, validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return False
    return len(decoded) >= 8 and decoded.isprintable() and " " not in decoded and may_be_password(decoded)


def is_salt(value: str) -> bool:
    """Return whether a value has more different characters than text."""
    return len(set(value)) > 24 and " " not in value.strip()


def is_wallet_key(value: str) -> bool:
    """Return whether a value's last four bytes check the others (Base58Check)."""
    number = 0
    for sign in value:
        number = number * 58 + _BASE58.index(sign)
    raw = number.to_bytes(40, "big").lstrip(b"\0")
    return len(raw) in (37, 38) and sha256(sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def is_app_password(value: str) -> bool:
    """Return whether a password's groups are no words.

    Of drawn groups one in a hundred is one.
    """
    return not any(group in _FOUR_LETTERS or group.lower() in seed_words() for group in value.split())


@cache
def seed_words() -> frozenset[str]:
    """Return the words of BIP-39, from which wallets draw their phrases."""
    return frozenset((files("memory_mcp.redact") / "seed_words.txt").read_text(encoding="utf-8").split())
