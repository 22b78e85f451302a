"""Importer of ChatGPT's account export.

Its maker does not document the format. It is known from descriptions of real exports of 2023 to 2026 and from several
open readers of them, which agree: an array of conversations, in conversations.json or (newer) conversations-000.json and
so on, loose or in the archive that the account is sent.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.ingest.chatgpt.contents import parts_of
from memory_mcp.ingest.chatgpt.tree import nodes_of
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text, words_within
from memory_mcp.ingest.exports import ExportImporter
from memory_mcp.ingest.lines import Record
from memory_mcp.ingest.parts import Session, Tally, content_id, file_time, note_part
from memory_mcp.ingest.times import parse_time
from memory_mcp.model.event import EventDraft

AGENT = "chatgpt"


class ChatGptImporter(ExportImporter):
    """Reads account exports of ChatGPT."""

    name = AGENT
    title = "ChatGPT export"
    messages_key = "mapping"
    messages_type = dict
    skip_reason = "not a ChatGPT conversation"
    #: A quote inside a text is escaped, so that no text can look like a key.
    beginning_pattern = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{.*?"mapping"\s*:\s*\{', re.DOTALL)

    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one conversation: its title, then its messages, each after its parent, branches as threads.

        A message without a time follows its parent. Messages are counted in `tally`, those without an event with the
        reason.
        """
        value = record.value
        created, title = parse_time(value.get("create_time")), words_within(value.get("title")).strip()
        name = as_text(value.get("conversation_id")) or as_text(value.get("id")) or content_id(title, created)
        session = Session(AGENT, name, metadata={"custom_gpt": as_text(value.get("gizmo_id"))}, file_time=file_time(file))
        yield from session.make_drafts([note_part(title, record="title")], f"{name}:title:{content_id(title)}", created)
        ends: dict[str, int | None] = {"": session.last_time}
        for node in nodes_of(as_mapping(value["mapping"]), as_text(value.get("current_node"))):
            session.last_time, session.thread = ends.get(node.parent, ends[""]), node.branch
            if node.message:
                parts = parts_of(node.message, self._settings.include_thinking)
                source_id, own_time = as_text(node.message.get("id")), parse_time(node.message.get("create_time"))
                model = as_text(as_mapping(node.message.get("metadata")).get("model_slug"))
                drafts = session.make_drafts(parts, source_id or f"{name}:{node.id}", own_time, {"model": model})
                yield from tally.count_record(drafts, parts, record.line, node.message)
            ends[node.id] = session.last_time
