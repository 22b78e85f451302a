"""What somebody else forgot, taken out of this memory: whole events, and parts of texts that came back with marks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_mcp.app import App
from memory_mcp.archive.others import FORGOTTEN, forgotten_in
from memory_mcp.forgetting.act import Forgetting
from memory_mcp.ingest.tombstones import Cut, Wanted
from memory_mcp.model.event import Event, EventDraft


@dataclass(slots=True)
class Removal:
    """What is to be taken out."""

    gone: list[Event] = field(default_factory=list)
    cuts: list[Cut] = field(default_factory=list)

    @property
    def events(self) -> set[str]:
        """Ids of the events that are concerned."""
        return {event.event_id for event in (*self.gone, *(cut.event for cut in self.cuts))}

    def carry_out(self, app: App, author: str) -> int:
        """Forget it, for good; how many events that concerned."""
        if self.events:
            wanted = Wanted(events=self.gone, cuts=self.cuts)
            Forgetting(app).carry_out(wanted, app.gate.name(author), "shared events")
        return len(self.events)


def cuts_of(own: Event, told: EventDraft) -> list[Cut] | None:
    """Return what of a stored event is forgotten in another copy of it; None where its place in a text cannot be told."""
    pairs = [(own.text, told.text)]
    pairs += [(own.metadata[key], value) for key, value in told.metadata.items() if key in own.metadata]
    found = []
    for here, there in pairs:
        if FORGOTTEN not in there or here == there:
            continue
        spans = forgotten_in(there, here)
        if spans is None:
            return None
        if spans:
            found.append(Cut(own, here, spans))
    return found


def add(removal: Removal, own: Event, cuts: Sequence[Cut] | None) -> None:
    """Take in what `cuts_of` said of an event: where nobody can tell what of it goes, all of it does."""
    if cuts is None:
        removal.gone.append(own)
    else:
        removal.cuts += cuts
