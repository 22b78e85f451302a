"""What values of secrets look like: makers, each of which draws one value and says which parts of it must be gone."""

import base64
import hashlib
import json
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
LOW = string.ascii_lowercase + string.digits
UP = string.ascii_uppercase + string.digits
URLSAFE = ALNUM + "-_"
B32 = string.ascii_uppercase + "234567"
B58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
BECH = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
R = random.Random
Value = tuple[str, list[str]]  # text as pasted, parts that must be gone
Maker = Callable[[R], Value]


def pick(r: R, chars: str, n: int) -> str:
    return "".join(r.choice(chars) for _ in range(n))


def b64(r: R, n: int) -> str:
    return base64.b64encode(r.randbytes(n)).decode()


def b64u(r: R, n: int) -> str:
    return base64.urlsafe_b64encode(r.randbytes(n)).decode().rstrip("=")


def b64uj(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def uuid(r: R) -> str:
    h = pick(r, "0123456789abcdef", 32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


def p(prefix: str, chars: str, n: int, suffix: str = "") -> Maker:
    def make(r: R) -> Value:
        body = pick(r, chars, n)
        return prefix + body + suffix, [body]

    return make


def f(make: Callable[[R], str]) -> Maker:
    def inner(r: R) -> Value:
        text = make(r)
        return text, [text]

    return inner


HEX = "0123456789abcdef"
WORDS = (
    "sommer winter dragon copper falcon marble orbit pepper rocket saffron timber velvet walnut zephyr "
    "anchor bramble cobalt dahlia ember fjord granite harbor indigo juniper kestrel lantern meadow nectar"
).split()


def pw(r: R) -> str:
    """A password as people and managers make them; URL-safe."""
    shape = r.randrange(4)
    if shape == 0:
        return r.choice(WORDS).capitalize() + str(r.randrange(10, 9999)) + r.choice("!$*_")
    if shape == 1:
        return pick(r, ALNUM, r.randrange(12, 21))
    if shape == 2:
        return "-".join(r.sample(WORDS, 3)) + str(r.randrange(10, 99))
    return pick(r, ALNUM, 6) + r.choice("!$*_~") + pick(r, ALNUM, 6) + r.choice("!$*_~")


def pws(r: R) -> str:
    """A generated password with harder signs."""
    body = pick(r, ALNUM + "!#%^*()_+=.,~", r.randrange(14, 22))
    return r.choice(ALNUM) + body + r.choice(ALNUM)


def url(scheme: str, users: str, host: str, tail: str) -> Maker:
    def make(r: R) -> Value:
        word = pw(r)
        return f"{scheme}://{r.choice(users.split(','))}:{word}@{host}{tail}", [word]

    return make


def pem(label: str, size: int) -> Maker:
    def make(r: R) -> Value:
        raw = b64(r, size)
        lines = [raw[i : i + 64] for i in range(0, len(raw), 64)]
        return f"-----BEGIN {label}-----\n" + "\n".join(lines) + f"\n-----END {label}-----", lines

    return make


def pgp(r: R) -> Value:
    raw = b64(r, 900)
    lines = [raw[i : i + 64] for i in range(0, len(raw), 64)]
    body = "\n".join(lines)
    return f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{body}\n={b64(r, 3)}\n-----END PGP PRIVATE KEY BLOCK-----", lines


def ppk(r: R) -> Value:
    raw = b64(r, 300)
    lines = [raw[i : i + 64] for i in range(0, len(raw), 64)]
    head = "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nComment: eddsa-key\n"
    return head + f"Private-Lines: {len(lines)}\n" + "\n".join(lines) + f"\nPrivate-MAC: {pick(r, HEX, 64)}", lines


def jwt(r: R) -> Value:
    head = b64uj({"alg": r.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = b64uj({"sub": str(r.randrange(10**9)), "iat": r.randrange(10**9), "role": r.choice(["anon", "service_role"])})
    sign = b64u(r, r.choice([32, 64, 256]))
    return f"{head}.{body}.{sign}", [sign]


def jwe(r: R) -> Value:
    parts = [b64u(r, 256), b64u(r, 12), b64u(r, 120), b64u(r, 16)]
    return b64uj({"alg": "RSA-OAEP", "enc": "A256GCM"}) + "." + ".".join(parts), [parts[0], parts[2]]


def basic(r: R) -> Value:
    text = base64.b64encode(f"{r.choice(['admin', 'deploy', 'svc-ci', 'jane'])}:{pw(r)}".encode()).decode()
    return text, [text]


def secret_in(before: str, maker: Callable[[R], str], after: str = "") -> Maker:
    """Text round a secret where only the secret must go."""

    def make(r: R) -> Value:
        word = maker(r)
        return before + word + after, [word]

    return make


def bcrypt(r: R) -> str:
    return f"${r.choice(['2a', '2b', '2y'])}${r.randrange(10, 14)}$" + pick(r, ALNUM + "./", 53)


def seed_words(n: int) -> Maker:
    bip = (
        "abandon ability able about above absent absorb abstract absurd abuse access accident account accuse achieve acid "
        "acoustic acquire across act action actor actress actual adapt add addict address adjust admit adult advance bacon "
        "badge bag balance balcony ball bamboo banana banner bar barely bargain barrel base basic basket battle beach bean "
        "cactus cage cake call calm camera camp can canal cancel candy cannon canoe canvas canyon capable capital captain "
        "dawn day deal debate debris decade december decide decline decorate decrease deer defense define defy degree delay "
        "eager eagle early earn earth easily east easy echo ecology economy edge edit educate effort egg eight either elbow "
        "olive olympic omit once one onion online only open opera opinion oppose option orange orbit orchard order ordinary "
        "zebra zero zone zoo youth young yellow year wrong write wrist wrestle wreck wrap worth world word woman wolf"
    ).split()

    def make(r: R) -> Value:
        text = " ".join(r.choice(bip) for _ in range(n))
        return text, [text]

    return make


def card(r: R) -> str:
    digits = r.choice(["4", "51", "37", "6011"])
    size = 15 if digits == "37" else 16
    digits += pick(r, string.digits, size - len(digits) - 1)
    total = 0
    for at, sign in enumerate(reversed(digits)):
        number = int(sign) * (2 if at % 2 == 0 else 1)
        total += number - 9 if number > 9 else number
    digits += str(-total % 10)
    if size == 16 and r.random() < 0.6:
        return r.choice([" ", "-"]).join(digits[i : i + 4] for i in range(0, 16, 4))
    return digits


def iban(r: R) -> str:
    body = pick(r, string.digits, 18)
    number = int(body + "131400")
    text = f"DE{98 - number % 97:02d}{body}"
    return text if r.random() < 0.5 else " ".join(text[i : i + 4] for i in range(0, 22, 4))


def recovery(r: R) -> Value:
    codes = [f"{pick(r, LOW, 5)}-{pick(r, LOW, 5)}" for _ in range(6)]
    return "\n".join(codes), codes


def docker_auth(r: R) -> Value:
    return basic(r)


def wif(r: R) -> str:
    payload = b"\x80" + r.randbytes(32) + b"\x01"
    payload += hashlib.sha256(hashlib.sha256(payload).digest()).digest()[:4]
    number, out = int.from_bytes(payload, "big"), ""
    while number:
        number, rest = divmod(number, 58)
        out = B58[rest] + out
    return out


def vault_text(r: R) -> Value:
    lines = [pick(r, "3456", 1) + pick(r, HEX, 79) for _ in range(5)]
    return "$ANSIBLE_VAULT;1.1;AES256\n" + "\n".join(lines), lines


def aws_pair(r: R) -> Value:
    key, word = "AKIA" + pick(r, B32, 16), b64(r, 30)
    return f"{key} / {word}", [word]


def parts(*pieces: str | Callable[[R], str]) -> Maker:
    """Fixed text and made pieces; every made piece of 8 signs or more must go."""

    def make(r: R) -> Value:
        out, gone = "", []
        for piece in pieces:
            word = piece if isinstance(piece, str) else piece(r)
            out += word
            if not isinstance(piece, str) and len(word) >= 8:
                gone.append(word)
        return out, gone

    return make


def g(chars: str, n: int) -> Callable[[R], str]:
    return lambda r: pick(r, chars, n)
