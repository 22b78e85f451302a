"""Parse texts of Cline and Roo Code: prompts, answers, calls and results as XML, and context."""

import datetime as dt
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.chat import INJECTED
from memory_mcp.importers.json_records import parse_time

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
