"""Remove what Codex adds around words, arguments and outputs."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, block_text, unknown_words, words_within
from memory_mcp.importers.elements import cut_elements
from memory_mcp.importers.parts import (
    Part,
    as_plain,
    call_part,
    decode_json,
    left_out_part,
    message_part,
    note_part,
    result_part,
    unknown_block_notes,
)
from memory_mcp.importers.wrappers import INJECTED, without_ansi
from memory_mcp.model.event import RECAP, Role

#: Texts in the user's role that the client wrote without an element around them.
_INJECTED = re.compile(r"\s*(?:# AGENTS\.md instructions\b|Warning: [^\n]+\s*\Z)")
#: What comes before the instructions of a folder where they are an element.
_HEADING = re.compile(r"\s*# AGENTS\.md instructions[^\n]*\s*(?=<INSTRUCTIONS>)")
#: The client's own elements, which say nothing about the conversation; older clients left them without their end.
_OFTEN_CUT = frozenset(
    "environment_context user_instructions INSTRUCTIONS collaboration_mode skills_instructions apps_instructions skill"
    " plugins_instructions personality_spec model_switch token_budget realtime_conversation user_action subagent_notification"
    " turn_aborted hook_prompt permissions".split()
)
#: How a summary of the conversation in the user's role begins.
_SUMMARY = "Another language model started to solve this problem and produced a summary"
#: Where the client's introduction to it ends.
_INTRODUCED = "own analysis:"
_SHELL_COMMAND = re.compile(
    r"\s*<user_shell_command>\s*<command>\s*(.*?)\s*</command>\s*(?:<result>(.*?)</result>)?(?:\s*</user_shell_command>)?", re.S
)
#: The editor's own words come before this heading.
_REQUEST = "## My request for Codex:"
_IDE = "# Context from my IDE setup:"
#: The head of a command's output: lines of figures, then "Output:".
_HEAD = re.compile(r"\A(?:(?:Chunk ID|Wall time|Exit code|Original token|Process |Total output)[^\n]*\n){1,8}Output:\n?")
_EXIT = re.compile(r"^(?:Exit code: |Process exited with code )(-?\d{1,9})$", re.M)
_DIRECTORY = re.compile(r"<environment_context>\s*(?:<cwd>([^<\n]+)</cwd>|Current working directory: ([^\n]+))")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
_SHELLS = ("bash", "zsh", "sh", "powershell", "pwsh", "cmd", "cmd.exe", "powershell.exe")
_MARKS = {"completed": "x", "in_progress": "~"}
_MOST_FILES = 20


def prompt_parts(content: object, harness: Sequence[bool]) -> list[Part]:
    """Return the user's words as one part, then summaries and notes.

    `harness`: for each block whether the client wrote it, if known; blocks that begin as the client's do count too. A shell
    command is "! command" with its output below; of a request to the editor's agent, what the editor wrote before it goes.
    """
    parts, words = [], []
    for number, block in enumerate(as_blocks(content)):
        text = _block_text(block)
        if not text.strip():
            parts += unknown_block_notes(block)
        elif text.startswith(_SUMMARY):
            parts.append(note_part(recap_text(text), record="compacted", **{RECAP: "true"}))
        elif number < len(harness) and harness[number]:
            parts.append(left_out_part(INJECTED))
        elif _INJECTED.match(text):
            parts.append(left_out_part(INJECTED))
            heading = _HEADING.match(text)
            remainder = cut_elements(text[heading.end() :], _OFTEN_CUT)[0] if heading else ""
            words += [remainder] if remainder else []
        elif match := _SHELL_COMMAND.match(text):
            words.append(f"! {match[1]}\n{(match[2] or '').strip()}".strip())
            words += [remainder] if (remainder := text[match.end() :].strip()) else []
        elif text.lstrip().startswith(_IDE) and _REQUEST in text:
            words.append(text.rsplit(_REQUEST, 1)[1].strip())
        elif "<" not in text:
            words.append(text)
        else:
            prompt, elements = cut_elements(text, _OFTEN_CUT)
            words += [prompt] if prompt else []
            client = [element for element in elements if element.name in _OFTEN_CUT]
            parts += [left_out_part(INJECTED)] * bool(client)
            parts += [note_part(e.content, record=e.name) for e in elements if e.content and e not in client]
    return [message_part(Role.USER, "\n".join(words)), *parts] if words else parts


def tool_call(name: str, arguments: object, call_id: str) -> Part:
    """Return a call with its most informative argument first.

    `arguments` may be an object, its JSON, or a text, which is taken as a patch or else a command. They get the names that
    other clients use: `path` (a patch's files, at most 20, one a line), `command` (as typed), `plan` (steps as lines).
    """
    values = decode_json(arguments)
    if isinstance(values, str):
        files = _PATCHED.findall(values)[:_MOST_FILES]
        values = {"path": "\n".join(files), "patch": values} if files else {"command": values}
    elif isinstance(values, Mapping):
        readable = dict(values)
        command = readable.pop("cmd" if "cmd" in readable else "command", None)
        if command is not None:
            readable = {"command": _command_line(command), **readable}
        if files := _PATCHED.findall(as_text(values.get("patch")) or as_text(values.get("input")))[:_MOST_FILES]:
            readable = {"path": "\n".join(files), **readable}
        if isinstance(values.get("plan"), list):
            readable["plan"] = "".join(f"\n{_plan_step(step)}" for step in values["plan"])
        values = readable
    return call_part(name, values, call_id)


def tool_result(name: str, output: object, call_id: str) -> Part:
    """Return a tool's result, without the client's head lines and colours."""
    value = decode_json(output)
    status, failed = "", False
    if isinstance(value, Mapping) and ("output" in value or "content" in value):
        code = as_mapping(value.get("metadata")).get("exit_code")
        status = str(code) if isinstance(code, int) else ""
        failed = value.get("success") is False
        output = value["output"] if "output" in value else value["content"]
    blocks = () if isinstance(output, str) else as_blocks(output)
    text = output if isinstance(output, str) else "\n".join(filter(None, (_block_text(b) or unknown_words(b) for b in blocks)))
    text = text if text or blocks else words_within(output)
    if head := _HEAD.match(text):
        exit_match = _EXIT.search(head[0])
        status, text = exit_match[1] if exit_match else status, text[head.end() :]
    return result_part(name, call_id, without_ansi(text), is_error=failed, exit_status=status)


def directory_of(content: object) -> str:
    """Return the directory in the client's environment context; "" for none."""
    match = _DIRECTORY.search("\n".join(map(block_text, as_blocks(content))))
    return (match[1] or match[2]).strip() if match else ""


def recap_text(text: str) -> str:
    """Return a summary without the client's introduction."""
    return text.split(_INTRODUCED, 1)[-1].strip() if text.startswith(_SUMMARY) else text


def _block_text(block: Mapping[str, object]) -> str:
    return "[image]" if block.get("type") == "input_image" else block_text(block)


def _command_line(value: object) -> str:
    if not isinstance(value, list):
        return as_plain(value)
    words = [as_plain(word) for word in value]
    if len(words) == 3 and words[0].rsplit("/", 1)[-1] in _SHELLS and words[1].startswith(("-", "/")):
        return words[2]
    return shlex.join(words)


def _plan_step(step: object) -> str:
    fields = as_mapping(step)
    return f"[{_MARKS.get(as_text(fields.get('status')), ' ')}] {as_text(fields.get('step')) or json.dumps(step, default=str)}"
