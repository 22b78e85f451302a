"""Conversations of Cline (tasks of the editor extension, sessions of the command) and of Roo Code, written as a whole.

A task keeps its messages, as the model's interface takes them, in one array; a session keeps the same messages under
`messages` with ids and times. Older clients wrote tool calls as XML into the answers and the results as texts with a
heading into the next message; both are recognised here by the clients' own tool names.

An id follows from the conversation, what the message says and how often it was said there before: clients drop and
insert messages, so a place in the array means nothing.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.answers import refusal_words, reply_metadata
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome
from memory_mcp.importers.client_importer import ClientImporter, editor_data
from memory_mcp.importers.cline_text import PromptWords, split_answer, split_prompt
from memory_mcp.importers.json_records import NOT_AN_OBJECT, Record, first_values, iter_records, parse_time
from memory_mcp.importers.parts import Part, content_id, file_time, message_part, unknown_block_notes
from memory_mcp.importers.session_reader import read_records
from memory_mcp.model.event import Role

_TASK, _SESSION = "api_conversation_history.json", ".messages.json"
_EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf")
_EXTENSIONS = ("saoudrizwan.claude-dev", "rooveterinaryinc.roo-cline")
_FOREIGN = "not a Cline message"
#: Tools by which the model speaks to the user: the argument holds its words.
_SPEAKING = {
    "attempt_completion": "result",
    "plan_mode_respond": "response",
    "ask_followup_question": "question",
    "submit_and_exit": "summary",
}
#: Folders that only Roo Code has.
_ROO = frozenset({".roo", "roo", _EXTENSIONS[1]})
#: A task is named by when it began, milliseconds.
_MOMENT = re.compile(r"\d{13}\Z")


class ClineImporter(ClientImporter):
    """Reads the conversations of Cline and Roo Code."""

    name = "cline"
    title = "Cline and Roo Code"
    growth = Growth.REWRITTEN
    endings = (_TASK, _SESSION)

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folders of Cline, Roo and both extensions."""
        home = Path.home()
        cline_home = Path(os.environ.get("CLINE_DIR") or home / ".cline").expanduser()
        folders = [cline_home / "data" / "sessions", cline_home / "data" / "tasks", home / ".roo" / "tasks"]
        for editor in _EDITORS:
            folders += [editor_data() / editor / "User" / "globalStorage" / name / "tasks" for name in _EXTENSIONS]
        return tuple(folders)

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether name and beginning are a conversation's."""
        if file.name.endswith(_SESSION):
            return beginning.lstrip().startswith(b"{") and b'"messages"' in beginning
        return file.name == _TASK and any("role" in value and "content" in value for value in first_values(beginning))

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each message, from the file's start."""
        del offset
        reader = _Reader(file, self._settings.include_thinking)
        session = reader.session
        for record in iter_records(file):
            several = record.value.get("messages")
            if record.error or not isinstance(several, list):
                yield from read_records(reader, file, (record,), report)
                continue
            if not session.thread:
                session.session_id = as_text(record.value.get("sessionId")) or session.session_id
            for value in several:
                fields, error = (value, "") if isinstance(value, dict) else ({}, NOT_AN_OBJECT)
                message = Record(fields, record.line, record.offset, str(value)[:1024], error)
                yield from read_records(reader, file, (message,), report)


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        """Read directory and model from the small files next to a conversation.

        Raises OSError when a task's file is missing.
        """
        self._is_first = True
        folder = file.parent
        history = as_mapping(chat.load_json_near(folder / "history_item.json"))
        roo = bool(history) or not _ROO.isdisjoint(file.parts)
        super().__init__("roo" if roo else "cline", folder.name, thinking)
        self.infers_times = True
        if file.name == _TASK:
            # The directory is in the task's history, its own or that of all tasks.
            if not history:
                tasks = as_mappings(chat.load_json_near(folder.parent.parent / "state" / "taskHistory.json"))
                history = next((task for task in tasks if task.get("id") == folder.name), {})
            self.cwd = as_text(history.get("workspace")) or as_text(history.get("cwdOnTaskInitialization"))
            self.session.file_time = file_time(file)
        else:
            # The manifest gives directory and model; a file of another name belongs to a subagent.
            stem = file.name.removesuffix(_SESSION)
            self.session.thread = "" if stem == folder.name else stem
            manifest = as_mapping(chat.load_json_near(folder / f"{folder.name}.json"))
            self.cwd = as_text(manifest.get("cwd")) or as_text(manifest.get("workspace_root"))
            self.model = "" if self.session.thread else as_text(manifest.get("model"))

    def convert_record(self, record: dict[str, object]) -> Outcome:
        """Return what one message gives.

        A first message without a time has the one in the task's name.
        """
        role = record.get("role")
        model_info = as_mapping(record.get("modelInfo")) if role == "assistant" else {}
        model = as_text(model_info.get("id")) or as_text(model_info.get("modelId"))
        outcome = Outcome(time=parse_time(record.get("ts")), metadata={"model": model})
        blocks = as_blocks(record.get("content"))
        if record.get("isSummary") is True:
            outcome.parts = [chat.recap_part(chat.words_of(record.get("content")), "summary")]
        elif role == "user":
            self._convert_prompt(blocks, outcome)
        elif role == "assistant":
            outcome.parts = [part for block in blocks for part in self._iter_answer_parts(block)]
        else:
            outcome.skip_reason = _FOREIGN
        if outcome.time is None and self._is_first and _MOMENT.match(self.session.session_id):
            outcome.time = int(self.session.session_id)
        self._is_first = False
        content = [record.get(key) for key in ("id", "ts", "role", "content")]
        outcome.source_id = self.number_id(content_id(self.session.session_id, self.session.thread, *content))
        return outcome

    def _convert_prompt(self, blocks: Sequence[Mapping[str, object]], outcome: Outcome) -> None:
        words = PromptWords()
        unknown_notes: list[Part] = []
        for block in blocks:
            if block.get("type") == "tool_result":
                outcome.parts.append(self._tool_result(block, outcome))
            elif block.get("type") == "file":
                outcome.left_out["attached file"] += 1
                words.add_text(f"[file {as_text(block.get('path'))}]")
            elif text := chat.text_of(block):
                split_prompt(text, words)
            else:
                unknown_notes += unknown_block_notes(block)
        outcome.left_out.update(words.left_out)
        if not self.cwd:
            self.cwd = words.cwd
        outcome.time = outcome.time if outcome.time is not None else words.time
        for tool, text in words.results:
            refusal = refusal_words(tool, text)
            failed = text.startswith("The tool execution failed")
            outcome.parts.append(self._refusal_part(refusal, tool, "") if refusal else self.make_result(text, "", tool, failed))
        if words.texts:
            outcome.parts.insert(0, self.make_prompt("\n".join(words.texts)))
        outcome.parts += unknown_notes

    def _tool_result(self, block: Mapping[str, object], outcome: Outcome) -> Part:
        """Return a tool's result, or the user's answer or refusal."""
        call, tool = as_text(block.get("tool_use_id")), as_text(block.get("name"))
        tool = tool or self.tool_names.get(call, "")
        words = PromptWords()
        for inner in as_blocks(block.get("content")):
            split_prompt(chat.words_of_block(inner), words)
        outcome.left_out.update(words.left_out)
        texts = [*words.texts, *(text for _, text in words.results)]
        if tool in _SPEAKING and words.is_tagged and texts:
            return self.make_prompt("\n".join(texts))
        if refusal := refusal_words(tool, "\n".join(texts)):
            return self._refusal_part(refusal, tool, call)
        return self.make_result("\n".join(texts), call, tool, block.get("is_error") is True)

    def _refusal_part(self, words: str, tool: str, call: str) -> Part:
        metadata = {"tool": tool, "tool_use_id": call, "is_error": "true", **reply_metadata(())}
        return replace(self.make_prompt(words), metadata=metadata)

    def _iter_answer_parts(self, block: Mapping[str, object]) -> Iterator[Part]:
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking", "reasoning"):
            yield self.make_thought(words_within(block.get("thinking")) or words_within(block.get("text")))
        elif kind == "tool_use":
            yield self._tool_call(as_text(block.get("name")), as_mapping(block.get("input")), as_text(block.get("id")))
        elif kind == "text":
            for thinking, tool, text, arguments in split_answer(words_within(block.get("text"))):
                if tool:
                    yield self._tool_call(tool, arguments, "")
                else:
                    yield self.make_thought(text) if thinking else message_part(Role.ASSISTANT, text)
        else:
            yield from chat.read_block(block, Role.ASSISTANT)

    def _tool_call(self, tool: str, arguments: Mapping[str, object], call: str) -> Part:
        """Return a call, or the words that it only carries to the user."""
        words = as_text(arguments.get(_SPEAKING.get(tool, "")))
        if words.strip():
            self.remember_call(call, tool)
            return message_part(Role.ASSISTANT, words)
        return self.make_call(tool, arguments, call)
