"""Sessions of the Grok command line: `sessions/<directory>/<session>/updates.jsonl`, updates of the Agent Client Protocol.

Known from one made sample and public descriptions of real files, not from the client's source: words, tool calls and
their outcome, recaps and the turn's end are read; everything else is counted.

A message is one chunk in the client's files; where it is several, each is an event of its own: what follows may not be written
yet.
"""

from collections.abc import Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import Part, content_id, message_part, unread_block_notes
from memory_mcp.importers.session_reader import GrowingImporter
from memory_mcp.model.event import Role

_BOOKKEEPING = frozenset(
    "turn_completed turn_started plan available_commands_update current_mode_update usage_update session_info_update"
    " subagent_spawned subagent_finished tool_call_progress hook_execution config_option_update".split()
)
_FOREIGN = "not a Grok update"
_ENDED = frozenset({"completed", "failed"})


def _update_of(value: Mapping[str, object]) -> Mapping[str, object]:
    return as_mapping(as_mapping(value.get("params")).get("update"))


def _update_text(update: Mapping[str, object]) -> str:
    return "".join(map(chat.words_of_block, as_blocks(update.get("content"))))


def _message_parts(update: Mapping[str, object], role: Role) -> list[Part]:
    blocks = as_blocks(update.get("content"))
    texts = [chat.text_of(block) for block in blocks]
    return [message_part(role, "".join(texts)), *unread_block_notes(blocks, texts)]


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        info = as_mapping(as_mapping(chat.load_json_near(file.with_name("summary.json"))).get("info"))
        super().__init__("grok", as_text(info.get("id")) or file.parent.name, thinking)
        self.cwd = as_text(info.get("cwd"))

    def learn_from(self, record: dict[str, object]) -> None:
        session_id = as_text(as_mapping(record.get("params")).get("sessionId"))
        self.session.session_id = session_id or self.session.session_id

    def convert_record(self, record: dict[str, object]) -> Outcome:
        """Return what one update gives; a call that already ended gives both."""
        params, update = as_mapping(record.get("params")), _update_of(record)
        self.model = as_text(as_mapping(update.get("_meta")).get("modelId")) or self.model
        kind = as_text(update.get("sessionUpdate"))
        meta = as_mapping(params.get("_meta"))
        outcome = Outcome(time=parse_time(meta.get("agentTimestampMs")) or parse_time(record.get("timestamp")))
        event = as_text(meta.get("eventId"))
        outcome.source_id = event or content_id(self.session.session_id, record.get("timestamp"), update)
        if kind == "agent_thought_chunk":
            outcome.parts = [self.make_thought(_update_text(update))]
        elif kind == "agent_message_chunk":
            outcome.parts = _message_parts(update, Role.ASSISTANT)
        elif kind == "user_message_chunk" and as_mapping(update.get("_meta")).get("hideFromScrollback") is True:
            outcome.left_out[chat.INJECTED] += 1
        elif kind == "user_message_chunk":
            outcome.parts = _message_parts(update, Role.USER)
        elif kind == "tool_call":
            call = as_text(update.get("toolCallId"))
            tool_info = as_mapping(as_mapping(update.get("_meta")).get("x.ai/tool"))
            tool = as_text(tool_info.get("name")) or words_within(update.get("title")) or as_text(update.get("kind"))
            outcome.parts = [self.make_call(tool, update.get("rawInput") or {}, call)]
            if as_text(update.get("status")) in _ENDED:
                outcome.parts.append(self._tool_result(update))
        elif kind == "tool_call_update":
            if as_text(update.get("status")) not in _ENDED:
                return skipped_outcome("tool progress")
            outcome.parts = [self._tool_result(update)]
        elif kind == "session_recap":
            texts = (words_within(update.get(key)) for key in ("recap", "summary", "text"))
            text = next(filter(None, texts), "") or _update_text(update)
            outcome.parts = [chat.recap_part(text, kind)]
        else:
            return skipped_outcome(kind if kind in _BOOKKEEPING else _FOREIGN)
        return outcome

    def _tool_result(self, update: Mapping[str, object]) -> Part:
        texts = []
        for block in as_blocks(update.get("content")):
            inner = as_mapping(block.get("content")) if block.get("type") == "content" else block
            texts.append(f"[changed {as_text(block.get('path'))}]" if block.get("type") == "diff" else chat.words_of_block(inner))
        raw = update.get("rawOutput")
        text = "\n".join(filter(None, texts)) or as_text(as_mapping(raw).get("output")) or words_within(raw)
        error = update.get("status") == "failed"
        return self.make_result(text, as_text(update.get("toolCallId")), error=error)


class GrokImporter(GrowingImporter):
    """Reads the sessions of Grok."""

    name = "grok"
    title = "Grok"
    reader = _Reader
    home_variables, home, folders = ("GROK_HOME",), ".grok", ("sessions",)
    endings = ("updates.jsonl",)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        return "sessionUpdate" in _update_of(value)
