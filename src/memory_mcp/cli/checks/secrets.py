"""Secrets in what is stored and in payloads of hooks, by the current rules; never a character of one is shown."""

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.base import foreign_files, paths
from memory_mcp.capture.payloads import PayloadCleaner
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import OK, WARN, Check, Look, Opened
from memory_mcp.redact.redact import redactor

#: More acts than anybody does to a memory.
_ALL = 1_000_000
#: Ids named per rule; after forgetting these, the next run names others.
_NAMED = 5


_FOLDERS = ("new", "tmp", "bad")


class _Found:
    """Counts and ids by rule."""

    def __init__(self) -> None:
        self._redactor = redactor()
        self.times: Counter[str] = Counter()
        self.ids: dict[str, list[str]] = {}

    def look(self, where: str, texts: list[str]) -> None:
        """Count the secrets in the texts of one event or node."""
        counts: Counter[str] = Counter()
        for text in texts:
            self._redactor.redact(text, counts)
        self.times.update(counts)
        for rule in counts:
            self.ids.setdefault(rule, []).append(where)


def check_secrets(opened: Opened) -> Iterator[Check]:
    """Yield a warning for each rule that finds something stored.

    Reads every stored text; ids are named, never a secret.
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
    more = len(ids) - _NAMED
    return ", ".join(ids[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def check_left_secrets(look: Look) -> Iterator[Check]:
    """Yield a warning for each spool folder with secrets in it.

    Rules and numbers are named, never a secret; the files stay as they are. There are none, but in payloads that an older release
    left, and in those kept as they came because the rules could not be used.
    """
    spool = Path(paths.spool_dir(str(look.directory)))
    payloads = PayloadCleaner(str(spool.parent))
    has_secrets = False
    for folder in _FOLDERS:
        rules: Counter[str] = Counter()
        files = 0
        for raw in _contents(spool / folder):
            previous_total = rules.total()
            redactor().redact(raw.decode("utf-8", "replace"), rules)
            files += rules.total() > previous_total or payloads.clean_payload(payload := raw.partition(b"\n")[2]) != payload
        if files:
            has_secrets = True
            kinds = ", ".join(f"{rule} {times}" for rule, times in rules.most_common()) or "escaped or private"
            text = f"{render.plural(files, 'file')} in {spool / folder} with what is not to be stored: {kinds}"
            step = "" if folder == "bad" else "memory-mcp daemon start stores payloads without it; then renew the secrets"
            yield Check(WARN, "secrets left by hooks", text, step or "renew the secrets")
    if not has_secrets:
        yield Check(OK, "secrets left by hooks", "no file that waits holds one that a rule knows")


def _contents(folder: Path) -> Iterator[bytes]:
    try:
        files = [] if folder.is_symlink() else sorted(folder.iterdir())
    except OSError:
        return
    for file in files:
        try:
            yield foreign_files.read_file(file)
        except OSError:
            # Stored meanwhile.
            continue
