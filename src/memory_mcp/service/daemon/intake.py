"""Writes payloads that hooks hand to the daemon into the spool, without their secrets; the drain stores them from there.

Invariants
1. What is acknowledged is on the disk, clean, and is stored with the next drain, also after a crash.
2. It waits for no store, no drain and no import: it opens nothing but its own files.
"""

import binascii
import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from memory_mcp.base.errors import InvalidQuery, StorageError
from memory_mcp.service.client import spoolfile
from memory_mcp.service.client.handing import KEPT
from memory_mcp.service.daemon.rpc import Conversation

if TYPE_CHECKING:
    from memory_mcp.capture.payloads import PayloadCleaner

log = logging.getLogger(__name__)

#: Payloads that are cleaned at once. Threads of their own: those for all else may all be at work for long.
_AT_ONCE = 2
#: What a caller may tell beside the payload.
_TOLD = ("project_dir", "cwd", "pids")
#: Behind the names of files that this process is writing: a hook that no longer waits writes under the name itself.
_OURS = ".daemon"


class Intake:
    """Takes payloads for one data directory."""

    def __init__(self, spool: str) -> None:
        """Take payloads for the folder `spool`, made when needed.

        Only the owner of the data directory may: files that a killed owner was writing, acknowledged to nobody, are removed.
        """
        for aside in (Path(spool) / "tmp").glob(f"*{_OURS}"):
            with suppress(OSError):
                aside.unlink()
        self._spool = spool
        self._rules: PayloadCleaner | None = None
        self._loading = threading.Lock()
        self._limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def keep_payload(self, _: Conversation, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Write a hook's payload, without its secrets, into the spool.

        It is on disk when {"kept": True} is returned. Parameters are the `name` of its file, the `payload` in base 64, and
        `fields` as in `spoolfile.make_header`, only project_dir, cwd and pids of it. Raises InvalidQuery for an unreadable name
        or payload, StorageError when it cannot be written.
        """
        try:
            name, payload = str(params["name"]), binascii.a2b_base64(str(params["payload"]))
            spoolfile.client_of(name)
        except (KeyError, ValueError) as error:
            raise InvalidQuery(f"no payload of a hook: {error}", "Both sides must be of the same version.") from None
        sent = params.get("told")
        fields = {key: str(sent[key]) for key in _TOLD if key in sent} if isinstance(sent, dict) else {}
        await anyio.to_thread.run_sync(self._write_payload, name, payload, fields, limiter=self._limiter)
        return {KEPT: True}

    def take_payload(self, client: str, payload: bytes) -> None:
        """Write a payload that came over HTTP into the spool.

        Raises OSError when that fails. Where its secrets cannot be taken out it is kept as it came, since its sender cannot take
        them out either.
        """
        name = spoolfile.name_of(client, payload)
        try:
            clean, failed = self._payloads.clean_payload(payload), False
        except Exception:
            log.exception("a payload of %s is kept as it came, with any secrets in it", client)
            clean, failed = payload, True
        spoolfile.write_payload(self._spool, name, spoolfile.make_header(name, {}, raw=failed), clean, _OURS)

    def _write_payload(self, name: str, payload: bytes, fields: Mapping[str, str]) -> None:
        """Write a payload and `fields` without their secrets.

        Raises StorageError when that fails.
        """
        payloads = self._payloads
        head = spoolfile.make_header(name, payloads.clean_fields(fields))
        try:
            spoolfile.write_payload(self._spool, name, head, payloads.clean_payload(payload), _OURS)
        except OSError as error:
            raise StorageError(f"not kept: {error}", "The hook tries to write it itself.") from None

    @property
    def _payloads(self) -> "PayloadCleaner":
        """The rules that clean payloads, loaded once by one thread."""
        with self._loading:
            if self._rules is None:
                from memory_mcp.capture.payloads import PayloadCleaner

                self._rules = PayloadCleaner(str(Path(self._spool).parent))
            return self._rules
