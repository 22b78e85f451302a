"""Answers hooks at calls of tools: reads the payload, finds a hint, and notes that it was given.

Invariants
1. Most calls are answered from memory alone; what that is made from is read beside the calls, never while a hook waits.
2. A hint that comes too late is neither sent nor noted.
3. Nothing is derived, filed or started for a hook.
"""

import json
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_mcp.base.patterns import lazy_pattern
from memory_mcp.capture.hooks.base import Envelope, MalformedPayload
from memory_mcp.capture.sources import client_hooks
from memory_mcp.model.event import EventDraft, EventType
from memory_mcp.model.fencing import fence_text
from memory_mcp.model.hint import Hint, HintKind
from memory_mcp.requests.call_names import hash_call, name_call
from memory_mcp.requests.hint_leads import LeadReader, Leads
from memory_mcp.requests.hinting import Action, SessionKnowledge, find_hints
from memory_mcp.storage.values import Scope
from memory_mcp.tree.outcomes.failures import ended_by_person
from memory_mcp.tree.outcomes.runs import is_failure, list_files

if TYPE_CHECKING:
    from memory_mcp.app import App

log = logging.getLogger(__name__)

#: Names of the event before a call that clients have, and of that behind it.
_BEFORE = frozenset({"PreToolUse"})
_BEHIND = frozenset({"PostToolUse", "PostToolUseFailure", "AfterTool", "Parts"})
#: Clients that take no words before a call: what belongs there is told behind it.
_ONLY_BEHIND = frozenset({"gemini"})
#: Bytes of a hint in its fence, and characters of a call that are noted with it.
_MOST_BYTES, _SUBJECT = 400, 200
#: Events of a session that are read for what it called.
_MOST_EVENTS = 20_000
#: A directory or a program that a command names by an absolute path.
_ABSOLUTE = lazy_pattern(r"(?:^|(?:^|[;&|] ?)cd )(/[^\s`;&|'\"…]+)")
#: Sessions and projects that are remembered.
_MOST_SESSIONS, _MOST_PROJECTS = 200, 20
#: What is known is read again at most so often (seconds), and not for more than this share of a processor.
_FRESH, _SHARE = 5.0, 0.02


class _Project:
    """What is known of one project, and when it is read again."""

    def __init__(self, project: str) -> None:
        self.reader = LeadReader(project)
        self.leads: Leads | None = None
        self.version = -1
        self.next_load = 0.0
        self.loading = threading.Lock()


class PendingHint:
    """A hint on its way to a hook, which may be gone: given once it was read, else free to be given again."""

    def __init__(self, record: Callable[[], None], withdraw: Callable[[], None]) -> None:
        """Call `record` in a thread of its own, or `withdraw`, once the hook has disconnected."""
        self._record, self._withdraw = record, withdraw
        self._is_sent = False

    def confirm_sent(self) -> None:
        """Note that the hook was there for it."""
        self._is_sent = True

    def settle(self, is_read: Callable[[], bool] = lambda: True) -> None:
        """Record the hint if it was sent and read, withdraw it if not."""
        if self._is_sent and is_read():
            threading.Thread(target=self._record, name="hint", daemon=True).start()
        else:
            self._withdraw()


class HintGiver:
    """The hints of one memory."""

    def __init__(self) -> None:
        #: Guards both below, whose last entries were heard of last, and a topic's being told once a session.
        self._lock = threading.Lock()
        self._projects: OrderedDict[str, _Project] = OrderedDict()
        self._sessions: OrderedDict[str, SessionKnowledge] = OrderedDict()

    def answer_hook(
        self, app: "App", client: str, payload: bytes, fields: Mapping[str, Any], deadline: float
    ) -> tuple[str, PendingHint | None]:
        """Return what a client's hook prints for a payload, "" for silence, and the hint in it.

        It is silent, too, once `time.monotonic()` is past `deadline`. `fields`: project_dir and cwd of the hook.
        """
        if not app.settings.hooks.hints or not app.storage.hints.is_kept:
            return "", None
        action, event = read_action(app, client, payload, fields)
        if action is None or not action.project:
            return "", None
        leads, session = self._read_leads(app, action.project), self._find_session(app, action.session_id)
        hint = self._choose_hint(app, leads, session, action) if leads is not None else None
        is_late = time.monotonic() > deadline
        if not action.error or (leads is not None and not is_late):
            session.add_action(action)
        if hint is None or is_late:
            return "", None
        with self._lock:
            if hint.topic in session.topics:
                return "", None
            session.topics.add(hint.topic)
        inner = {"hookEventName": event, "additionalContext": fence_text(hint.text)}
        record = partial(_record_hint, app, action, hint, app.clock.now_ms())
        return json.dumps({"hookSpecificOutput": inner}), PendingHint(record, partial(session.withdraw_hint, hint, action))

    def _read_leads(self, app: "App", project: str) -> Leads | None:
        """Return what is known of a project by now; have it read again where the tree changed since."""
        with self._lock:
            cache = self._projects.setdefault(project, _Project(project))
            self._projects.move_to_end(project)
            if len(self._projects) > _MOST_PROJECTS:
                self._projects.popitem(last=False)
        changed = app.storage.toc.current_version() != cache.version
        if changed and time.monotonic() >= cache.next_load and cache.loading.acquire(blocking=False):
            threading.Thread(target=self._load, args=(app, cache), name="hints", daemon=True).start()
        return cache.leads

    def _load(self, app: "App", cache: _Project) -> None:
        """Read what is known of a project; its lock is held, and released here."""
        started = time.thread_time()
        try:
            version = app.storage.toc.current_version()
            cache.leads = cache.reader.read_leads(app)
            cache.version = version
        except Exception:
            # Silence is right for the hook; why is in the log.
            log.exception("what hints are made from cannot be read")
        finally:
            cache.next_load = time.monotonic() + max(_FRESH, (time.thread_time() - started) / _SHARE)
            cache.loading.release()

    def _choose_hint(self, app: "App", leads: Leads, session: SessionKnowledge, action: Action) -> Hint | None:
        for hint in find_hints(leads, action, session):
            if _is_rejected(app, hint) or _is_there(action.call, hint) or names_absent_path(action.call, hint):
                continue
            if _still_stands(app, hint) and len(fence_text(hint.text).encode()) <= _MOST_BYTES:
                return hint
        return None

    def _find_session(self, app: "App", session_id: str) -> SessionKnowledge:
        """Return what a session was told and called, which the caller adds to."""
        with self._lock:
            if (session := self._sessions.get(session_id)) is not None:
                self._sessions.move_to_end(session_id)
                return session
        hints = app.storage.hints.list_hints()
        session = SessionKnowledge(record.hint.topic for record in hints if record.session_id == session_id)
        with self._lock:
            if len(self._sessions) >= _MOST_SESSIONS:
                self._sessions.popitem(last=False)
            cached_session = self._sessions.setdefault(session_id, session)
        if cached_session is session:
            # Beside the hook, which does not wait: only the first call after a start may be told what its session knows.
            threading.Thread(target=_load_calls, args=(app, session_id, session), name="hints", daemon=True).start()
        return cached_session


def _load_calls(app: "App", session_id: str, session: SessionKnowledge) -> None:
    """Read what a session called before this process knew of it."""
    try:
        events = app.storage.events.list_events(Scope(), session_id, _MOST_EVENTS)
        session.calls |= {hash_call(name_call(event)) for event in events if event.type is EventType.TOOL_CALL}
    except Exception:
        log.exception("the calls of a session cannot be read")


def _record_hint(app: "App", action: Action, hint: Hint, at_ms: int) -> None:
    try:
        # Cleaned before it is cut: half a secret is not recognized.
        subject = app.gate.clean_text(hint.subject)[:_SUBJECT]
        call_name = hash_call(app.gate.clean_text(name_call(action.call)))
        if _still_stands(app, hint):
            clean = replace(hint, subject=subject, call_name=call_name)
            app.storage.hints.record_hint(action.session_id, action.project, clean, at_ms)
    except Exception:
        log.exception("a hint that was given is not noted")


def _is_rejected(app: "App", hint: Hint) -> bool:
    return any(record.is_rejected and record.hint.topic == hint.topic for record in app.storage.hints.list_hints())


def _still_stands(app: "App", hint: Hint) -> bool:
    """Return whether nothing that a hint quotes was forgotten since it was read."""
    quoted = set(hint.evidence)
    return app.storage.events.get_events(quoted).keys() == quoted and app.gate.clean_text(hint.text) == hint.text


def _is_there(call: EventDraft, hint: Hint) -> bool:
    """Return whether the one file that a call names exists now: that it failed before says nothing then."""
    files = list_files(call)
    is_of_file = hint.kind is HintKind.COMMAND and not call.metadata.get("command", "") and len(files) == 1
    return is_of_file and Path(call.metadata.get("cwd", ""), files[0]).exists()


def names_absent_path(call: EventDraft, hint: Hint) -> bool:
    """Return whether what worked names a directory or program by a path that this machine, where the call is made, has not.

    A session that was carried from another machine names it by that one's paths.
    """
    directory = call.metadata.get("cwd", "")
    worked = hint.text.rpartition("; then `")[2].rpartition("` worked")[0]
    paths = [path.rstrip("/") for path in _ABSOLUTE.findall(worked)]
    return bool(paths) and Path(directory).is_dir() and not all(map(os.path.exists, paths))


def read_action(app: "App", client: str, payload: bytes, fields: Mapping[str, Any]) -> tuple[Action | None, str]:
    """Return the call that a payload tells of, and its event's name.

    None for what is no call, did not fail where it ran, or is not recorded by the settings.
    """
    try:
        parsed = json.loads(payload)
    except (ValueError, RecursionError):
        return None, ""
    event = str(parsed.get("hook_event_name", "")) if isinstance(parsed, dict) else ""
    is_before = event in _BEFORE
    if client not in client_hooks() or not (is_before or event in _BEHIND):
        return None, ""
    if is_before:
        # Read as the payload behind the call will be, so that both name the same call in the same way.
        payload = json.dumps({**parsed, "hook_event_name": "PostToolUse", "tool_response": "-"}).encode()
    envelope = Envelope("hint", app.clock.now_ms(), str(fields.get("project_dir", "")), str(fields.get("cwd", "")))
    try:
        drafts = client_hooks()[client].parse_payload(payload.decode("utf-8", "replace"), envelope).drafts
    except MalformedPayload:
        return None, event
    call = next((draft for draft in drafts if draft.type is EventType.TOOL_CALL), None)
    result = next((draft for draft in drafts if draft.type is EventType.TOOL_RESULT), None)
    if call is None or app.gate.capture.find_refusal(call):
        return None, event
    project = app.storage.projects.names.resolve_alias(call.project)
    error = "" if is_before or result is None else _error_of(call, result)
    if not (is_before or error or client in _ONLY_BEHIND):
        return None, event
    return Action(call.session_id, project, call, error), event


def _error_of(call: EventDraft, result: EventDraft) -> str:
    """Return what a call failed with; "" where it did not, or a person ended it."""
    failed = is_failure(result, call.metadata.get("command", ""))
    return result.text if failed and not ended_by_person(result.text) else ""
