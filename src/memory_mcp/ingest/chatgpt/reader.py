"""ChatGPT's account export in, reads of event drafts out.

Its maker does not document the format. It is known from descriptions of real exports of 2023 to 2026 and from several
open readers of them, which agree: an array of conversations, in conversations.json or (newer) conversations-000.json and
so on, loose or in the archive that the account is sent.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.ingest.base import Growth, ImportReport, Read
from memory_mcp.ingest.chatgpt.contents import parts_of
from memory_mcp.ingest.chatgpt.tree import nodes_of
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_text
from memory_mcp.ingest.exports import beginning_of, export_files, iter_conversations
from memory_mcp.ingest.lines import Record
from memory_mcp.ingest.parts import Session, Tally, content_id, note
from memory_mcp.ingest.settings import IngestSettings
from memory_mcp.ingest.times import parse_time
from memory_mcp.model.event import EventDraft

AGENT = "chatgpt"
_NOT_OURS = "not a ChatGPT conversation"
#: A quote inside a text is escaped, so that no text can look like a key.
_OWN = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{.*?"mapping"\s*:\s*\{', re.DOTALL)


class ChatGptImporter:
    """Reads what ChatGPT's account settings export."""

    name = AGENT
    title = "ChatGPT export"
    growth = Growth.REWRITTEN

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings

    def default_paths(self) -> tuple[Path, ...]:
        """There is none: an export is downloaded to wherever its owner wants it."""
        return ()

    def files(self, path: Path) -> Iterator[Path]:
        """See `Importer`."""
        return export_files(path)

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """See `Importer`: no other export keeps its messages in a tree."""
        return file.suffix in (".json", ".zip") and _OWN.match(beginning_of(beginning)) is not None

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """See `Importer`; a record is a message, a step a conversation."""
        del offset  # what is written anew as a whole is read from its start
        tally = Tally(report, file)
        for record in tally.whole(iter_conversations(file)):
            if isinstance(record.value.get("mapping"), dict):
                yield Read(tuple(self._conversation(record, tally)), record.reached)
            else:
                tally.skip(_NOT_OURS, record.line, record.quote)
                yield Read((), record.reached)

    def _conversation(self, record: Record, tally: Tally) -> Iterator[EventDraft]:
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
        parts = parts_of(message, self._settings.include_thinking)
        metadata = {"model": as_text(as_mapping(message.get("metadata")).get("model_slug"))}
        drafts = session.put(parts, as_text(message.get("id")) or node_id, parse_time(message.get("create_time")), metadata)
        return tally.took(drafts, parts, line, message)
