"""Reads what questions share: intent, mode and bounds for the policy, who spoke, and a scope of JSON values."""

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.question.intent import Intent
from memory_mcp.requests.limits import Bounds, parse_choice
from memory_mcp.requests.scope import Scoped, known_project
from memory_mcp.requests.times import Times, times_of
from memory_mcp.search.policy.plan import How, Mode
from memory_mcp.storage.values import Scope

if TYPE_CHECKING:
    from memory_mcp.app import App

#: Names that an error lists at most.
_NAMED = 12


class SearchedRole(StrEnum):
    """The roles that a search can be narrowed to."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


def role_of(name: str) -> str | None:
    """Return a role, None for ""; InvalidQuery for an unknown one."""
    role = parse_choice(SearchedRole, "role", name)
    return None if role is None else role.value


def speaker_of(app: "App", name: str, scoped: Scoped) -> str | None:
    """Return a speaker's stored name, whatever its case; None for "".

    Raises InvalidQuery when nobody of that name spoke in the scope; the error names up to `_NAMED` of those
    who did.
    """
    folded_name = name.strip().casefold()
    if not folded_name:
        return None
    speakers = app.storage.events.list_speakers(Scope(project=scoped.project))
    speaker = next((stored_name for stored_name in speakers if stored_name.casefold() == folded_name), None)
    if speaker is None:
        names = ", ".join(speakers[:_NAMED]) + (f" and {len(speakers) - _NAMED} more" if len(speakers) > _NAMED else "")
        hint = f"Speakers are {names}." if speakers else "No event here names its speaker; use role (user, assistant, tool)."
        raise InvalidQuery(f"unknown speaker: {name[:60]!r}", hint)
    return speaker


def search_options(
    times: Times,
    intent: str = "",
    mode: str = "",
    bounds: Bounds | None = None,
    token_budget: int | None = None,
    timeout_ms: int | None = None,
    offset: int = 0,
    has_moment: bool = True,
) -> How:
    """Return the caller's options for the policy.

    `bounds` None sets none; `token_budget` and `timeout_ms` lower those of the same meaning, 0 and None do not;
    `has_moment` says that the call names a moment (`as_of`), without it the policy takes its own now. Raises
    InvalidQuery for an unknown intent or mode.
    """
    caller_bounds = bounds or Bounds()
    changes = dict(caller_bounds.stops())
    for name, short in (("max_token_budget", token_budget), ("timeout_ms", timeout_ms)):
        changes[name] = min((v for v in (changes[name], short or None) if v), default=None)
    return How(
        intent=parse_choice(Intent, "intent", intent),
        mode=parse_choice(Mode, "mode", mode),
        bounds=changes,
        min_confidence=caller_bounds.min_confidence,
        offset=offset,
        as_of=times.now_ms if has_moment else None,
        calendar=times.calendar,
    )


def named_scope(app: "App", arguments: Mapping[str, Any]) -> Scope:
    """Return the project, agent and time of JSON values; InvalidQuery for an unknown one."""
    project = known_project(app, str(arguments["project"])) if arguments.get("project") else None
    window = times_of(app).window(str(arguments.get("since") or ""), str(arguments.get("until") or ""))
    return Scope(project=project, agent=str(arguments.get("agent") or "") or None, window=window)
