"""Conditions of SQL statements about events, with their parameters, from a scope and from texts that are looked for.

Nothing here depends on the locale of the database: letters that are not ASCII are folded in Python.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.event import HOOK
from memory_mcp.model.project import ProjectNames
from memory_mcp.storage.values import Scope
from memory_mcp_team.postgres.connection import own

#: An event's words, as texts are looked for in them.
EVENT_WORDS = "concat_ws(' ', e.speaker, e.text, e.metadata)"


def is_shown(alias: str = "e") -> str:
    """Return the condition that event `alias` is shown: none replaces it."""
    return f"NOT EXISTS (SELECT 1 FROM duplicate d WHERE {own('d')} AND d.event_id = {alias}.event_id)"


def shown_in_session(session: str) -> str:
    """Return the condition that event `e` is shown in the parameter `session`."""
    inside = f"EXISTS (SELECT 1 FROM event c WHERE {own('c')} AND c.event_id = d.canonical AND c.session_id = {session})"
    return f"""NOT EXISTS (SELECT 1 FROM duplicate d WHERE {own("d")} AND d.event_id = e.event_id
      AND (starts_with(e.source, '{HOOK}') OR {inside}))"""


@dataclass(slots=True)
class Conditions:
    """Conditions of a statement about events `e`, and their parameters."""

    texts: list[str] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)

    def add_condition(self, text: str, *values: object) -> None:
        """Add a condition with a `{}` for each value."""
        self.texts.append(text.format(*map(self.add_parameter, values)))

    def add_parameter(self, value: object) -> str:
        """Add a value as parameter p0, p1, ...; return its placeholder."""
        name = f"p{len(self.parameters)}"
        self.parameters[name] = value
        return f"%({name})s"

    @property
    def text(self) -> str:
        """The conditions joined by AND; "" without any."""
        return " AND ".join(self.texts)


def make_scope_conditions(scope: Scope, session_id: str | None, names: ProjectNames) -> Conditions:
    """Return the conditions of a scope and session.

    Without that it belongs to this memory (`own`). The window's end is not included; the speaker's case does not matter.
    """
    conditions = Conditions()
    conditions.texts.append(is_shown() if session_id is None else shown_in_session(conditions.add_parameter(session_id)))
    if scope.project is not None:
        # The names it was recorded with, without the sessions that were split off it and with those that were split off into it.
        condition = f"e.project = ANY({conditions.add_parameter(list(names.recorded_names(scope.project)))}::text[])"
        moved = names.moved_sessions() if names.splits else {}
        if out := [pair for pair in moved if names.resolve_alias(pair[0]) == scope.project]:
            condition += f" AND NOT {_match_pairs(conditions, out)}"
        if into := [pair for pair, new in moved.items() if new == scope.project]:
            condition = f"({condition} OR {_match_pairs(conditions, into)})"
        conditions.texts.append(condition)
    for column, value in (("agent", scope.agent), ("session_id", session_id), ("role", scope.role)):
        if value is not None:
            conditions.add_condition(f"e.{column} = {{}}", value)
    if scope.speaker is not None:
        conditions.add_condition("e.speaker ~ {}", f"^{_in_either_case(scope.speaker)}$")
    if scope.window:
        conditions.add_condition("e.ts >= {} AND e.ts < {}", scope.window.start_ms, scope.window.end_ms)
    for left_out in sorted(scope.excluded, key=lambda excluded: excluded.session_id):
        conditions.add_condition("NOT (e.session_id = {} AND e.ts >= {})", left_out.session_id, left_out.since_ms)
    return conditions


def _match_pairs(conditions: Conditions, pairs: Sequence[tuple[str, str]]) -> str:
    columns = [conditions.add_parameter([pair[index] for pair in pairs]) for index in (0, 1)]
    arrays = ", ".join(f"{column}::text[]" for column in columns)
    return f"(e.project, e.session_id) IN (SELECT m.project, m.session_id FROM unnest({arrays}) AS m(project, session_id))"


def add_text_condition(conditions: Conditions, text: str) -> None:
    """Add the condition that an event holds a text.

    Neither case nor the kind of white space matters.
    """
    pieces = text.split()
    expression = "\\s+".join(map(_in_either_case, pieces))
    plain = max((piece for piece in pieces if piece.isascii()), key=len, default="")
    if not plain:
        conditions.add_condition("e.text ~ {}", expression)
    elif len(pieces) == 1:
        conditions.add_condition(f"strpos({fold_case('e.text')}, {{}}) > 0", plain.lower())
    else:
        # An expression costs several times what looking for a word does.
        conditions.add_condition(
            f"CASE WHEN strpos({fold_case('e.text')}, {{}}) > 0 THEN e.text ~ {{}} ELSE false END", plain.lower(), expression
        )


def fold_case(text: str) -> str:
    """Return the expression for a text in ASCII lower case."""
    return f'lower({text} COLLATE "C")'


def sum_weights(conditions: Conditions, probes: Mapping[str, float]) -> str:
    """Return the expression for the weights of texts in `whole`.

    `folded` has to be the same text with its ASCII letters in lower case; other texts are looked for by a regular expression.
    """
    parts = []
    for text, weight in probes.items():
        matches = f"strpos(folded, {conditions.add_parameter(text)}) > 0"
        if not text.isascii():
            matches = f"whole ~ {conditions.add_parameter(_in_either_case(text))}"
        parts.append(f"CASE WHEN {matches} THEN {conditions.add_parameter(weight)}::float8 ELSE 0 END")
    return " + ".join(parts) or "0::float8"


def _in_either_case(piece: str) -> str:
    pattern = ""
    for c in piece:
        forms = {c, *(form for form in (c.lower(), c.upper(), c.title(), c.upper().lower(), c.casefold()) if len(form) == 1)}
        if len(forms) > 1:
            pattern += f"[{''.join(sorted(forms))}]"
        else:
            pattern += c if c.isalnum() or not c.isascii() else f"\\{c}"
    return pattern
