"""Makers of secrets that have no format of their own: passwords, passphrases, key blocks, card numbers, seed phrases."""

import base64
import random
import string
from collections.abc import Callable
from importlib.resources import files

#: The English list of BIP-39, a public standard.
SEED_WORDS = (files("memory_mcp.redact") / "seed_words.txt").read_text(encoding="utf-8").split()

_WORDS = (
    "harbour copper window silent garden orange rocket marble winter forest candle bridge purple anchor velvet thunder "
    "meadow falcon pepper canyon lantern dragon summer blanket turtle saddle"
).split()
_LETTERS = string.ascii_letters + string.digits


def password(dice: random.Random, signs: str = "!?.+-_") -> str:
    """What people and their password managers think of; never without a digit or a sign."""
    word, other = dice.sample(_WORDS, 2)
    style = dice.randrange(5)
    if style == 0:
        return word.capitalize() + str(dice.randrange(10, 10_000)) + dice.choice(signs)
    if style == 1:
        return f"{word}{dice.choice(signs)}{other}{dice.randrange(10, 100)}"
    if style == 2:
        return "".join(dice.choices(_LETTERS, k=dice.randint(9, 20))) + str(dice.randrange(10))
    if style == 3:
        return f"{word[:3].capitalize()}{dice.choice(signs)}{dice.randrange(1000, 10_000)}{other[:4]}"
    return word.replace("o", "0").replace("e", "3").replace("a", "4") + str(dice.randrange(100, 1000))


def signs(dice: random.Random) -> str:
    """A password with what ends one in an address: @ and #."""
    value = password(dice)
    at = dice.randint(2, len(value) - 2)
    return value[:at] + dice.choice("@#") + value[at:]


def phrase(dice: random.Random) -> str:
    """Three to six words with spaces between."""
    return " ".join(dice.sample(_WORDS, dice.randint(3, 6)))


def login(dice: random.Random) -> str:
    """user:password in base64."""
    return base64.b64encode(f"{dice.choice(_WORDS)}:{password(dice)}".encode()).decode()


def _lines(dice: random.Random, count: int, width: int = 64) -> list[str]:
    return ["".join(dice.choices(_LETTERS + "+/", k=width)) for _ in range(count)]


def pem(kind: str) -> Callable[[random.Random], str]:
    """A key block: the frame is public, its lines are not."""
    begin = f"-----BEGIN {kind}PRIV" + "ATE KEY-----\n|"
    return lambda dice: begin + "\n".join([*_lines(dice, dice.randint(3, 25)), *_lines(dice, 1, dice.randint(20, 60))]) + "=="


def _body(dice: random.Random) -> list[str]:
    return _lines(dice, dice.randint(4, 20))


_BEGIN = "-----BEGIN RSA PRIV" + "ATE KEY-----"


def _escaped(dice: random.Random) -> str:
    return f"-----BEGIN PRIV{''}ATE KEY-----\\n|" + "\\n".join(_body(dice)) + "\\n"


def _code(dice: random.Random) -> str:
    return f"    '{_BEGIN}\\n'\n|" + "\n".join(f"    '{line}\\n'" for line in _body(dice))


def _quoted(dice: random.Random) -> str:
    sign = dice.choice(("> ", "+", "- ", "  | "))
    return f"{sign}{_BEGIN}\n|" + "\n".join(sign + line for line in _body(dice))


def _tail(dice: random.Random) -> str:
    return "\n".join(_body(dice))


def _pgp(dice: random.Random) -> str:
    begin = "-----BEGIN PGP PRIV" + "ATE KEY BLOCK-----"
    return f"{begin}\nVersion: GnuPG v2\n\n|" + "\n".join(_body(dice)) + "\n=aB3d\n"


def _ppk(dice: random.Random) -> str:
    head = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: key\nPublic-Lines: 1\nAAAAC3Nza\nPrivate-Lines: 3\n|"
    return head + "\n".join(_lines(dice, 3))


def _openvpn(dice: random.Random) -> str:
    begin = "-----BEGIN OpenVPN Static key V1-----"
    return f"{begin}\n|" + "\n".join("".join(dice.choices("0123456789abcdef", k=32)) for _ in range(16))


def _ansible(dice: random.Random) -> str:
    return "$ANSIBLE_VAULT;1.1;AES256\n|" + "\n".join("".join(dice.choices("0123456789", k=80)) for _ in range(5))


def card(dice: random.Random) -> str:
    """A number of 15 or 16 digits with its check digit, whole or in groups."""
    prefix = dice.choice(("4", "51", "54", "37", "6011"))
    length = 15 if prefix == "37" else 16
    digits = prefix + "".join(dice.choices(string.digits, k=length - 1 - len(prefix)))
    double = sum(sum(divmod(2 * int(d), 10)) for d in reversed(digits[::-1][::2]))
    digits += str(-(double + sum(map(int, digits[::-1][1::2]))) % 10)
    groups = [digits[:4], digits[4:10], digits[10:]] if length == 15 else [digits[n : n + 4] for n in range(0, 16, 4)]
    return dice.choice(("", " ", "-")).join(groups)


def seed(words: int) -> Callable[[random.Random], str]:
    """A run of BIP-39 words."""
    return lambda dice: " ".join(dice.choices(SEED_WORDS, k=words))


def _codes(dice: random.Random) -> str:
    return "\n".join("-".join("".join(dice.choices("0123456789abcdef", k=5)) for _ in "ab") for _ in range(10))


def _google(dice: random.Random) -> str:
    return "\n".join(f"{dice.randrange(1000, 10_000)} {dice.randrange(1000, 10_000)}" for _ in range(10))


def _jwt(dice: random.Random) -> str:
    def run(length: int) -> str:
        return "".join(dice.choices(_LETTERS + "-_", k=length))

    return f"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.|eyJ{run(dice.randint(40, 200))}.{run(43)}"


MADE: dict[str, Callable[[random.Random], str]] = {
    "pw": password,
    "pw-plain": password,
    "pw-shell": lambda dice: password(dice, "._-+"),
    "pw-signs": signs,
    "phrase": phrase,
    "base64login": login,
    "base64pw": lambda dice: base64.b64encode(password(dice).encode()).decode(),
    "kube64": lambda dice: base64.b64encode(password(dice).encode()).decode(),
    **{f"pem {kind}": pem(f"{kind} ") for kind in ("RSA", "EC", "OPENSSH")},
    "pem": pem(""),
    "pem-escaped": _escaped,
    "pem-code": _code,
    "pem-quoted": _quoted,
    "pem-tail": _tail,
    "pgp": _pgp,
    "ppk": _ppk,
    "openvpn": _openvpn,
    "ansible": _ansible,
    "card": card,
    "seed12": seed(12),
    "seed24": seed(24),
    "codes-github": _codes,
    "codes-google": _google,
    "jwt": _jwt,
}
