"""Conditions of SQL statements about events, with their parameters, from a scope and from texts that are looked for."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from memory_mcp.model.project import ProjectNames
from memory_mcp.storage.values import Scope

#: An event's text, in a form that the engine cannot look at before the other conditions: left to itself it reads and folds
#: every text of a stretch whose times mix (measured on 100,000 events, an eighth of their time, 29 and 9 ms).
_TEXT = "CASE WHEN ts IS NOT NULL THEN text END"

#: Two lists as rows of two.
_PAIRS = "SELECT unnest(?::VARCHAR[]), unnest(?::VARCHAR[])"


def make_conditions(scope: Scope, session_id: str | None, names: ProjectNames) -> tuple[list[str], list[Any]]:
    """Return SQL conditions and parameters of a scope and a session.

    To be joined by AND; what is None restricts nothing. The window's end is not included.
    """
    where, parameters = list[str](), list[Any]()
    if scope.project is not None:
        # The names it was recorded with, without the sessions that were split off it and with those that were split off into it.
        recorded, moved = names.recorded_names(scope.project), names.moved_sessions() if names.splits else {}
        split_out = [pair for pair in moved if names.resolve_alias(pair[0]) == scope.project]
        split_in = [pair for pair, new in moved.items() if new == scope.project]
        condition = f"project IN ({', '.join('?' * len(recorded))})"
        if split_out:
            condition += f" AND (project, session_id) NOT IN ({_PAIRS})"
        if split_in:
            condition = f"({condition} OR (project, session_id) IN ({_PAIRS}))"
        where.append(condition)
        parameters += [*recorded, *map(list, zip(*split_out, strict=True)), *map(list, zip(*split_in, strict=True))]
    for column, value in (("agent", scope.agent), ("session_id", session_id), ("role", scope.role)):
        if value is not None:
            where.append(f"{column} = ?")
            parameters.append(value)
    if scope.speaker is not None:
        where.append("lower(speaker) = ?")
        parameters.append(scope.speaker.lower())
    if scope.window:
        where.append("ts >= ? AND ts < ?")
        parameters += [scope.window.start_ms, scope.window.end_ms]
    for excluded in sorted(scope.excluded, key=lambda session: session.session_id):
        where.append("NOT (session_id = ? AND ts >= ?)")
        parameters += [excluded.session_id, excluded.since_ms]
    return where, parameters


def make_text_condition(text: str) -> tuple[str, str]:
    """Return the condition that an event holds a text, and its parameter.

    Neither case nor the kind of white space matters. The parameter is a regular expression in RE2's syntax: it takes a
    third of the time of folding every text and looking for the folded one.
    """
    return f"regexp_matches({_TEXT}, ?)", "\\s+".join(map(make_case_pattern, text.split()))


def make_row_filter(scope: Scope, names: ProjectNames, words: Sequence[str]) -> Callable[[Sequence[Any]], bool]:
    """Return a function of a row (`EVENT`) with the same answer as `make_conditions` and `make_text_condition` together."""
    # White space as in RE2.
    patterns = [re.compile("[\\t\\n\\f\\r ]+".join(map(make_case_pattern, word.split()))) for word in words]
    exact = [(i, value) for i, value in ((3, scope.agent), (8, scope.role)) if value is not None]
    speaker = None if scope.speaker is None else scope.speaker.lower()

    def is_match(row: Sequence[Any]) -> bool:
        return (
            all(row[i] == value for i, value in exact)
            and (scope.window is None or scope.window.start_ms <= row[1] < scope.window.end_ms)
            and (speaker is None or row[6].lower() == speaker)
            and not any(row[2] == session.session_id and row[1] >= session.since_ms for session in scope.excluded)
            and (scope.project is None or names.display_name(row[4], row[2]) == scope.project)
            and all(pattern.search(row[12]) for pattern in patterns)
        )

    return is_match


def make_case_pattern(piece: str) -> str:
    """Return a regular expression for these characters in either case.

    Both letters are named, since an expression that ignores case takes s and k for the long s and the sign of Kelvin
    as well: one that begins so takes five times as long to look for (measured).
    """
    pattern = ""
    for c in piece:
        if not c.isascii():
            pattern += f"(?i:{c})"
        elif c.isalpha():
            pattern += f"[{c.lower()}{c.upper()}]"
        else:
            pattern += c if c.isdigit() else f"\\{c}"
    return pattern


def make_where(conditions: Sequence[str]) -> str:
    """Return the WHERE clause of all conditions; "" for none."""
    return "WHERE " + " AND ".join(conditions) if conditions else ""
