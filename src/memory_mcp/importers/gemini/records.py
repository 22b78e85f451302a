"""Convert one record of a session to drafts.

A record is a message, written again as a whole whenever calls were added to it; a change of what is known of the session,
which may tell all its messages again; or, in the log of prompts that older clients wrote, a prompt.

Ids: `session_id` is the client's own (a subagent's is the one that called it, with its own id as thread); `source_id` is
the message's id for its words, the call's id for a call, that with `#result` for its result. Times inside a message follow
from the message alone, so that telling it again changes none.

Layout: `<home>/tmp/<folder>/chats/session-*.json[l]`, `<home>/tmp/<folder>/chats/<session>/<subagent>.jsonl`,
`<home>/tmp/<folder>/logs.json`. A session's directory is named by a hash or a folder; newer clients write it into
`<home>/tmp/<folder>/.project_root`, and all of them list directories they know in `<home>/projects.json` and
`<home>/trustedFolders.json`.
"""

import hashlib
import json
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.importers.blocks import as_list, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.json_records import iter_records, parse_time
from memory_mcp.importers.parts import (
    EMPTY,
    Part,
    as_plain,
    content_id,
    left_out_part,
    message_part,
    note_part,
    result_part,
    unknown_block_notes,
)
from memory_mcp.importers.session_reader import DUPLICATE, UNKNOWN, ParsedRecord, RecordItem, SessionReader
from memory_mcp.importers.wrappers import INJECTED, without_ansi
from memory_mcp.model.event import RECAP, EventType, Role

_ROOT_FILE = ".project_root"
#: Bytes of a small file that are read.
_SMALL = 1024 * 1024
#: In the context that the client gives its model at the start.
_SAID = re.compile(r"working in the (?:following )?director(?:y|ies):\s*(?:-\s+)?([^\n]+?)\s*(?:\n|\Z)")


def folder_of(file: Path) -> Path:
    """Return the folder above `chats`, else the file's own."""
    for folder in file.parents:
        if folder.name == "chats":
            return folder.parent
    return file.parent


def directory_of(file: Path, project_hash: str) -> str:
    """Return the directory of a session; "" if not found here.

    From the folder's own note, else the listed directory whose hash `project_hash` (or the folder's name) is.
    """
    folder = folder_of(file)
    if root := _read_small(folder / _ROOT_FILE).strip():
        return root
    if not project_hash and re.fullmatch(r"[0-9a-f]{64}", folder.name):
        project_hash = folder.name
    home = folder.parent.parent
    for path in (*_iter_directories(home / "projects.json"), *_iter_directories(home / "trustedFolders.json")):
        if hashlib.sha256(path.encode("utf-8", "surrogatepass")).hexdigest() == project_hash:
            return path
    return ""


def stated_directory(text: str) -> str:
    """Return the directory in the client's first words; "" for none."""
    match = _SAID.search(text)
    return match[1] if match else ""


def sessions_beside(log: Path) -> frozenset[str]:
    """Return the beginnings (8 characters) of ids of sessions with files."""
    try:
        names = [entry.stem for entry in (log.parent / "chats").iterdir()]
    except OSError:
        return frozenset()
    return frozenset(name.rsplit("-", 1)[-1][:8] for name in names)


def _iter_directories(file: Path) -> Iterator[str]:
    try:
        listing = as_mapping(json.loads(_read_small(file) or "{}"))
    except (ValueError, RecursionError):
        return
    yield from (str(path) for path in as_mapping(listing.get("projects")) or listing)


def _read_small(file: Path) -> str:
    try:
        with foreign_files.open_file(file) as stream:
            return stream.read(_SMALL).decode("utf-8", "replace")
    except OSError:
        return ""


#: The line between a prompt and the files that it names.
_FILES = "--- Content from referenced files ---"
#: Around what a command printed.
_UNTRUSTED = re.compile(r"\A<untrusted_context>\n?(?:Output: )?(.*?)\n?(?:</untrusted_context>)?\s*\Z", re.S)
_HOOK = re.compile(r"<hook_context>.*?(?:</hook_context>|\Z)", re.S)
_CONTEXT = ("<session_context>", "This is the Gemini CLI. We are setting up the context", "This is the Qwen Code. We are setting")
_ELEMENT = re.compile(r"\A\s*<session_context>.*?</session_context>\s*", re.S)
_SUMMARY = "<state_snapshot>"
#: Fields that say what a part of a message is.
_KINDS = frozenset({"text", "thought", "functionCall", "functionResponse", "inlineData", "fileData"})
#: The answer to its own summary and to the context that the client puts into the model's mouth.
POLITE = frozenset({"Got it. Thanks for the additional context!", "Got it. Thanks for the context!"})
#: After a summary the kept messages are repeated under other ids, within this time (milliseconds).
_AGAIN = 5_000
_REMEMBERED = 20_000
_FAILED = frozenset({"error", "cancelled"})


class GeminiReader(SessionReader):
    """One read of one session, or of one log of prompts."""

    def __init__(self, file: Path, agent: str, include_thinking: bool) -> None:
        super().__init__(agent, file.stem, include_thinking)
        self._file = file
        self._is_subagent = self._has_task = False
        self._sessions_with_file = sessions_beside(file) if file.name == "logs.json" else frozenset()
        #: Ids of messages by a digest of their words, and calls with a result; the values of the latter are unused.
        self._message_ids: OrderedDict[str, str] = OrderedDict()
        self._answered_calls: OrderedDict[str, str] = OrderedDict()
        #: First time of each message: a resumed session repeats its messages at new times.
        self._first_times: OrderedDict[str, int] = OrderedDict()
        #: When the conversation was summarised last.
        self._last_summary = -_AGAIN
        self.cwd = directory_of(file, "")

    def learn_from(self, record: dict[str, object]) -> None:
        """Learn session id, directory and first prompt.

        A subagent's session is the one that called it, with its own id as thread.
        """
        update = as_mapping(record.get("$set")) or record
        if session_id := as_text(update.get("sessionId")):
            self._is_subagent = self._is_subagent or update.get("kind") == "subagent"
            parent = self._file.parent
            if self._is_subagent and parent.parent.name == "chats":
                self.session.session_id, self.session.thread = parent.name, session_id
            else:
                self.session.session_id = session_id
            directories = update.get("directories")
            first = as_text(directories[0]) if isinstance(directories, list) and directories else ""
            self.cwd = self.cwd or directory_of(self._file, as_text(update.get("projectHash"))) or first
        for message in self._iter_messages(record):
            words = parts_text(message.get("content")).lstrip()
            self.cwd = self.cwd or stated_directory(words)
            if message.get("type") == "user" and not self.first_prompt and not words.startswith(_CONTEXT):
                self.first_prompt = words

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return the message of a record, or all that it repeats.

        Repeated ones that were seen before are left out. Raises OSError when the file cannot be read again for their times.
        """
        messages = list(self._iter_messages(record))
        is_repeat = "type" not in record
        if is_repeat and messages and self.resume_offset:
            # A resumed or summarised session repeats its messages: their first times are before the offset, read once.
            for earlier in iter_records(self._file):
                if earlier.offset > self.resume_offset:
                    break
                for message in self._iter_messages(earlier.value):
                    self._first_time(as_text(message.get("id")), parse_time(message.get("timestamp")))
            self.resume_offset = 0
        if not messages:
            is_known = "$set" in record or "$rewindTo" in record or "sessionId" in record
            return ParsedRecord(skip_reason="session" if is_known else UNKNOWN)
        parsed_record = ParsedRecord(skip_reason=UNKNOWN)
        for message in messages:
            message_record = self.convert_message(message, is_repeat)
            parsed_record.items += message_record.items
            parsed_record.skip_reason = message_record.skip_reason
        return parsed_record

    def convert_message(self, message: Mapping[str, object], is_repeat: bool = False) -> ParsedRecord:
        """Return what one message gives.

        `is_repeat`: all messages so far are repeated, so that one seen before gives nothing.
        """
        kind, time = message.get("type"), parse_time(message.get("timestamp"))
        if "messageId" in message and "message" in message:
            # A prompt of the log; nothing if its session has a file of its own, or no id.
            session = as_text(message.get("sessionId"))
            if not session or session[:8] in self._sessions_with_file:
                return ParsedRecord(skip_reason=DUPLICATE)
            self.session.session_id = session
            source_id = f"log:{session}:{as_plain(message.get('messageId'))}"
            return ParsedRecord([RecordItem(source_id, (message_part(Role.USER, words_within(message.get("message"))),), time)])
        source_id = as_text(message.get("id")) or f"content:{content_id(self.session.session_id, message)}"
        if is_repeat and source_id in self._first_times:
            return ParsedRecord(skip_reason=DUPLICATE)
        time = self._first_time(source_id, time)
        if kind == "user":
            return self._convert_prompt(message, source_id, time)
        if kind in ("gemini", "qwen"):
            self.model = as_text(message.get("model")) or self.model
            items = list(self._iter_thoughts(message, source_id, time))
            text = parts_text(message.get("content"))
            reason = EMPTY
            if text.strip() in POLITE:
                items.append(RecordItem(source_id, (left_out_part(INJECTED),), time))
            elif text.strip() and self._is_repeated("model", text, source_id, time):
                reason = DUPLICATE
            elif text.strip():
                items.append(RecordItem(source_id, (message_part(Role.ASSISTANT, text),), time))
            if unknown_notes := note_unknown_parts(message.get("content")):
                items.append(RecordItem(f"{source_id}#u", tuple(unknown_notes), time))
            items += self._iter_calls(message, source_id, time)
            return ParsedRecord(items, DUPLICATE if _values_of(message, "functionCall") else reason)
        if kind == "error":
            return ParsedRecord([RecordItem(source_id, (note_part(_words_of(message.get("content")), record="error"),), time)])
        return ParsedRecord(skip_reason="info" if kind in ("info", "warning") else UNKNOWN)

    def _iter_messages(self, record: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
        if "type" in record:
            yield record
            return
        listed = (as_mapping(record.get("$set")) or record).get("messages")
        yield from (m for m in as_list(listed) if isinstance(m, Mapping))

    def _first_time(self, source_id: str, time: int | None) -> int | None:
        """Return a message's first time: resumed sessions repeat messages later."""
        if time is not None:
            time = self._first_times.setdefault(source_id, time)
            _drop_oldest(self._first_times)
        return time

    def _convert_prompt(self, message: Mapping[str, object], source_id: str, time: int | None) -> ParsedRecord:
        """Return results of tools, and a prompt, summary or context.

        Results are those whose call no earlier record has, a millisecond apart.
        """
        items = []
        for number, answer in enumerate(_values_of(message, "functionResponse")):
            call_id = as_text(answer.get("id"))
            if call_id not in self._answered_calls and call_id not in self.tool_names:
                part = result_part(as_text(answer.get("name")), call_id, response_text(answer))
                items.append(RecordItem(f"{call_id or source_id}#result", (part,), None if time is None else time + number))
        # As displayed, else as sent, without the contents of named files and additions of hooks.
        text = parts_text(message.get("displayContent")) or parts_text(message.get("content"))
        unknown_notes = note_unknown_parts(message.get("content"))
        text = _ELEMENT.sub("", _HOOK.sub("", text.split(_FILES, 1)[0])) or text
        if text.lstrip().startswith(_SUMMARY):
            self._last_summary = time or self._last_summary
            part = note_part(text, record="compacted", **{RECAP: "true"})
        elif text.lstrip().startswith(_CONTEXT):
            part = left_out_part(INJECTED)
        elif not text.strip():
            items += [RecordItem(source_id, tuple(unknown_notes), time)] if unknown_notes else []
            return ParsedRecord(items, DUPLICATE if _values_of(message, "functionResponse") else EMPTY)
        elif self._is_repeated("user", text, source_id, time):
            return ParsedRecord(items, DUPLICATE)
        elif self._is_subagent:
            first = not self._has_task and text.strip() == self.first_prompt.strip()
            self._has_task = self._has_task or first
            part = Part(Role.ASSISTANT, EventType.SUBAGENT_START if first else EventType.NOTE, text.strip())
        else:
            part = message_part(Role.USER, text)
        return ParsedRecord([*items, RecordItem(source_id, (part, *unknown_notes), time)])

    def _is_repeated(self, who: str, text: str, source_id: str, time: int | None) -> bool:
        """Return whether words are repeated within 5 s after a summary."""
        key = content_id(who, text.strip())
        first = self._message_ids.setdefault(key, source_id)
        _drop_oldest(self._message_ids)
        return first != source_id and time is not None and 0 <= time - self._last_summary <= _AGAIN

    def _iter_thoughts(self, message: Mapping[str, object], source_id: str, time: int | None) -> Iterator[RecordItem]:
        thoughts = as_mappings(message.get("thoughts"))
        texts = [(f"{as_text(t.get('subject'))}\n{as_text(t.get('description'))}", t.get("timestamp")) for t in thoughts]
        texts += [(words_within(p.get("text")), None) for p in content_blocks(message.get("content")) if p.get("thought") is True]
        for number, (text, own_time) in enumerate(texts):
            when = parse_time(own_time)
            yield RecordItem(f"{source_id}#t{number}", (self.make_thought(text.strip()),), time if when is None else when)

    def _iter_calls(self, message: Mapping[str, object], source_id: str, time: int | None) -> Iterator[RecordItem]:
        """Yield calls, each followed by its result, in time order."""
        calls = as_mappings(message.get("toolCalls"))
        calls += (
            [f for f in _values_of(message, "functionCall") if as_text(f.get("id")) not in self.tool_names] if not calls else []
        )
        called = answered = time
        for number, tool_call in enumerate(calls):
            name, call_id = as_text(tool_call.get("name")), as_text(tool_call.get("id"))
            own_time, key = parse_time(tool_call.get("timestamp")), call_id or f"{source_id}#call{number}"
            if called is not None and answered is not None:
                # A call's own time is when it was done; the next one began no earlier than its answer, or in parallel.
                called = max(called + 1, min(answered + 1, own_time - 1) if own_time is not None else answered + 1)
                answered = max(answered + 1, called + 1, own_time or 0)
            yield RecordItem(key, (self.make_call(name, tool_call.get("args"), call_id),), called)
            if "result" in tool_call or "resultDisplay" in tool_call:
                self._answered_calls[call_id] = ""
                _drop_oldest(self._answered_calls)
                failed = as_text(tool_call.get("status")) in _FAILED
                yield RecordItem(
                    f"{key}#result", (result_part(name, call_id, _call_output(tool_call), is_error=failed),), answered
                )


def _words_of(content: object) -> str:
    return parts_text(content) or words_within(content)


def note_unknown_parts(content: object) -> list[Part]:
    """Return parts of unknown kinds as notes."""
    blocks = [block for block in content_blocks(content) if "text" not in block and not _KINDS & block.keys()]
    return [part for block in blocks for part in unknown_block_notes(block, next(iter(block), ""))]


def response_text(answer: Mapping[str, object]) -> str:
    """Return a function's output, error or content, else its JSON.

    Without terminal codes and the wrapper of untrusted text.
    """
    response = as_mapping(answer.get("response"))
    for key in ("output", "error", "content"):
        if key in response:
            text = without_ansi(as_plain(response[key]))
            return _UNTRUSTED.sub(r"\1", text) if text.startswith("<untrusted") else text
    return as_plain(response) if response else ""


def parts_text(content: object) -> str:
    """Return the words of a content; data by type, no thinking."""
    return "".join(filter(None, map(_part_text, content_blocks(content))))


def _part_text(block: Mapping[str, object]) -> str:
    if block.get("thought") is True:
        return ""
    for key in ("inlineData", "fileData"):
        if key in block:
            return f"[{as_text(as_mapping(block[key]).get('mimeType')) or 'file'}]"
    return words_within(block.get("text"))


def content_blocks(content: object) -> list[Mapping[str, object]]:
    """Return content in any of its forms as blocks."""
    if isinstance(content, str):
        return [{"text": content}]
    listed = content if isinstance(content, list) else [content]
    return [{"text": b} if isinstance(b, str) else b for b in listed if isinstance(b, str | Mapping)]


def _values_of(message: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    return [as_mapping(block[key]) for block in content_blocks(message.get("content")) if key in block]


def _call_output(tool_call: Mapping[str, object]) -> str:
    raw_result = tool_call.get("result")
    if isinstance(raw_result, str):
        return without_ansi(raw_result)
    responses = [b for b in content_blocks(raw_result) if "functionResponse" in b]
    texts = [response_text(as_mapping(b["functionResponse"])) for b in responses] or [parts_text(raw_result)]
    displayed = tool_call.get("resultDisplay")
    words = "\n".join(filter(None, texts)) or as_text(displayed) or as_text(as_mapping(displayed).get("fileDiff"))
    return without_ansi(words or words_within(raw_result) or words_within(displayed))


def _drop_oldest(where: OrderedDict[str, str] | OrderedDict[str, int]) -> None:
    if len(where) > _REMEMBERED:
        where.popitem(last=False)
