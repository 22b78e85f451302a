"""Convert one transcript record to event drafts, or to the reason why it has none.

Invariants
1. A source id depends on the record alone: its uuid, and the place of the block in it; without a uuid, its content.
2. No setting moves an id: leaving thinking out does not renumber the other blocks.
3. A human's words are those typed as a prompt; what the client or another agent wrote never gets the user's role.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.answers import answer_text, answers_in, questions_in, refusal_words, reply_metadata
from memory_mcp.importers.blocks import (
    AGENT_TOOLS,
    as_blocks,
    as_mapping,
    as_text,
    block_text,
    call_metadata,
    call_text,
    result_metadata,
    result_text,
    unknown_words,
    words_of,
    words_within,
)
from memory_mcp.importers.claude_code.saved_results import read_saved_result
from memory_mcp.importers.claude_code.state import SessionState
from memory_mcp.importers.json_records import parse_time
from memory_mcp.importers.wrappers import PromptPiece, author_note, find_author, unwrap_prompt
from memory_mcp.model.event import FILE_TIME, LEAF, RECAP, RECORD, WORDS_VARY, EventDraft, EventType, Role
from memory_mcp.model.ids import encode_base32, hash_parts

AGENT = "claude-code"

#: The client's bookkeeping: nothing that anyone said or did.
_BOOKKEEPING = frozenset(
    "progress file-history-snapshot last-prompt attachment tools-used api-request cost-state queue-operation permission-mode"
    " agent-setting agent-name agent-color tag mode worktree-state attribution-snapshot content-replacement".split()
)
_SYSTEM_NOISE = frozenset(
    "api_error stop_hook_summary turn_duration microcompact_boundary thinking attribution_snapshot ui_telemetry bridge_status"
    " informational".split()
)
_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
_NOT_OURS = "not a Claude Code record"
_EMPTY = "no content"
#: The model named in messages that the client wrote itself.
_CLIENT = "<synthetic>"
_BY_PERSON = "user-rejected"
_RUNNING = frozenset({"async_launched", "running", "queued", "teammate_spawned"})


@dataclass(slots=True)
class Outcome:
    """The parts of a record, or why it has none."""

    drafts: list[EventDraft] = field(default_factory=list)
    #: Why there are no drafts.
    skip_reason: str = ""
    #: Reasons of parts that are left out.
    left_out: list[str] = field(default_factory=list)
    #: Kinds of blocks that are not known, which are kept as notes.
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _RecordPart:
    #: Behind the record's id: "" for its first block, then #1, #2 and so on.
    suffix: str
    piece: PromptPiece
    metadata: Mapping[str, str] = field(default_factory=dict)


def convert_record(record: dict[str, object], state: SessionState, include_thinking: bool) -> Outcome:
    """Return the drafts of one record, and update `state` with it.

    Thinking is left out unless `include_thinking`; that moves no other part's id.
    """
    kind = _kind_of(record)
    outcome = Outcome(skip_reason=_EMPTY)
    parts = list(_READERS.get(kind, _iter_other_parts)(record, state, outcome))
    if not include_thinking:
        outcome.left_out += ["thinking" for part in parts if part.suffix.startswith("#t")]
        parts = [part for part in parts if not part.suffix.startswith("#t")]
    state.observe_record(record)
    spoken = [part for part in parts if part.piece.text.strip()]
    outcome.left_out += [part.piece.reason for part in parts if part.piece.reason]
    outcome.drafts = _make_drafts(record, state, spoken)
    if not outcome.drafts and outcome.left_out:
        outcome.skip_reason = outcome.left_out[0]
    return outcome


def _kind_of(record: Mapping[str, object]) -> str:
    kind = record.get("type")
    if kind is None and "sessionId" in record:
        kind = as_mapping(record.get("message")).get("role")
    return as_text(kind)


def _make_drafts(record: dict[str, object], state: SessionState, parts: list[_RecordPart]) -> list[EventDraft]:
    if not parts:
        return []
    cwd, message = as_text(record.get("cwd")), as_mapping(record.get("message"))
    common = {
        "branch": as_text(record.get("gitBranch")),
        "cwd": cwd,
        "version": as_text(record.get("version")),
        "model": as_text(message.get("model")).replace(_CLIENT, ""),
        FILE_TIME: "" if record.get("timestamp") else state.file_time,
    }
    source_id = as_text(record.get("uuid"))
    if not source_id:
        # The same in every file.
        content = {k: v for k, v in record.items() if k not in ("message", "parentUuid", "requestId", "cwd", "version")}
        text = json.dumps([content, message.get("content")], sort_keys=True, ensure_ascii=False, default=str)
        source_id = "content:" + encode_base32(hash_parts("record", as_text(message.get("id")), text), 16)
    session, time_ms = as_text(record.get("sessionId")) or state.session_id, parse_time(record.get("timestamp"))
    project, thread = state.find_project(cwd or state.first_cwd, common["branch"]), state.thread_of(record)
    return [
        EventDraft(
            session_id=session,
            role=part.piece.role,
            type=part.piece.type,
            text=part.piece.text,
            timestamp=time_ms,
            source_id=source_id + part.suffix,
            agent=AGENT,
            project=project,
            thread=thread,
            metadata={k: v for k, v in (*common.items(), *part.metadata.items()) if v},
        )
        for part in parts
    ]


def _iter_user_parts(record: dict[str, object], state: SessionState, outcome: Outcome) -> Iterator[_RecordPart]:
    if record.get("isMeta") is True:
        outcome.skip_reason = "meta"
        return
    message = record.get("message")
    if not isinstance(message, Mapping) or "parts" in message:
        outcome.skip_reason = _EMPTY if isinstance(message, str) else _NOT_OURS
        return
    plan = as_text(record.get("planContent"))
    texts: list[str] = []
    first = 0
    for number, block in enumerate(as_blocks(message.get("content"))):
        if block.get("type") == "tool_result":
            yield _result_part(record, state, block, _id_suffix(number))
            continue
        if part := block_text(block):
            first = number if not texts else first
            texts.append(part)
        if words := unknown_words(block):
            yield _unknown_part(block, words, _id_suffix(number) + "#u" * bool(part), outcome)
    if texts:
        (prompt, metadata), *notes = _prompt_pieces(record, state, texts)
        yield _RecordPart(_id_suffix(first), prompt, metadata)
        for number, (note, note_metadata) in enumerate(notes):
            yield _RecordPart(f"{_id_suffix(first)}#n{number}", note, note_metadata)
    if plan.strip() and not any(plan.strip() in text for text in texts):
        yield _RecordPart("#plan", PromptPiece(Role.SYSTEM, EventType.NOTE, plan), {RECORD: "plan"})


def _prompt_pieces(record: dict[str, object], state: SessionState, texts: list[str]) -> list[tuple[PromptPiece, dict[str, str]]]:
    """Return (piece, metadata) of a prompt: its words, then notes.

    In a subagent's chain a prompt is the calling agent's. Where only the client wrote, there is no text but the reason.
    """
    if record.get("isCompactSummary") is True:
        return [(PromptPiece(Role.SYSTEM, EventType.NOTE, "\n".join(texts)), {RECAP: "true"})]
    pieces = [piece for text in texts for piece in unwrap_prompt(text)]
    typed = [p.text for p in pieces if p.text and p.role is Role.USER]
    notes: list[tuple[PromptPiece, dict[str, str]]] = [
        (p, {RECORD: p.name} if p.name else {}) for p in pieces if p.text and p.role is not Role.USER
    ]
    if not typed:
        return notes or [(pieces[0], {})]
    prompt, author = PromptPiece(Role.USER, EventType.USER_MESSAGE, "\n".join(typed)), find_author(record)
    if author:
        return [(author_note(author, prompt.text), {RECORD: author}), *notes]
    if record.get("isSidechain") is True:
        begins = state.thread_of(record) not in state.begun_threads
        prompt = PromptPiece(Role.ASSISTANT, EventType.SUBAGENT_START if begins else EventType.NOTE, prompt.text)
    return [(prompt, {}), *notes]


def _result_part(record: dict[str, object], state: SessionState, block: Mapping[str, object], suffix: str) -> _RecordPart:
    """Return a tool's result, of a shortened one all that was saved.

    What a subagent that no longer runs brought back is its end; what the person answered, or said while refusing the call, is
    the person's message.
    """
    call = as_text(block.get("tool_use_id"))
    tool, details = state.tool_names.get(call, ""), record.get("toolUseResult")
    fields = as_mapping(details)
    text = result_text(block.get("content"), details)
    saved_text = (
        read_saved_result(text, details, state.transcript, as_text(record.get("sessionId"))) if state.transcript else None
    )
    text = saved_text or text
    agent = as_text(fields.get("agentId"))
    ended = (agent or tool in AGENT_TOOLS) and as_text(fields.get("status")) not in _RUNNING
    metadata = {"tool": tool, "tool_use_id": call, "agent_id": agent, WORDS_VARY: "" if saved_text is None else "true"}
    metadata |= result_metadata(text, block.get("is_error") is True, details)
    questions = questions_in(tool, details) or state.questions.get(call, ())
    answers = answers_in(questions, details, text)
    # Newer clients say who refused a call: the person, or a rule.
    is_refused = block.get("is_error") is True and record.get("toolDenialKind", _BY_PERSON) == _BY_PERSON
    if words := answer_text(answers) or (refusal_words(tool, text, questions) if is_refused else ""):
        return _RecordPart(suffix, PromptPiece(Role.USER, EventType.USER_MESSAGE, words), metadata | reply_metadata(answers))
    kind = EventType.SUBAGENT_STOP if ended else EventType.TOOL_RESULT
    return _RecordPart(suffix, PromptPiece(Role.TOOL, kind, text or "(no output)"), metadata)


def _iter_assistant_parts(record: dict[str, object], state: SessionState, outcome: Outcome) -> Iterator[_RecordPart]:
    del state
    message = record.get("message")
    if not isinstance(message, Mapping) or "parts" in message:
        outcome.skip_reason = _NOT_OURS
        return
    error = record.get("isApiErrorMessage") is True
    if message.get("model") == _CLIENT and not error:
        outcome.skip_reason = "written by the client"
        return
    number = thoughts = 0
    for block in as_blocks(message.get("content")):
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            piece = PromptPiece(Role.ASSISTANT, EventType.NOTE, words_within(block.get("thinking")))
            yield _RecordPart(f"#t{thoughts}", piece, {RECORD: "thinking"})
            thoughts += 1
            continue
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            name, arguments = as_text(block.get("name")) or "tool", block.get("input")
            metadata = call_metadata(name, arguments) | {"tool_use_id": as_text(block.get("id"))}
            yield _RecordPart(
                _id_suffix(number), PromptPiece(Role.ASSISTANT, EventType.TOOL_CALL, call_text(name, arguments)), metadata
            )
        elif str(kind).endswith("tool_result"):
            text = result_text(block.get("content"))
            metadata = {"tool_use_id": as_text(block.get("tool_use_id"))}
            yield _RecordPart(_id_suffix(number), PromptPiece(Role.TOOL, EventType.TOOL_RESULT, text), metadata)
        else:
            text = block_text(block)
            by = (Role.SYSTEM, EventType.NOTE) if error else (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE)
            yield _RecordPart(_id_suffix(number), PromptPiece(*by, text.strip()), {RECORD: "api error"} if error else {})
            if words := unknown_words(block):
                yield _unknown_part(block, words, _id_suffix(number) + "#u" * bool(text), outcome)
        number += 1


def _unknown_part(block: Mapping[str, object], words: str, suffix: str, outcome: Outcome) -> _RecordPart:
    kind = str(block.get("type") or "block")
    outcome.unknown.append(kind)
    return _RecordPart(suffix, PromptPiece(Role.SYSTEM, EventType.NOTE, words), {RECORD: kind})


def _id_suffix(number: int) -> str:
    return f"#{number}" if number else ""


def _iter_note_parts(record: dict[str, object], state: SessionState, outcome: Outcome) -> Iterator[_RecordPart]:
    del state, outcome
    kind = _kind_of(record)
    if kind == "summary":
        text, metadata = words_within(record.get("summary")), {RECORD: "summary", LEAF: as_text(record.get("leafUuid"))}
    elif kind in _TITLES:
        text, metadata = words_within(record.get(_TITLES[kind])), {RECORD: "title"}
    else:
        url, number = as_text(record.get("prUrl")), record.get("prNumber")
        name = f"Pull request #{number}" if isinstance(number, int) else "Pull request"
        text, metadata = f"{name}: {url}" if url else "", {RECORD: "pull request", "url": url}
    yield _RecordPart("", PromptPiece(Role.SYSTEM, EventType.NOTE, text), metadata)


def _iter_system_parts(record: dict[str, object], state: SessionState, outcome: Outcome) -> Iterator[_RecordPart]:
    del state
    subtype = as_text(record.get("subtype"))
    content = words_of(record.get("content"))
    if subtype in _SYSTEM_NOISE or not content.strip():
        outcome.skip_reason = f"system {subtype}" if subtype in _SYSTEM_NOISE else "system record without content"
        return
    piece = unwrap_prompt(content)[0]
    if subtype == "compact_boundary":
        details = as_mapping(record.get("compactMetadata"))
        facts = [as_text(details.get("trigger"))]
        if isinstance(details.get("preTokens"), int):
            facts.append(f"{details['preTokens']} tokens before")
        piece = PromptPiece(
            Role.SYSTEM, EventType.NOTE, f"{content} ({', '.join(filter(None, facts))})" if any(facts) else content
        )
    elif subtype != "local_command":
        piece = PromptPiece(Role.SYSTEM, EventType.NOTE, content)
    yield _RecordPart("", piece, {RECORD: subtype})


def _iter_other_parts(record: dict[str, object], state: SessionState, outcome: Outcome) -> Iterator[_RecordPart]:
    """Yield a slipped-in prompt that has no record of its own."""
    kind = _kind_of(record)
    outcome.skip_reason = kind if kind in _BOOKKEEPING or kind.startswith("api-request") else _NOT_OURS
    if text := state.find_slipped_in(record):
        author = find_author(as_mapping(record.get("attachment"))) or find_author(record) or state.queue_authors.get(text, "")
        for number, piece in enumerate(unwrap_prompt(text)):
            queued_piece = author_note(author, piece.text) if author and piece.role is Role.USER else piece
            yield _RecordPart(f"#n{number}" if number else "", queued_piece, {"queued": "true", RECORD: queued_piece.name})


_Reader = Callable[[dict[str, object], SessionState, Outcome], Iterator[_RecordPart]]
_READERS: dict[str, _Reader] = {
    "user": _iter_user_parts,
    "assistant": _iter_assistant_parts,
    "system": _iter_system_parts,
    **dict.fromkeys(("summary", "pr-link", *_TITLES), _iter_note_parts),
}
