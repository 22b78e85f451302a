"""State that earlier records of a file give later ones: tool names, the session's directory, threads of agents.

None of it is part of an id. A read that begins after the start of a file recovers what it needs from a bounded look back,
so a follower of a growing file never reads it from its start again.
"""

import os
import re
from collections import OrderedDict, deque
from itertools import islice
from pathlib import Path

from memory_mcp.base.scope import project_of_session
from memory_mcp.importers.answers import Question, questions_in
from memory_mcp.importers.blocks import as_blocks, as_mapping, as_text, words_of
from memory_mcp.importers.json_records import iter_records, iter_tail
from memory_mcp.importers.wrappers import find_author
from memory_mcp.model.sentinel import opens_own_session

#: Bytes before the resumed offset searched for calls, and of the head for the first directory.
_LOOK_BACK = 256 * 1024
_HEAD_RECORDS = 50
_REMEMBERED = 20_000

_AGENT_FILE = "agent-"
_SESSION_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class SessionState:
    """State of reading one file."""

    def __init__(self, file: Path) -> None:
        #: Whose records those are that do not say it: a session's own file is named after it.
        self.session_id = file.stem
        self.file_agent = file.stem.removeprefix(_AGENT_FILE) if file.stem.startswith(_AGENT_FILE) else ""
        self.first_cwd = ""
        #: The session's worktree, and the folder that it was made from; "" where no record says so.
        self._worktree = self._origin = ""
        #: When the file was written last, UTC milliseconds, as text; "" where records have times of their own.
        self.file_time = ""
        #: Whether our own summarizer had this session: its first prompt says so.
        self.is_own_session = False
        #: Names of tools by the id of their call.
        self.tool_names: OrderedDict[str, str] = OrderedDict()
        #: What calls asked the person, by the id of the call.
        self.questions: dict[str, tuple[Question, ...]] = {}
        #: The session's file, next to which results are saved; None if it is not known.
        self.transcript: Path | None = file
        #: Threads whose first prompt has been seen.
        self.begun_threads: set[str] = set()
        #: Prompts typed while the agent worked, not yet delivered.
        self.queued_prompts: deque[str] = deque(maxlen=100)
        #: Who wrote those that the person did not, as the record of the queue says.
        self.queue_authors: OrderedDict[str, str] = OrderedDict()
        #: Kind of record and prompt of those slipped into a running turn that another kind of record may tell again.
        self.delivered_prompts: deque[tuple[str, str]] = deque(maxlen=100)
        self._roots: OrderedDict[str, str] = OrderedDict()
        self._file = file
        self._resumed = False

    def recover_state(self, offset: int) -> None:
        """Read what is needed of the part before `offset`.

        Reads at most the first 50 records and the last 256 KB before the offset. Raises OSError when the file cannot be read.
        """
        session = prompt = ""
        timed = False
        for record in islice(iter_records(self._file), _HEAD_RECORDS):
            value = record.value
            self._learn_origin(value)
            timed = timed or "timestamp" in value
            session = session or as_text(value.get("sessionId"))
            self.first_cwd = self.first_cwd or as_text(value.get("cwd"))
            if not prompt and value.get("type") == "user" and value.get("isMeta") is not True:
                prompt = words_of(as_mapping(value.get("message")).get("content"))
            if session and self.first_cwd and prompt:
                break
        self.is_own_session = opens_own_session(prompt)
        if session and not _SESSION_NAME.match(self.session_id):
            self.session_id = session
        self.file_time = "" if timed else str(int(self._file.stat().st_mtime * 1000))
        self._resumed = offset > 0
        for record in iter_tail(self._file, offset, _LOOK_BACK) if offset else ():
            if record.offset > offset:
                break
            self.observe_record(record.value)

    def observe_record(self, record: dict[str, object]) -> None:
        """Update the state from one record."""
        self.first_cwd = self.first_cwd or as_text(record.get("cwd"))
        self._learn_origin(record)
        text = self._delivered_prompt(record)
        if earlier := self._earlier_delivery(record, text):
            self.delivered_prompts.remove(earlier)
        elif text:
            self.delivered_prompts.append((as_text(record.get("type")), text))
        if record.get("type") == "queue-operation":
            operation, content = record.get("operation"), as_text(record.get("content"))
            if operation == "enqueue" and content:
                self.queued_prompts.append(content)
                _remember_value(self.queue_authors, content if (author := find_author(record)) else "", author)
                # Typed again, it will be delivered again.
                self.delivered_prompts = deque(
                    (d for d in self.delivered_prompts if d[1] != content), self.delivered_prompts.maxlen
                )
            elif operation in ("dequeue", "remove") and self.queued_prompts:
                self.queued_prompts.popleft()
            elif operation == "popAll":
                self.queued_prompts.clear()
        if record.get("isSidechain") is True:
            self.begun_threads.add(self.thread_of(record))
        if record.get("type") == "assistant":
            for block in as_blocks(as_mapping(record.get("message")).get("content")):
                if block.get("type") == "tool_use":
                    call_id, tool = as_text(block.get("id")), as_text(block.get("name"))
                    _remember_value(self.tool_names, call_id, tool)
                    if questions := questions_in(tool, block.get("input")):
                        self.questions[call_id] = questions

    def _learn_origin(self, record: dict[str, object]) -> None:
        if worktree := as_mapping(record.get("worktreeSession")):
            self._worktree, self._origin = as_text(worktree.get("worktreePath")), as_text(worktree.get("originalCwd"))

    def find_slipped_in(self, record: dict[str, object]) -> str:
        """Return a prompt that only this record says was slipped in.

        "" for none and for one that `observe_record` has noted. Newer clients write it twice, as a removal from the queue and
        as an attachment: the first counts.
        """
        text = self._delivered_prompt(record)
        return "" if self._earlier_delivery(record, text) else text

    def _earlier_delivery(self, record: dict[str, object], text: str) -> tuple[str, str] | None:
        return next((d for d in self.delivered_prompts if d[1] == text and d[0] != record.get("type")), None)

    def _delivered_prompt(self, record: dict[str, object]) -> str:
        if record.get("type") == "queue-operation" and record.get("operation") == "remove" and self.queued_prompts:
            return self.queued_prompts[0]
        inner = as_mapping(record.get("attachment")) if record.get("type") == "attachment" else {}
        return words_of(inner.get("prompt")) if inner.get("type") == "queued_command" else ""

    def thread_of(self, record: dict[str, object]) -> str:
        """Return the subagent that a record belongs to; "" for none.

        Its id, else the id of the record its chain began with. In a resumed read of an old client's file this may read the file
        from its start, once; OSError when that fails.
        """
        agent = as_text(record.get("agentId")) or self.file_agent
        if agent or record.get("isSidechain") is not True:
            return agent
        record_id, parent = as_text(record.get("uuid")), as_text(record.get("parentUuid"))
        if parent and parent not in self._roots and self._resumed:
            # Old clients keep subagents inside the session's own file: every chain is followed from its start, once.
            self._resumed = False
            for earlier in iter_records(self._file):
                if earlier.value.get("isSidechain") is True:
                    self.thread_of(earlier.value)
        root = self._roots.get(parent, parent or record_id)
        _remember_value(self._roots, record_id, root)
        return root

    def find_project(self, cwd: str, branch: str) -> str:
        """Return the project of a directory.

        One that is gone belongs to the session's first directory if it was below that; `branch` helps to find the repository of
        a worktree that is gone.
        """
        first = self.first_cwd
        is_inside = bool(first) and cwd != first and not Path(cwd).is_dir() and _is_below(cwd, first)
        origin = self._origin if self._worktree and _is_below(cwd, self._worktree) else ""
        return project_of_session(first if is_inside else cwd, branch=branch, origin=origin)


def _is_below(path: str, folder: str) -> bool:
    return f"{os.path.normpath(path)}{os.sep}".startswith(os.path.normpath(folder).rstrip(os.sep) + os.sep)


def _remember_value(where: OrderedDict[str, str], key: str, value: str) -> None:
    if key:
        where[key] = value
        if len(where) > _REMEMBERED:
            where.popitem(last=False)
