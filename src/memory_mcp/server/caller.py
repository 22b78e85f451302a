"""Who calls, as far as the protocol says: the client's name in either era, and the key of a call that may be sent again."""

import re

from mcp.server.mcpserver import Context

#: Set by a relay that sends a call again when a connection broke.
KEY = "memory-mcp/key"
_UNNAMED = "agent"
_LONGEST = 60
_ODD = re.compile(r"[^a-z0-9._-]+")


def agent_of(ctx: Context) -> str:
    """The client's name in lower case, fit for an id; "agent" when it gives none."""
    params = ctx.request_context.session.client_params
    name = params.client_info.name if params is not None else ""
    return _ODD.sub("-", name.strip().lower()).strip("-")[:_LONGEST] or _UNNAMED


def request_key(ctx: Context, given: str) -> str:
    """The caller's own key, else the relay's; "" for neither."""
    if given:
        return given
    relayed = (ctx.request_context.meta or {}).get(KEY)
    return f"relay:{relayed}" if isinstance(relayed, str) and relayed else ""
