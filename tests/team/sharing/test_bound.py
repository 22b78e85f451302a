"""What concerns sharing concerns every project: a caller that is bound to one is refused."""

from typing import Any

import pytest

from memory_mcp.app import App
from memory_mcp.base import extensions
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.registry import load_entry, respond
from memory_mcp.requests.scope import Caller

ARGUMENTS: dict[str, dict[str, Any]] = {
    "share_to": {"url": "https://memory.example.org"},
    "share_project": {"project": "acme/billing"},
    "unshare_project": {"project": "acme/billing"},
    "share_now": {},
    "share_status": {},
    "share_off": {},
}


def test_every_request_of_sharing_is_asked_here() -> None:
    assert set(ARGUMENTS) == set(extensions.names(extensions.REQUESTS))


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_bound_caller_is_refused(app: App, name: str) -> None:
    request = load_entry(name).request(**ARGUMENTS[name])
    with pytest.raises(InvalidQuery, match="concerns more than the project of this connection"):
        respond(app, request, Caller("acme/shop", locked=True))
