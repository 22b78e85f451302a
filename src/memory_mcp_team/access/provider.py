"""The signing keys of an OpenID provider: found by its discovery document, kept, renewed, and used on while it is down.

PyJWT's own client knows no discovery, holds every caller up while it fetches, and asks again for each unknown key while the
provider is down; here callers whose key is known never wait.

Invariants
1. The provider is asked at most once in `_PAUSE` seconds, whatever tokens name, and by one thread at a time.
2. Keys are renewed in the background once they are older than `_RENEW`; one that the provider withdrew no longer counts then.
3. While the provider cannot be reached, known keys count until they are older than the given age, and none after that.
"""

import http.client
import json
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import Any
from urllib.parse import urlsplit

from jwt import PyJWK, PyJWTError

from memory_mcp.base.clock import Clock, SystemClock
from memory_mcp.base.dataclass import dataclass
from memory_mcp_team.errors import ProviderUnavailable

log = logging.getLogger(__name__)

#: Age at which keys are renewed, and least time between two questions to the provider (seconds).
_RENEW, _PAUSE = 600.0, 10.0
#: How long one answer may take (seconds), and how long it may be (bytes).
_TIMEOUT, _MAX_BYTES = 5.0, 1_000_000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class KeyNotFetched(Exception):
    """The provider must be asked for a key before the token can be checked."""


@dataclass(frozen=True, slots=True)
class _PublishedKeys:
    """The provider's keys as they were at one moment of the monotonic clock."""

    keys: tuple[Mapping[str, Any], ...]
    fetched_at: float
    #: Keys made ready, by id and algorithm.
    loaded_keys: dict[tuple[str | None, str], PyJWK] = field(default_factory=dict)


class KeyRing:
    """The keys of one provider. Safe in any thread."""

    def __init__(self, issuer: str, max_age: float, clock: Clock | None = None) -> None:
        self._issuer, self._max_age = issuer, max_age
        self._clock = clock or SystemClock()
        self._published: _PublishedKeys | None = None
        self._fetch_lock = threading.Lock()
        #: When the provider may be asked again.
        self._next_fetch_at = float("-inf")

    def find_key(self, key_id: str | None, algorithm: str, fetch: bool = True) -> PyJWK | None:
        """Return the key for a token's id and algorithm, or None.

        None also if several fit a token without an id. Old keys are renewed in the background; for an unknown one the provider is
        asked. Raises KeyNotFetched if it must be asked and `fetch` is False, ProviderUnavailable if no young keys are known.
        """
        published = self._get_current()
        if published is not None:
            key = _choose_key(published, key_id, algorithm)
            if self._clock.monotonic() - published.fetched_at > _RENEW and self._may_fetch() and not self._fetch_lock.locked():
                threading.Thread(target=self._renew_keys, name="provider keys", daemon=True).start()
            if key is not None:
                return key
        if self._may_fetch():
            if not fetch:
                raise KeyNotFetched
            self._renew_keys(wait=True)
            published = self._get_current()
        if published is None:
            raise ProviderUnavailable("the authorization server cannot be reached", "Call again in a few seconds.")
        return _choose_key(published, key_id, algorithm)

    def _get_current(self) -> _PublishedKeys | None:
        published = self._published
        return published if published is not None and self._clock.monotonic() - published.fetched_at <= self._max_age else None

    def _may_fetch(self) -> bool:
        return self._clock.monotonic() >= self._next_fetch_at

    def _renew_keys(self, wait: bool = False) -> None:
        """Fetch the keys; a failure leaves the known ones.

        While another thread fetches, this waits for it if `wait` is set, and else does nothing.
        """
        if not self._fetch_lock.acquire(blocking=wait):
            return
        try:
            # Whoever waited for the lock finds what its holder fetched.
            if not self._may_fetch():
                return
            try:
                discovery = _get_json(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
                if discovery.get("issuer") != self._issuer:
                    raise ValueError("the discovery document is of another issuer")
                keys = _get_json(str(discovery.get("jwks_uri"))).get("keys")
                if not isinstance(keys, list):
                    raise TypeError("the provider publishes no list of keys")
                self._published = _PublishedKeys(tuple(key for key in keys if isinstance(key, dict)), self._clock.monotonic())
            except (OSError, http.client.HTTPException, ValueError, TypeError, RecursionError) as error:
                log.warning("keys of the authorization server were not read: %s", f"{type(error).__name__}: {error}"[:200])
            # Only now: who comes while the provider is asked waits for its answer.
            self._next_fetch_at = self._clock.monotonic() + _PAUSE
        finally:
            self._fetch_lock.release()


def _choose_key(published: _PublishedKeys, key_id: str | None, algorithm: str) -> PyJWK | None:
    cache_key = (key_id, algorithm)
    if cache_key not in published.loaded_keys:
        kind = _KINDS.get(algorithm[:2])
        usable = [key for key in published.keys if key.get("use") in (None, "sig") and key.get("kty") == kind]
        candidates = [key for key in usable if key.get("alg") in (None, algorithm) and key_id in (None, key.get("kid"))]
        if len(candidates) != 1:
            # Ids of tokens are anybody's: those that lead nowhere are not kept.
            return None
        with suppress(PyJWTError):
            published.loaded_keys[cache_key] = PyJWK(dict(candidates[0]), algorithm)
    return published.loaded_keys.get(cache_key)


def _get_json(url: str) -> dict[str, Any]:
    """Return the JSON object at an address; no redirect, no proxy.

    Raises OSError or HTTPException if nothing answers, ValueError or TypeError for an address or answer that is not allowed.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise ValueError(f"not an https address: {url[:100]!r}")
    if parts.scheme == "https":
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=_TIMEOUT, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", path, headers={"Accept": "application/json", "User-Agent": "memory-mcp"})
        answer = connection.getresponse()
        body, until = b"", time.monotonic() + _TIMEOUT
        while piece := answer.read1(65_536):
            body += piece
            # A socket's own time limit is for each of its pieces.
            if len(body) > _MAX_BYTES or time.monotonic() > until:
                raise ValueError("the answer is too long or too slow")
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise ValueError(f"status {answer.status} from {parts.hostname}")
    document = json.loads(body)
    if not isinstance(document, dict):
        raise TypeError("the answer is no JSON object")
    return document
