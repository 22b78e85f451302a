"""Importer of Claude.ai's account export.

Its maker does not document the format. It is known from schemas made of real exports of 2024 to 2026 and from several
open readers of them, which agree: an array of conversations in conversations.json, loose or in the archive that the
account is sent; each has `chat_messages` in order, with content blocks like those of the Messages API and a plain `text`
that older exports have alone. Messages that were edited away are in the same list, known by `parent_message_uuid`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memory_mcp.importers.blocks import as_blocks, as_list, as_mappings, as_text, block_text, result_text, words_within
from memory_mcp.importers.client_importer import ExportImporter
from memory_mcp.importers.json_records import Record, parse_time
from memory_mcp.importers.parts import (
    Part,
    Session,
    Tally,
    call_part,
    content_id,
    file_time,
    left_out_part,
    message_part,
    note_part,
    result_part,
    thought_part,
    unknown_block_notes,
    unread_block_notes,
)
from memory_mcp.model.event import RECAP, RECORD, EventDraft, EventType, Role

AGENT = "claude-ai"
_ROLES = {"human": Role.USER, "user": Role.USER, "assistant": Role.ASSISTANT}
#: Bookkeeping between the blocks.
_SILENT = frozenset({"token_budget", "flag"})
#: The text of an older export for blocks that it leaves out.
_UNSUPPORTED = "This block is not supported on your current device yet."
#: Documents that both write; their `command` is create, update or rewrite, and none of a shell.
_ARTIFACTS = "artifacts"


class ClaudeAiImporter(ExportImporter):
    """Reads account exports of Claude.ai."""

    name = AGENT
    title = "Claude.ai export"
    messages_key = "chat_messages"
    skip_reason = "not a Claude.ai conversation"
    #: A quote inside a text is escaped, so that no text can look like a key.
    beginning_pattern = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*(?:\[\s*)?\{.*?"chat_messages"\s*:\s*\[', re.DOTALL)

    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield a conversation's title, its messages, branches as threads, and summary."""
        value = record.value
        created, title = parse_time(value.get("created_at")), words_within(value.get("name")).strip()
        name = as_text(value.get("uuid")) or content_id(title, created)
        session = Session(AGENT, name, metadata={"model": as_text(value.get("model"))}, file_time=file_time(file))
        yield from session.make_drafts([note_part(title, record="title")], f"{name}:title:{content_id(title)}", created)
        listed = as_list(value["chat_messages"])
        messages = as_mappings(listed)
        branches = _branches_of(messages, as_text(value.get("current_leaf_message_uuid")))
        for number, (message, branch) in enumerate(zip(messages, branches, strict=True)):
            session.thread = branch
            source_id = as_text(message.get("uuid")) or f"{name}:{number}:{content_id(listed[number])}"
            parts = list(self._iter_parts(message))
            drafts = session.make_drafts(parts, source_id, parse_time(message.get("created_at")))
            yield from tally.count_record(drafts, parts, record.line, listed[number])
        # It sums up all of the conversation: without a time it comes after the last message, and is
        # known again when the conversation has gone on.
        session.thread, session.last_time, summary = "", None, words_within(value.get("summary"))
        yield from session.make_drafts([note_part(summary, **{RECAP: "true"})], f"{name}:summary:{content_id(summary)}", None)

    def _iter_parts(self, message: Mapping[str, object]) -> Iterator[Part]:
        role = _ROLES.get(as_text(message.get("sender")))
        if role is None:
            yield left_out_part(f"{as_text(message.get('sender')) or 'unknown'} message")
            return
        blocks = as_blocks(message.get("content"))
        if not any(b.get("text") or b.get("type") != "text" for b in blocks):
            blocks = as_blocks(words_within(message.get("text")).replace(_UNSUPPORTED, ""))
        if role is Role.USER:
            yield from _iter_prompt_parts(message, blocks)
            return
        calls: dict[str, str] = {}
        for block in blocks:
            kind, name, text = as_text(block.get("type")), as_text(block.get("name")), block_text(block)
            if kind in ("thinking", "redacted_thinking", "reasoning"):
                words = words_within(block.get("thinking")) or words_within(block.get("text"))
                yield thought_part(words, self._settings.include_thinking)
            elif kind == "tool_use":
                call_id = as_text(block.get("id"))
                calls[call_id] = name
                usual = {"command": ""} if name == _ARTIFACTS else {}
                yield call_part(name, block.get("input"), call_id, server=as_text(block.get("integration_name")), **usual)
            elif kind == "tool_result":
                call_id = as_text(block.get("tool_use_id"))
                content, failed = result_text(block.get("content")), block.get("is_error") is True
                yield result_part(name or calls.get(call_id, ""), call_id, content, failed)
            elif kind in _SILENT:
                yield left_out_part(kind)
            elif text or kind == "text":
                yield message_part(Role.ASSISTANT, text)
            else:
                yield from unknown_block_notes(block) or [left_out_part(f"{kind or 'unknown'} block")]


def _iter_prompt_parts(message: Mapping[str, object], blocks: Sequence[Mapping[str, object]]) -> Iterator[Part]:
    """Yield what the user typed, then each attachment's text.

    A long paste is an attachment without a name, and counts as said by the user.
    """
    texts = [block_text(block) for block in blocks]
    attached = as_blocks(message.get("attachments"))
    files = [as_text(file.get("file_name")) for key in ("files", "files_v2") for file in as_mappings(message.get(key))]
    names = list(dict.fromkeys(filter(None, [*(as_text(a.get("file_name")) for a in attached), *files])))
    words = "\n".join(filter(str.strip, [*texts, *(f"[{name}]" for name in names)]))
    yield message_part(Role.USER, words, files="\n".join(names))
    yield from unread_block_notes(blocks, texts)
    for attachment in attached:
        name, text = as_text(attachment.get("file_name")), words_within(attachment.get("extracted_content"))
        if name:
            yield Part(Role.SYSTEM, EventType.NOTE, f"[{name}]\n{text}" if text else "", {RECORD: "attachment", "files": name})
        elif text:
            yield message_part(Role.USER, text, record="pasted")
        else:
            yield from unknown_block_notes(attachment, "attachment") or [message_part(Role.USER, "")]


def _branches_of(messages: Sequence[Mapping[str, object]], leaf: str) -> list[str]:
    """Return each message's branch: "" if shown last, else "branch:<id>".

    What was shown last are `leaf`, else the last message, and the messages above it. Exports without parents have no branches.
    """
    parents = {as_text(m.get("uuid")): as_text(m.get("parent_message_uuid")) for m in messages}
    if not any(parents.values()):
        return [""] * len(messages)
    shown_ids: set[str] = set()
    at = leaf if leaf and leaf in parents else next(reversed([name for name in parents if name]), "")
    while at in parents and at not in shown_ids:
        shown_ids.add(at)
        at = parents[at]
    branches: dict[str, str] = {}
    for message in messages:
        message_id, parent = as_text(message.get("uuid")), as_text(message.get("parent_message_uuid"))
        branches[message_id] = "" if message_id in shown_ids else branches.get(parent, "") or f"branch:{message_id}"
    return [branches[as_text(m.get("uuid"))] for m in messages]
