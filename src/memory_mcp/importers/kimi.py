"""Sessions of Kimi Code: `sessions/<directory>/<session>/agents/<agent>/wire.jsonl`, a record of every step, a line each.

Parts of an answer are records of their own. What the client says in the user's place (reminders, results of hooks) is known
by its origin.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import Part, content_id, message_part, unknown_block_notes
from memory_mcp.importers.session_reader import GrowingImporter
from memory_mcp.model.event import EventType, Role

#: How the records of a wire begin, the header apart.
_FAMILIES = tuple(
    "config context cron file_history full_compaction goal llm mcp micro_compaction permission plan_mode profile swarm_mode"
    " tools turn usage".split()
)
_APPENDED, _STEP, _COMPACTED = "context.append_message", "context.append_loop_event", "context.apply_compaction"
_STEPS = frozenset("step.begin step.end step.retry llm.request llm.response".split())
_FOREIGN = "not a Kimi Code record"
#: Origins of texts that the client puts in for the model alone.
_INJECTIONS = frozenset({"injection", "skill_activation", "plugin_command"})
_COMMANDS = frozenset({"shell_command", "skill_activation", "plugin_command"})
_REMINDER = re.compile(r"<system-reminder>.*?(?:</system-reminder>|\Z)", re.S)


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        nested = file.parent.parent.name == "agents"
        folder = file.parent.parent.parent if nested else file.parent
        state = as_mapping(chat.load_json_near(folder / "state.json"))
        super().__init__("kimi", as_text(state.get("id")) or (folder.name if nested else file.stem), thinking)
        self.cwd = as_text(state.get("workDir")) or as_text(state.get("cwd"))
        self.session.thread = file.parent.name if nested and file.parent.name != "main" else ""

    def learn_from(self, record: dict[str, object]) -> None:
        super().learn_from(record)
        if record.get("type") == "metadata":
            self.version = f"wire {record.get('protocol_version')}"

    def author_of(self, record: Mapping[str, object]) -> str:
        """Return who wrote a record; a person's command is the person's."""
        origin = as_mapping(as_mapping(record.get("message")).get("origin"))
        return "" if as_text(origin.get("kind")) in _COMMANDS else super().author_of(record)

    def convert_record(self, record: dict[str, object]) -> Outcome:
        kind = as_text(record.get("type"))
        if kind in ("config.update", "profile.bind", "llm.request"):
            self.model = as_text(record.get("modelAlias")) or as_text(record.get("model")) or self.model
        outcome = Outcome(time=parse_time(record.get("time")))
        if kind == _APPENDED:
            self._convert_message(as_mapping(record.get("message")), outcome)
        elif kind == _STEP:
            self._convert_step(as_mapping(record.get("event")), outcome)
        elif kind == _COMPACTED:
            outcome.parts = [chat.recap_part(words_within(record.get("summary")), "compaction")]
        else:
            is_known = kind == "forked" or kind.startswith(_FAMILIES) or KimiImporter.is_own_record(record)
            return skipped_outcome("bookkeeping" if is_known else _FOREIGN)
        words = record.get("message") or record.get("event") or record.get("summary")
        outcome.source_id = content_id(self.session.session_id, self.session.thread, kind, record.get("time"), words)
        return outcome

    def _convert_message(self, message: Mapping[str, object], outcome: Outcome) -> None:
        role = message.get("role")
        texts: list[str] = []
        unknown_notes: list[Part] = []
        for block in as_blocks(message.get("content")):
            clean, reminders = _REMINDER.subn("", chat.words_of_block(block) if role == "tool" else chat.text_of(block))
            outcome.left_out[chat.INJECTED] += reminders
            if clean.strip():
                texts.append(clean.strip())
            elif not reminders and role != "tool":
                unknown_notes += unknown_block_notes(block)
        if role == "user":
            self._convert_prompt("\n".join(texts), as_mapping(message.get("origin")), outcome)
        elif role == "assistant":
            outcome.parts = [message_part(Role.ASSISTANT, text) for text in texts]
            for tool_call in as_mappings(message.get("toolCalls")):
                inner = as_mapping(tool_call.get("function")) or tool_call
                outcome.parts.append(
                    self.make_call(as_text(inner.get("name")), inner.get("arguments"), as_text(tool_call.get("id")))
                )
        elif role == "tool":
            call, failed = as_text(message.get("toolCallId")), message.get("isError") is True
            outcome.parts = [self.make_result(texts, call, error=failed)]
        else:
            outcome.skip_reason = "system prompt" if role == "system" else _FOREIGN
            return
        outcome.parts += unknown_notes

    def _convert_prompt(self, text: str, origin: Mapping[str, object], outcome: Outcome) -> None:
        kind = as_text(origin.get("kind")) or "user"
        if kind == "compaction_summary":
            outcome.parts = [chat.recap_part(text, "compaction")]
        elif kind in _COMMANDS and kind != "shell_command" and origin.get("trigger") == "user-slash":
            outcome.left_out["skill text"] += 1
            name = as_text(origin.get("skillName")) or as_text(origin.get("commandName"))
            arguments = as_text(origin.get("skillArgs")) or as_text(origin.get("commandArgs"))
            outcome.parts = [message_part(Role.USER, f"/{name} {arguments}")]
        elif kind == "shell_command":
            typed = origin.get("phase") == "input"
            outcome.parts = [message_part(Role.USER, f"! {text}") if typed else Part(Role.TOOL, EventType.NOTE, text)]
        elif kind in _INJECTIONS:
            outcome.left_out[chat.INJECTED] += 1
        else:
            # Another author than the person is named by the same origin: see `separate_prompts`.
            outcome.parts = [self.make_prompt(text)]

    def _convert_step(self, event: Mapping[str, object], outcome: Outcome) -> None:
        kind, call = as_text(event.get("type")), as_text(event.get("toolCallId"))
        if kind == "content.part":
            part = as_mapping(event.get("part"))
            if part.get("type") == "think":
                outcome.parts = [self.make_thought(words_within(part.get("think")) or words_within(part.get("text")))]
            else:
                outcome.parts = chat.read_block(part, Role.ASSISTANT)
        elif kind == "tool.call":
            outcome.parts = [self.make_call(as_text(event.get("name")), event.get("args") or {}, call)]
        elif kind == "tool.result":
            result = as_mapping(event.get("result"))
            outcome.parts = [self.make_result(result.get("output"), call, error=result.get("isError") is True)]
        else:
            outcome.skip_reason = "bookkeeping" if kind in _STEPS else _FOREIGN


class KimiImporter(GrowingImporter):
    """Reads the sessions of Kimi Code."""

    name = "kimi"
    title = "Kimi Code"
    reader = _Reader
    home_variables, home, folders = ("KIMI_CODE_HOME",), ".kimi-code", ("sessions",)
    endings = ("wire.jsonl",)

    def wants_file(self, file: Path) -> bool:
        """Return whether a wire is an agent's.

        The older client's wires add nothing.
        """
        return file.parent.parent.name == "agents"

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        kind = as_text(value.get("type"))
        if kind == "metadata":
            return "protocol_version" in value
        return kind.startswith(_FAMILIES) and "." in kind and "time" in value
