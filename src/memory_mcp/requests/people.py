"""Reads the role and the speaker that a request names."""

from enum import StrEnum

from memory_mcp.app import App
from memory_mcp.base.errors import InvalidQuery
from memory_mcp.requests.limits import choice
from memory_mcp.requests.scope import Scoped
from memory_mcp.storage.values import Scope

#: Names that an error lists at most.
_NAMED = 12


class Said(StrEnum):
    """The roles that a search can be narrowed to."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def role_of(given: str) -> str | None:
    """Return the role that is given, None for "". Raises InvalidQuery for an unknown one."""
    found = choice(Said, "role", given)
    return None if found is None else found.value


def speaker_of(app: App, given: str, scoped: Scoped) -> str | None:
    """Return a speaker's name as it is stored, found without regard to case; None for "".

    Raises InvalidQuery when nobody of that name spoke in the scope; the error names up to `_NAMED` of those
    who did.
    """
    wanted = given.strip().casefold()
    if not wanted:
        return None
    known = app.storage.events.list_speakers(Scope(project=scoped.project))
    found = next((name for name in known if name.casefold() == wanted), None)
    if found is None:
        names = ", ".join(known[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")
        hint = f"Speakers are {names}." if known else "No event here names its speaker; use role (user, assistant, tool)."
        raise InvalidQuery(f"unknown speaker: {given[:60]!r}", hint)
    return found
