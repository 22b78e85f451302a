"""What the tests by the public atlas of agent memory share: weeks of work on three projects, and clients bound to one of them."""

import json
from typing import Any

from bench.place import Place
from tests.daemon.inside import ALONE, Inside
from tests.daemon.places import call
from tests.factories import a_small_history
from tests.waiting import until


def line(project: str, session: str, text: str, at: str | int, role: str = "user", **more: object) -> str:
    """A line for `ingest`."""
    given = {"session_id": session, "timestamp": at, "role": role, "text": text, "project": project, "agent": "codex"}
    return json.dumps(given | more) + "\n"


def history(weeks: int = 1, first: str = "2026-01-19") -> str:
    """Weeks of three projects from a day on, as lines for `ingest`."""
    lines = []
    for draft in a_small_history(weeks, first):
        given = {"id": draft.source_id, "role": draft.role.value, "type": draft.type.value}
        given |= {name: getattr(draft, name) for name in ("session_id", "timestamp", "text", "agent", "project")}
        lines.append(json.dumps({key: value for key, value in given.items() if value}))
    return "\n".join(lines) + "\n"


def bound(place: Place, project: str, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers to a client that works on a project."""
    return call(place, ("serve", "--project", project, "--profile", "full"), {}, *calls)


def alone(place: Place) -> Place:
    """The same memory for commands that open it themselves; the daemon ends."""
    place.stop()
    until(lambda: not place.owners())
    return Inside(place.root, more=place.settings | ALONE)


def words(found: object) -> str:
    """Everything that an answer says."""
    return json.dumps(found, ensure_ascii=False)
