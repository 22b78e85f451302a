"""Convert content blocks of a message to readable text and metadata; independent of sessions and files."""

import json
import re
from collections.abc import Mapping, Sequence

from memory_mcp.importers.wrappers import without_ansi, without_reminders

#: The argument that says most about a call, by tool; for other tools the first of `_USUAL_KEYS` that it has.
_KEYS = {
    "Bash": "command",
    "Read": "file_path",
    "Edit": "file_path",
    "MultiEdit": "file_path",
    "Write": "file_path",
    "NotebookEdit": "notebook_path",
    "Glob": "pattern",
    "Grep": "pattern",
    "LS": "path",
    "WebFetch": "url",
    "WebSearch": "query",
    "Task": "description",
    "Agent": "description",
    "Skill": "skill",
    "TaskCreate": "subject",
    "TaskUpdate": "taskId",
    "ExitPlanMode": "plan",
    "ToolSearch": "query",
}
_USUAL_KEYS = (
    "command cmd file_path path target_file targetFile relativeWorkspacePath filepath query q url pattern title name id"
    " description prompt code".split()
)
_FILE_KEYS = "file_path notebook_path path target_file targetFile relativeWorkspacePath filepath".split()
#: Fields whose texts are words, however short; texts that are read of one object; a run that is data.
_WORDS = frozenset("text output content message result stdout stderr error response summary markdown value answer".split())
_MOST_TEXTS = 1000
#: Fields of a picture or a document that describe it.
_CAPTIONS = ("title", "caption", "alt", "alt_text", "description")
#: Kinds of blocks that `block_text` reads.
_PLAIN = ("text", "input_text", "output_text", "image", "document", "tool_reference", "resource")
_DATA = re.compile(r"\bdata:[^\s\"]*|[^\s]{400,}")
#: Arguments whose usual values say nothing.
_SILENT = {"timeout", "activeForm"}
_WIDTH = 8192
_MARKS = {"completed": "x", "in_progress": "~"}
#: Tools whose result is what a subagent brought back.
AGENT_TOOLS = frozenset({"Task", "Agent"})

_EXIT_CODE = re.compile(r"\A(?:Error: )?Exit code (-?\d{1,5})\b")
#: Details of a shell whose end is unclear.
_TROUBLES = ("interrupted", "backgroundTaskId", "returnCodeInterpretation", "status")
_ERROR_OPEN, _ERROR_CLOSE = "<tool_use_error>", "</tool_use_error>"


def as_text(value: object) -> str:
    """Return `value` if it is a text, else ""."""
    return value if isinstance(value, str) else ""


def as_mapping(value: object) -> Mapping[str, object]:
    """Return `value` if it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[object]:
    """Return `value` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_mappings(value: object) -> list[Mapping[str, object]]:
    """Return a list's items as objects, empty for others.

    [] if `value` is not a list.
    """
    return [as_mapping(item) for item in as_list(value)]


def as_blocks(content: object) -> Sequence[Mapping[str, object]]:
    """Return message content as blocks; empty for anything else.

    A text becomes {"type": "text", "text": it}; the items of a list within a list count as those of the outer one, and other
    items are left out.
    """
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if isinstance(content, Mapping):
        return (content,)
    if not isinstance(content, list):
        return ()
    if {*map(type, content)} == {dict}:
        return content
    return [block for item in content for block in ((item,) if isinstance(item, Mapping) else as_blocks(item))]


def block_text(block: Mapping[str, object]) -> str:
    """Return a block as text; "" for a block without text.

    Images and documents are never quoted: "[image <media type or address> <title or caption>]". A named tool is
    "[tool <name>]", a resource its text, else "[resource <address>]".
    """
    kind = block.get("type")
    if kind in ("text", "input_text", "output_text"):
        return words_within(block.get("text"))
    if kind in ("image", "document"):
        source = as_mapping(block.get("source"))
        media = as_text(source.get("media_type")) or as_text(source.get("url"))[:200]
        return f"[{' '.join(filter(None, (str(kind), media, *captions_of(block))))}]"
    if kind == "tool_reference":
        return f"[tool {as_text(block.get('tool_name'))}]"
    if kind == "resource":
        resource = as_mapping(block.get("resource"))
        return as_text(resource.get("text")) or f"[resource {as_text(resource.get('uri'))}]"
    return as_text(block.get("text")) if kind else words_within(block.get("text"))


def captions_of(block: Mapping[str, object]) -> list[str]:
    """Return the texts that describe a picture or a document."""
    return [text for key in _CAPTIONS if (text := as_text(block.get(key)))]


def all_words(block: Mapping[str, object]) -> str:
    """Return the words of a block of any kind."""
    return "\n".join(filter(None, (block_text(block), unknown_words(block))))


def words_of(content: object) -> str:
    """Return message content as text, a block a line; "" for none."""
    if isinstance(content, str):
        return content
    return "\n".join(filter(None, map(all_words, as_blocks(content))))


def words_within(value: object) -> str:
    """Return the words of an object of unknown form, one a line.

    Words are texts with white space, and those of fields that are called after text; addresses of data and other long runs
    without white space are none. Without words it is the object's JSON, shortened; "" for nothing and for an empty object.
    """
    if isinstance(value, str):
        return value
    if not value:
        return ""
    texts: list[str] = []
    has_values = False
    pending: list[tuple[str, object]] = [("", value)]
    while pending and len(texts) < _MOST_TEXTS:
        name, inner = pending.pop()
        if isinstance(inner, Mapping):
            pending += [(str(key), item) for key, item in inner.items()][::-1]
        elif isinstance(inner, list):
            pending += [(name, item) for item in inner[::-1]]
        elif isinstance(inner, str) and (words := inner.strip()) and not _DATA.search(words):
            texts += [inner] if name.lower() in _WORDS or any(map(str.isspace, words)) else []
            has_values = True
        else:
            has_values = has_values or isinstance(inner, int | float)
    return "\n".join(texts) or (_DATA.sub("...", _shorten(value)) if has_values else "")


def call_text(name: str, arguments: object) -> str:
    """Return a tool call for people: `Bash: go test ./...`.

    First comes the argument that says most, then the others, one a line; empty ones, `timeout` and `activeForm` are left out,
    long ones shortened in the middle. Of TodoWrite the tasks.
    """
    fields = as_mapping(arguments)
    if name == "TodoWrite" and isinstance(fields.get("todos"), list):
        return "\n".join(["TodoWrite:", *map(_todo_line, fields["todos"])])  # type: ignore[call-overload]
    key = next((k for k in (_KEYS.get(name, ""), *_USUAL_KEYS) if k in fields), "")
    first = f"{name}: {_shorten(fields[key])}" if key in fields else name
    other_lines = [
        f"{k}: {_shorten(v)}" for k, v in fields.items() if k != key and k not in _SILENT and v not in (None, False, "", [], {})
    ]
    return "\n".join([first, *other_lines])


def call_metadata(name: str, arguments: object) -> dict[str, str]:
    """Return `tool`, `files` and `command` of a call; "" for none."""
    fields = as_mapping(arguments)
    files = next((as_text(fields[k]) for k in _FILE_KEYS if fields.get(k)), "")
    return {"tool": name, "files": files, "command": as_text(fields.get("command")) or as_text(fields.get("cmd"))}


def result_text(content: object, fallback: object = None) -> str:
    """Return a tool result's text, without reminders, colours and error tag.

    `fallback`, if it is a text, is used when the content has none.
    """
    words = words_of(content) or ("" if as_blocks(content) else words_within(content))
    text = without_ansi(without_reminders(words or as_text(fallback)))
    if text.lstrip().startswith(_ERROR_OPEN):
        text = text.strip().removeprefix(_ERROR_OPEN).removesuffix(_ERROR_CLOSE)
    return text.strip("\n").rstrip()


def result_metadata(text: str, is_error: bool, details: object) -> dict[str, str]:
    """Return `is_error`, `exit_status` and `files` of a tool's result.

    As the text or the client's details state them, "" where unknown; at most 20 files, one a line. A shell's result that shows
    no trouble has status 0.
    """
    fields = as_mapping(details)
    path = as_text(fields.get("filePath")) or as_text(as_mapping(fields.get("file")).get("filePath"))
    listed = [n for n in as_list(fields.get("filenames")) if isinstance(n, str)]
    metadata = {"is_error": "true" if is_error else "", "exit_status": "", "files": path or "\n".join(listed[:20])}
    if match := _EXIT_CODE.match(text):
        metadata["exit_status"] = match[1]
    elif isinstance(fields.get("exitCode"), int):
        metadata["exit_status"] = str(fields["exitCode"])
    elif not is_error and {"stdout", "interrupted"} <= fields.keys() and not any(fields.get(k) for k in _TROUBLES):
        # The client reports every other status as an error.
        metadata["exit_status"] = "0"
    return metadata


def unknown_words(block: Mapping[str, object]) -> str:
    """Return the words that `block_text` does not read in a block.

    Without kind and ids; of a document its text, where it is not a file.
    """
    if block.get("type") == "document":
        source = as_mapping(block.get("source"))
        return words_within(source.get("data") if source.get("type") == "text" else source.get("content"))
    if block.get("type") in _PLAIN or block_text(block):
        return ""
    return words_within({k: v for k, v in block.items() if k != "type" and not k.lower().endswith("id")})


def _todo_line(item: object) -> str:
    if not isinstance(item, Mapping):
        return f"- {_shorten(item)}"
    mark = _MARKS.get(as_text(item.get("status")), " ")
    return f"[{mark}] {words_within(item.get('content')) or words_within(item.get('activeForm'))}"


def _shorten(value: object) -> str:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    except RecursionError:
        # What is read at the deepest level that can be is written one level deeper.
        text = "[nested too deep]"
    if len(text) <= _WIDTH:
        return text
    half = _WIDTH // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
