"""Read the conversations of one of Cursor's databases.

Invariants
1. The position is the highest row that was read: a value written again gets a new row above all others. It stays below
   the rows of a conversation that is being written, whose last message would be stored half.
2. The time of a message follows from those before it in the conversation, whether they are read now or were before.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from memory_mcp.base.scope import project_of
from memory_mcp.importers.base import ReadStep
from memory_mcp.importers.blocks import as_blocks, as_list, as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.cursor.store import Store
from memory_mcp.importers.cursor.workspaces import ConversationInfo, Workspaces, folder_in
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.parts import (
    Part,
    Session,
    Tally,
    as_plain,
    call_part,
    content_id,
    decode_json,
    file_time,
    left_out_part,
    message_part,
    next_time,
    note_part,
    path_of,
    result_part,
    separate_prompts,
    thought_part,
)
from memory_mcp.model.event import RECORD, EventDraft, EventType, Role

USER, MODEL = 1, 2
#: Parts that a bubble has at most: the thinking, the words, a tool's call and its result.
MOST_PARTS = 4
CONTEXT = "attached context"
WRITING = "still being written"
#: Where a prompt keeps what the client put in next to the words.
_CONTEXTS = ("attachedCodeChunks", "codebaseContextChunks", "cursorRules", "relevantFiles", "attachedFolders")
#: States of a call that goes on, and of one that ended without doing what it should.
_RUNNING = frozenset({"loading", "pending", "running", "generating", "in_progress"})
_REFUSED = frozenset({"cancelled", "rejected", "skipped"})
#: Where tools put what they give back, the readable one first.
_OUTPUTS = ("output", "contents", "content", "result", "answer", "message")
#: Where an error has its words, those for the model first.
_ERRORS = ("modelVisibleErrorMessage", "clientVisibleErrorMessage", "message")


def parts_of(bubble: Mapping[str, object], subagent: bool, keep_thinking: bool) -> Sequence[Part]:
    """Return the parts of a bubble, at most `MOST_PARTS`.

    A subagent's prompts are the calling model's; context put in with a prompt is left out.
    """
    text = words_within(bubble.get("text")) or words_within(bubble.get("rawText"))
    if bubble.get("type") == USER:
        chosen = [as_mapping(as_mapping(f).get("uri")) for f in as_list(as_mapping(bubble.get("context")).get("fileSelections"))]
        files = [name for u in chosen if (name := as_text(u.get("fsPath")) or path_of(u.get("path")))][:20]
        typed = "\n".join(filter(str.strip, [text, *(["[image]"] * len(as_list(bubble.get("images"))))]))
        prompt = message_part(Role.USER, typed, files="\n".join(files))
        if subagent:
            prompt = Part(Role.ASSISTANT, EventType.SUBAGENT_START, prompt.text, prompt.metadata)
        attached = any(as_list(bubble.get(key)) for key in _CONTEXTS) and prompt.text
        return [prompt, left_out_part(CONTEXT)] if attached else [prompt]
    if bubble.get("type") != MODEL:
        kind = f"bubble {as_plain(bubble.get('type'))}"
        words = text or as_text(bubble.get("richText"))
        note_part = Part(Role.SYSTEM, EventType.NOTE, words.strip(), {RECORD: kind}, unknown_kind=kind)
        return [note_part if words.strip() else left_out_part("bubble of another type")]
    thinking = bubble.get("thinking")
    thinks = as_text(thinking) or words_within(as_mapping(thinking).get("text"))
    parts = [thought_part(thinks, keep_thinking)] if thinks.strip() else []
    if text.strip():
        parts.append(thought_part(text, keep_thinking) if bubble.get("isThought") is True else message_part(Role.ASSISTANT, text))
    return [*parts, *_tool_parts(as_mapping(bubble.get("toolFormerData")))]


def _tool_parts(tool_data: Mapping[str, object]) -> Sequence[Part]:
    """Return a call and its result, which are one record.

    A call that still runs has its result left out; a refused or failed one gives an error, its words before the output.
    """
    name, call_id = as_text(tool_data.get("name")), as_text(tool_data.get("toolCallId"))
    if not name:
        return []
    tool_call = call_part(name, decode_json(tool_data.get("rawArgs")) or decode_json(tool_data.get("params")), call_id)
    status, outcome = as_text(tool_data.get("status")), decode_json(tool_data.get("result"))
    details, additional = as_mapping(outcome), as_mapping(tool_data.get("additionalData"))
    if status in _RUNNING:
        return [tool_call, left_out_part(WRITING)]
    code = details.get("exitCode") if isinstance(details.get("exitCode"), int) else details.get("exitCodeV2")
    # No single field says whether a call succeeded: a refused command is "completed", too.
    refused = status in _REFUSED or additional.get("status") == "rejected" or details.get("rejected") is True
    failed = refused or status == "error" or additional.get("status") == "error" or (isinstance(code, int) and code != 0)
    error = as_mapping(decode_json(tool_data.get("error")))
    problem = next(filter(None, (words_within(error.get(key)) for key in _ERRORS)), words_within(tool_data.get("error")))
    output = next((text for key in _OUTPUTS if (text := words_within(details.get(key))).strip()), as_plain(outcome))
    text = "\n".join(filter(None, (problem, output)))
    if not text and not failed and not status:
        return [tool_call]
    exit_status = str(code) if isinstance(code, int) else ""
    return [tool_call, result_part(name, call_id, text or ("(rejected)" if refused else ""), failed, exit_status=exit_status)]


AGENT = "cursor"
#: The panel of older clients (until 0.45), in a workspace's own database.
_PANEL = "workbench.panel.aichat.view.aichat.chatdata"
#: A conversation that says it is being written, and was not for so long, never ended (milliseconds).
_SETTLED_MS = 600_000
#: 2001: Cursor is younger (milliseconds).
_NO_DATE_BEFORE = 1_000_000_000_000
NO_LONGER = "message taken back"
GONE = "message no longer kept"


class Conversations:
    """One read of one database."""

    def __init__(self, file: Path, tally: Tally, keep_thinking: bool) -> None:
        self._file, self._tally, self._keep_thinking = file, tally, keep_thinking
        self._file_time = file_time(file)
        user = file.absolute().parent.parent
        self._workspaces = Workspaces(user.parent if file.parent.parent.name == "workspaceStorage" else user)

    def read_changes(self, store: Store, position: int) -> Iterator[ReadStep]:
        """Yield a step for each message written after a position.

        The last step, without drafts, has the new position. A position above the highest row counts as 0. Conversations that
        are being written wait, and hold the position below their rows. Raises OSError when the database cannot be read.
        """
        top = store.highest_row()
        # Fewer rows than were seen: another database, or one that was cleaned up. Known messages are known by their ids.
        position = position if position <= top else 0
        done = top
        for name, lowest in store.changed_conversations(position).items():
            data = as_mapping(decode_json(store.chat_value(f"composerData:{name}")))
            updated = parse_time(data.get("lastUpdatedAt")) or 0
            writing = data.get("status") == "generating" or bool(data.get("generatingBubbleIds"))
            if writing and int(self._file_time) - updated < _SETTLED_MS:
                done = min(done, lowest - 1)
                continue
            yield from (ReadStep(drafts, position) for drafts in self._iter_conversation(store, name, data, position))
        yield from (ReadStep(drafts, position) for drafts in self._iter_panel(store))
        yield ReadStep((), done)

    def _iter_conversation(
        self, store: Store, name: str, data: Mapping[str, object], position: int
    ) -> Iterator[tuple[EventDraft, ...]]:
        fresh = store.bubble_ids(name, position)
        info = self._workspaces.find_info(name, data, store)
        session: Session | None = None
        for bubble_id, own_time, bubble in _iter_bubbles(store, name, data, fresh):
            if session is None:
                session = self._make_session(name, data, info, bubble or {})
                created = parse_time(data.get("createdAt"))
                yield tuple(
                    session.make_drafts(
                        [note_part(info.title, record="title")], f"{name}:title:{content_id(info.title)}", created
                    )
                )
            began = next_time(own_time, session.last_time)
            if bubble is not None:
                parts = separate_prompts(parts_of(bubble, bool(info.parent), self._keep_thinking), bubble)
                source_id = f"{name}:{bubble_id}"
                model = as_text(as_mapping(bubble.get("modelInfo")).get("modelName"))
                drafts = session.make_drafts(
                    parts, source_id, own_time, {"model": model} if model not in ("", "default") else None
                )
                if bubble:
                    yield self._tally.count_record(drafts, parts, 0, bubble)
                else:
                    self._tally.skip_record(GONE, 0, source_id)
                    yield ()
                fresh.discard(bubble_id)
            # Room for as many parts as there can be: how many there were is not known of what was read before.
            session.last_time = None if began is None else began + MOST_PARTS - 1
        for bubble_id in sorted(fresh):
            self._tally.skip_record(NO_LONGER, 0, bubble_id)

    def _make_session(
        self, name: str, data: Mapping[str, object], info: ConversationInfo, bubble: Mapping[str, object]
    ) -> Session:
        uris = bubble.get("workspaceUris")
        cwd = info.cwd or (path_of(uris[0]) if isinstance(uris, list) and uris else "")
        model = as_text(as_mapping(data.get("modelConfig")).get("modelName")).replace("default", "")
        metadata = {
            "branch": info.branch,
            "cwd": cwd,
            "mode": as_text(data.get("unifiedMode")),
            "subagent": info.kind,
            "model": model,
        }
        thread = name if info.parent else ""
        return Session(AGENT, info.parent or name, project_of(cwd), metadata, thread, file_time=self._file_time)

    def _iter_panel(self, store: Store) -> Iterator[tuple[EventDraft, ...]]:
        """Yield all messages of older clients' panel, at every read."""
        tabs = as_mapping(decode_json(store.editor_value(_PANEL))).get("tabs")
        cwd = folder_in(self._file.absolute().parent / "workspace.json")
        for tab in as_mappings(tabs):
            name = as_text(tab.get("tabId")) or content_id(tab.get("chatTitle"))
            session = Session(AGENT, name, project_of(cwd), {"cwd": cwd}, file_time=self._file_time)
            session.last_time = parse_time(tab.get("lastSendTime"))
            for number, bubble in enumerate(as_mappings(tab.get("bubbles"))):
                role = Role.USER if bubble.get("type") == "user" else Role.ASSISTANT
                text = words_within(bubble.get("text")) or words_within(bubble.get("rawText"))
                parts = separate_prompts([message_part(role, text)], bubble)
                own_id = as_text(bubble.get("id")) or f"{number}:{content_id(bubble.get('text'))}"
                yield self._tally.count_record(session.make_drafts(parts, f"{name}:{own_id}", None), parts, 0, bubble)


def _iter_bubbles(
    store: Store, name: str, data: Mapping[str, object], fresh: set[str]
) -> Iterator[tuple[str, int | None, Mapping[str, object] | None]]:
    """Yield (id, time or None, content or None if read before).

    Newer clients keep messages in rows of their own and only their order in the conversation, older ones all in it.
    """
    headers, inline = data.get("fullConversationHeadersOnly"), data.get("conversation")
    for header in as_mappings(headers):
        bubble_id, created = as_text(header.get("bubbleId")), parse_time(header.get("createdAt"))
        is_fresh = bubble_id in fresh
        if created is None or is_fresh:
            bubble = as_mapping(decode_json(store.chat_value(f"bubbleId:{name}:{bubble_id}")))
            yield bubble_id, created or _time_of(bubble), bubble if is_fresh else None
        else:
            yield bubble_id, created, None
    for bubble in as_blocks(inline) if not headers else ():
        yield as_text(bubble.get("bubbleId")) or content_id(bubble), _time_of(bubble), bubble


def _time_of(bubble: Mapping[str, object]) -> int | None:
    """Return a message's time, UTC ms; of older clients when sent."""
    timing = as_mapping(bubble.get("timingInfo"))
    times = (parse_time(t) for t in (bubble.get("createdAt"), timing.get("clientRpcSendTime"), timing.get("clientEndTime")))
    # Some of them count from when the client was started.
    return next((t for t in times if t is not None and t > _NO_DATE_BEFORE), None)
