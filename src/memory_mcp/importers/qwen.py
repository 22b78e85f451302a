"""Importer of Qwen Code's session files.

A fork of Gemini CLI: newer versions append records that name their session, directory, branch and version, around messages
in Gemini's form; older ones wrote Gemini CLI's own session files.

Ids: `session_id` is the client's own; `source_id` is the record's uuid, with `#1` and so on for its further parts; a call
has its own id, and that with `#result` for its result.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers.base import ImportReport, ReadStep
from memory_mcp.importers.blocks import as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.gemini.reader import GeminiImporter, is_session, read_session
from memory_mcp.importers.gemini.records import (
    POLITE,
    GeminiReader,
    content_blocks,
    note_unknown_parts,
    parts_text,
    response_text,
)
from memory_mcp.importers.json_records import first_values, parse_time
from memory_mcp.importers.parts import EMPTY, Part, content_id, message_part, note_part, result_part
from memory_mcp.importers.session_reader import UNKNOWN, ParsedRecord, RecordItem, SessionReader, read_appended
from memory_mcp.importers.wrappers import INJECTED, unwrap_prompt
from memory_mcp.model.event import RECAP, RECORD, EventType, Role

AGENT = "qwen"
#: The client's folder, by which its older sessions differ from those of the client it was forked from.
_HOME = ".qwen"
_BOOKKEEPING = frozenset(
    "ui_telemetry attribution_snapshot file_history_snapshot at_command rewind slash_command session_artifact".split()
)


class QwenImporter(GeminiImporter):
    """Reads the sessions of every version of Qwen Code."""

    name = AGENT
    title = "Qwen Code"
    home_variables = ("QWEN_RUNTIME_DIR", "QWEN_HOME")
    home = _HOME
    folders = ("projects", "tmp")

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a file is Qwen Code's.

        Older sessions, in Gemini CLI's form, only in the client's folder.
        """
        for value in first_values(beginning) if file.suffix == ".jsonl" else ():
            if "sessionId" in value and ("parts" in as_mapping(value.get("message")) or "systemPayload" in value):
                return True
        return _HOME in file.parts and is_session(file, beginning)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Return the steps of a session in either form."""
        thinking = self._settings.include_thinking
        if file.suffix == ".json" or (file.parent.name == "chats" and file.name.startswith("session-")):
            return read_session(GeminiReader(file, AGENT, thinking), file, offset, report)
        return read_appended(QwenReader(AGENT, file.stem, thinking), file, offset, report)


class QwenReader(SessionReader):
    """One read of one session of the newer form."""

    def learn_from(self, record: dict[str, object]) -> None:
        self.cwd = self.cwd or as_text(record.get("cwd"))
        if record.get("type") == "user" and not record.get("subtype"):
            self.first_prompt = self.first_prompt or _text_of(record)

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return what a record gives."""
        readers = {
            "user": self._prompt_parts,
            "assistant": self._answer_parts,
            "tool_result": self._result_parts,
            "system": self._system_parts,
        }
        reader = readers.get(as_text(record.get("type")))
        if reader is None:
            return ParsedRecord(skip_reason=UNKNOWN)
        for name, key in (("cwd", "cwd"), ("branch", "gitBranch"), ("version", "version"), ("model", "model")):
            setattr(self, name, as_text(record.get(key)) or getattr(self, name))
        self.session.session_id = as_text(record.get("sessionId")) or self.session.session_id
        self.session.thread = as_text(record.get("agentId")) if record.get("isSidechain") is True else ""
        parts, reason = reader(record)
        source_id = as_text(record.get("uuid")) or f"content:{content_id(record)}"
        parsed_record = ParsedRecord(skip_reason=reason)
        # Thoughts are numbered separately, so that ids do not depend on whether they are kept.
        numbers = {"": 0, "#t": 0}
        for part in parts:
            if key := part.metadata.get("tool_use_id", ""):
                key = f"{key}#result" if part.type is EventType.TOOL_RESULT else key
            else:
                kind = "#t" if part.metadata.get(RECORD) == "thinking" else ""
                number = numbers[kind]
                numbers[kind] += 1
                key = f"{source_id}{kind or '#'}{number}" if kind or number else source_id
            parsed_record.items.append(RecordItem(key, (part,), self.order_time(parse_time(record.get("timestamp")))))
        return parsed_record

    def _prompt_parts(self, record: Mapping[str, object]) -> tuple[list[Part], str]:
        text = _text_of(record)
        if subtype := as_text(record.get("subtype")):
            displayed = words_within(as_mapping(record.get("systemPayload")).get("displayText"))
            return [note_part(displayed or text, record=subtype)], subtype
        unknown_notes = note_unknown_parts(_content_of(record))
        if not text.strip():
            return unknown_notes, EMPTY
        if self.session.thread:
            words = unwrap_prompt(text)[0]
            part = Part(Role.ASSISTANT, EventType.SUBAGENT_START, words.text, left_out=INJECTED if words.reason else "")
            return [part, *unknown_notes], INJECTED if words.reason else ""
        return [message_part(Role.USER, text), *unknown_notes], ""

    def _answer_parts(self, record: Mapping[str, object]) -> tuple[list[Part], str]:
        parts = []
        for block in _blocks_of(record):
            if "functionCall" in block:
                function_call = as_mapping(block["functionCall"])
                parts.append(
                    self.make_call(
                        as_text(function_call.get("name")), function_call.get("args"), as_text(function_call.get("id"))
                    )
                )
            elif block.get("thought") is True:
                parts.append(self.make_thought(words_within(block.get("text"))))
            else:
                parts.append(message_part(Role.ASSISTANT, parts_text([block])))
        parts += note_unknown_parts(_content_of(record))
        return parts, EMPTY

    def _result_parts(self, record: Mapping[str, object]) -> tuple[list[Part], str]:
        call_result = as_mapping(record.get("toolCallResult"))
        failed = call_result.get("status") in ("error", "cancelled")
        parts = []
        for block in _blocks_of(record):
            answer = as_mapping(block.get("functionResponse"))
            call_id = as_text(answer.get("id")) or as_text(call_result.get("callId"))
            name = as_text(answer.get("name")) or self.tool_names.get(call_id, "")
            text = response_text(answer) if answer else parts_text([block]) or words_within(block)
            parts.append(result_part(name, call_id, text or words_within(call_result.get("resultDisplay")), is_error=failed))
        return parts, EMPTY

    def _system_parts(self, record: Mapping[str, object]) -> tuple[list[Part], str]:
        subtype, payload = as_text(record.get("subtype")), as_mapping(record.get("systemPayload"))
        if subtype == "chat_compression":
            texts = [parts_text(content.get("parts")).strip() for content in as_mappings(payload.get("compressedHistory"))]
            # All before the model's polite answer to the summary, without one the first text.
            end = next((number for number, text in enumerate(texts) if text in POLITE), 1)
            return [note_part("\n".join(texts[:end]), record="compacted", **{RECAP: "true"})], subtype
        if subtype == "custom_title":
            return [note_part(as_text(payload.get("customTitle")), record="title")], subtype
        if subtype == "slash_command" and payload.get("phase") == "invocation":
            return [message_part(Role.USER, as_text(payload.get("rawCommand")))], subtype
        return [], f"system {subtype}" if subtype in _BOOKKEEPING else UNKNOWN


def _blocks_of(record: Mapping[str, object]) -> list[Mapping[str, object]]:
    return content_blocks(_content_of(record))


def _content_of(record: Mapping[str, object]) -> object:
    message = as_mapping(record.get("message"))
    return message.get("parts") if "parts" in message else message.get("content")


def _text_of(record: Mapping[str, object]) -> str:
    return parts_text(_content_of(record))
