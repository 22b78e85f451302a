"""The plain form, for any client: events as `ingest` takes them, one object, a list, or one object after another."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from memory_mcp.base.errors import InvalidQuery
from memory_mcp.base.scope import caller_project
from memory_mcp.capture.hooks.base import NO_TEXT, Envelope, HookEvents, MalformedPayload, parse_json
from memory_mcp.capture.payloads import parse_json_values
from memory_mcp.importers.jsonl import draft_of


class PlainHooks:
    """Fills in missing times and projects from the envelope of the hook."""

    #: A hook written by hand sends a payload twice only on purpose.
    ONE_PER_MOMENT: ClassVar[bool] = False

    def parse_payload(self, payload: str, envelope: Envelope) -> HookEvents:
        """Return the events of a payload; one wrong event refuses all of it.

        An event without an id gets "<the envelope's name>#<its place in the payload>".
        """
        try:
            several, _ = parse_json_values(payload)
        except (ValueError, RecursionError):
            several = [parse_json(payload)]
        values = [event for value in several for event in (value if isinstance(value, list) else [value])]
        drafts = []
        for number, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise MalformedPayload("not an event: a JSON object is wanted")
            try:
                draft = draft_of({"timestamp": envelope.received_ms, **value})
            except InvalidQuery as error:
                raise MalformedPayload(error.message) from None
            if not (project := draft.project):
                environ = {"CLAUDE_PROJECT_DIR": envelope.project_dir, "HOME": str(Path.home())}
                project = caller_project(environ, envelope.cwd)
            drafts.append(replace(draft, source_id=draft.source_id or f"{envelope.name}#{number}", project=project))
        return HookEvents(drafts, "" if drafts else NO_TEXT)
