"""Importer of Continue's session files (IDE extensions and the command `cn`).

The format is that of the client's own code, which is open: `core/util/history.ts` and the types it writes, as shipped
with @continuedev/cli 1.5.47, and their older forms in the history of its repository. One JSON document a session in
~/.continue/sessions, written again with every turn; messages have no time of their own, the session's is in sessions.json.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from memory_mcp.base.scope import project_of
from memory_mcp.importers.blocks import all_words, as_blocks, as_list, as_mapping, as_mappings, as_text, block_text, words_within
from memory_mcp.importers.client_importer import DocumentImporter
from memory_mcp.importers.json_records import Record, iter_records, parse_time
from memory_mcp.importers.parts import (
    Part,
    Session,
    Tally,
    as_plain,
    call_part,
    content_id,
    file_time,
    left_out_part,
    message_part,
    note_part,
    path_of,
    result_part,
    separate_prompts,
    thought_part,
    unread_block_notes,
)
from memory_mcp.model.event import RECAP, EventDraft, Role

AGENT = "continue"
#: The list of all sessions, next to them.
_LIST = "sessions.json"
_OWN = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*?"history"\s*:\s*\[', re.DOTALL)
CONTEXT = "context item"
#: Runs that have an output that stays.
_ENDED = frozenset({"done", "errored", "canceled"})


class ContinueImporter(DocumentImporter):
    """Reads the sessions that Continue keeps on this machine."""

    name = AGENT
    title = "Continue"
    home_variables, home, folders = ("CONTINUE_GLOBAL_DIR",), ".continue", ("sessions",)
    endings = (".json",)
    messages_key = "history"
    skip_reason = "not a Continue session"

    def wants_file(self, file: Path) -> bool:
        return file.name != _LIST

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        has_fields = b'"sessionId"' in beginning and b'"workspaceDirectory"' in beginning
        return file.suffix == ".json" and has_fields and _OWN.match(beginning) is not None

    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield a session's title, then its entries in order.

        An entry's id follows from its position and content.
        """
        value = record.value
        name, cwd = as_text(value.get("sessionId")) or file.stem, path_of(value.get("workspaceDirectory"))
        session = Session(AGENT, name, project_of(cwd), {"cwd": cwd}, file_time=file_time(file))
        listed, began = file.parent / _LIST, ""
        with suppress(OSError):
            began = _load_start_times(listed, listed.stat().st_mtime_ns).get(name, "")
        created = parse_time(began) or parse_time(value.get("dateCreated"))
        title = words_within(value.get("title"))
        yield from session.make_drafts([note_part(title, record="title")], f"{name}:title:{content_id(title)}", created)
        items = [as_mapping(item) for item in value["history"]]  # type: ignore[attr-defined]
        answered = {as_text(m.get("toolCallId")) for m in map(_message_of, items) if m.get("role") == "tool"}
        tools: dict[str, str] = {}
        for number, item in enumerate(items):
            message = _message_of(item)
            parts = separate_prompts(list(self._iter_parts(item, message, tools, answered)), item)
            source_id = f"{name}:{number}:{content_id(message.get('role'), message.get('content'), message.get('toolCalls'))}"
            own_time = parse_time(as_mapping(item.get("reasoning")).get("startAt"))
            # The model is named in the first log of a prompt.
            log = next(iter(as_mappings(item.get("promptLogs"))), {})
            drafts = session.make_drafts(parts, source_id, own_time, {"model": as_text(log.get("modelTitle"))})
            yield from tally.count_record(drafts, parts, record.line, item)

    def _iter_parts(
        self, item: Mapping[str, object], message: Mapping[str, object], tools: dict[str, str], answered: set[str]
    ) -> Iterator[Part]:
        """Yield an entry's parts.

        `tools` are names by call id; results of `answered` calls are messages of their own.
        """
        role, blocks = as_text(message.get("role")), as_blocks(message.get("content"))
        read = all_words if role in ("tool", "thinking") else block_text
        texts = ["[image]" if b.get("type") == "imageUrl" else read(b) for b in blocks]
        text = "\n".join(filter(None, texts))
        keep, summary = self._settings.include_thinking, words_within(item.get("conversationSummary"))
        if role == "user":
            context = as_mappings(item.get("contextItems"))
            uris = [as_mapping(context_item.get("uri")) for context_item in context]
            files = [path_of(uri.get("value")) for uri in uris if uri.get("type") == "file"][:20]
            yield message_part(Role.USER, text, files="\n".join(files))
            yield from (left_out_part(CONTEXT) for _ in context)
        elif role == "thinking":
            yield thought_part(text, keep)
        elif role == "tool":
            call_id = as_text(message.get("toolCallId"))
            yield result_part(tools.get(call_id, ""), call_id, text)
        elif role == "assistant":
            if reasoning := words_within(as_mapping(item.get("reasoning")).get("text")):
                yield thought_part(reasoning, keep)
            yield message_part(Role.ASSISTANT, "" if text == summary else text)
            yield from _iter_calls(item, message, tools, answered)
        elif role == "system":
            yield left_out_part("system prompt")
        else:
            yield left_out_part(f"{role or 'unknown'} message")
        if role in ("user", "assistant"):
            yield from unread_block_notes(blocks, texts)
        if summary:
            yield note_part(summary, **{RECAP: "true"})


def _message_of(item: Mapping[str, object]) -> Mapping[str, object]:
    return as_mapping(item.get("message"))


def _iter_calls(
    item: Mapping[str, object], message: Mapping[str, object], tools: dict[str, str], answered: set[str]
) -> Iterator[Part]:
    """Yield calls, each with its result if it is kept with it.

    Adds the names to `tools`. Without output a result is its status in brackets; all but "done" are errors.
    """
    states = [as_mapping(s) for s in as_list(item.get("toolCallStates")) or [item.get("toolCallState")]]
    by_id = {as_text(s.get("toolCallId")): s for s in states if s}
    calls = [as_mapping(c) for c in as_list(message.get("toolCalls"))] or [as_mapping(s.get("toolCall")) for s in states if s]
    for tool_call in calls:
        call_id, function = as_text(tool_call.get("id")), as_mapping(tool_call.get("function"))
        state = by_id.get(call_id, {})
        tools[call_id] = as_text(function.get("name"))
        yield call_part(tools[call_id], state.get("parsedArgs") or function.get("arguments"), call_id)
        status = as_text(state.get("status"))
        if call_id in answered or status not in _ENDED:
            continue
        text = "\n".join(filter(None, map(_output_text, as_blocks(state.get("output")))))
        yield result_part(tools[call_id], call_id, text or f"({status})", status != "done")


def _output_text(item: Mapping[str, object]) -> str:
    return words_within(item.get("content")) or all_words(item)


@lru_cache(maxsize=4)
def _load_start_times(file: Path, mtime_ns: int) -> Mapping[str, str]:
    """Return when listed sessions began, by id; cached; raises OSError."""
    del mtime_ns  # the key of a changed list
    values = (record.value for record in iter_records(file) if not record.error)
    return {as_text(v.get("sessionId")): as_plain(v.get("dateCreated")) for v in values}
