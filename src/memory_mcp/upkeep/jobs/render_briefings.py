"""Renders briefings for new sessions ahead of time: one small private file per project, which a hook reads.

Invariants
1. A file holds what one project's own events say, and nothing of another's.
2. A reader finds a whole file or none.
3. Only projects whose segments changed since the last rendering are rendered again; all of them when a pin, a setting or
   the wording changed, or when the files are gone.
"""

import json
import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from memory_mcp.base import foreign_files, machine, paths
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import NotFound
from memory_mcp.capture.evidence import Evidence
from memory_mcp.model.ids import NodeId, hash_parts, segment_key_of
from memory_mcp.model.toc import TocNode
from memory_mcp.storage.base import Storage
from memory_mcp.tree.toc.briefing import VERSION, PinnedMemory, render_briefing
from memory_mcp.tree.toc.later_changes import LaterChanges
from memory_mcp.tree.toc.refining import count_requested, read_requests
from memory_mcp.tree.toc.told import latest_cuts, load_stretches, speaker_of
from memory_mcp.tree.toc.tree import Tree
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Every

#: This follower's name among those who read the outbox.
FOLLOWER = "briefings"
#: Stretches considered for a briefing: twice what the budget holds.
_STRETCHES = 12
#: The newest of them, whose events are read: what the usual budget holds.
_IN_FULL = 6
#: Cuts looked through for them: those of subagents and of mere tool calls are left out.
_CUTS = 40
#: With more changes than this to look through, rendering everything is faster.
_MOST_CHANGES = 20_000
#: After so many changes it is written down how far the files show them: until then a new process looks through them again,
#: which costs less than a transaction for every event.
_MARK_EVERY = 200
#: How often a project is rendered again because its repository is being read.
_RETRIES = 3
#: Changes read at once: blocks other readers for a few milliseconds.
_PAGE = 500


@dataclass(frozen=True, slots=True)
class BriefingSettings:
    """Where the files are (None: nowhere, the store is in memory), and how long each may be."""

    directory: Path | None
    enabled: bool
    token_factor: float
    tokens: int = 300
    #: Whether a briefing shows how many stretches are due, once a session of its project left a request.
    refine: bool = False
    #: Silence after which a stretch is closed.
    gap_minutes: int = 30


@dataclass(frozen=True, slots=True)
class _RenderedState:
    """The state that the files show: an outbox entry, and pins, settings and wording."""

    seq: int
    form: str


class RenderBriefings:
    """Renders the briefings of projects that the outbox says have changed."""

    name = "render_briefings"
    help = "write down, per project, where its last sessions left off"
    schedule = Every(30)

    def __init__(
        self,
        storage: Storage,
        tree: Tree,
        settings: BriefingSettings,
        busy: Callable[[], bool] = lambda: False,
        publishing: Callable[[], AbstractContextManager[None]] = nullcontext,
        later_changes: LaterChanges | None = None,
    ) -> None:
        self._busy = busy
        self._publishing = publishing
        self._storage = storage
        self._tree = tree
        self._settings = settings
        self._evidence = Evidence(storage)
        self._later_changes = later_changes
        #: Projects whose repository was still being read when they were rendered: how often in a row.
        self._unread: dict[str, int] = {}
        self._rendered: _RenderedState | None = None
        #: The state that is written down in the store.
        self._stored_state: _RenderedState | None = None
        #: Requests for refining that the files show: milliseconds by project.
        self._shown_requests: dict[str, int] = {}

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Write briefings of changed projects; remove empty ones.

        Where briefings are off, all files are removed; during an import, and for a store in memory, nothing is done.
        A run that ends early is repeated by the next. The report counts files "written" and "removed".
        """
        if self._settings.directory is None:
            return JobReport("there are no files for a store in memory")
        folder = Path(paths.briefing_file(str(self._settings.directory), "")).parent
        if not self._settings.enabled:
            removed = _remove_files(folder, set())
            if folder.is_dir():
                # Without the folder everything is rendered again once the setting is switched on.
                folder.rmdir()
            return JobReport(f"switched off (hooks.briefing); {_format_count(removed, 'file')} removed", {"removed": removed})
        if self._busy():
            return JobReport("waits for an import to end")
        version, settings, names = self._storage.toc.current_version(), self._settings, self._storage.projects.names
        # It changes with pins, settings, zone, names of projects and the wording: all files are old then.
        pins = (
            f"{hash_parts(*sorted(self._storage.toc.list_pins())):x} {hash_parts(*map(repr, (*names.aliases, *names.splits))):x}"
        )
        form = f"{VERSION} {settings.tokens} {settings.token_factor} {settings.refine} {self._tree.calendar.zone_name} {pins}"
        now = _RenderedState(version, form)
        requests_now = read_requests(self._storage) if self._settings.refine else {}
        projects = self._changed_projects(now, folder)
        if projects is not None:
            projects = sorted(
                {*projects, *self._unread, *(p for p, at_ms in requests_now.items() if self._shown_requests.get(p) != at_ms)}
            )
        if projects == []:
            self._rendered, self._shown_requests = now, requests_now
            return JobReport("nothing changed", {"written": 0, "removed": 0})
        report = self._render_projects(projects, now, folder, should_stop)
        if self._rendered is now:
            self._shown_requests = requests_now
        return report

    def _render_projects(
        self, changed: list[str] | None, now: _RenderedState, folder: Path, should_stop: Callable[[], bool]
    ) -> JobReport:
        """Write the files of the changed projects (None: of all).

        A project has one file for each name that it is recorded under.
        """
        projects = [p for p in (self._tree.tally().projects if changed is None else changed) if p]
        written = removed = 0
        keep = set()
        for project in projects:
            if should_stop():
                return JobReport(f"stopped early; {written:,} written", {"written": written, "removed": removed})
            # Text that was read before something is forgotten is on disk before the files are cleaned of that.
            with self._publishing():
                text = self.briefing_text(project, self._load_pins())
                count = self._unread.pop(project, 0)
                if self._later_changes is not None and self._later_changes.is_reading and count < _RETRIES:
                    self._unread[project] = count + 1
                # A hook knows the name of its own directory alone.
                for name in self._storage.projects.names.recorded_names(project):
                    file = Path(paths.briefing_file(str(folder.parent), name))
                    if text:
                        keep.add(file.name)
                        written += _write_file(file, text)
                    elif file.exists():
                        file.unlink(missing_ok=True)
                        removed += 1
        if changed is None:
            removed += _remove_files(folder, keep)
        self._rendered = now
        # Store the position only when the stored one is far enough back.
        marked = self._stored_state or self._stored_position()
        if marked is None or marked.form != now.form or not 0 <= now.seq - marked.seq < _MARK_EVERY:
            self._storage.outbox.set_position(FOLLOWER, json.dumps({"seq": now.seq, "form": now.form}))
            marked = now
        self._stored_state = marked
        counts = {"written": written, "removed": removed}
        return JobReport(f"{_format_count(len(projects), 'project')} looked at, {_format_count(written, 'file')} written", counts)

    def briefing_text(self, project: str, pinned: Iterable[tuple[str, PinnedMemory]] | None = None) -> str:
        """Return the briefing of one project, "" without content.

        `pinned` are all pinned quotations and segments with their projects, read where they are None.
        """
        all_pins = self._load_pins() if pinned is None else pinned
        ids = [NodeId(t) for t in self._storage.toc.list_pins() if t.startswith("toc:") and segment_key_of(t) is None]
        periods = self._tree.nodes(ids, project).values() if ids else ()
        project_pins = [*(pin for pin_project, pin in all_pins if pin_project == project), *map(_pinned_node, periods)]
        settings, calendar = self._settings, self._tree.calendar
        at_ms = read_requests(self._storage).get(project) if self._settings.refine else None
        gap_ms = self._settings.gap_minutes * 60_000
        due = 0 if at_ms is None else count_requested(self._storage, project, at_ms, gap_ms, self._tree.calendar)
        recent = load_stretches(self._storage, latest_cuts(self._storage, project, _CUTS), _STRETCHES, _IN_FULL)
        if self._later_changes is not None:
            # Nothing is waited for: no other writer may publish meanwhile.
            recent = self._later_changes.mark_stretches(recent, waits=False)
        return render_briefing(recent, project_pins, calendar, settings.tokens, settings.token_factor, unsummarised=due)

    # what changed

    def _changed_projects(self, now: _RenderedState, folder: Path) -> list[str] | None:
        done = self._rendered or self._stored_position()
        if done is None or done.form != now.form or now.seq < done.seq or not folder.is_dir():
            return None
        if done.seq == now.seq:
            return []
        if now.seq - done.seq > _MOST_CHANGES:
            return None
        projects: set[str] = set()
        for seq in range(done.seq, now.seq, _PAGE):
            changes = self._storage.outbox.read_after(seq, _PAGE)
            keys = {key for change in changes if (key := segment_key_of(change.subject)) is not None}
            projects |= {cut.project for cut in self._storage.toc.get_segments(keys).values()} if keys else set()
        return sorted(projects - {""})

    def _stored_position(self) -> _RenderedState | None:
        try:
            text = self._storage.outbox.get_positions(FOLLOWER).get(FOLLOWER, "")
            return _RenderedState(**json.loads(text)) if text else None
        except (ValueError, TypeError):
            return None

    # content

    def _load_pins(self) -> list[tuple[str, PinnedMemory]]:
        pins: list[tuple[str, PinnedMemory]] = []
        for target in sorted(self._storage.toc.list_pins()):
            if target.startswith("grip:"):
                with suppress(NotFound):
                    quotation = self._evidence.expand_grip(target, 0, 0)
                    first_event = quotation.excerpt[0]
                    # Output has no speaker.
                    speaker = speaker_of(first_event) or "tool"
                    pins.append(
                        (first_event.project, PinnedMemory(quotation.timestamp, quotation.quote, speaker, quotation.grip_id))
                    )
        keys = [key for target in self._storage.toc.list_pins() if (key := segment_key_of(target)) is not None]
        cuts = self._storage.toc.get_segments(keys) if keys else {}
        nodes = self._storage.toc.get_nodes([cut.node_id for cut in cuts.values()])
        project_of_node = {cut.node_id: cut.project for cut in cuts.values()}
        pins += [(project_of_node[node.node_id], _pinned_node(node)) for node in nodes.values()]
        return pins


def _remove_files(folder: Path, keep: set[str]) -> int:
    extra = [file for file in folder.iterdir() if file.name not in keep] if folder.is_dir() else []
    for file in extra:
        file.unlink(missing_ok=True)
    return len(extra)


def _format_count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _pinned_node(node: TocNode) -> PinnedMemory:
    return PinnedMemory(node.start_ms, node.title.partition(" · ")[2] or node.title, "", node.node_id)


def _write_file(file: Path, text: str) -> bool:
    data = text.encode("utf-8", "replace")
    file.parent.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileNotFoundError):
        if foreign_files.read_file(file) == data:
            return False
    machine.put(file, data, os.fspath(file.with_suffix(".new")))
    return True
