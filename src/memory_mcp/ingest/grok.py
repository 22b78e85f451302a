"""Sessions of the Grok command line: `sessions/<directory>/<session>/updates.jsonl`, updates of the Agent Client Protocol.

Known from one made sample and public descriptions of real files, not from the client's source: words, tool calls and
their outcome, recaps and the turn's end are read; everything else is counted.

A message is one chunk in the client's files; where it is several, each is told by itself: what follows may not be written
yet.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.ingest import chat
from memory_mcp.ingest.base import ClientImporter, Growth, ImportReport, Read
from memory_mcp.ingest.chat import ChatReading, Outcome, skipped
from memory_mcp.ingest.claude_code.blocks import as_blocks, as_mapping, as_text
from memory_mcp.ingest.files import find_files
from memory_mcp.ingest.growing import read_growing
from memory_mcp.ingest.lines import first_values
from memory_mcp.ingest.parts import Part, content_id, said
from memory_mcp.ingest.times import parse_time
from memory_mcp.model.event import Role

_CHUNKS = frozenset({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
_BOOKKEEPING = frozenset(
    "turn_completed turn_started plan available_commands_update current_mode_update usage_update session_info_update"
    " subagent_spawned subagent_finished tool_call_progress hook_execution config_option_update".split()
)
_FOREIGN = "not a Grok update"
_ENDED = frozenset({"completed", "failed"})


class GrokImporter(ClientImporter):
    """Reads the sessions of Grok."""

    name = "grok"
    title = "Grok"
    growth = Growth.APPENDED

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folder `sessions` in $GROK_HOME, else in ~/.grok; existing or not."""
        return (Path(os.environ.get("GROK_HOME") or Path.home() / ".grok").expanduser() / "sessions",)

    def files(self, path: Path) -> Iterator[Path]:
        """Return the files `updates.jsonl` below `path`, or `path` itself; raises SourceUnreadable without such a path."""
        return find_files(path, ("updates.jsonl",))

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.jsonl` file is a session of Grok: a record at its beginning is an update of a session."""
        return file.suffix == ".jsonl" and any("sessionUpdate" in _update(value) for value in first_values(beginning))

    def read(self, file: Path, offset: int, report: ImportReport) -> Iterator[Read]:
        """Yield a step for each record behind the byte offset: its drafts, and the offset to go on from once they are stored.

        Records without an event give a step without drafts, and are counted in `report` with the reason. Raises OSError
        when the file cannot be read.
        """
        return read_growing(_Reading(file, self._settings.include_thinking), file, offset, report)


def _update(value: Mapping[str, object]) -> Mapping[str, object]:
    """Return the update in a record (params.update); {} for none."""
    return as_mapping(as_mapping(value.get("params")).get("update"))


def _text(update: Mapping[str, object]) -> str:
    """Return the words of an update's content, its blocks joined without a blank; "" for none."""
    return "".join(map(chat.text_of, as_blocks(update.get("content"))))


class _Reading(ChatReading):
    """State of reading one file."""

    def __init__(self, file: Path, thinking: bool) -> None:
        """Begin a session, with id and directory from the summary beside it; without one it is named after its folder."""
        info = as_mapping(as_mapping(chat.beside(file.with_name("summary.json"))).get("info"))
        super().__init__("grok", as_text(info.get("id")) or file.parent.name, thinking)
        self.cwd = as_text(info.get("cwd"))

    def learn(self, record: dict[str, object]) -> None:
        """Take over the session id that a record names; without one it stays."""
        told = as_text(as_mapping(record.get("params")).get("sessionId"))
        self.session.session_id = told or self.session.session_id

    def convert(self, record: dict[str, object]) -> Outcome:
        """Return what one update gives: words, thoughts, calls, their outcome, recaps.

        A call that already ended gives both; progress, bookkeeping and foreign records are skipped with the reason.
        """
        params, update = as_mapping(record.get("params")), _update(record)
        self.model = as_text(as_mapping(update.get("_meta")).get("modelId")) or self.model
        kind = as_text(update.get("sessionUpdate"))
        meta = as_mapping(params.get("_meta"))
        outcome = Outcome(time=parse_time(meta.get("agentTimestampMs")) or parse_time(record.get("timestamp")))
        event = as_text(meta.get("eventId"))
        outcome.source_id = event or content_id(self.session.session_id, record.get("timestamp"), update)
        if kind in _CHUNKS:
            outcome.parts = self._said(kind, _text(update), update, outcome)
        elif kind == "tool_call":
            call = as_text(update.get("toolCallId"))
            own = as_mapping(as_mapping(update.get("_meta")).get("x.ai/tool"))
            tool = as_text(own.get("name")) or as_text(update.get("title")) or as_text(update.get("kind"))
            parts = [self.called(tool, update.get("rawInput") or {}, call)]
            if as_text(update.get("status")) in _ENDED:
                parts.append(self._returned(update))
            outcome.parts = parts
        elif kind == "tool_call_update":
            if as_text(update.get("status")) not in _ENDED:
                return skipped("tool progress")
            outcome.parts = [self._returned(update)]
        elif kind == "session_recap":
            text = as_text(update.get("recap")) or as_text(update.get("summary")) or as_text(update.get("text")) or _text(update)
            outcome.parts = [chat.retold(text, kind)]
        else:
            return skipped(kind if kind in _BOOKKEEPING else _FOREIGN)
        return outcome

    def _said(self, kind: str, text: str, update: Mapping[str, object], outcome: Outcome) -> list[Part]:
        """Return the thought or words of a chunk as a part; a user's words hidden from the screen are counted as left out."""
        if kind == "agent_thought_chunk":
            return [self.thought(text)]
        if kind == "agent_message_chunk":
            return [said(Role.ASSISTANT, text)]
        if as_mapping(update.get("_meta")).get("hideFromScrollback") is True:
            outcome.left_out[chat.INJECTED] += 1
            return []
        return [said(Role.USER, text)]

    def _returned(self, update: Mapping[str, object]) -> Part:
        """Return a tool's outcome, of its content or else its raw output, as an error where the update's status is failed."""
        texts = [_outcome_text(block) for block in as_blocks(update.get("content"))]
        raw = update.get("rawOutput")
        text = "\n".join(filter(None, texts)) or (raw if isinstance(raw, str) else as_text(as_mapping(raw).get("output")))
        error = update.get("status") == "failed"
        return self.returned(text, as_text(update.get("toolCallId")), error=error)


def _outcome_text(block: Mapping[str, object]) -> str:
    """Return one block of a call's outcome as text: its content, or "[changed <path>]" for a change of a file."""
    if block.get("type") == "diff":
        return f"[changed {as_text(block.get('path'))}]"
    return chat.text_of(as_mapping(block.get("content")) if block.get("type") == "content" else block)
