"""Importer of Codex's rollouts.

Every turn is in the file twice, as an item of the conversation and as an event for the screen: the item counts. Older
clients wrote items alone, without a time and without an envelope.

Ids: `session_id` is the client's own (a subagent's is its root's, with its own id as thread); `source_id` is the call's id
for a call, that with `#result` for its result, else the item's id, else one that follows from its content and time.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from memory_mcp.importers.blocks import all_words, as_blocks, as_mapping, as_mappings, as_text, block_text, words_of, words_within
from memory_mcp.importers.codex.texts import directory_of, prompt_parts, recap_text, tool_call, tool_result
from memory_mcp.importers.json_records import first_values, parse_time
from memory_mcp.importers.parts import Part, content_id, left_out_part, message_part, note_part, unread_block_notes
from memory_mcp.importers.session_reader import (
    DUPLICATE,
    LOOK_BACK,
    UNKNOWN,
    GrowingImporter,
    ParsedRecord,
    RecordItem,
    SessionReader,
)
from memory_mcp.importers.wrappers import INJECTED
from memory_mcp.model.event import FORKED_FROM, RECAP, EventDraft, EventType, Role

AGENT = "codex"
ITEMS = frozenset(
    "message reasoning function_call function_call_output custom_tool_call custom_tool_call_output local_shell_call"
    " local_shell_call_output web_search_call image_generation_call tool_search_call tool_search_output".split()
)
#: How the kind of any other item begins, and its fields that are no words.
_UNKNOWN_ITEM = "item "
_ENVELOPE = frozenset("type id author recipient status call_id".split())
#: Calls with an action in place of arguments.
_ACTIONS = frozenset({"local_shell_call", "web_search_call", "image_generation_call"})
_BOOKKEEPING = frozenset(
    "turn_context session_meta world_state token_usage_record ghost_snapshot inter_agent_communication_metadata"
    " security_risk_score realtime_item dynamic_tools_updated".split()
)
_SCREEN = frozenset(
    "user_message agent_message agent_reasoning agent_reasoning_raw_content item_completed item_started context_compacted"
    " exec_command_begin exec_command_end patch_apply_begin patch_apply_end mcp_tool_call_begin mcp_tool_call_end"
    " web_search_begin web_search_end view_image_tool_call plan_update image_generation_end dynamic_tool_call_request"
    " dynamic_tool_call_response".split()
)
#: Clients that do not name the session of a fork's copies wrote these within so many milliseconds.
_COPYING = 1000


class _Ancestry:
    """Follows whose records a fork begins with.

    An ancestor's, until the first that names the fork. Older clients name none: there the first record that was written later
    ends them.
    """

    def __init__(self) -> None:
        self.own_id = self.ancestor = ""
        #: Whether a record named the fork itself.
        self.is_named = False
        self._since: int | None = None

    def follow_record(self, kind: str, content: Mapping[str, object], time: int | None, is_named: bool) -> bool:
        """Return whether an ancestor's records end here; call it in order."""
        if kind == "session_meta":
            session = as_text(content.get("id")) or as_text(content.get("session_id"))
            if not self.own_id:
                self.own_id, self.ancestor = session, as_text(content.get("forked_from_id"))
            elif session != self.own_id:
                self.ancestor, self._since = self.ancestor or session, time or 0
            return False
        names_own = bool(self.own_id) and content.get("thread_id") == self.own_id
        is_late = not is_named and (time is None or time >= (self._since or 0) + _COPYING)
        if self._since is None or not (names_own or is_late):
            return False
        self._since, self.is_named = None, names_own
        return True

    @property
    def is_copying(self) -> bool:
        return self._since is not None


class CodexReader(SessionReader):
    """One read of one rollout."""

    def __init__(self, session_id: str, include_thinking: bool) -> None:
        super().__init__(AGENT, session_id, include_thinking)
        self._has_head = self._is_subagent = self._has_task = False
        #: Of the head that is learned from, and of what is read.
        self._head_ancestry, self._ancestry = _Ancestry(), _Ancestry()
        self._has_named_fork = False

    def learn_from(self, record: dict[str, object]) -> None:
        """Learn from the file's own head; further heads are ancestors'.

        A subagent's session is its root's, with its own id as thread.
        """
        kind, content = _open_envelope(record)
        if self._head_ancestry.follow_record(kind, content, parse_time(record.get("timestamp")), False):
            # What was learned was its ancestor's.
            self.first_prompt = ""
        if not self._has_head and kind == "session_meta":
            self._has_head = True
            own_id = as_text(content.get("id")) or as_text(content.get("session_id"))
            source = as_mapping(as_mapping(content.get("source")).get("subagent"))
            parent = as_text(as_mapping(source.get("thread_spawn")).get("parent_thread_id"))
            self._is_subagent = bool(source) or "subagent" in as_mapping(content.get("source"))
            root = as_text(content.get("session_id")) or parent or own_id
            self.session.session_id = root or self.session.session_id
            self.session.thread = own_id if own_id != root else ""
            self._is_subagent = self._is_subagent or bool(self.session.thread)
            git = as_mapping(content.get("git"))
            self.cwd = as_text(content.get("cwd"))
            self.remote, self.branch = as_text(git.get("repository_url")), as_text(git.get("branch"))
            self.version = as_text(content.get("cli_version"))
            began = parse_time(content.get("timestamp") or record.get("timestamp"))
            self.session.file_time = str(began) if began is not None and began > 0 else ""
        elif kind == "turn_context":
            self.cwd = self.cwd or as_text(content.get("cwd"))
            self.model = self.model or as_text(content.get("model"))
        elif kind == "message" and content.get("role") == "user" and not self.first_prompt:
            self.cwd = self.cwd or directory_of(content.get("content"))
            self.first_prompt = next((p.text for p in self._prompt_parts(content) if p.role is Role.USER), "")

    def parse_record(self, record: dict[str, object]) -> ParsedRecord:
        """Return what one record gives.

        Events that repeat an item give nothing; messages of the system or developer are left out.
        """
        kind, content = _open_envelope(record)
        self._ancestry.follow_record(kind, content, parse_time(record.get("timestamp")), self._head_ancestry.is_named)
        if kind in ITEMS:
            time = parse_time(record.get("timestamp"))
            if kind == "message" and content.get("role") not in ("user", "assistant"):
                return ParsedRecord([RecordItem("", (left_out_part(INJECTED),), None)])
            call_id = as_text(content.get("call_id"))
            parts = tuple(self._item_parts(kind, content, call_id))
            if call_id:
                source_id = f"{call_id}#result" if kind.endswith("_output") else call_id
            else:
                source_id = as_text(content.get("id")) or f"content:{content_id(self.session.session_id, str(time), content)}"
            return ParsedRecord([RecordItem(source_id, parts, self.order_time(time))])
        if kind.startswith(_UNKNOWN_ITEM):
            return self._convert_unknown_item(record, content, kind.removeprefix(_UNKNOWN_ITEM))
        if kind == "compacted":
            return self._make_note(record, recap_text(words_within(content.get("message"))), kind, **{RECAP: "true"})
        if kind == "event_msg":
            return self._convert_event(record, content)
        if kind == "turn_context":
            self.cwd = as_text(content.get("cwd")) or self.cwd
            self.model = as_text(content.get("model")) or self.model
        return ParsedRecord(skip_reason=kind if kind in _BOOKKEEPING else UNKNOWN)

    def make_drafts(self, item: RecordItem) -> list[EventDraft]:
        """Return the drafts of one item.

        The first one that counts in a fork names the session that it begins with.
        """
        drafts = super().make_drafts(item)
        position = next((n for n, draft in enumerate(drafts) if draft.type is not EventType.NOTE), None)
        if position is not None and not self._has_named_fork:
            self._has_named_fork = True
            # Behind what is read again of a long file, the first one is long past.
            if self._ancestry.ancestor and self.resume_offset <= LOOK_BACK:
                first = drafts[position]
                drafts[position] = replace(first, metadata={**first.metadata, FORKED_FROM: self._ancestry.ancestor})
        return drafts

    def _convert_event(self, record: Mapping[str, object], event: Mapping[str, object]) -> ParsedRecord:
        kind = as_text(event.get("type"))
        if kind == "turn_aborted":
            return self._make_note(record, f"[turn aborted: {as_text(event.get('reason')) or 'no reason told'}]", kind)
        if kind == "error":
            return self._make_note(record, recap_text(words_within(event.get("message"))), kind)
        if kind == "thread_name_updated":
            return self._make_note(record, words_within(event.get("thread_name")), "title")
        return ParsedRecord(skip_reason=DUPLICATE if kind in _SCREEN else "event for the screen" if kind else UNKNOWN)

    def _convert_unknown_item(self, record: Mapping[str, object], item: Mapping[str, object], kind: str) -> ParsedRecord:
        words = words_of(item.get("content")) or words_within({k: v for k, v in item.items() if k not in _ENVELOPE})
        if not words:
            return ParsedRecord(skip_reason=UNKNOWN)
        parsed_record = self._make_note(record, words, kind)
        if "author" not in item:
            return parsed_record
        return ParsedRecord(
            [
                replace(note_item, parts=tuple(replace(p, role=Role.ASSISTANT) for p in note_item.parts))
                for note_item in parsed_record.items
            ]
        )

    def _make_note(self, record: Mapping[str, object], text: str, kind: str, **marks: str) -> ParsedRecord:
        time = parse_time(record.get("timestamp"))
        source_id = f"content:{content_id(self.session.session_id, str(time), kind, text)}"
        return ParsedRecord([RecordItem(source_id, (note_part(text, record=kind, **marks),), self.order_time(time))])

    def _item_parts(self, kind: str, item: Mapping[str, object], call_id: str) -> list[Part]:
        """Return the parts of an item in `ITEMS`.

        A call with an action has that, or an image's prompt, as arguments; a name has its namespace before it.
        """
        if kind == "message":
            return self._message_parts(item)
        if kind == "reasoning":
            blocks = [*as_blocks(item.get("summary")), *as_blocks(item.get("content"))]
            return [self.make_thought("\n".join(filter(None, map(all_words, blocks))))]
        if kind.endswith("_output"):
            output = item.get("output") if "output" in item else item.get("tools")
            return [tool_result(self.tool_names.get(call_id, ""), output, call_id)]
        name, arguments = kind.removesuffix("_call"), item.get("input") if "input" in item else item.get("arguments")
        if kind in _ACTIONS:
            action = {k: v for k, v in as_mapping(item.get("action")).items() if k != "type"}
            arguments = action or {"prompt": item.get("revised_prompt")}
        else:
            name = as_text(item.get("name")) or name
            if space := as_text(item.get("namespace")):
                name = f"{space}{name}" if space.endswith("__") else f"{space}.{name}"
        self.remember_call(call_id, name)
        return [tool_call(name, arguments, call_id)]

    def _message_parts(self, item: Mapping[str, object]) -> list[Part]:
        if item.get("role") == "assistant":
            blocks = as_blocks(item.get("content"))
            texts = [block_text(block) for block in blocks]
            words = "\n".join(filter(None, texts))
            return [message_part(Role.ASSISTANT, words), *unread_block_notes(blocks, texts)]
        parts = self._prompt_parts(item)
        if not self._is_subagent or self._ancestry.is_copying:
            return parts
        # What another agent wrote never gets the user's role.
        first = not self._has_task and any(part.text == self.first_prompt for part in parts)
        self._has_task = self._has_task or first
        kind = EventType.SUBAGENT_START if first else EventType.NOTE
        return [Part(Role.ASSISTANT, kind, part.text) if part.role is Role.USER else part for part in parts]

    @staticmethod
    def _prompt_parts(item: Mapping[str, object]) -> list[Part]:
        passed = as_mapping(item.get("internal_chat_message_metadata_passthrough")).get("content_item_metadata")
        sources = [as_mapping(entry.get("provenance")).get("type") for entry in as_mappings(passed)]
        return prompt_parts(item.get("content"), [source == "harness" for source in sources])


def _open_envelope(record: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return a record's kind and its content.

    Unknown items have the kind "item <kind>"; the oldest clients wrote no envelope, and no kind in the first record, which is
    "session_meta".
    """
    kind, payload = as_text(record.get("type")), record.get("payload")
    if isinstance(payload, Mapping):
        if kind != "response_item":
            return kind, payload
        # Items without a kind of their own are messages.
        inner = as_text(payload.get("type")) or ("message" if "role" in payload else "")
        return (inner if inner in ITEMS else f"{_UNKNOWN_ITEM}{inner}"), payload
    if not kind and "id" in record and "timestamp" in record:
        return "session_meta", record
    return kind, record


_ENVELOPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
#: rollout-2026-03-02T09-00-00-<id>.jsonl
_NAME = re.compile(r"rollout-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-")


class CodexImporter(GrowingImporter):
    """Reads the rollouts of every version of Codex."""

    name = AGENT
    title = "Codex"
    home_variables, home, folders = ("CODEX_HOME",), ".codex", ("sessions", "archived_sessions")

    def recognises_file(self, file: Path, beginning: bytes) -> bool:
        """Return whether a `.jsonl` file is a rollout.

        The oldest ones are known by the file's name too.
        """
        oldest = file.suffix == ".jsonl" and _NAME.match(file.name) is not None
        has_items = oldest and any(as_text(v.get("type")) in ITEMS for v in first_values(beginning))
        return has_items or super().recognises_file(file, beginning)

    @staticmethod
    def is_own_record(value: Mapping[str, object]) -> bool:
        return as_text(value.get("type")) in _ENVELOPES and isinstance(value.get("payload"), dict)

    def make_reader(self, file: Path) -> CodexReader:
        return CodexReader(_NAME.sub("", file.stem), self._settings.include_thinking)
