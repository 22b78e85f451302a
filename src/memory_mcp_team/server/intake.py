"""Stores payloads of clients' hooks in a space: acknowledged when they are committed, with no spool between.

Invariants
1. What comes for one space while something of it is being stored is stored next, together: each commit locks the memory and
   waits for the disk, and many agents share a space.
2. What one payload is refused for is reported to its sender alone.
3. A sender that hangs up before its payload is begun has sent nothing.
"""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import anyio
import anyio.to_thread

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError, NotFound, StorageError
from memory_mcp.capture.hooks.base import Envelope, Hooks, MalformedPayload
from memory_mcp.capture.log import LogWrite
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import HOOK
from memory_mcp.service.client import spoolfile
from memory_mcp.storage.values import WriteRequest
from memory_mcp_team.server.host import TeamHost, get_call

#: Threads that store at a time: each has a connection, and the interpreter serves one of them at a time anyway.
_WRITERS = 2
#: Payloads stored together at most.
_MAX_TOGETHER = 64


@dataclass(frozen=True, slots=True)
class PayloadResult:
    """Outcome of a payload: how many events were stored."""

    events: int
    #: Why nothing of it was stored; "" where something was, or had been before.
    skipped: str = ""


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload as it came."""

    client: str
    body: bytes
    #: The caller's own name for it: sent again under the same one, it is stored once. "" for none.
    key: str = ""
    #: The project that the caller works on; "" where only the payload names one.
    project: str = ""


@dataclass(eq=False, slots=True)
class _Entry:
    payload: Payload
    outcome: PayloadResult | Exception | None = None


@dataclass(slots=True)
class _WaitingPayloads:
    """The payloads of one caller in one space that wait to be stored."""

    entries: list[_Entry] = field(default_factory=list)
    storing: anyio.Lock = field(default_factory=anyio.Lock)
    #: Senders that hold on to the line.
    users: int = 0


class Intake:
    """Collects payloads and stores them together. Used in one event loop."""

    def __init__(self, host: TeamHost, hooks: Mapping[str, Hooks]) -> None:
        self._host, self._hooks = host, hooks
        #: By tenant, space, member and key: a transaction is bound to one member.
        self._queues: defaultdict[tuple[int, int, int, str], _WaitingPayloads] = defaultdict(_WaitingPayloads)
        self._writers = anyio.CapacityLimiter(_WRITERS)

    async def store_payload(self, payload: Payload) -> PayloadResult:
        """Store a payload's events; return how many once they are committed.

        Payloads of the same caller and space that wait meanwhile are stored together. Raises NotFound for an unknown client,
        InvalidQuery for an unreadable payload, and what storing raises.
        """
        who, entry = get_call().principal, _Entry(payload)
        whose = (who.tenant, get_call().space.space, who.member, who.key_id)
        line = self._queues[whose]
        line.entries.append(entry)
        line.users += 1
        try:
            async with line.storing:
                if entry.outcome is None:
                    together, line.entries = line.entries[:_MAX_TOGETHER], line.entries[_MAX_TOGETHER:]
                    await anyio.to_thread.run_sync(self._store_entries, together, limiter=self._writers)
        finally:
            line.users -= 1
            if entry in line.entries:
                line.entries.remove(entry)
            if not line.users:
                self._queues.pop(whose, None)
        assert entry.outcome is not None
        if isinstance(entry.outcome, Exception):
            raise entry.outcome
        return entry.outcome

    def _store_entries(self, entries: Sequence[_Entry]) -> None:
        try:
            with self._host.lent(writing=True, only_appends=True) as app:
                store_payloads(app, entries, self._hooks)
        except Exception as error:
            for entry in entries:
                entry.outcome = entry.outcome or error


def store_payloads(app: App, entries: Sequence[_Entry], hooks: Mapping[str, Hooks]) -> None:
    """Store payloads in one transaction, and set the outcome of each.

    If they are refused together (such as by a quota), each is stored alone and gets its own error. Raises StorageError if the
    store fails.
    """
    written: list[tuple[_Entry, LogWrite]] = []
    for entry in entries:
        try:
            result = read_payload(app, entry.payload, hooks)
        except MemoryMcpError as error:
            entry.outcome = error
        else:
            if isinstance(result, PayloadResult):
                entry.outcome = result
            else:
                written.append((entry, result))
    if not written:
        return
    try:
        for (entry, _), stored in zip(written, app.append_each([write for _, write in written]), strict=True):
            entry.outcome = PayloadResult(len(stored.new_ids))
    except MemoryMcpError as error:
        if len(written) == 1 or isinstance(error, StorageError):
            raise
        # Together they are more than the caller may record: each for itself may not be.
        for entry, _ in written:
            try:
                store_payloads(app, [entry], hooks)
            except MemoryMcpError as own_error:
                entry.outcome = own_error


def read_payload(app: App, payload: Payload, hooks: Mapping[str, Hooks]) -> LogWrite | PayloadResult:
    """Return a payload's events as the gate lets them pass.

    If none is left, a result of 0 events with the reason. `payload.project` replaces the events' own. Raises NotFound for an
    unknown client, InvalidQuery for an unreadable payload.
    """
    if payload.client not in hooks:
        raise NotFound(f"no client is called {payload.client!r}", f"Clients are {', '.join(sorted(hooks))}.")
    envelope = Envelope(spoolfile.name_of(payload.client, payload.body), time.time_ns() // 1_000_000)
    try:
        heard = hooks[payload.client].parse_payload(payload.body.decode("utf-8-sig", "replace"), envelope)
    except MalformedPayload as error:
        hint = f"Send it as {payload.client} gives it to its hooks."
        raise InvalidQuery(f"the payload cannot be read: {error}", hint) from None
    drafts = [replace(draft, project=payload.project) if payload.project else draft for draft in heard.drafts]
    report = ImportReport()
    clean = [cleaned for draft in drafts if (cleaned := app.gate.clean_draft(draft, report)) is not None]
    if not clean:
        return PayloadResult(0, heard.skip_reason or next(iter(report.dropped), "nothing to keep"))
    return LogWrite(clean, HOOK + payload.client, WriteRequest(f"hook:{payload.key}") if payload.key else None)
