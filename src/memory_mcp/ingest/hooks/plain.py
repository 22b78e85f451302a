"""The plain form, for any client: events as `ingest` takes them, one object, a list, or one object after another."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import caller_project
from memory_mcp.ingest.hooks.base import NO_TEXT, Envelope, Heard, Malformed, parsed
from memory_mcp.ingest.jsonl import draft_of
from memory_mcp.ingest.payloads import parse_json_values


class PlainHooks:
    """Missing fields come from the envelope: the time of receipt, and the project of the hook's directory."""

    #: A hook written by hand sends a payload twice only on purpose.
    ONE_PER_MOMENT: ClassVar[bool] = False

    def read(self, payload: str, envelope: Envelope) -> Heard:
        """Return the events of a payload, for none the reason "no text". One wrong event refuses all of it: raises Malformed.

        An event without an id gets "<the envelope's name>#<its place in the payload>".
        """
        try:
            several, _ = parse_json_values(payload)
        except (ValueError, RecursionError):
            several = [parsed(payload)]
        values = [event for value in several for event in (value if isinstance(value, list) else [value])]
        drafts = []
        for number, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise Malformed("not an event: a JSON object is wanted")
            try:
                draft = draft_of({"timestamp": envelope.received_ms, **value})
            except InvalidQuery as error:
                raise Malformed(error.message) from None
            if not (project := draft.project):
                environ = {"CLAUDE_PROJECT_DIR": envelope.project_dir, "HOME": str(Path.home())}
                project = caller_project(environ, envelope.cwd)
            drafts.append(replace(draft, source_id=draft.source_id or f"{envelope.name}#{number}", project=project))
        return Heard(drafts, "" if drafts else NO_TEXT)
