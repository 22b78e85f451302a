"""Convert one transcript record to event drafts, or to the reason why it has none.

Invariants
1. A source id depends on the record alone: its uuid, and the place of the block in it; without a uuid, its content.
2. No setting moves an id: leaving thinking out does not renumber the other blocks.
3. A human's words are those typed as a prompt; what the client or another agent wrote never gets the user's role.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from memory_mcp.ingest.claude_code.answers import answer_text, answers_in, questions_in, refusal_words, reply_metadata
from memory_mcp.ingest.claude_code.blocks import (
    AGENT_TOOLS,
    as_blocks,
    as_mapping,
    as_text,
    call_metadata,
    call_text,
    plain,
    result_metadata,
    result_text,
    unknown_words,
    words_of,
    words_within,
)
from memory_mcp.ingest.claude_code.saved_results import read_saved_result
from memory_mcp.ingest.claude_code.state import State
from memory_mcp.ingest.claude_code.wrappers import Said, find_author, note_of, unwrap
from memory_mcp.ingest.times import parse_time
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
    """The parts of a record, or the reason why it has none."""

    drafts: list[EventDraft] = field(default_factory=list)
    #: Why there are no drafts.
    reason: str = ""
    #: Reasons of parts that are left out.
    left_out: list[str] = field(default_factory=list)
    #: Kinds of blocks that are not known, which are kept as notes.
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Part:
    """One event's worth of a record."""

    #: Behind the record's id: "" for its first block, then #1, #2 and so on.
    suffix: str
    said: Said
    metadata: Mapping[str, str] = field(default_factory=dict)


def convert(record: dict[str, object], state: State, include_thinking: bool) -> Outcome:
    """Return the drafts of one record, or the reason why it has none, and update `state` with it.

    Thinking is left out unless `include_thinking`; that moves no other part's id.
    """
    kind = _kind(record)
    outcome = Outcome(reason=_EMPTY)
    parts = list(_READERS.get(kind, _other)(record, state, outcome))
    if not include_thinking:
        outcome.left_out += ["thinking" for part in parts if part.suffix.startswith("#t")]
        parts = [part for part in parts if not part.suffix.startswith("#t")]
    state.observe(record)
    spoken = [part for part in parts if part.said.text.strip()]
    outcome.left_out += [part.said.reason for part in parts if part.said.reason]
    outcome.drafts = _drafts(record, state, spoken)
    if not outcome.drafts and outcome.left_out:
        outcome.reason = outcome.left_out[0]
    return outcome


def _kind(record: Mapping[str, object]) -> str:
    """Return the record's type; where older clients left it out, the message's role; "" for neither."""
    kind = record.get("type")
    if kind is None and "sessionId" in record:
        kind = as_mapping(record.get("message")).get("role")
    return as_text(kind)


def _drafts(record: dict[str, object], state: State, parts: list[_Part]) -> list[EventDraft]:
    """Return a draft per part, with the record's session, time, project and thread; its id is the record's and the suffix."""
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
    session, time_ms = as_text(record.get("sessionId")) or state.session, parse_time(record.get("timestamp"))
    project, thread = state.project(cwd or state.first_cwd, common["branch"]), state.thread_of(record)
    return [
        EventDraft(
            session_id=session,
            role=part.said.role,
            type=part.said.type,
            text=part.said.text,
            timestamp=time_ms,
            source_id=source_id + part.suffix,
            agent=AGENT,
            project=project,
            thread=thread,
            metadata={k: v for k, v in (*common.items(), *part.metadata.items()) if v},
        )
        for part in parts
    ]


def _user(record: dict[str, object], state: State, outcome: Outcome) -> Iterator[_Part]:
    """Yield the parts of a user record: results of tools, then its texts as one, and a plan that they do not hold.

    None, with the reason in `outcome`, for the client's own (`isMeta`) and foreign records.
    """
    if record.get("isMeta") is True:
        outcome.reason = "meta"
        return
    message = record.get("message")
    if not isinstance(message, Mapping) or "parts" in message:
        outcome.reason = _EMPTY if isinstance(message, str) else _NOT_OURS
        return
    plan = as_text(record.get("planContent"))
    texts: list[str] = []
    first = 0
    for number, block in enumerate(as_blocks(message.get("content"))):
        if block.get("type") == "tool_result":
            yield _result(record, state, block, _suffix(number))
            continue
        if part := plain(block):
            first = number if not texts else first
            texts.append(part)
        if words := unknown_words(block):
            yield _unknown(block, words, _suffix(number) + "#u" * bool(part), outcome)
    if texts:
        (prompt, metadata), *notes = _prompt(record, state, texts)
        yield _Part(_suffix(first), prompt, metadata)
        for number, (note, note_metadata) in enumerate(notes):
            yield _Part(f"{_suffix(first)}#n{number}", note, note_metadata)
    if plan.strip() and not any(plan.strip() in text for text in texts):
        yield _Part("#plan", Said(Role.SYSTEM, EventType.NOTE, plan), {RECORD: "plan"})


def _prompt(record: dict[str, object], state: State, texts: list[str]) -> list[tuple[Said, dict[str, str]]]:
    """Return (text with role and type, metadata) of a user record: its words as one, then what others wrote around them.

    They are the human's words, a summary (metadata `RECAP` = "true"), or another agent's, as the record's own fields say; in
    a subagent's chain a prompt is the calling agent's. Where only the client wrote, there is no text but the reason.
    """
    if record.get("isCompactSummary") is True:
        return [(Said(Role.SYSTEM, EventType.NOTE, "\n".join(texts)), {RECAP: "true"})]
    pieces = [piece for text in texts for piece in unwrap(text)]
    typed = [p.text for p in pieces if p.text and p.role is Role.USER]
    others: list[tuple[Said, dict[str, str]]] = [
        (p, {RECORD: p.name} if p.name else {}) for p in pieces if p.text and p.role is not Role.USER
    ]
    if not typed:
        return others or [(pieces[0], {})]
    prompt, author = Said(Role.USER, EventType.USER_MESSAGE, "\n".join(typed)), find_author(record)
    if author:
        return [(note_of(author, prompt.text), {RECORD: author}), *others]
    if record.get("isSidechain") is True:
        begins = state.thread_of(record) not in state.threads
        prompt = Said(Role.ASSISTANT, EventType.SUBAGENT_START if begins else EventType.NOTE, prompt.text)
    return [(prompt, {}), *others]


def _result(record: dict[str, object], state: State, block: Mapping[str, object], suffix: str) -> _Part:
    """Return a tool's result as a part, "(no output)" for an empty one; of a shortened one all that the client saved.

    What a subagent brought back, and no longer runs, is the end of that subagent; what the person answered, or said while
    refusing the call, is the person's message.
    """
    call = as_text(block.get("tool_use_id"))
    tool, details = state.tools.get(call, ""), record.get("toolUseResult")
    told = as_mapping(details)
    text = result_text(block.get("content"), details)
    whole = read_saved_result(text, details, state.transcript, as_text(record.get("sessionId"))) if state.transcript else None
    text = whole or text
    agent = as_text(told.get("agentId"))
    ended = (agent or tool in AGENT_TOOLS) and as_text(told.get("status")) not in _RUNNING
    metadata = {"tool": tool, "tool_use_id": call, "agent_id": agent, WORDS_VARY: "" if whole is None else "true"}
    metadata |= result_metadata(text, block.get("is_error") is True, details)
    asked = questions_in(tool, details) or state.questions.get(call, ())
    answers = answers_in(asked, details, text)
    # Newer clients say who refused a call: the person, or a rule.
    is_refused = block.get("is_error") is True and record.get("toolDenialKind", _BY_PERSON) == _BY_PERSON
    if words := answer_text(answers) or (refusal_words(tool, text, asked) if is_refused else ""):
        return _Part(suffix, Said(Role.USER, EventType.USER_MESSAGE, words), metadata | reply_metadata(answers))
    kind = EventType.SUBAGENT_STOP if ended else EventType.TOOL_RESULT
    return _Part(suffix, Said(Role.TOOL, kind, text or "(no output)"), metadata)


def _assistant(record: dict[str, object], state: State, outcome: Outcome) -> Iterator[_Part]:
    """Yield the parts of the model's message: thoughts (#t0, #t1, ...), calls, results and words in their order.

    None, with the reason in `outcome`, for foreign records and what the client wrote in the model's name; errors of the
    API are notes.
    """
    del state
    message = record.get("message")
    if not isinstance(message, Mapping) or "parts" in message:
        outcome.reason = _NOT_OURS
        return
    error = record.get("isApiErrorMessage") is True
    if message.get("model") == _CLIENT and not error:
        outcome.reason = "written by the client"
        return
    number = thoughts = 0
    for block in as_blocks(message.get("content")):
        kind = block.get("type")
        if kind in ("thinking", "redacted_thinking"):
            said = Said(Role.ASSISTANT, EventType.NOTE, words_within(block.get("thinking")))
            yield _Part(f"#t{thoughts}", said, {RECORD: "thinking"})
            thoughts += 1
            continue
        if kind in ("tool_use", "server_tool_use", "mcp_tool_use"):
            name, given = as_text(block.get("name")) or "tool", block.get("input")
            metadata = call_metadata(name, given) | {"tool_use_id": as_text(block.get("id"))}
            yield _Part(_suffix(number), Said(Role.ASSISTANT, EventType.TOOL_CALL, call_text(name, given)), metadata)
        elif str(kind).endswith("tool_result"):
            text = result_text(block.get("content"))
            metadata = {"tool_use_id": as_text(block.get("tool_use_id"))}
            yield _Part(_suffix(number), Said(Role.TOOL, EventType.TOOL_RESULT, text), metadata)
        else:
            text = plain(block)
            by = (Role.SYSTEM, EventType.NOTE) if error else (Role.ASSISTANT, EventType.ASSISTANT_MESSAGE)
            yield _Part(_suffix(number), Said(*by, text.strip()), {RECORD: "api error"} if error else {})
            if words := unknown_words(block):
                yield _unknown(block, words, _suffix(number) + "#u" * bool(text), outcome)
        number += 1


def _unknown(block: Mapping[str, object], words: str, suffix: str, outcome: Outcome) -> _Part:
    """Return the words of a block of a kind that nobody described, as a note of the client; count it in `outcome`."""
    kind = str(block.get("type") or "block")
    outcome.unknown.append(kind)
    return _Part(suffix, Said(Role.SYSTEM, EventType.NOTE, words), {RECORD: kind})


def _suffix(number: int) -> str:
    """Return the suffix of a record's id for its block `number`, from 0: "" for the first, "#1" for the second, and so on."""
    return f"#{number}" if number else ""


def _noted(record: dict[str, object], state: State, outcome: Outcome) -> Iterator[_Part]:
    """Yield a summary, a title or a pull request as a note, its kind as metadata `RECORD`.

    A summary has the id of the last message as `leaf`, a pull request its address as `url`; one without gives no text.
    """
    del state, outcome
    kind = _kind(record)
    if kind == "summary":
        text, metadata = words_within(record.get("summary")), {RECORD: "summary", LEAF: as_text(record.get("leafUuid"))}
    elif kind in _TITLES:
        text, metadata = words_within(record.get(_TITLES[kind])), {RECORD: "title"}
    else:
        url, number = as_text(record.get("prUrl")), record.get("prNumber")
        name = f"Pull request #{number}" if isinstance(number, int) else "Pull request"
        text, metadata = f"{name}: {url}" if url else "", {RECORD: "pull request", "url": url}
    yield _Part("", Said(Role.SYSTEM, EventType.NOTE, text), metadata)


def _system(record: dict[str, object], state: State, outcome: Outcome) -> Iterator[_Part]:
    """Yield the client's message as a note with its kind as metadata `RECORD`; a local command as `unwrap` reads it.

    Nothing, with the reason in `outcome`, for kinds known as noise and for one without content. A compaction says what
    triggered it and how many tokens there were.
    """
    del state
    subtype = as_text(record.get("subtype"))
    content = words_of(record.get("content"))
    if subtype in _SYSTEM_NOISE or not content.strip():
        outcome.reason = f"system {subtype}" if subtype in _SYSTEM_NOISE else "system record without content"
        return
    said = unwrap(content)[0]
    if subtype == "compact_boundary":
        details = as_mapping(record.get("compactMetadata"))
        told = [as_text(details.get("trigger"))]
        if isinstance(details.get("preTokens"), int):
            told.append(f"{details['preTokens']} tokens before")
        said = Said(Role.SYSTEM, EventType.NOTE, f"{content} ({', '.join(filter(None, told))})" if any(told) else content)
    elif subtype != "local_command":
        said = Said(Role.SYSTEM, EventType.NOTE, content)
    yield _Part("", said, {RECORD: subtype})


def _other(record: dict[str, object], state: State, outcome: Outcome) -> Iterator[_Part]:
    """Yield a prompt slipped into a running turn that has no record of its own, marked `queued`; else nothing.

    The reason in `outcome` is the kind of a known record of bookkeeping, else that it is not Claude Code's.
    """
    kind = _kind(record)
    outcome.reason = kind if kind in _BOOKKEEPING or kind.startswith("api-request") else _NOT_OURS
    if text := state.slipped_in(record):
        author = find_author(as_mapping(record.get("attachment"))) or find_author(record) or state.authors.get(text, "")
        for number, piece in enumerate(unwrap(text)):
            said = note_of(author, piece.text) if author and piece.role is Role.USER else piece
            yield _Part(f"#n{number}" if number else "", said, {"queued": "true", RECORD: said.name})


_Reader = Callable[[dict[str, object], State, Outcome], Iterator[_Part]]
_READERS: dict[str, _Reader] = {
    "user": _user,
    "assistant": _assistant,
    "system": _system,
    **dict.fromkeys(("summary", "pr-link", *_TITLES), _noted),
}
