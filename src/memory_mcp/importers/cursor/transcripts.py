"""Read Cursor's agent transcripts (lines of JSON).

Their lines have no ids and no results of tools; only prompts of newer clients tell when they were given.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from memory_mcp.base.scope import project_of
from memory_mcp.importers.base import ReadStep
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, block_text, result_text, words_within
from memory_mcp.importers.cursor.store import open_store
from memory_mcp.importers.cursor.workspaces import DATABASE, Workspaces
from memory_mcp.importers.json_records import Record, iter_records
from memory_mcp.importers.parts import (
    Part,
    Session,
    Tally,
    call_part,
    content_id,
    file_time,
    left_out_part,
    message_part,
    result_part,
    separate_prompts,
    thought_part,
    unknown_block_notes,
)
from memory_mcp.model.event import EventDraft, EventType, Role

AGENT = "cursor"
FOLDER = "agent-transcripts"
_SUBAGENTS = "subagents"
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)
_STAMP = re.compile(
    r"<timestamp>(?:[A-Za-z]+,\s*)?([A-Za-z]{3})[a-z]* (\d{1,2}), (\d{4}), (\d{1,2}):(\d{2}) ([AP])M(?: \(UTC([^)]*)\))?"
)
_ZONE = re.compile(r"([+-])(\d{1,2})(?::(\d{2}))?\Z")
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
#: The client's placeholder for thinking.
_REDACTED = "[REDACTED]"
CONTEXT = "injected context"
IN_DATABASE = "told by the database"
_UNKNOWN = "not a Cursor record"


class Transcripts:
    """Agent transcripts, with the editor's lists of conversations and folders."""

    def __init__(self, user: Path, keep_thinking: bool) -> None:
        self._user, self._keep_thinking = user, keep_thinking
        self._workspaces = Workspaces(user)
        self._in_database: set[str] | None = None

    def read_records(self, file: Path, offset: int, tally: Tally) -> Iterator[ReadStep]:
        """Yield a step for each record after a byte offset.

        Earlier records are read again, because times follow from them. Conversations that the editor's database holds are
        skipped and counted. A file shorter than the offset is read from its start. Raises OSError when the file cannot be read.
        """
        # The file's name is the session's; in a folder of subagents the folder's name is.
        subagent = file.parent.name == _SUBAGENTS
        name, thread = (file.parent.parent.name, file.stem) if subagent else (file.stem, "")
        names = file.absolute().parts
        slug = names[names.index(FOLDER) - 1] if FOLDER in names[1:] else ""
        cwd = self._workspaces.folder_of(slug) if slug else ""
        session = Session(AGENT, name, project_of(cwd) if cwd else slug, {"cwd": cwd}, thread, file_time=file_time(file))
        in_database = session.session_id in self._stored_ids() or session.thread in self._stored_ids()
        # A file that became shorter is another one.
        offset = offset if offset <= file.stat().st_size else 0
        for number, record in enumerate(iter_records(file), 1):
            drafts, parts, reason = self._make_drafts(record, session, number, in_database)
            if record.offset <= offset:
                continue
            if reason:
                tally.skip_record(reason, record.line, record.quote)
                yield ReadStep((), record.offset)
            else:
                yield ReadStep(tally.count_record(drafts, parts, record.line, record.quote), record.offset)

    def _make_drafts(
        self, record: Record, session: Session, number: int, in_database: bool
    ) -> tuple[list[EventDraft], list[Part], str]:
        """Return a record's drafts, parts, and why it has none."""
        value = record.value
        message = as_mapping(value.get("message")) or value
        role = as_text(value.get("role")) or as_text(message.get("role"))
        if record.error or in_database or role not in ("user", "assistant", "tool"):
            return [], [], record.error or (IN_DATABASE if in_database else as_text(value.get("type")) or _UNKNOWN)
        blocks = as_blocks(message.get("content"))
        words = "\n".join(filter(str.strip, map(block_text, blocks)))
        if role == "user":
            queries = _QUERY.findall(words)
            prompt = message_part(Role.USER, "\n".join(queries) if queries else words)
            # In a subagent's file the model asks.
            parts = [Part(Role.ASSISTANT, EventType.SUBAGENT_START, prompt.text) if session.thread else prompt]
            parts += [left_out_part(CONTEXT)] if queries and _QUERY.sub("", words).strip() else []
            parts += [part for block in blocks if not block_text(block) for part in unknown_block_notes(block)]
        else:
            parts = [part for block in blocks for part in self._block_parts(block)]
        parts = list(separate_prompts(parts, message))
        source_id = f"{session.session_id}:{session.thread}:{number}:{content_id(role, message.get('content'))}"
        return session.make_drafts(parts, source_id, _time_of(words) if role == "user" else None), parts, ""

    def _block_parts(self, block: Mapping[str, object]) -> Sequence[Part]:
        kind, text = as_text(block.get("type")), block_text(block).replace(_REDACTED, "").strip()
        if kind == "tool_use":
            return [call_part(as_text(block.get("name")), block.get("input"), as_text(block.get("id")))]
        if kind == "tool_result":
            content = result_text(block.get("content"))
            failed = block.get("is_error") is True
            return [result_part(as_text(block.get("name")), as_text(block.get("tool_use_id")), content, failed)]
        if kind == "thinking":
            return [thought_part(words_within(block.get("thinking")), self._keep_thinking)]
        if kind == "text" and not text:
            return [left_out_part("thinking")]
        return (
            [message_part(Role.ASSISTANT, text)]
            if text
            else unknown_block_notes(block) or [left_out_part(f"{kind or 'unknown'} block")]
        )

    def _stored_ids(self) -> set[str]:
        if self._in_database is None:
            self._in_database = set()
            with suppress(OSError), open_store(self._user / "globalStorage" / DATABASE) as store:
                self._in_database = store.conversation_ids()
        return self._in_database


def _time_of(words: str) -> int | None:
    """Return the time that a prompt states, UTC ms; UTC without zone."""
    match = _STAMP.search(words)
    if match is None or match[1] not in _MONTHS:
        return None
    hour = int(match[4]) % 12 + (12 if match[6] == "P" else 0)
    zone = _ZONE.match(match[7] or "")
    shift = dt.timedelta(hours=int(zone[2]), minutes=int(zone[3] or 0)) if zone else dt.timedelta()
    try:
        moment = dt.datetime(int(match[3]), _MONTHS.index(match[1]) + 1, int(match[2]), hour, int(match[5]), tzinfo=dt.UTC)
        return int((moment - shift if not zone or zone[1] == "+" else moment + shift).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
