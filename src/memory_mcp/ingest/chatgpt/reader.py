"""Importer of ChatGPT's account export.

Its maker does not document the format. It is known from descriptions of real exports of 2023 to 2026 and from several
open readers of them, which agree: an array of conversations, in conversations.json or (newer) conversations-000.json and
so on, loose or in the archive that the account is sent.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.ingest.chatgpt.contents import parts_of
from memory_mcp.ingest.chatgpt.tree import nodes_of
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text
from memory_mcp.ingest.exports import ExportImporter
from memory_mcp.ingest.lines import Record
from memory_mcp.ingest.parts import Session, Tally, content_id, note
from memory_mcp.ingest.times import parse_time
from memory_mcp.model.event import EventDraft

AGENT = "chatgpt"


class ChatGptImporter(ExportImporter):
    """Reads account exports of ChatGPT."""

    name = AGENT
    title = "ChatGPT export"
    key = "mapping"
    kind = dict
    not_ours = "not a ChatGPT conversation"
    #: A quote inside a text is escaped, so that no text can look like a key.
    own = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{.*?"mapping"\s*:\s*\{', re.DOTALL)

    def conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one conversation: its title, then its messages, each after its parent, branches as threads.

        A message without a time follows its parent. Messages are counted in `tally`, those without an event with the
        reason.
        """
        del file  # nothing in its name tells about a conversation
        value = record.value
        created, title = parse_time(value.get("create_time")), as_text(value.get("title")).strip()
        name = as_text(value.get("conversation_id")) or as_text(value.get("id")) or content_id(title, created)
        session = Session(AGENT, name, metadata={"custom_gpt": as_text(value.get("gizmo_id"))})
        yield from session.put([note(title, record="title")], f"{name}:title:{content_id(title)}", created)
        ends: dict[str, int | None] = {"": session.last}
        for node in nodes_of(as_mapping(value["mapping"]), as_text(value.get("current_node"))):
            session.last, session.thread = ends.get(node.parent, ends[""]), node.branch
            if node.message:
                yield from self._message(node.message, session, f"{name}:{node.id}", tally, record.line)
            ends[node.id] = session.last

    def _message(
        self, message: Mapping[str, object], session: Session, node_id: str, tally: Tally, line: int
    ) -> tuple[EventDraft, ...]:
        """Return the drafts of one message, counted in `tally` and placed in `session`; `node_id` is used where it has no id."""
        parts = parts_of(message, self._settings.include_thinking)
        metadata = {"model": as_text(as_mapping(message.get("metadata")).get("model_slug"))}
        drafts = session.put(parts, as_text(message.get("id")) or node_id, parse_time(message.get("create_time")), metadata)
        return tally.took(drafts, parts, line, message)
