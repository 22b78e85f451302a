"""Transcripts of Antigravity: `brain/<conversation>/.system_generated/logs/transcript_full.jsonl`, a step a line.

Known from one made sample and public descriptions of real files, not from the client's source. Next to the full transcript
is `transcript.jsonl`, which shortens long texts: it is read only where it is alone.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.blocks import as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import content_id, decode_json, message_part
from memory_mcp.importers.session_reader import GrowingImporter
from memory_mcp.model.event import Role

_FULL, _SHORT = "transcript_full.jsonl", "transcript.jsonl"
_SOURCES = frozenset({"USER_EXPLICIT", "USER_IMPLICIT", "MODEL", "SYSTEM"})
_FOREIGN = "not an Antigravity step"
_REQUEST = re.compile(r"<USER_REQUEST>(.*?)(?:</USER_REQUEST>|\Z)", re.S)
_BESIDE = re.compile(r"<(ADDITIONAL_METADATA|USER_SETTINGS_CHANGE|EPHEMERAL_MESSAGE)>(.*?)(?:</\1>|\Z)", re.S)
_CWD = re.compile(r'"cwd"\s*:\s*"((?:[^"\\]|\\.){1,4096})"')
#: Steps of the model that are words; its other steps are what a tool gave back, named after the tool in older clients.
_WORDS = frozenset({"", "PLANNER_RESPONSE", "NOTIFY_USER"})
_SUMMARY = frozenset({"CHECKPOINT", "CONVERSATION_HISTORY"})
#: Arguments that other clients call otherwise.
_USUAL = {
    "AbsolutePath": "path",
    "TargetFile": "path",
    "DirectoryPath": "path",
    "SearchPath": "folder",
    "CommandLine": "command",
    "Query": "query",
    "Url": "url",
}
#: The lines before a tool's outcome.
_HEADER = re.compile(r"\A(?:(?:Created|Completed) At: [^\n]*\n)+")


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        folder = file.parent.parent.parent if file.parent.name == "logs" else file.with_suffix("")
        super().__init__("antigravity", folder.name, thinking)

    def learn_from(self, record: dict[str, object]) -> None:
        if not self.cwd and record.get("source") == "USER_EXPLICIT":
            match = next((m for b in _BESIDE.findall(as_text(record.get("content"))) if (m := _CWD.search(b[1]))), None)
            self.cwd = match[1] if match else ""

    def convert_record(self, record: dict[str, object]) -> Outcome:
        source, kind = as_text(record.get("source")), as_text(record.get("type"))
        text = chat.words_of(record.get("content"))
        outcome = Outcome(time=parse_time(record.get("created_at")))
        step = record.get("step_index")
        outcome.source_id = content_id(self.session.session_id, step, record.get("created_at"), source, kind, text)
        if source == "USER_EXPLICIT":
            outcome.left_out[chat.INJECTED] += len(_BESIDE.findall(text))
            clean = _BESIDE.sub("", text)
            outcome.parts = [message_part(Role.USER, _REQUEST.sub(r"\1", clean))]
        elif source == "MODEL" and kind in _WORDS:
            thinking = words_within(record.get("thinking"))
            outcome.parts = [*([self.make_thought(thinking)] if thinking else []), message_part(Role.ASSISTANT, text)]
            for call in as_mappings(record.get("tool_calls")):
                arguments = as_mapping(decode_json(call.get("args") or call.get("arguments") or {}))
                usual = {_USUAL.get(key, key): value for key, value in arguments.items()}
                outcome.parts.append(self.make_call(as_text(call.get("name")), usual, as_text(call.get("id"))))
        elif source == "MODEL":
            error = record.get("status") == "ERROR"
            outcome.parts = [self.make_result(_HEADER.sub("", text), "", kind.lower(), error)]
        elif source in _SOURCES and kind in _SUMMARY:
            outcome.parts = [chat.recap_part(text, kind.lower())]
        else:
            return skipped_outcome("written by the client" if source in _SOURCES else _FOREIGN)
        return outcome


class AntigravityImporter(GrowingImporter):
    """Reads the transcripts of Antigravity."""

    name = "antigravity"
    title = "Antigravity"
    reader = _Reader
    home_variables, home, folders = (), ".gemini", ("antigravity-cli/brain", "antigravity/brain", "antigravity-ide/brain")
    endings = (_FULL, _SHORT)

    def wants_file(self, file: Path) -> bool:
        return file.name != _SHORT or not file.with_name(_FULL).exists()

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        return as_text(value.get("source")) in _SOURCES and ("content" in value or "step_index" in value)
