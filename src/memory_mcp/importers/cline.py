"""Conversations of Cline (tasks of the editor extension, sessions of the command) and of Roo Code, written as a whole.

A task keeps its messages, as the model's interface takes them, in one array; a session keeps the same messages under
`messages` with ids and times. Older clients wrote tool calls as XML into the answers and the results as texts with a
heading into the next message; both are recognised here by the clients' own tool names.

An id follows from the conversation, what the message says and how often it was said there before: clients drop and
insert messages, so a place in the array means nothing.
"""

import datetime as dt
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers import chat
from memory_mcp.importers.answers import refusal_words, reply_metadata
from memory_mcp.importers.base import Growth, ImportReport, ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.chat import INJECTED, ChatReader, Outcome
from memory_mcp.importers.client_importer import ClientImporter, editor_data
from memory_mcp.importers.json_records import NOT_AN_OBJECT, Record, first_values, iter_records, parse_time
from memory_mcp.importers.parts import Part, content_id, file_time, message_part, unknown_block_notes
from memory_mcp.importers.session_reader import read_records
from memory_mcp.model.event import Role

_TOOLS = (
    "access_mcp_resource apply_diff ask_followup_question attempt_completion browser_action codebase_search condense"
    " execute_command fetch_instructions insert_content list_code_definition_names list_files load_mcp_documentation new_rule"
    " new_task plan_mode_respond read_file replace_in_file report_bug search_and_replace search_files switch_mode"
    " update_todo_list use_mcp_tool use_skill web_fetch web_search write_to_file"
).split()
_NAMES = "|".join(_TOOLS)
_CALL = re.compile(rf"<({_NAMES})>(.*?)(?:</\1>|\Z)", re.S)
_ARGUMENT = re.compile(r"<([a-z][a-z_]{0,40})>\n?(.*?)\n?</\1>", re.S)
_THINKING = re.compile(r"<thinking>(.*?)(?:</thinking>|\Z)", re.S)
#: How the text of a result begins.
_RESULT = re.compile(rf"\A\[({_NAMES}|[a-z0-9_]+__[\w-]+)\b[^\n]*?\] Result:[ \t]*\n?", re.S)
_ASKED = re.compile(r"^[ \t]*<(task|feedback|answer|user_message|user_input)\b[^<>]{0,80}>\n?(.*?)\n?</\1>", re.S | re.M)
#: What the user added when a task was taken up again.
_RESUMED = re.compile(r"<user_message>.*?</user_message>", re.S)
_CONTEXT = re.compile(
    r"<(environment_details|explicit_instructions|system-reminder|environment_context|workspace_diagnostics)\b[^<>]{0,200}>"
    r"(.*?)(?:</\1>|\Z)",
    re.S,
)
_ATTACHED = re.compile(r"<(file_content|folder_content|url_content)\b([^<>]{0,4096})>.*?(?:</\1>|\Z)", re.S)
_PLACE = re.compile(r"""(?:path|url)=["']([^"']{1,4096})["']""")
_CWD = re.compile(r"# Current (?:Working|Workspace) Directory \((.{1,4096}?)\)(?: Files)?\s*$", re.M)
_UTC = re.compile(r"Current time in ISO 8601 UTC format: (\S{1,40})")
_LOCAL = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4}), (\d{1,2}):(\d\d):(\d\d)\s([AP]M) \([^()]{0,80}UTC([+-]\d{1,2}):(\d\d)\)")
#: What the client writes in the user's place.
_CLIENT = ("[ERROR] ", "[TASK RESUMPTION] ", "[NOTE] ", "[TOOL RESULTS", "[DUPLICATE FILE READ]")


@dataclass(slots=True)
class PromptWords:
    """The parsed texts of one user message."""

    texts: list[str] = field(default_factory=list)
    #: Tool and text of results that are written as texts.
    results: list[tuple[str, str]] = field(default_factory=list)
    #: Whether the words are in a tag that only the user's own have.
    is_tagged: bool = False
    cwd: str = ""
    time: int | None = None
    left_out: Counter[str] = field(default_factory=Counter)

    def add_text(self, text: str) -> None:
        """Add words, or the text of a result that lacks one."""
        if not text.strip():
            return
        if self.results and not self.texts and not self.results[-1][1]:
            self.results[-1] = (self.results[-1][0], text.strip())
        else:
            self.texts.append(text.strip())


def split_prompt(text: str, words: PromptWords) -> None:
    """Add the contents of a user message's text to `words`.

    Context of the client is removed and counted, its directory and time noted; attached files are replaced by their names.
    """
    for match in _CONTEXT.finditer(text) if "<" in text else ():
        words.left_out[INJECTED] += 1
        if match[1] == "environment_details":
            _read_environment(match[2], words)
    text = _CONTEXT.sub("", text) if "<" in text else text
    if text.startswith(_CLIENT):
        words.left_out[INJECTED] += 1
        text = inner[0] if (inner := _RESUMED.search(text)) else ""
    if heading := _RESULT.match(text):
        remainder = text[heading.end() :]
        if tagged := _ASKED.match(remainder.lstrip()):
            words.is_tagged = True
            words.texts.append(tagged[2].strip())
        else:
            words.results.append((heading[1], ""))
            words.add_text(remainder)
        return
    text, files = _ATTACHED.subn(_file_label, text)
    words.left_out["attached file"] += files
    if tagged := _ASKED.search(text):
        words.is_tagged = True
        words.texts.append(f"{text[: tagged.start()]}{tagged[2]}{text[tagged.end() :]}".strip())
    else:
        words.add_text(text)


def split_answer(text: str) -> Iterator[tuple[bool, str, str, Mapping[str, str]]]:
    """Yield (is thinking, tool, words, arguments) for each piece of an answer.

    Calls are XML of the clients' own tools; a call cut at the end still counts. Of a call the words are "", of anything else
    the tool is "" and the arguments are {}; a call's text without argument tags is its argument "input".
    """
    at = 0
    for match in _CALL.finditer(text):
        yield from _split_thinking(text[at : match.start()])
        at = match.end()
        arguments = {m[1]: m[2].strip() for m in _ARGUMENT.finditer(match[2])}
        yield False, match[1], "", arguments or ({"input": match[2].strip()} if match[2].strip() else {})
    yield from _split_thinking(text[at:])


def _split_thinking(text: str) -> Iterator[tuple[bool, str, str, Mapping[str, str]]]:
    at = 0
    for match in _THINKING.finditer(text):
        if text[at : match.start()].strip():
            yield False, "", text[at : match.start()], {}
        at = match.end()
        yield True, "", match[1], {}
    if text[at:].strip():
        yield False, "", text[at:], {}


def _file_label(match: re.Match[str]) -> str:
    address = _PLACE.search(match[2])
    return f"[file {address[1]}]" if address else "[file]"


def _read_environment(text: str, words: PromptWords) -> None:
    if match := _CWD.search(text):
        words.cwd = match[1]
    if match := _UTC.search(text):
        words.time = parse_time(match[1])
    elif match := _LOCAL.search(text):
        # As written in the United States, with its offset.
        month, day, year, hour, minute, second, offset = (int(match[n]) for n in (1, 2, 3, 4, 5, 6, 8))
        hour = hour % 12 + (12 if match[7] == "PM" else 0)
        minutes = abs(offset) * 60 + int(match[9])
        try:
            zone = dt.timezone(dt.timedelta(minutes=-minutes if match[8].startswith("-") else minutes))
            words.time = int(dt.datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp() * 1000)
        except (ValueError, OverflowError):
            words.time = None


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
        home = Path.home()
        cline_home = Path(os.environ.get("CLINE_DIR") or home / ".cline").expanduser()
        folders = [cline_home / "data" / "sessions", cline_home / "data" / "tasks", home / ".roo" / "tasks"]
        for editor in _EDITORS:
            folders += [editor_data() / editor / "User" / "globalStorage" / name / "tasks" for name in _EXTENSIONS]
        return tuple(folders)

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
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
