"""The calling client: its name, its project, and the idempotency key of a call."""

import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.capture.running import CallerProcess

#: Set by a relay that sends a call again when a connection broke.
KEY = "memory-mcp/key"
_UNNAMED = "agent"
_LONGEST = 60
_ODD = re.compile(r"[^a-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """What a door knows of one connection."""

    #: The project the client works on; "" when that is not known.
    project: str = ""
    #: Whether a relay of ours stands between: only then a call's own `KEY` counts.
    relayed: bool = False
    #: Whether its own settings bind it to that project, whatever those of the memory say.
    locked: bool = False
    #: Returns the client's process, where that is known: a client names itself only with its first request.
    connection: Callable[[], CallerProcess] | None = None


_NOBODY = Caller()
#: The caller of the connection that is being served; tasks and threads begun for it inherit it.
CALLER: ContextVar[Caller] = ContextVar("caller", default=_NOBODY)


def agent_name(client: str) -> str:
    """Return a client's name in lower case, fit for an id.

    At most `_LONGEST` characters; "agent" if it gives none.
    """
    return _ODD.sub("-", client.strip().lower()).strip("-")[:_LONGEST] or _UNNAMED


def relay_key(meta: Mapping[str, Any], named_key: str) -> str:
    """Return a call's idempotency key, else the relay's in its metadata; "" for neither.

    A relay's counts only on a connection of a relay of ours.
    """
    if named_key:
        return named_key
    relayed = meta.get(KEY) if CALLER.get().relayed else None
    return f"relay:{relayed}" if isinstance(relayed, str) and relayed else ""
