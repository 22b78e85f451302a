"""Importer of Continue's session files (IDE extensions and the command `cn`).

The format is that of the client's own code, which is open: `core/util/history.ts` and the types it writes, as shipped
with @continuedev/cli 1.5.47, and their older forms in the history of its repository. One JSON document a session in
~/.continue/sessions, written anew with every turn; messages have no time of their own, the session's is in sessions.json.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from memory_mcp.base.scope import project_of
from memory_mcp.ingest.claude_code.blocks import (
    all_words,
    as_blocks,
    as_list,
    as_mapping,
    as_mappings,
    as_text,
    plain,
    words_within,
)
from memory_mcp.ingest.lines import Record, iter_records
from memory_mcp.ingest.parts import (
    Part,
    Session,
    Tally,
    as_plain,
    call,
    content_id,
    dropped,
    file_time,
    note,
    note_unknown,
    path_of,
    result,
    said,
    thought,
)
from memory_mcp.ingest.prompts import separate_prompts
from memory_mcp.ingest.times import parse_time
from memory_mcp.ingest.whole import WholeImporter
from memory_mcp.model.event import RECAP, EventDraft, Role

AGENT = "continue"
#: The list of all sessions, beside them.
_LIST = "sessions.json"
_OWN = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*?"history"\s*:\s*\[', re.DOTALL)
CONTEXT = "context item"
#: Runs that have an output that stays.
_ENDED = frozenset({"done", "errored", "canceled"})


class ContinueImporter(WholeImporter):
    """Reads the sessions that Continue keeps on this machine."""

    name = AGENT
    title = "Continue"
    endings = (".json",)
    key = "history"
    not_ours = "not a Continue session"

    def default_paths(self) -> tuple[Path, ...]:
        """Return the folder `sessions` in $CONTINUE_GLOBAL_DIR, else in ~/.continue; existing or not."""
        return (Path(os.environ.get("CONTINUE_GLOBAL_DIR") or Path.home() / ".continue") / "sessions",)

    def wants(self, file: Path) -> bool:
        """Return whether a file is a session, not the list of sessions."""
        return file.name != _LIST

    def recognises(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.json` file is a session of Continue: no other client keeps a history with a workspace directory."""
        named = b'"sessionId"' in beginning and b'"workspaceDirectory"' in beginning
        return file.suffix == ".json" and named and _OWN.match(beginning) is not None

    def conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one session: its title, then its entries in order.

        An entry's id follows from its place and content. Entries are counted in `tally`, those without an event with the
        reason.
        """
        value = record.value
        name, cwd = as_text(value.get("sessionId")) or file.stem, path_of(value.get("workspaceDirectory"))
        session = Session(AGENT, name, project_of(cwd), {"cwd": cwd}, file_time=file_time(file))
        listed, began = file.parent / _LIST, ""
        with suppress(OSError):
            began = _listed(listed, listed.stat().st_mtime_ns).get(name, "")
        created = parse_time(began) or parse_time(value.get("dateCreated"))
        title = words_within(value.get("title"))
        yield from session.put([note(title, record="title")], f"{name}:title:{content_id(title)}", created)
        items = [as_mapping(item) for item in value["history"]]  # type: ignore[attr-defined]
        answered = {as_text(m.get("toolCallId")) for m in map(_message, items) if m.get("role") == "tool"}
        tools: dict[str, str] = {}
        for number, item in enumerate(items):
            message = _message(item)
            parts = separate_prompts(list(self._parts(item, message, tools, answered)), item)
            source_id = f"{name}:{number}:{content_id(message.get('role'), message.get('content'), message.get('toolCalls'))}"
            own = parse_time(as_mapping(item.get("reasoning")).get("startAt"))
            # The model is named in the first log of a prompt.
            log = next(iter(as_mappings(item.get("promptLogs"))), {})
            drafts = session.put(parts, source_id, own, {"model": as_text(log.get("modelTitle"))})
            yield from tally.took(drafts, parts, record.line, item)

    def _parts(
        self, item: Mapping[str, object], message: Mapping[str, object], tools: dict[str, str], answered: set[str]
    ) -> Iterator[Part]:
        """Yield the parts of an entry, then its summary of the conversation if it has one.

        `tools` are the names of earlier calls, `answered` the calls whose result is a message. A prompt has the paths of at
        most 20 attached files. Context items, system prompts, unknown roles and unwanted thinking are left out with the reason.
        """
        role, blocks = as_text(message.get("role")), as_blocks(message.get("content"))
        read = all_words if role in ("tool", "thinking") else plain
        texts = ["[image]" if b.get("type") == "imageUrl" else read(b) for b in blocks]
        text = "\n".join(filter(None, texts))
        keep, summary = self._settings.include_thinking, words_within(item.get("conversationSummary"))
        if role == "user":
            context = as_mappings(item.get("contextItems"))
            uris = [as_mapping(one.get("uri")) for one in context]
            files = [path_of(uri.get("value")) for uri in uris if uri.get("type") == "file"][:20]
            yield said(Role.USER, text, files="\n".join(files))
            yield from (dropped(CONTEXT) for _ in context)
        elif role == "thinking":
            yield thought(text, keep)
        elif role == "tool":
            call_id = as_text(message.get("toolCallId"))
            yield result(tools.get(call_id, ""), call_id, text)
        elif role == "assistant":
            if reasoning := words_within(as_mapping(item.get("reasoning")).get("text")):
                yield thought(reasoning, keep)
            yield said(Role.ASSISTANT, "" if text == summary else text)
            yield from _calls(item, message, tools, answered)
        elif role == "system":
            yield dropped("system prompt")
        else:
            yield dropped(f"{role or 'unknown'} message")
        if role in ("user", "assistant") and not all(texts):
            yield from (part for block, words in zip(blocks, texts, strict=True) if not words for part in note_unknown(block))
        if summary:
            yield note(summary, **{RECAP: "true"})


def _message(item: Mapping[str, object]) -> Mapping[str, object]:
    """Return the message of an entry; {} where it has none."""
    return as_mapping(item.get("message"))


def _calls(
    item: Mapping[str, object], message: Mapping[str, object], tools: dict[str, str], answered: set[str]
) -> Iterator[Part]:
    """Yield a message's tool calls, each with its result where the client keeps both together and the call has ended.

    `tools` gets the names by call id; results of `answered` calls are messages of their own. Without output a result is
    its status in brackets; all but "done" are errors.
    """
    states = [as_mapping(s) for s in as_list(item.get("toolCallStates")) or [item.get("toolCallState")]]
    by_id = {as_text(s.get("toolCallId")): s for s in states if s}
    calls = [as_mapping(c) for c in as_list(message.get("toolCalls"))] or [as_mapping(s.get("toolCall")) for s in states if s]
    for made in calls:
        call_id, function = as_text(made.get("id")), as_mapping(made.get("function"))
        state = by_id.get(call_id, {})
        tools[call_id] = as_text(function.get("name"))
        yield call(tools[call_id], state.get("parsedArgs") or function.get("arguments"), call_id)
        status = as_text(state.get("status"))
        if call_id in answered or status not in _ENDED:
            continue
        text = "\n".join(filter(None, map(_output, as_blocks(state.get("output")))))
        yield result(tools[call_id], call_id, text or f"({status})", status != "done")


def _output(item: Mapping[str, object]) -> str:
    """Return one item of what a call gave back as text."""
    return words_within(item.get("content")) or all_words(item)


@lru_cache(maxsize=4)
def _listed(file: Path, mtime_ns: int) -> Mapping[str, str]:
    """Return the time at which each session of a list began, by its id, as the list has it; cached until the file changes.

    Items that cannot be read are left out; raises OSError when the file cannot be read.
    """
    del mtime_ns  # tells another version of the list
    values = (record.value for record in iter_records(file) if not record.error)
    return {as_text(v.get("sessionId")): as_plain(v.get("dateCreated")) for v in values}
