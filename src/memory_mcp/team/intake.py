"""A payload of a client's hook in, events of a space out: acknowledged when they are committed, with no spool between."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from memory_mcp import spoolfile
from memory_mcp.app import App
from memory_mcp.errors import InvalidQuery, NotFound
from memory_mcp.ingest.base import ImportReport
from memory_mcp.ingest.hooks.base import Envelope, Hooks, Malformed
from memory_mcp.model.event import HOOK
from memory_mcp.storage.values import Request


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a payload."""

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
    #: The project that the caller works on; "" where the payload alone tells.
    project: str = ""


def take(app: App, payload: Payload, hooks: Mapping[str, Hooks]) -> Taken:
    """Store what a payload tells.

    Raises:
        NotFound: there is no such client.
        InvalidQuery: its payload cannot be read.

    """
    if payload.client not in hooks:
        raise NotFound(f"no client is called {payload.client!r}", f"Clients are {', '.join(sorted(hooks))}.")
    envelope = Envelope(spoolfile.name_of(payload.client, payload.body), time.time_ns() // 1_000_000)
    try:
        heard = hooks[payload.client].read(payload.body.decode("utf-8-sig", "replace"), envelope)
    except Malformed as error:
        raise InvalidQuery(
            f"the payload cannot be read: {error}", f"Send it as {payload.client} gives it to its hooks."
        ) from None
    drafts = [replace(draft, project=payload.project) if payload.project else draft for draft in heard.drafts]
    report = ImportReport()
    clean = [kept for draft in drafts if (kept := app.gate.clean(draft, report)) is not None]
    if not clean:
        return Taken(0, heard.skipped or next(iter(report.dropped), "nothing to keep"))
    stored = app.append(clean, HOOK + payload.client, Request(f"hook:{payload.key}") if payload.key else None)
    return Taken(len(stored.new))
