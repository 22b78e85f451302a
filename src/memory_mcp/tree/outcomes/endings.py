"""What ended an error: the changes between its last failure and the first success of the same call. Pure."""

from collections.abc import Callable, Sequence, Set

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.tool_run import KeyKind, StoredRun

#: Changes that are named before a success, and attempts in vain.
_MOST_CHANGES, _MOST_ATTEMPTS = 3, 3
#: Runs after a failure among which its success is looked for in the same stream.
_WINDOW = 400
#: Whether two runs are one call, by all its words.
SameCall = Callable[[StoredRun, StoredRun], bool]


@dataclass(frozen=True, slots=True)
class Ending:
    """The course of one error in one stream."""

    #: Its failures, in order; at least one.
    failures: tuple[StoredRun, ...]
    #: The first success of the same call after the last failure; None: it never succeeded there.
    success: StoredRun | None
    #: What was changed or called between them, the last one first.
    changes: tuple[StoredRun, ...]
    #: What was changed or called between two failures, the last one first.
    attempts: tuple[StoredRun, ...]


def find_ending(runs: Sequence[StoredRun], signs: Set[int]) -> Ending | None:
    """Return how an error with one of these signs went in a stream's runs, or None if it is not there.

    Runs are in order of their results. A failure after a success begins it anew: the last one counts.
    """
    failing = _list_failing(runs, signs)
    return _follow_failures(runs, failing, len(runs), None) if failing else None


def list_endings(runs: Sequence[StoredRun], signs: Set[int], is_same_call: SameCall) -> list[Ending]:
    """Return the courses of an error in a stream, in order: each from a failure to the success of the very same call.

    `is_same_call` is asked only of runs with one invocation.
    """
    courses: list[Ending] = []
    episode: list[int] = []
    for at in _list_failing(runs, signs):
        if episode and _find_same(runs[episode[-1] + 1 : at], runs[episode[-1]], is_same_call) is not None:
            courses.append(_follow_failures(runs, episode, at, is_same_call))
            episode = []
        episode.append(at)
    return [*courses, _follow_failures(runs, episode, len(runs), is_same_call)] if episode else courses


def _list_failing(runs: Sequence[StoredRun], signs: Set[int]) -> list[int]:
    return [at for at, stored in enumerate(runs) if stored.run.failed and _shares(stored, KeyKind.ERROR, signs)]


def _follow_failures(runs: Sequence[StoredRun], failing: Sequence[int], end: int, is_same_call: SameCall | None) -> Ending:
    """Return the course of the failures at some positions, of which the runs before `end` tell."""
    last = failing[-1]
    later = runs[last + 1 : min(last + 1 + _WINDOW, end)]
    at = _find_same(later, runs[last], is_same_call) if is_same_call is not None else None
    at = _find_success(later, runs[last]) if at is None else at
    changes = list_changes(later[:at], runs[last]) if at is not None else ()
    in_vain = [*runs[failing[0] + 1 : last], *(later if at is None else ())]
    attempts = tuple(stored for stored in list_changes(in_vain, runs[last], _MOST_ATTEMPTS) if is_change(stored))
    return Ending(tuple(runs[at] for at in failing), None if at is None else later[at], changes, attempts)


def list_changes(runs: Sequence[StoredRun], failed: StoredRun, most: int = _MOST_CHANGES) -> tuple[StoredRun, ...]:
    """Return what may have made a failed call succeed, the last one first.

    Changed files come before commands, and commands before tools that only read.
    """
    invocation = failed.run.hashes(KeyKind.INVOCATION)
    done = [stored for stored in reversed(runs) if not stored.run.failed and not _shares(stored, KeyKind.INVOCATION, invocation)]
    edits = [stored for stored in done if stored.run.hashes(KeyKind.FILE)]
    commands = [stored for stored in done if stored.run.hashes(KeyKind.COMMAND)]
    return tuple((edits + [c for c in commands if c not in edits] or done)[:most])


def is_change(stored: StoredRun) -> bool:
    """Return whether a run changed a file or called a command."""
    return bool(stored.run.hashes(KeyKind.FILE) or stored.run.hashes(KeyKind.COMMAND))


def _find_same(later: Sequence[StoredRun], failed: StoredRun, is_same_call: SameCall) -> int | None:
    """Return the position of the first success of the very same call."""
    invocation = failed.run.hashes(KeyKind.INVOCATION)
    for at, stored in enumerate(later):
        if not stored.run.failed and _shares(stored, KeyKind.INVOCATION, invocation) and is_same_call(failed, stored):
            return at
    return None


def _find_success(later: Sequence[StoredRun], failed: StoredRun) -> int | None:
    """Return the position of the first success of the same call, else of the same program or file."""
    for kind in (KeyKind.INVOCATION, KeyKind.COMMAND, KeyKind.FILE):
        hashes = failed.run.hashes(kind)
        for at, stored in enumerate(later):
            if not stored.run.failed and _shares(stored, kind, hashes):
                return at
    return None


def _shares(stored: StoredRun, kind: KeyKind, hashes: Set[int]) -> bool:
    return any(key_kind is kind and value in hashes for key_kind, value in stored.run.keys)
