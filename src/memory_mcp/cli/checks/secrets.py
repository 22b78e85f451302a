"""Secrets in what is stored, by the rules of today: how many, by rule and by event, and never a character of one."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator

from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Opened
from memory_mcp.ingest.redact import redactor

#: More acts than anybody does to a memory.
_ALL = 1_000_000
#: Ids named per rule; after forgetting these, the next run names others.
_NAMED = 5


class _Found:
    """Counts and ids of what was found, by rule."""

    def __init__(self) -> None:
        """Begin with no counts and the rules of today."""
        self._redactor = redactor()
        self.times: Counter[str] = Counter()
        self.ids: dict[str, list[str]] = {}

    def look(self, where: str, texts: list[str]) -> None:
        """Count the secrets in the texts of one event or node by rule, and note its name `where` under each rule found."""
        counts: Counter[str] = Counter()
        for text in texts:
            self._redactor.redact(text, counts)
        self.times.update(counts)
        for rule in counts:
            self.ids.setdefault(rule, []).append(where)


def checks(opened: Opened) -> Iterator[Check]:
    """Yield a warning for each rule that finds something in events, in texts about them, or in the audit log.

    Else one OK line. Reads every stored text; ids are named, never a secret. Citations and pins hold no text of
    their own: they name places in events.
    """
    events, nodes, acts = _Found(), _Found(), _Found()
    for batch in opened.storage.events.iter_all():
        for stored in batch:
            event = stored.event
            names = [event.session_id, event.source_id, event.agent, event.project, event.thread, event.speaker]
            metadata = [f'{key}: "{value}"' for key, value in event.metadata.items()]
            events.look(event.event_id, [event.text, *names, *metadata])
    for node in opened.storage.toc.iter_nodes():
        nodes.look(node.node_id, [node.title, node.summary, *(bullet.text for bullet in node.bullets), *node.keywords])
    for topic in opened.storage.topics.list_labels():
        nodes.look(topic.topic_id, [topic.label])
    for act in opened.storage.audit.list_entries(_ALL):
        at = dt.datetime.fromtimestamp(act.at_ms / 1000, dt.UTC)
        acts.look(f"{act.action} of {at:%Y-%m-%d %H:%M} UTC", [act.author, act.subject, act.reason])
    for rule, times in events.times.most_common():
        ids = events.ids[rule]
        text = f"{rule}: {render.plural(times, 'secret')} in {render.plural(len(ids), 'event')}: {_some(ids)}"
        yield Check(WARN, "secrets", text, f"renew the secret, then: memory-mcp forget --event {ids[0]}")
    for rule, times in nodes.times.most_common():
        text = f"{rule}: {render.plural(times, 'secret')} in what is told about events: {_some(nodes.ids[rule])}"
        yield Check(WARN, "secrets", text, "it goes with the events it was told from: memory-mcp forget --event ID")
    for rule, times in acts.times.most_common():
        text = f"{rule}: {render.plural(times, 'secret')} in the audit log: {_some(acts.ids[rule])}"
        yield Check(WARN, "secrets", text, "renew the secret: the log is kept for good")
    if not events.times and not nodes.times and not acts.times:
        yield Check(OK, "secrets", "no stored text holds one that a rule knows")


def _some(ids: list[str]) -> str:
    """Return the first five ids, separated by commas, and how many more there are."""
    more = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")
