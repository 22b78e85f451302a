"""pi's session files, formats 1 to 3, and those of its forks of the same form: Oh My Pi and OpenClaw.

A file begins with its session (Oh My Pi may put a title of fixed width before it); entries follow as they happened. From
format 2 on they form a tree: an entry that does not go on from the one before it begins another branch. Both branches
were said, in this order, so both are kept in one thread, and the first entry of a branch names where it leaves.

Ids follow from an entry's content and time: pi gives the entries of format 1 random ids when it continues such a file,
and writes a fork with copies of the entries it begins with.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.importers import chat
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, words_within
from memory_mcp.importers.chat import ChatReader, Outcome, skipped_outcome
from memory_mcp.importers.json_records import first_values, parse_time
from memory_mcp.importers.parts import Part, content_id, message_part, note_part, unread_block_notes
from memory_mcp.importers.session_reader import GrowingImporter
from memory_mcp.importers.wrappers import without_ansi
from memory_mcp.model.event import RECORD, EventType, Role

#: Bookkeeping of pi and its forks: nothing that anyone said or did.
_BOOKKEEPING = frozenset(
    "session session_init model_change thinking_level_change service_tier_change mode_change usage model_usage label custom"
    " context_edit reset_boundary reset leaf credential_pin ttsr_injection mcp_tool_selection".split()
)
_ROLES = frozenset(
    "user assistant toolResult bashExecution pythonExecution custom hookMessage branchSummary compactionSummary".split()
)
_FOREIGN = "not a pi entry"
#: OpenClaw's copies of a session at a point in time, and its traces of the machinery.
_COPIES = (".checkpoint.", ".trajectory.")
#: OpenClaw's sessions that were ended or deleted by their key, kept under the old name with the time after it.
_ARCHIVE = re.compile(r"\.jsonl\.(?:reset|deleted)\.[\w.:-]+\Z")
_SKILL = re.compile(r'\A<skill name="([^"]{1,200})" location="[^"]*">\n.*?\n</skill>(?:\n\n(.*))?\Z', re.S)
#: OpenClaw's header of a message: its sender, its channel, and the messages it replies to.
_ENVELOPE = re.compile(
    r"^(?:\[[^\[\]\n]{5,60}\] )?[A-Z][\w ]{2,60} \((?:untrusted metadata|untrusted, for context)\):\n```json\n.*?\n```\n*",
    re.S | re.M,
)
_RECEIVED = re.compile(r"\A\[(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{4}-\d\d-\d\d [^\[\]\n]{4,30}\] ")
#: Its own copies of what it sent, next to the answer itself.
_MIRROR = "delivery-mirror"
#: How the shell tool ends the output of a command that failed.
_EXIT_CODE = re.compile(r"\bCommand exited with code (\d{1,5})\s*\Z")
_ATTACHED = re.compile(r'<file name="([^"\n]{1,4096})">.*?</file>', re.S)


def _is_copy(file: Path) -> bool:
    return any(mark in file.name for mark in _COPIES)


class _Reader(ChatReader):
    def __init__(self, file: Path, thinking: bool) -> None:
        """Begin a session; a subagent's file is its caller's thread."""
        archived = _ARCHIVE.sub("", file.name)
        own_stem = file.stem if archived == file.name else archived
        # A subagent's file is in a folder named after its caller's file.
        main, above = file, file.parent
        while above.name and above != above.parent and (caller := above.with_name(f"{above.name}.jsonl")).is_file():
            main, above = caller, caller.parent
        stem = own_stem if main == file else main.stem
        super().__init__("pi", stem.rpartition("_")[2] or stem, thinking, "" if main == file else file.stem)
        self._is_subagent_file = main != file
        if file.parent.name == "sessions" and file.parent.parent.parent.name == "agents":
            self.session.agent = "openclaw"
        elif self._is_subagent_file or ".omp" in file.parts:
            self.session.agent = "omp"
        self._last_entry = ""

    def learn_from(self, record: dict[str, object]) -> None:
        entry = self._last_entry
        super().learn_from(record)
        self._last_entry = entry
        if record.get("type") == "session":
            # A subagent's file belongs to the session of the file next to it.
            session = self.session
            if not self._is_subagent_file:
                session.session_id = as_text(record.get("id")) or session.session_id
            self.cwd = as_text(record.get("cwd")) or self.cwd
            version = record.get("version")
            self.version = f"session format {version if isinstance(version, int) else 1}"
            if session.agent == "pi" and "title" in record:
                session.agent = "omp"
        elif record.get("type") == "title" and "pad" in record:
            self.session.agent = "omp"

    def convert_record(self, record: dict[str, object]) -> Outcome:
        """Return what one entry gives.

        An entry that does not follow the last one names the one it follows as metadata `branches_from`.
        """
        kind = as_text(record.get("type"))
        message = as_mapping(record.get("message"))
        outcome = Outcome()
        if kind == "message" and message:
            self._convert_message(message, outcome)
        elif kind in ("compaction", "branch_summary"):
            outcome.parts = [chat.recap_part(words_within(record.get("summary")), kind)]
        elif kind == "custom_message":
            self._convert_extension(record, outcome)
        elif kind in ("session_info", "title", "title_change"):
            outcome.parts = [note_part(words_within(record.get("name")) or words_within(record.get("title")), record="title")]
        else:
            self._last_entry = as_text(record.get("id")) if kind != "session" else self._last_entry
            return skipped_outcome(kind if kind in _BOOKKEEPING else _FOREIGN)
        when = record.get("timestamp") or record.get("updatedAt") or message.get("timestamp")
        outcome.time = parse_time(when)
        # From content and times alone, so that copies in other files have the same id.
        outcome.source_id = content_id(
            record.get("type"),
            when,
            *(message.get(key) for key in ("timestamp", "toolCallId", "content", "command", "code", "output", "errorMessage")),
            *(record.get(key) for key in ("summary", "content", "name", "title")),
        )
        parent = as_text(record.get("parentId"))
        if self._last_entry and record.get("id") and parent != self._last_entry:
            outcome.metadata["branches_from"] = parent or "the beginning"
        self._last_entry = as_text(record.get("id")) or self._last_entry
        return outcome

    def _convert_message(self, message: Mapping[str, object], outcome: Outcome) -> None:
        role = as_text(message.get("role"))
        blocks = as_blocks(message.get("content"))
        if role == "user":
            self._convert_prompt(message, outcome)
        elif role == "assistant" and message.get("model") == _MIRROR:
            outcome.skip_reason = "copy of an answer"
        elif role == "assistant":
            self.model = as_text(message.get("model"))
            outcome.parts = [part for block in blocks for part in self._iter_answer_parts(block)]
            if message.get("stopReason") == "error":
                outcome.parts.append(note_part(words_within(message.get("errorMessage")), record="api error"))
            elif message.get("stopReason") == "aborted":
                outcome.metadata[RECORD] = "aborted"
                outcome.skip_reason = "aborted before a word"
        elif role == "toolResult":
            call, tool = as_text(message.get("toolCallId")), as_text(message.get("toolName"))
            content = [{"type": "text", "text": chat.words_of_block(block)} for block in blocks]
            error = message.get("isError") is True
            ended = _EXIT_CODE.search(content[-1]["text"]) if content and error else None
            outcome.parts = [self.make_result(content, call, tool, error, ended[1] if ended else "")]
        elif role in ("bashExecution", "pythonExecution"):
            code = message.get("exitCode")
            command = words_within(message.get("command")) or words_within(message.get("code"))
            metadata = {"command": command, "exit_status": str(code) if isinstance(code, int) else ""}
            sign = "!" if message.get("role") == "bashExecution" else "$"
            printed = without_ansi(words_within(message.get("output"))).strip()
            outcome.parts = [message_part(Role.USER, f"{sign} {command}"), Part(Role.TOOL, EventType.NOTE, printed, metadata)]
        elif role in ("custom", "hookMessage"):
            self._convert_extension(message, outcome)
        elif role in ("branchSummary", "compactionSummary"):
            outcome.parts = [chat.recap_part(words_within(message.get("summary")), role)]
        else:
            outcome.skip_reason = "system prompt" if role in ("system", "developer") else _FOREIGN

    def _convert_prompt(self, message: Mapping[str, object], outcome: Outcome) -> None:
        blocks = as_blocks(message.get("content"))
        texts = [chat.text_of(block) for block in blocks]
        text = "\n".join(filter(None, texts))
        if match := _SKILL.match(text):
            outcome.left_out["skill text"] += 1
            text = f"/skill:{match[1]} {match[2] or ''}"
        text, files = _ATTACHED.subn(r"[file \1]", text)
        outcome.left_out["attached file"] += files
        if self.session.agent == "openclaw":
            text, envelopes = _ENVELOPE.subn("", text)
            outcome.left_out[chat.INJECTED] += envelopes
            text = _RECEIVED.sub("", text.strip())
        if not self._is_subagent_file and (message.get("synthetic") is True or message.get("attribution") == "agent"):
            outcome.parts = [note_part(text, record="written by the client")]
        else:
            outcome.parts = [self.make_prompt(text)]
        outcome.parts += unread_block_notes(blocks, texts)

    def _iter_answer_parts(self, block: Mapping[str, object]) -> Iterator[Part]:
        kind = block.get("type")
        if kind in ("thinking", "redactedThinking"):
            yield self.make_thought(words_within(block.get("thinking")))
        elif kind == "toolCall":
            yield self.make_call(as_text(block.get("name")), block.get("arguments"), as_text(block.get("id")))
        else:
            yield from chat.read_block(block, Role.ASSISTANT)

    def _convert_extension(self, fields: Mapping[str, object], outcome: Outcome) -> None:
        if fields.get("display") is False:
            outcome.left_out[chat.INJECTED] += 1
            return
        record = f"extension {as_text(fields.get('customType'))}".strip()
        outcome.parts = [note_part(chat.words_of(fields.get("content")), record=record)]


class PiImporter(GrowingImporter):
    """Reads the sessions of pi, Oh My Pi and OpenClaw."""

    name = "pi"
    title = "pi"
    reader = _Reader
    #: The names of archives end with a time.
    endings = ("",)

    def default_paths(self) -> tuple[Path, ...]:
        home = Path.home()
        folder = Path(os.environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent").expanduser()
        session_folder = Path(os.environ.get("PI_CODING_AGENT_SESSION_DIR") or folder / "sessions").expanduser()
        openclaw = Path(os.environ.get("OPENCLAW_STATE_DIR") or home / ".openclaw").expanduser()
        return (session_folder, home / ".omp" / "agent" / "sessions", openclaw / "agents")

    def wants_file(self, file: Path) -> bool:
        return (file.suffix == ".jsonl" and not _is_copy(file)) or _ARCHIVE.search(file.name) is not None

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if (file.suffix != ".jsonl" and not _ARCHIVE.search(file.name)) or _is_copy(file):
            return False
        return any(map(self.is_own_record, first_values(beginning)))

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        message = value.get("message")
        if value.get("type") == "session":
            stated = isinstance(value.get("id"), str) and isinstance(value.get("timestamp"), str)
            return stated and "delegationDepth" not in value
        if value.get("type") != "message" or not isinstance(message, Mapping) or "sessionId" in value:
            return False
        return as_text(message.get("role")) in _ROLES and isinstance(message.get("timestamp"), int | float)
