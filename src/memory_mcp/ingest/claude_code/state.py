"""What the records of one file tell about later ones: tool names, the session's directory, who runs in which thread.

None of it enters an id. A read that begins behind the start of a file recovers what it needs from a bounded look back,
so a follower of a growing file never reads it from its start again.
"""

import os
from collections import OrderedDict, deque
from pathlib import Path

from memory_mcp.ingest.claude_code.blocks import as_blocks, as_mapping, as_text
from memory_mcp.ingest.lines import iter_records, iter_tail
from memory_mcp.scope import project_of

#: How far behind the resumed offset calls are looked for, and how much of the head tells the first directory.
_LOOK_BACK = 256 * 1024
_HEAD_RECORDS = 50
_REMEMBERED = 20_000

_AGENT_FILE = "agent-"


class State:
    """The memory of one read of one file."""

    def __init__(self, file: Path) -> None:
        self.session = file.stem
        self.file_agent = file.stem.removeprefix(_AGENT_FILE) if file.stem.startswith(_AGENT_FILE) else ""
        self.first_cwd = ""
        #: Names of tools by the id of their call.
        self.tools: OrderedDict[str, str] = OrderedDict()
        #: Threads whose first prompt has been seen.
        self.threads: set[str] = set()
        #: Prompts typed while the agent worked, not yet delivered: (time, text).
        self.queued: deque[tuple[object, str]] = deque(maxlen=100)
        #: Queued prompts already given as events.
        self.delivered: deque[str] = deque(maxlen=100)
        self._roots: OrderedDict[str, str] = OrderedDict()
        self._file = file
        self._resumed = False

    def recover(self, offset: int) -> None:
        """Learn what the part before `offset` tells about the part behind it."""
        if not offset:
            return
        self._resumed = True
        for count, record in enumerate(iter_records(self._file)):
            if self.first_cwd or count >= _HEAD_RECORDS or record.offset > offset:
                break
            self.observe(record.value)
        for record in iter_tail(self._file, offset, _LOOK_BACK):
            if record.offset > offset:
                break
            self.observe(record.value)

    def observe(self, record: dict[str, object]) -> None:
        """Remember what one record tells about later ones."""
        self.first_cwd = self.first_cwd or as_text(record.get("cwd"))
        if record.get("type") == "queue-operation":
            self._queue(record)
        if record.get("isSidechain") is True:
            self.threads.add(self.thread_of(record))
        if record.get("type") == "assistant":
            for block in as_blocks(as_mapping(record.get("message")).get("content")):
                if block.get("type") == "tool_use":
                    _remember(self.tools, as_text(block.get("id")), as_text(block.get("name")))

    def thread_of(self, record: dict[str, object]) -> str:
        """The subagent a record belongs to: its id, else the id of the record its chain began with; "" outside."""
        agent = as_text(record.get("agentId"))
        if record.get("isSidechain") is not True:
            return agent or self.file_agent
        if agent or self.file_agent:
            return agent or self.file_agent
        own, parent = as_text(record.get("uuid")), as_text(record.get("parentUuid"))
        if parent and parent not in self._roots and self._resumed:
            self._recover_chains()
        root = self._roots.get(parent, parent or own)
        _remember(self._roots, own, root)
        return root

    def project(self, cwd: str) -> str:
        """The project of a directory; one that is gone from this machine belongs to the session's own above it."""
        first = self.first_cwd
        if cwd != first and first and not Path(cwd).is_dir() and _inside(cwd, first):
            return project_of(first)
        return project_of(cwd)

    def _queue(self, record: dict[str, object]) -> None:
        operation, content = record.get("operation"), as_text(record.get("content"))
        if operation == "enqueue" and content:
            self.queued.append((record.get("timestamp"), content))
        elif operation in ("dequeue", "remove") and self.queued:
            self.queued.popleft()
        elif operation == "popAll":
            self.queued.clear()

    def _recover_chains(self) -> None:
        """Follow every chain from the start of the file: old clients keep subagents inside the session's own file."""
        self._resumed = False
        for record in iter_records(self._file):
            if record.value.get("isSidechain") is True:
                self.thread_of(record.value)


def _remember(where: OrderedDict[str, str], key: str, value: str) -> None:
    if key:
        where[key] = value
        if len(where) > _REMEMBERED:
            where.popitem(last=False)


def _inside(path: str, folder: str) -> bool:
    path, folder = os.path.normpath(path), os.path.normpath(folder)
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)
