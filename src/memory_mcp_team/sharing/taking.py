"""Takes what others published in a space into this memory, and what was forgotten and corrected there.

Invariants
1. How far a space was read is stored after what came of it, in the store: a store that is brought back from a backup reads
   again what came after it.
2. An event that is known is known by its id. What was forgotten here does not come in.
3. Only events of the space are changed by what comes from it; many of one's own are not removed before a person agrees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.failpoints import failpoint
from memory_mcp.importers.base import ImportReport
from memory_mcp.model.event import SHARED_BY, Event, EventDraft
from memory_mcp.model.ids import EventId
from memory_mcp.storage.archive import READ_ELSEWHERE
from memory_mcp.upkeep.archive.others import match_events
from memory_mcp_team.errors import PermissionDenied
from memory_mcp_team.sharing.amendments import Removal, add_event, find_cuts, record_corrections
from memory_mcp_team.sharing.client import ShareClient
from memory_mcp_team.sharing.files import OURS, THEIRS, Ledger, Progress, ShareFolder, make_space_mark
from memory_mcp_team.sharing.wire import parse_corrections, parse_events, parse_ids

SOURCE = "share"
#: Marks of the store: up to which cursor a space was read. On disk.
TAKEN_MARK = f"{READ_ELSEWHERE}share:"
#: More of one's own events are not taken out in one go because others forgot them, unless a person agrees.
MAX_OWN_REMOVALS = 100
#: People who are counted by name.
_PEOPLE = 200


@dataclass(slots=True)
class TakeRun:
    """The pulling half of a run with one space."""

    app: App
    folder: ShareFolder
    client: ShareClient
    space: str
    progress: Progress
    should_stop: Callable[[], bool]
    #: A person agreed that own events go which others forgot.
    may_remove_own: bool = False
    new_count: int = 0
    _ledger: Ledger = field(init=False)
    _mark: str = field(init=False)

    def __post_init__(self) -> None:
        url = self.folder.load_sharing().url
        self._ledger, self._mark = self.folder.open_ledger(url, self.space), TAKEN_MARK + make_space_mark(url, self.space)

    def run(self) -> None:
        """Take in what is new, page by page.

        Raises what the client raises, and PermissionDenied if a person has to agree first; the next run takes the page again.
        """
        cursor = self.app.storage.outbox.get_positions(self._mark).get(self._mark, "")
        while not self.should_stop():
            page = self.client.read_changes(self.space, cursor)
            self._take_page(page)
            failpoint("share.taken")
            if (now := str(page.get("cursor", ""))) != cursor:
                self.app.storage.outbox.set_position(self._mark, now)
                cursor = now
            if not page.get("more"):
                return

    def _take_page(self, page: Mapping[str, Any]) -> None:
        drafts, _ = parse_events(page.get("events") or [])
        removal = Removal()
        self._store_events(drafts, removal)
        local_ids = self._ledger.map_local_ids() if page.get("gone") else {}
        gone_ids = [local_ids[event_id][0] for event_id in parse_ids(page.get("gone") or []) if event_id in local_ids]
        removal.whole_events += self.app.storage.events.get_events(gone_ids).values()
        published = dict(self._ledger.map_local_ids().values()) if removal.event_ids else {}
        own_count = sum(published.get(EventId(event_id), False) for event_id in removal.event_ids)
        if own_count > MAX_OWN_REMOVALS and not self.may_remove_own:
            self.progress.held = own_count
            text = f"{own_count} events that were published from here were forgotten in the space {self.space}"
            raise PermissionDenied(text, "They stay here, and nothing more comes, until you agree: memory-mcp share now --forget")
        self.progress.held = 0
        self.progress.forgotten_here += removal.carry_out(self.app, f"space {self.space}")
        if "corrections" in page:
            corrections = parse_corrections(page["corrections"])
            self.progress.corrected += record_corrections(self.app, corrections, lambda event: event.event_id in self._ledger)[0]

    def _store_events(self, drafts: Sequence[EventDraft], removal: Removal) -> None:
        report, fresh, known_pairs = ImportReport(), list[tuple[EventDraft, EventId]](), list[tuple[Event, EventDraft]]()
        published = self._ledger.map_local_ids() if drafts else {}
        for draft, stored_event in zip(map(self._mark_origin, drafts), match_events(self.app.storage, drafts), strict=True):
            if stored_event is not None:
                known_pairs.append((stored_event, draft))
            # Published from here in other words than are stored here.
            elif _id_of(draft) not in published and (clean := self.app.gate.clean_draft(draft, report)) is not None:
                fresh.append((clean, _id_of(draft)))
        new = set(self.app.append([clean for clean, _ in fresh], SOURCE).new_ids) if fresh else set()
        self.new_count += len(new)
        # An id that is taken here belongs to another event: that one is not the space's.
        came = [(clean, space_id) for clean, space_id in fresh if _id_of(clean) in new]
        self._ledger.add_pairs(THEIRS, [(_id_of(clean), space_id) for clean, space_id in came])
        progress, now = self.progress, self.app.clock.now_ms()
        for clean, _ in came:
            progress.came[clean.project] = [progress.came.get(clean.project, [0, 0])[0] + 1, now]
            by = clean.metadata.get(SHARED_BY, "")
            if by and (by in progress.people or len(progress.people) < _PEOPLE):
                progress.people[by] = progress.people.get(by, 0) + 1
        for kind in (OURS, THEIRS):
            id_pairs = [
                (stored_event.event_id, _id_of(draft))
                for stored_event, draft in known_pairs
                if (SHARED_BY in stored_event.metadata) == (kind == THEIRS)
            ]
            self._ledger.add_pairs(kind, id_pairs)
        for stored_event, draft in known_pairs:
            cuts = find_cuts(stored_event, draft)
            if cuts is None or cuts:
                add_event(removal, stored_event, cuts)

    def _mark_origin(self, draft: EventDraft) -> EventDraft:
        """Return an event that names its publisher, else the space: without a mark it would pass for one of this machine."""
        is_marked = bool(draft.metadata.get(SHARED_BY))
        return draft if is_marked else replace(draft, metadata={**draft.metadata, SHARED_BY: self.space})


def _id_of(draft: EventDraft) -> EventId:
    return draft.original.event_id if draft.original else EventId("")
