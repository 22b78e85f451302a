"""Session logs of the DeepSeek Harness: `sessions/<directory>/<session>/session.jsonl`, the harness's own events.

By default the harness packs its logs with Zstandard, which is not read here; a log is plain where `compression` is "none".
Of several generations of one session (`session.v3.jsonl`) the newest is read. An answer's chunks are not: the answer
follows whole. What replaces earlier messages is a summary of theirs, or a shortened result, which is left out.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import Part, content_id, message_part, note_part
from memory_mcp.importers.session_reader import GrowingImporter
from memory_mcp.importers.wrappers import is_agent
from memory_mcp.model.event import Role

_FILE = re.compile(r"session(?:\.v(\d{1,4}))?\.jsonl\Z")
_FOREIGN = "not a DeepSeek Harness event"
_CHUNKS = frozenset({"text-chunks", "reasoning-chunks", "tool-call-chunks"})
_SHORTENED = "shortened result"


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        super().__init__("deepseek", file.parent.name if _FILE.match(file.name) else file.stem, thinking)

    def learn_from(self, record: dict[str, object]) -> None:
        super().learn_from(record)
        if record.get("type") != "session":
            return
        session = self.session
        session_id, parent = as_text(record.get("id")), as_text(record.get("parentSession"))
        depth = record.get("delegationDepth")
        helps = isinstance(depth, int) and depth > 0 and bool(parent)
        session.session_id, session.thread = (parent, session_id) if helps else (session_id or session.session_id, "")
        self.cwd = as_text(record.get("cwd"))
        self.version = f"session format {record.get('version')}"

    def convert_record(self, record: dict[str, object]) -> Outcome:
        kind, data = as_text(record.get("type")), as_mapping(record.get("data"))
        outcome = Outcome(time=parse_time(record.get("time")))
        message = as_mapping(data.get("message"))
        # A session that goes on from another begins with copies of its events: neither may count.
        words = message.get("content") or data.get("content") or data.get("arguments") or data.get("title")
        outcome.source_id = content_id(kind, record.get("seq"), record.get("time"), data.get("callId"), words)
        replaces = isinstance(record.get("surfaceOp"), Mapping)
        if kind == "user/message":
            # Only a message whose source is "user" was typed by a person.
            if replaces:
                outcome.parts = [chat.recap_part(chat.words_of(data.get("content")), "compaction")]
            elif (author := as_text(as_mapping(data.get("source")).get("kind"))) != "user" and not is_agent(author):
                outcome.left_out[chat.INJECTED] += 1
            else:
                outcome.parts = self.prompt_parts(data.get("content"))
        elif kind == "assistant/message":
            self.model = as_text(as_mapping(message.get("source")).get("model"))
            outcome.parts = [part for block in as_blocks(message.get("content")) for part in self._iter_answer_parts(block)]
        elif kind == "tool/call":
            name, call = as_text(data.get("name")), as_text(data.get("callId"))
            outcome.parts = [self.make_call(name, data.get("arguments"), call)]
        elif kind == "tool/result":
            outcome.skip_reason = _SHORTENED if replaces else outcome.skip_reason
            outcome.parts = [] if replaces else [self._tool_result(block, data) for block in as_blocks(message.get("content"))]
        elif kind == "session/title":
            outcome.parts = [note_part(words_within(data.get("title")), record="title")]
        else:
            is_known = kind == "session" or DeepseekImporter.is_own_record(record)
            return skipped_outcome("chunks" if kind in _CHUNKS else "bookkeeping" if is_known else _FOREIGN)
        return outcome

    def _tool_result(self, block: Mapping[str, object], data: Mapping[str, object]) -> Part:
        source = as_mapping(as_mapping(data.get("message")).get("source"))
        call = as_text(block.get("toolCallId")) or as_text(source.get("callId"))
        error = block.get("isError") is True or bool(data.get("error"))
        content = block.get("content") if block.get("type") == "tool-result" else [block]
        return self.make_result(content, call, error=error)

    def _iter_answer_parts(self, block: Mapping[str, object]) -> Iterator[Part]:
        """Yield a block's words or thought; calls are events of their own."""
        if block.get("type") == "reasoning":
            yield self.make_thought(words_within(block.get("text")))
        elif block.get("type") != "tool-call":
            yield from chat.read_block(block, Role.ASSISTANT) or [message_part(Role.ASSISTANT, "")]


class DeepseekImporter(GrowingImporter):
    """Reads the session logs of the DeepSeek Harness."""

    name = "deepseek"
    title = "DeepSeek Harness"
    reader = _Reader
    home_variables, home, folders = ("DSH_HOME",), ".dsh", ("sessions",)

    def wants_file(self, file: Path) -> bool:
        generations = [(int(m[1] or 0), f) for f in file.parent.glob("session*.jsonl") if (m := _FILE.match(f.name))]
        return _FILE.match(file.name) is not None and file == max(generations, default=(0, None))[1]

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        if value.get("type") == "session":
            return "delegationDepth" in value
        return isinstance(value.get("seq"), int) and isinstance(value.get("data"), Mapping) and "/" in as_text(value.get("type"))
