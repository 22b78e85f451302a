"""Sessions of Kimi CLI, the predecessor of Kimi Code: `sessions/<hash of the directory>/<session>/context.jsonl`.

The context holds what the model sees, without times and ids: when a turn began is in the `wire.jsonl` next to it, and a
message is known by its session, what it says, and how often it was said there before. The client sets an older context
aside (`context_1.jsonl`) when it shortens or takes back; what both hold counts once.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.client_importer import ClientImporter
from memory_mcp.importers.json_records import first_values, iter_records, parse_time
from memory_mcp.importers.parts import Part, content_id, file_time, message_part, unknown_block_notes
from memory_mcp.importers.session_reader import read_records
from memory_mcp.model.event import Role

_FILE = re.compile(r"context(?:_(\d{1,4}|sub[\w-]{0,40}))?\.jsonl\Z")
_OWN = frozenset({"_system_prompt", "_checkpoint", "_usage"})
_FOREIGN = "not a Kimi message"
_SYSTEM = re.compile(r"<(system|system-reminder)>(.*?)(?:</\1>|\Z)", re.S)
_RECAP = "Previous context has been compacted"


class KimiCliImporter(ClientImporter):
    """Reads the sessions of Kimi CLI."""

    name = "kimi-cli"
    title = "Kimi CLI"
    home_variables, home, folders = ("KIMI_SHARE_DIR",), ".kimi", ("sessions",)
    growth = Growth.REWRITTEN

    def wants_file(self, file: Path) -> bool:
        return _FILE.match(file.name) is not None

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if file.suffix != ".jsonl":
            return False
        roles = [as_text(value.get("role")) for value in first_values(beginning)]
        return any(role in _OWN for role in roles) or (bool(_FILE.match(file.name)) and "user" in roles)

    def read_file(self, file: Path, offset: int, report: ImportReport) -> Iterator[ReadStep]:
        """Yield a step for each message, from the file's start."""
        del offset
        return read_records(_Reader(file, self._settings.include_thinking), file, iter_records(file), report)


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        folder = file.parent
        helps = folder.parent.name == "subagents"
        main = folder.parent.parent if helps else folder
        super().__init__("kimi-cli", main.name, thinking, folder.name if helps else "")
        for item in as_mappings(as_mapping(chat.load_json_near(main.parent.parent.parent / "kimi.json")).get("work_dirs")):
            path = as_text(item.get("path"))
            # A folder of sessions is named by the hash of their directory.
            if hashlib.md5(path.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest() == main.parent.name:
                self.cwd = path
                break
        self.session.file_time = file_time(file)
        self._turns = _load_turns(folder / "wire.jsonl")
        # Without words, a turn can only be found by its place, and only in a session that was never shortened.
        self._turns_have_words = any(words for _, words in self._turns)
        if not self._turns_have_words and any(folder.glob("context_*.jsonl")):
            self._turns = []
        self._turn_time: int | None = None

    def convert_record(self, record: dict[str, object]) -> Outcome:
        role = as_text(record.get("role"))
        if role not in ("user", "assistant", "tool"):
            return skipped_outcome(role if role in _OWN else _FOREIGN)
        outcome = Outcome()
        blocks = as_blocks(record.get("content"))
        call = as_text(record.get("tool_call_id"))
        if role == "user":
            self._convert_prompt(blocks, outcome)
        elif role == "assistant":
            for block in blocks:
                thinks = block.get("type") == "think"
                said_parts = (
                    [self.make_thought(words_within(block.get("think")))] if thinks else chat.read_block(block, Role.ASSISTANT)
                )
                # A block without words takes its number all the same.
                outcome.parts += said_parts or [message_part(Role.ASSISTANT, "")]
            for tool_call in as_mappings(record.get("tool_calls")):
                inner = as_mapping(tool_call.get("function"))
                outcome.parts.append(
                    self.make_call(as_text(inner.get("name")), inner.get("arguments"), as_text(tool_call.get("id")))
                )
        else:
            texts = [_SYSTEM.sub(r"\2", chat.words_of_block(block)) for block in blocks]
            error = texts[:1] == ["ERROR"] or any(text.startswith("ERROR: ") for text in texts[:1])
            outcome.parts = [self.make_result(texts, call, error=error)]
        # Messages after a prompt get the start of its turn as their time.
        outcome.time = self._turn_time
        content, calls = record.get("content"), record.get("tool_calls")
        session = self.session
        outcome.source_id = self.number_id(content_id(session.session_id, session.thread, role, call, content, calls))
        return outcome

    def _convert_prompt(self, blocks: Sequence[Mapping[str, object]], outcome: Outcome) -> None:
        """Give `outcome` a prompt's words, or the summary that replaced the conversation.

        A prompt begins the turn whose time it and what follows have; the last time stays where no turn is found.
        """
        texts = []
        unknown_notes: list[Part] = []
        for block in blocks:
            text = chat.text_of(block)
            if _RECAP in text[:200]:
                recap_texts = [_SYSTEM.sub("", chat.words_of_block(b)) for b in blocks]
                outcome.parts = [chat.recap_part("\n".join(filter(None, recap_texts)) or _SYSTEM.sub(r"\2", text), "compaction")]
                return
            clean, injected = _SYSTEM.subn("", text)
            outcome.left_out[chat.INJECTED] += injected
            texts.append(clean.strip())
            unknown_notes += unknown_block_notes(block) if not text else []
        words = "\n".join(filter(None, texts))
        outcome.parts = unknown_notes
        if not words:
            return
        # The next turn with the prompt's words, or where none has any the next one; those before it are used up.
        for number, (time_ms, turn_words) in enumerate(self._turns if not self.session.thread else ()):
            if not self._turns_have_words or turn_words == words:
                self._turn_time, self._turns = time_ms, self._turns[number + 1 :]
                break
        outcome.parts = [self.make_prompt(words), *unknown_notes]


def _load_turns(wire: Path) -> list[tuple[int | None, str]]:
    """Return (start time or None, prompt's words) of each turn."""
    if not wire.is_file():
        return []
    turns = []
    for record in iter_records(wire):
        message = as_mapping(record.value.get("message"))
        if message.get("type") == "TurnBegin":
            blocks = as_blocks(as_mapping(message.get("payload")).get("user_input"))
            words = "\n".join(filter(None, (chat.text_of(block).strip() for block in blocks)))
            turns.append((parse_time(record.value.get("timestamp")), words))
    return turns
