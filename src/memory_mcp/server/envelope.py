"""Reads what a request's metadata say of its client: parameters as they came in, whether they are plain out (pure).

Invariants
1. The era of a request is the library's own judgement of it.
2. What is plain here is accepted by the library in every request, and changes no answer.
"""

from collections.abc import Mapping
from typing import Any

#: The revision of the protocol whose requests each say who the client is, and whose results say whose they are.
MODERN = "2026-07-28"
#: What begins the name of a field of metadata that only the library looks at, and those that each request of the newest era has.
_LIBRARYS = "io.modelcontextprotocol/"
PROTOCOL_VERSION, CLIENT_INFO, _CAPABILITIES = (
    _LIBRARYS + name for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)
_ENVELOPE = frozenset({PROTOCOL_VERSION, CLIENT_INFO, _CAPABILITIES})
#: A plain envelope, of nobody in particular.
ENVELOPE: Mapping[str, Any] = {PROTOCOL_VERSION: MODERN, CLIENT_INFO: {"name": "memory-mcp", "version": ""}, _CAPABILITIES: {}}
#: What a client says of itself, all of it text.
_CLIENT_FIELDS = frozenset({"name", "title", "version", "description", "websiteUrl"})
#: Capabilities of clients by what may be in them, each an object; None for any.
_PARTS = {
    "elicitation": frozenset({"form", "url"}),
    "sampling": frozenset({"context", "tools"}),
    "experimental": None,
    "extensions": None,
}
#: What a client may listen to, besides resources.
_CHANGES = frozenset({"toolsListChanged", "promptsListChanged", "resourcesListChanged"})


def opens_modern(method: object, params: object) -> bool:
    """Return whether a first request opens a connection of the newest era."""
    meta = params.get("_meta") if isinstance(params, dict) else None
    return method != "initialize" and isinstance(meta, dict) and PROTOCOL_VERSION in meta


def is_plain_meta(meta: object, is_modern: bool) -> bool:
    """Return whether the library reads nothing of metadata but a token and, in the newest era, a plain envelope."""
    if not isinstance(meta, dict) or type(meta.get("progressToken", "")) not in (str, int):
        return False
    reserved = {key for key in meta if key.startswith(_LIBRARYS)}
    return _is_plain_envelope(meta) if is_modern and reserved == _ENVELOPE else not reserved and not is_modern


def client_name(meta: Mapping[str, Any]) -> str:
    """Return the name of the client in a plain envelope."""
    return str(meta[CLIENT_INFO]["name"])


def is_plain_listening(params: Mapping[str, Any]) -> bool:
    """Return whether parameters name changes to listen to and nothing else."""
    changes = params.get("notifications")
    return params.keys() == {"_meta", "notifications"} and isinstance(changes, dict) and _are_flags(changes, _CHANGES)


def _is_plain_envelope(meta: Mapping[str, Any]) -> bool:
    client, capabilities = meta[CLIENT_INFO], meta[_CAPABILITIES]
    return (
        meta[PROTOCOL_VERSION] == MODERN
        and isinstance(client, dict)
        and {"name", "version"} <= client.keys() <= _CLIENT_FIELDS
        and all(isinstance(value, str) for value in client.values())
        and isinstance(capabilities, dict)
        and all(_is_plain_capability(name, value) for name, value in capabilities.items())
    )


def _is_plain_capability(name: str, value: object) -> bool:
    if not isinstance(value, dict):
        return False
    if name == "roots":
        return _are_flags(value, frozenset({"listChanged"}))
    parts = _PARTS.get(name, frozenset())
    return (parts is None or (name in _PARTS and value.keys() <= parts)) and all(isinstance(v, dict) for v in value.values())


def _are_flags(values: Mapping[str, object], names: frozenset[str]) -> bool:
    return values.keys() <= names and all(isinstance(value, bool) for value in values.values())
