"""A client's hook: writes one payload from standard input into the spool, and prints the answer to the client, if any.

Invariants
1. The exit status is 0, whatever happens; trouble is one line on standard error, and nothing but an answer is printed.
2. The payload is kept before anything is answered, but for one that comes before a call, of which nothing is. What holds no
   secret and no private span is kept as it came.
3. No byte of it is on the disk before secrets and private spans are taken out: by the daemon that runs, else by this process.
   Where neither can, it is kept as it came rather than lost: its first line says so, and so does standard error.
4. Daemon and hook write the same file under the same name, so that a payload both have written is stored once.
5. It starts with every prompt and every tool call, so it imports what it needs where it needs it, and nothing else. The rules
   about secrets take several times as long to load as all else, and are loaded only where no daemon answers.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: Clients whose payloads can be read: see `ingest/hooks/registry.py`, which is too heavy to ask here.
CLIENTS = ("claude-code", "codex", "gemini", "opencode", "json")
#: What a client tells of a prompt, where it takes an answer to it; all of these take one to the start of a session.
_PROMPTS = {**dict.fromkeys(("claude-code", "codex", "opencode"), "UserPromptSubmit"), "gemini": "BeforeAgent"}
#: Events before a call: nothing of them is kept, and a hint may be given.
_BEFORE_CALL = ("PreToolUse",)
_EVENT_KEY = b'"hook_event_name":'
#: Events behind a call to which a client takes a hint: of failures, or of any call where it does not tell them apart.
_AFTER_CALL = {
    "claude-code": ("PostToolUseFailure",),
    "codex": ("PostToolUse", "PostToolUseFailure"),
    "gemini": ("AfterTool",),
    "opencode": ("Parts",),
}
#: Longest payload that is kept, bytes. Of a longer one the beginning is kept, which says so when it is read: nobody can read
#: it but who looks for the reason, and so much behind it is looked at that no half of a secret is left.
MAX_PAYLOAD, CUT_KEPT, _BEHIND = 16 * 1024 * 1024, 1024 * 1024, 64 * 1024
#: Longest text that the client takes from a hook, characters.
MAX_ANSWER = 10_000
#: Where a session begins or ends, what hooks left is filed, by a daemon started for it where none runs.
_EDGES = ("SessionStart", "SessionEnd")
#: A payload that came alone, such as the first of a session, waits for whoever files the next ones.
_WORTH_A_DAEMON = 2
#: Behind these a session goes on from words it knows already.
_KNOWS = frozenset({"resume", "fork"})
_CHUNK = 1 << 20
_USAGE = f"usage: memory-mcp hook {{{','.join(CLIENTS)}}} [--data-dir DIR] [--config FILE] < payload"


def main(argv: "Sequence[str]") -> int:
    """Keep the payload on stdin and answer it; always return 0.

    `argv` is what follows `hook`: CLIENT [--data-dir DIR] [--config FILE]. The payload goes to the daemon or into the spool;
    nothing is kept for an unknown client, an empty payload, a paused project or our own summarizer. Errors are a line on stderr.
    """
    try:
        _take_payload(list(argv))
    except BaseException as error:
        _complain(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return 0


def _take_payload(argv: "list[str]") -> None:
    """Keep the payload, answer it, and have it filed.

    Filed where a session begins or ends. Raises what goes wrong. Nothing is done, but a complaint, for an unknown client, a
    terminal or an empty payload; nothing at all for a session of our own summarizer. What cannot be kept, or belongs to a paused
    project, is still answered.
    """
    client, data_dir, config = _parse_arguments(argv)
    if client not in CLIENTS:
        _complain(f"unknown client {client!r}; {_USAGE}" if client else _USAGE)
        return
    if os.isatty(0):
        _complain(f"a client runs this at each event and hands it a payload; in a terminal there is none; {_USAGE}")
        return
    payload = _read_stdin()
    if not payload or payload.isspace():
        _complain("nothing on standard input")
        return
    from memory_mcp.base import paths

    if os.environ.get(paths.SUMMARIZING):
        # The session is our own summarizer's: nobody's work, and told of nothing.
        return
    if name := paths.unknown_variable():
        _complain(f"unknown variable {name}; the nearest name: memory-mcp doctor")
    _record_and_answer(client, payload, paths.data_dir(data_dir, file=config), config)


def _record_and_answer(client: str, payload: bytes, directory: str, config: str) -> None:
    from memory_mcp.base import machine, paths

    is_before_call = _is_before_call(payload)
    takes_hint = is_before_call or _names_event(payload, *_AFTER_CALL.get(client, ()))
    takes_hint = takes_hint and paths.setting("hooks", "hints", True, file=config) is True
    if is_before_call and not takes_hint:
        return
    fields = {"project_dir": os.environ.get("CLAUDE_PROJECT_DIR", ""), "cwd": paths.here()}
    is_paused = _is_paused(payload, directory, config)
    failed, used = "", "" if is_before_call else directory
    if used and not is_paused:
        told = {**fields, "pids": " ".join(map(str, machine.ancestors()))}
        failed, used = _keep_in_first_folder(directory, client, payload, told)
    if takes_hint and not is_paused:
        from memory_mcp.service.client import handing

        if output := handing.ask_hint(used or directory, client, payload, fields):
            _write_all(1, output + b"\n")
    if client in _PROMPTS:
        _answer_prompt(payload, used or directory, config, _PROMPTS[client])
    if used and _may_name(payload, *_EDGES):
        _start_filing(used, config)
    if failed:
        _complain(failed)


def _is_paused(payload: bytes, directory: str, config: str) -> bool:
    """Whether nothing of the payload's project may be kept now."""
    from memory_mcp.base import paths

    if not os.path.lexists(paths.pauses_file(directory)):
        return False
    import json
    import time

    from memory_mcp.base import pauses

    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        fields = {}
    project = _find_project(fields if isinstance(fields, dict) else {}, config)
    return pauses.is_paused(directory, project, time.time_ns() // 1_000_000)


def _parse_arguments(argv: "list[str]") -> "tuple[str, str, str]":
    client, options = "", {"--data-dir": "", "--config": ""}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in options:
            options[name] = value if equals else (words.pop(0) if words else "")
        elif not word.startswith("-"):
            client = client or word
    return client, options["--data-dir"], options["--config"]


def _read_stdin() -> bytes:
    """Return standard input, read to its end.

    So the client never meets a closed pipe. Parts that come once more than `MAX_PAYLOAD` bytes were read are dropped; the result
    is then longer than `MAX_PAYLOAD`.
    """
    parts: list[bytes] = []
    size = 0
    while part := os.read(0, _CHUNK):
        if size <= MAX_PAYLOAD:
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def keep_payload(directory: str, client: str, payload: bytes, fields: "Mapping[str, str]") -> str:
    """Keep a payload without its secrets; return what to complain of.

    The daemon keeps it, else this process; "" for no complaint. `fields`: "project_dir", "cwd", "pids" of the sender. Of more
    than `MAX_PAYLOAD` bytes the first `CUT_KEPT` are kept. Where secrets cannot be taken out it is kept as it came, and the
    result says so. Raises OSError where it is not kept.
    """
    from memory_mcp.base import paths
    from memory_mcp.service.client import handing, spoolfile

    name = spoolfile.name_of(client, payload)
    if handing.hand_payload(directory, name, payload, fields):
        return ""
    cut = len(payload) > MAX_PAYLOAD
    payload = payload[: CUT_KEPT + _BEHIND] if cut else payload
    failed = ""
    try:
        from memory_mcp.capture.payloads import PayloadCleaner

        payloads = PayloadCleaner(directory)
        payload, fields = payloads.clean_payload(payload), payloads.clean_fields(fields)
    except Exception as error:
        failed = f"kept as it came, with any secrets in it: {type(error).__name__}: {error}"
    head = spoolfile.make_header(name, fields, cut, bool(failed))
    spoolfile.write_payload(paths.spool_dir(directory), name, head, payload[:CUT_KEPT] if cut else payload)
    return failed


def _keep_in_first_folder(directory: str, client: str, payload: bytes, caller_facts: "Mapping[str, str]") -> "tuple[str, str]":
    """Keep a payload in a data directory, else in a spare one; return what is to be reported, and the folder."""
    from memory_mcp.base import paths

    reason = ""
    for candidate in (directory, *paths.spare_dirs(directory)):
        try:
            failed = keep_payload(candidate, client, payload, caller_facts)
        except OSError as error:
            reason = reason or str(error)
        else:
            return f"kept in {candidate}: {reason}" if reason and not failed else failed, candidate
    return f"not kept: {reason}", ""


def _answer_prompt(payload: bytes, directory: str, config: str, prompt: str) -> None:
    """Print, as the client's JSON, what to tell its model.

    A briefing or quotations, or nothing. `prompt` is the name of the client's event of a prompt. What is missing of the memory
    comes before a briefing, also where there is none, in one fence with it. Nothing is printed where the settings switch answers
    off; at most `MAX_ANSWER` characters are. Raises ValueError for a payload that is no JSON.
    """
    from memory_mcp.base import paths

    for event, tell, setting, default in (
        ("SessionStart", _read_briefing, "briefing", True),
        (prompt, _ask_recall, "recall", False),
    ):
        if not _may_name(payload, event) or paths.setting("hooks", setting, default, file=config) is not True:
            continue
        import json

        fields = json.loads(payload)
        text = tell(fields, directory, config) if isinstance(fields, dict) and fields.get("hook_event_name") == event else ""
        if event == "SessionStart" and (missing := paths.loss_told(directory)):
            from memory_mcp.model.fencing import fence_text, strip_fence

            text = fence_text(f"{missing}.\n{strip_fence(text)}".strip())
        if text:
            from memory_mcp.model.fencing import refence_text
            from memory_mcp.model.sentinel import CLOSE

            context = refence_text(text)
            if len(context) > MAX_ANSWER:
                context = refence_text(context[: MAX_ANSWER - len(CLOSE) - 1])
            inner = {"hookEventName": event, "additionalContext": context}
            _write_all(1, json.dumps({"hookSpecificOutput": inner}).encode("ascii") + b"\n")
            return


def _names_event(payload: bytes, *events: str) -> bool:
    """Return whether a payload, or an object in it, is of one of these events, without parsing it.

    Quotes inside of a JSON text are escaped, so that these bytes are a member and its value.
    """
    return any(_EVENT_KEY + space + b'"' + event.encode() + b'"' in payload for event in events for space in (b"", b" "))


def _is_before_call(payload: bytes) -> bool:
    """Return whether a payload's own event, none that it quotes, comes before a call: nothing of it is kept then."""
    if not _names_event(payload, *_BEFORE_CALL):
        return False
    head, _, value = payload.partition(_EVENT_KEY)
    if head.lstrip().startswith(b"{") and head.count(b"{") == 1:
        # Behind the first bracket alone it is the payload's own member: parsing would cost more than all else.
        return value.lstrip().startswith(tuple(b'"' + event.encode() + b'"' for event in _BEFORE_CALL))
    import json

    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("hook_event_name") in _BEFORE_CALL


def _may_name(payload: bytes, *events: str) -> bool:
    return any(b'"' + event.encode() + b'"' in payload for event in events)


def _start_filing(directory: str, config: str) -> None:
    """Start the daemon where enough payloads wait and none runs.

    Enough is `_WORTH_A_DAEMON`. Nothing is waited for. Nothing happens where the settings switch daemons off, or none can run
    here.
    """
    from memory_mcp.base import paths

    if paths.setting("server", "daemon", True, file=config) is not True:
        return
    try:
        waiting = os.listdir(os.path.join(paths.spool_dir(directory), "new"))
    except OSError:
        return
    if len(waiting) < _WORTH_A_DAEMON:
        return
    from memory_mcp.service.client import door, link

    if not link.can_run_daemon():
        return
    try:
        door.connect(directory).close()
    except OSError:
        link.start_aside(link.Wanted(directory, config))


def _read_briefing(fields: "dict[str, Any]", directory: str, config: str) -> str:
    """Return the project's rendered briefing, "" for none.

    At most 80,000 bytes. "" also for a session that goes on (source resume or fork), or without a project.
    """
    if fields.get("source") in _KNOWS or not (project := _find_project(fields, config)):
        return ""
    from memory_mcp.base import paths

    try:
        from memory_mcp.base import foreign_files

        return foreign_files.read_file(paths.briefing_file(directory, project), 8 * MAX_ANSWER).decode("utf-8", "replace").strip()
    except OSError:
        # None yet, or a link, which leads to somebody else's words.
        return ""


def _ask_recall(fields: "dict[str, Any]", directory: str, config: str) -> str:
    """Return quotations of a running daemon that fit the prompt.

    "" when none answers in time. The time is hooks.recall_deadline_ms. Only a Unix socket is asked. "" also for a blank prompt
    or an error of the daemon.
    """
    from memory_mcp.base import paths

    prompt = fields.get("prompt")
    # Gemini CLI gives the prompt with what the start of the session was answered before it.
    prompt = prompt.rpartition("</hook_context>")[2] if isinstance(prompt, str) else ""
    if not prompt.strip() or not os.path.exists(paths.socket_path(directory)):
        return ""
    from memory_mcp.service.client import link
    from memory_mcp.service.client.handing import stop_after

    wait = float(paths.setting("hooks", "recall_deadline_ms", 300, file=config)) / 1000
    params = {"prompt": prompt, "project": _find_project(fields, config), "session_id": str(fields.get("session_id", ""))}
    try:
        stop_after(wait)
        text = link.call_method(directory, "hook/recall", params, deadline=wait).get("text")
    except (OSError, link.Refused):
        return ""
    finally:
        stop_after(0)
    return text if isinstance(text, str) else ""


def _find_project(fields: "dict[str, Any]", config: str) -> str:
    from memory_mcp.base import paths
    from memory_mcp.base.scope import caller_project

    cwd = fields.get("cwd")
    configured = str(paths.setting("server", "project", "", file=config))
    return caller_project(os.environ, "", cwd if isinstance(cwd, str) else "", configured)


def _complain(text: str) -> None:
    line = " ".join(text.split())[:500]
    try:
        _write_all(2, f"memory-mcp hook: {line}\n".encode("utf-8", "backslashreplace"))
    except OSError:
        return


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
