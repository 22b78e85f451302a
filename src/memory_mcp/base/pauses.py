"""When recording was paused, and of which projects: a small file in the data directory, read by whatever records.

Invariants
1. What was said during a pause is never recorded, whenever and by whichever door it comes; so past pauses are kept.
2. Standard library only, and little of it: a hook asks at every event, and mostly there is no such file.
"""

import os
from typing import NamedTuple

from memory_mcp.base import foreign_files, machine, paths

#: Stands for every project.
ALL = "*"


class Pause(NamedTuple):
    """A pause of recording: its project's names and its time.

    "*" is all projects; from when until when in UTC ms, None: still.
    """

    projects: tuple[str, ...]
    begin: int
    end: int | None

    def covers(self, project: str, at_ms: int) -> bool:
        """Return whether a project is paused at a moment."""
        return (
            self.begin <= at_ms and (self.end is None or at_ms < self.end) and (ALL in self.projects or project in self.projects)
        )


def read(directory: str) -> list[Pause]:
    """Return every pause, [] where the file cannot be opened.

    Raises ValueError for a damaged one.
    """
    try:
        content = foreign_files.read_file(paths.pauses_file(directory))
    except OSError:
        return []
    import json

    try:
        rows = json.loads(content)["pauses"]
        return [Pause(tuple(r["projects"]), int(r["begin"]), None if r["end"] is None else int(r["end"])) for r in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{paths.pauses_file(directory)} cannot be read: {error}") from None


def write(directory: str, pauses: list[Pause]) -> None:
    """Store these pauses in place of all before.

    In one replaced file; raises OSError when they cannot be stored.
    """
    import json

    path = paths.pauses_file(directory)
    content = json.dumps({"pauses": [pause._asdict() for pause in pauses]})
    machine.put(path, content.encode("ascii"), f"{path}.{os.getpid()}.new")


def is_paused(directory: str, project: str, at_ms: int) -> bool:
    """Return whether a project is, or was, paused at a moment.

    A damaged file pauses nothing (doctor reports it).
    """
    try:
        return any(pause.covers(project, at_ms) for pause in read(directory))
    except ValueError:
        return False
