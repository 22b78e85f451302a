"""An OpenID provider on loopback: discovery, signing keys that rotate, and tokens of every kind, right and forged."""

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "https://memory.example/mcp"
Private = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Signer:
    """A key pair with the id and algorithm under which it is published."""

    kid: str
    algorithm: str
    private: Private

    def public(self) -> dict[str, Any]:
        """As the provider publishes it."""
        key: Any = self.private.public_key()
        kinds: dict[str, type[RSAAlgorithm | ECAlgorithm | OKPAlgorithm]] = {"ES": ECAlgorithm, "Ed": OKPAlgorithm}
        made = kinds.get(self.algorithm[:2], RSAAlgorithm).to_jwk(key)
        return {**json.loads(made), "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def pem(self) -> bytes:
        """The public key as a text that everybody can have."""
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def signer(kid: str, algorithm: str = "RS256") -> Signer:
    """Make a new key pair."""
    if algorithm == "ES256":
        return Signer(kid, algorithm, ec.generate_private_key(ec.SECP256R1()))
    if algorithm == "EdDSA":
        return Signer(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    return Signer(kid, algorithm, rsa.generate_private_key(public_exponent=65537, key_size=2048))


class Provider:
    """One provider; what it publishes can be changed while it runs."""

    def __init__(self, *signers: Signer) -> None:
        self.signers = list(signers)
        self.more: list[dict[str, Any]] = []
        #: What discovery says instead of the truth.
        self.told: dict[str, Any] = {}
        self.status = 200
        self.body: bytes | None = None
        #: Paths that were asked for, in order.
        self.asked: list[str] = []
        #: Answers wait for it; set unless a test holds them back.
        self.go = threading.Event()
        self.go.set()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked.append(self.path)
                provider.go.wait(60)
                body = provider.body if provider.body is not None else json.dumps(provider.answer(self.path)).encode()
                self.send_response(provider.status)
                if provider.status == 302:
                    self.send_header("Location", f"{provider.issuer}/.well-known/openid-configuration")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def answer(self, path: str) -> Mapping[str, Any]:
        """What is at a path."""
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **self.told}
        return {"keys": [*(one.public() for one in self.signers), *self.more]}

    @property
    def fetches(self) -> int:
        """How often the keys were asked for."""
        return self.asked.count("/keys")

    def stop(self) -> None:
        """Be down from now on."""
        self.go.set()
        self._server.shutdown()
        self._server.server_close()

    def claims(self, **changed: Any) -> dict[str, Any]:
        """What a good token says; None takes a claim out."""
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "aud": AUDIENCE,
            "sub": "ada",
            "org": "acme",
            "scope": "openid memory:write",
            "iat": now,
            "exp": now + 600,
            "name": "Ada",
        } | changed
        return {key: value for key, value in claims.items() if value is not None}

    def token(self, by: Signer | None = None, headers: Mapping[str, Any] | None = None, **changed: Any) -> str:
        """Return a signed token."""
        by = by or self.signers[0]
        return jwt.encode(self.claims(**changed), by.private, by.algorithm, headers={"kid": by.kid, **(headers or {})})

    def signed(self, claims: Mapping[str, Any], headers: Mapping[str, Any] | None = None) -> str:
        """Return a token whose signature is right, whatever it says."""
        by = self.signers[0]
        return jwt.PyJWS().encode(json.dumps(claims).encode(), by.private, by.algorithm, headers=dict(headers or {"kid": by.kid}))


def raw_token(header: Mapping[str, Any], claims: Mapping[str, Any], secret: bytes | None = None) -> str:
    """Return a token that no library would make: unsigned, or signed by HMAC with any secret."""
    signed = b".".join(_part(json.dumps(one).encode()) for one in (header, claims))
    signature = b"" if secret is None else hmac.new(secret, signed, hashlib.sha256).digest()
    return (signed + b"." + _part(signature)).decode()


def _part(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
