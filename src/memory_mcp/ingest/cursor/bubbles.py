"""Convert one message of Cursor's (a bubble) to its parts; independent of databases and conversations."""

from collections.abc import Mapping, Sequence

from memory_mcp.ingest.claude_code.blocks import as_list, as_mapping, as_text, words_within
from memory_mcp.ingest.parts import (
    Part,
    as_plain,
    call_part,
    decode_json,
    left_out_part,
    message_part,
    path_of,
    result_part,
    thought_part,
)
from memory_mcp.model.event import RECORD, EventType, Role

USER, MODEL = 1, 2
#: Parts that a bubble has at most: the thinking, the words, a tool's call and its result.
MOST_PARTS = 4
CONTEXT = "attached context"
WRITING = "still being written"
#: Where a prompt keeps what the client put in beside the words.
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

    A prompt with the files chosen for it; or thought, words, call and result of the model. A subagent's prompts are the
    calling model's; context put in beside a prompt is left out.
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
        note_part = Part(Role.SYSTEM, EventType.NOTE, words.strip(), {RECORD: kind}, unknown=kind)
        return [note_part if words.strip() else left_out_part("bubble of another type")]
    thinking = bubble.get("thinking")
    thinks = as_text(thinking) or words_within(as_mapping(thinking).get("text"))
    parts = [thought_part(thinks, keep_thinking)] if thinks.strip() else []
    if text.strip():
        parts.append(thought_part(text, keep_thinking) if bubble.get("isThought") is True else message_part(Role.ASSISTANT, text))
    return [*parts, *_tool_parts(as_mapping(bubble.get("toolFormerData")))]


def _tool_parts(tool_data: Mapping[str, object]) -> Sequence[Part]:
    """Return a call and its result, which Cursor keeps in one record; no part for a record without a tool's name.

    A call that still runs has its result left out; a refused or failed one gives an error, its words before the output.
    Without readable words an output or an error is its JSON.
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
