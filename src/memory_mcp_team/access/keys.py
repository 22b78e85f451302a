"""API keys as texts: `mmk_<tenant>_<key id>_<secret>`, made at random and checked against a hash.

The hash is SHA-256, not a slow one such as scrypt: those make guessing of passwords expensive, and a secret of 256
random bits cannot be guessed at any speed, while a slow hash would cost every call tens of milliseconds.
"""

import hashlib
import hmac
import re
import secrets

from memory_mcp.base.dataclass import dataclass

_SHAPE = re.compile(r"mmk_([1-9][0-9]{0,17})_([0-9a-f]{16})_([0-9a-f]{64})", re.ASCII)
#: What a missing key's secret is compared with, so that it takes as long as one that is there.
_MISSING_HASH = hashlib.sha256(b"").digest()


@dataclass(frozen=True, slots=True)
class KeyText:
    """The parts of a key."""

    #: Named in the text so that the lookup can be bound to it; only the secret proves it.
    tenant: int
    key_id: str
    secret: str

    def __str__(self) -> str:
        return f"mmk_{self.tenant}_{self.key_id}_{self.secret}"

    def __repr__(self) -> str:
        """Return the key without its secret, which must not get into logs."""
        return f"KeyText({self.tenant}, {self.key_id!r})"

    @property
    def hash(self) -> bytes:
        """The hash of the secret as it is stored, 32 bytes."""
        return hashlib.sha256(self.secret.encode()).digest()

    def proves(self, stored: bytes | None) -> bool:
        """Return whether the secret has the stored hash, in constant time."""
        same = hmac.compare_digest(self.hash, _MISSING_HASH if stored is None else stored)
        return same and stored is not None


def make_key(tenant: int) -> KeyText:
    """Return a new random key of a tenant; nothing is stored."""
    return KeyText(tenant, secrets.token_hex(8), secrets.token_hex(32))


def parse_key(text: str) -> KeyText | None:
    """Return the unproven parts of a key, or None."""
    match = _SHAPE.fullmatch(text)
    return KeyText(int(match[1]), match[2], match[3]) if match else None


def is_key(text: str) -> bool:
    """Return whether a bearer token is a key."""
    return text.startswith("mmk_")
