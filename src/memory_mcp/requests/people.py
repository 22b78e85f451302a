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
    """Return a role, None for ""; InvalidQuery for an unknown one."""
    role = choice(Said, "role", given)
    return None if role is None else role.value


def speaker_of(app: App, given: str, scoped: Scoped) -> str | None:
    """Return a speaker's stored name, whatever its case; None for "".

    Raises InvalidQuery when nobody of that name spoke in the scope; the error names up to `_NAMED` of those
    who did.
    """
    folded_name = given.strip().casefold()
    if not folded_name:
        return None
    speakers = app.storage.events.list_speakers(Scope(project=scoped.project))
    speaker = next((name for name in speakers if name.casefold() == folded_name), None)
    if speaker is None:
        names = ", ".join(speakers[:_NAMED]) + (f" and {len(speakers) - _NAMED} more" if len(speakers) > _NAMED else "")
        hint = f"Speakers are {names}." if speakers else "No event here names its speaker; use role (user, assistant, tool)."
        raise InvalidQuery(f"unknown speaker: {given[:60]!r}", hint)
    return speaker
