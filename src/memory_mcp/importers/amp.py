"""Importer of Amp's thread files.

Its maker documents threads as a product, not their files. They are known from two descriptions made of real files and
from several open readers, which agree, for clients 0.0.1755 to 0.0.1773 (August 2025 to March 2026): one JSON document a
thread in ~/.local/share/amp/threads, written again with every turn. Later clients keep threads on the server and write
none; `amp threads export` gives the same form.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_mcp.base.scope import project_of
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_mappings, as_text, block_text, result_text, words_within
from memory_mcp.importers.client_importer import DocumentImporter
from memory_mcp.importers.json_records import Record, parse_time
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
    unknown_block_notes,
)
from memory_mcp.model.event import RECAP, EventDraft, Role

AGENT = "amp"
_THREAD = re.compile(r"T-[0-9A-Za-z-]{8,}\Z")
_OWN = re.compile(rb'\A(?:\xef\xbb\xbf)?\s*\{.*?"id"\s*:\s*"T-[0-9A-Za-z-]{8,}"', re.DOTALL)
#: States of a run that ended badly, and of one that goes on.
_FAILED = frozenset({"error", "cancelled", "rejected-by-user"})
_RUNNING = frozenset({"in-progress", "queued", "blocked-on-user"})
_WRITING = "still being written"


class AmpImporter(DocumentImporter):
    """Reads the threads that Amp keeps on this machine."""

    name = AGENT
    title = "Amp"
    home_variables, home, folders = ("XDG_DATA_HOME",), ".local/share", ("amp/threads",)
    endings = (".json",)
    messages_key = "messages"
    skip_reason = "not an Amp thread"

    def wants_file(self, file: Path) -> bool:
        return _THREAD.match(file.stem) is not None

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        if file.suffix != ".json" or (b'"messages"' not in beginning and b'"created"' not in beginning):
            return False
        return _OWN.match(beginning) is not None or (_THREAD.match(file.stem) is not None and b'"v"' in beginning)

    def convert_conversation(self, record: Record, file: Path, tally: Tally) -> Iterator[EventDraft]:
        """Yield the events of one thread: title, then messages in order."""
        value = record.value
        name, created = as_text(value.get("id")) or file.stem, parse_time(value.get("created"))
        session = _make_session(name, value, file)
        title = words_within(value.get("title"))
        yield from session.make_drafts([note_part(title, record="title")], f"{name}:title:{content_id(title)}", created)
        tools: dict[str, str] = {}
        messages = value["messages"]
        assert isinstance(messages, list)
        for number, message in enumerate(map(as_mapping, messages)):
            parts = separate_prompts(list(self._iter_parts(message, tools)), message)
            usage = as_mapping(message.get("usage"))
            own_time = parse_time(as_mapping(message.get("meta")).get("sentAt")) or parse_time(usage.get("timestamp"))
            message_id = message.get("messageId")
            source_id = f"{name}:{message_id if isinstance(message_id, int | str) else number}"
            drafts = session.make_drafts(parts, source_id, own_time, {"model": as_text(usage.get("model"))})
            yield from tally.count_record(drafts, parts, record.line, message)

    def _iter_parts(self, message: Mapping[str, object], tools: dict[str, str]) -> Iterator[Part]:
        """Yield a message's parts; add tools' names to `tools` by call."""
        role = as_text(message.get("role"))
        blocks = as_blocks(message.get("content"))
        if role == "assistant" and as_mapping(message.get("state")).get("type") == "streaming":
            yield left_out_part(_WRITING)
        elif role == "user":
            words = [(b, block_text(b)) for b in blocks if b.get("type") != "tool_result"]
            files = as_mappings(as_mapping(message.get("fileMentions")).get("files"))
            mentioned = [path for file in files if (path := path_of(file.get("uri")))]
            yield message_part(Role.USER, "\n".join(text for _, text in words if text.strip()), files="\n".join(mentioned))
            yield from (_result_of(block, tools) for block in blocks if block.get("type") == "tool_result")
            yield from (part for block, text in words if not text for part in unknown_block_notes(block))
        elif role == "assistant":
            for block in blocks:
                kind, text = as_text(block.get("type")), block_text(block)
                if kind in ("thinking", "redacted_thinking"):
                    yield thought_part(words_within(block.get("thinking")), self._settings.include_thinking)
                elif kind == "tool_use":
                    tools[as_text(block.get("id"))] = as_text(block.get("name"))
                    yield call_part(as_text(block.get("name")), block.get("input"), as_text(block.get("id")))
                elif text or kind == "text":
                    yield message_part(Role.ASSISTANT, text)
                else:
                    yield from unknown_block_notes(block) or [left_out_part(f"{kind or 'unknown'} block")]
        elif role == "info":
            for block in blocks:
                recap = words_within(as_mapping(block.get("summary")).get("summary")) if block.get("type") == "summary" else ""
                yield (
                    note_part(recap, **{RECAP: "true"})
                    if recap
                    else next(iter(unknown_block_notes(block)), note_part(block_text(block)))
                )
        else:
            yield left_out_part(f"{role or 'unknown'} message")


def _make_session(name: str, value: Mapping[str, object], file: Path) -> Session:
    initial = as_mapping(as_mapping(value.get("env")).get("initial"))
    tree = next(iter(as_mappings(initial.get("trees"))), {})
    uri = tree.get("uri")
    where = as_mapping(uri)
    cwd = as_text(initial.get("cwd")) or path_of(initial.get("workingDirectory")) or path_of(uri)
    cwd = cwd or as_text(where.get("fsPath")) or as_text(where.get("path"))
    repository, platform = as_mapping(tree.get("repository")), as_mapping(initial.get("platform"))
    metadata = {
        "branch": as_text(repository.get("ref")).removeprefix("refs/heads/"),
        "cwd": cwd,
        "version": as_text(platform.get("clientVersion")),
        "mode": as_text(value.get("agentMode")),
    }
    project = project_of(cwd, as_text(repository.get("url")))
    return Session(AGENT, name, project, metadata, file_time=file_time(file))


def _result_of(block: Mapping[str, object], tools: dict[str, str]) -> Part:
    """Return a tool's result, left out while it runs.

    Failed and cancelled runs give an error with its reason first, or the status in brackets.
    """
    run = as_mapping(block.get("run"))
    call_id = as_text(block.get("toolUseID")) or as_text(block.get("tool_use_id"))
    status = as_text(run.get("status"))
    if status in _RUNNING:
        return left_out_part(_WRITING)
    outcome = as_mapping(run.get("result"))
    text = next(
        (words_within(outcome[key]) for key in ("output", "content") if outcome.get(key)), _readable_text(run.get("result"))
    )
    if status in _FAILED:
        error = run.get("error")
        reason = as_text(as_mapping(error).get("message")) or _readable_text(error) or _readable_text(run.get("reason"))
        text = "\n".join(filter(None, (reason, text))) or f"({status})"
    text = text or result_text(block.get("content"))
    code = str(outcome["exitCode"]) if isinstance(outcome.get("exitCode"), int) else ""
    is_error = status in _FAILED or block.get("is_error") is True
    return result_part(tools.get(call_id, ""), call_id, text, is_error, exit_status=code)


def _readable_text(value: object) -> str:
    return result_text(value) if isinstance(value, list) else as_plain(value)
