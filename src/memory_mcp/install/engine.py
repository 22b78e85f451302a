"""Makes edits in the files of clients and records them: all edits of a client are planned, then all are written.

Invariants
1. Nothing is written for a client of which one edit cannot be made.
2. What is to be done is remembered, and the file as it was is copied, before a file is written.
3. An entry that is not ours is never overwritten.
"""

import difflib
import os
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import AddItem, Client, Edit, Format, Order, PlaceFile, SetKey
from memory_mcp.install.command import CONFIG, DATA_DIR, NAME, merge_entry, read_paths, runs_our_hook, starts_us
from memory_mcp.install.edit import files, splice, toml
from memory_mcp.install.edit.files import Changed, Content
from memory_mcp.install.edit.jsonc import Broken
from memory_mcp.install.plugins import covering
from memory_mcp.install.state import Done, Record, State, digest

#: How often a change is planned again when another program writes the same file.
_TRIES = 3


@dataclass(slots=True)
class Change:
    """One file, as it is and as it is to be."""

    content: Content
    after: bytes | None
    #: What its record will be, with all edits of all clients.
    record: Record
    notes: list[str] = field(default_factory=list)
    #: Whether what is there is an earlier work of ours.
    is_update: bool = False
    #: Whether something of ours is taken out.
    undoing: bool = False

    @property
    def path(self) -> Path:
        """The file's path, which may be a link."""
        return self.content.path

    @property
    def action(self) -> str:
        """What happens to the file, in one word.

        unchanged; removed; restored (uninstalled, to its first bytes) or cleaned (uninstalled, other changes
        kept); created; updated (our earlier edits are there) or changed.
        """
        if self.after == self.content.data:
            return "unchanged"
        if self.after is None:
            return "removed"
        if self.undoing:
            return "restored" if digest(self.after) == self.record.before else "cleaned"
        if self.content.data is None:
            return "created"
        return "updated" if self.is_update else "changed"

    def diff(self) -> list[str]:
        """Return a diff with one line of context: more may hold secrets."""
        was, now = ((data or b"").decode("utf-8", "replace").splitlines() for data in (self.content.data, self.after))
        names = [str(self.path) if data is not None else os.devnull for data in (self.content.data, self.after)]
        return list(difflib.unified_diff(was, now, names[0], names[1], lineterm="", n=1))


def plan(client: Client, order: Order, state: State) -> list[Change]:
    """Return what installing would change, one change per file.

    An order that names no data directory or settings file takes those of our present entry. Raises InstallRefused if an edit
    cannot be made; its hint says what to do by hand.
    """
    by_file: dict[Path, list[Edit]] = {}
    order = _keep_paths(client, order)
    for edit in client.list_edits(order):
        if covering(client, order, edit):
            continue
        by_file.setdefault(Path(edit.path), []).append(edit)
    return [_plan_change(client, order, path, edits, state) for path, edits in by_file.items()]


def _keep_paths(client: Client, order: Order) -> Order:
    """Installing again keeps the memory that a client uses."""
    path = Path(client.choose_config(order.environment, order.level))
    try:
        text, keys = files.read_content(path).text, (*client.keys, order.name)
        entry = (splice if client.format is Format.JSON else toml).value_at(text, keys)
    except (Broken, InstallRefused):
        return order
    old_paths = read_paths(entry) if starts_us(entry) and order.server.command else {}
    data_dir, config = order.data_dir or old_paths.get(DATA_DIR), order.config or old_paths.get(CONFIG)
    env = {name: str(path) for name, path in old_paths.items()} | dict(order.server.env)
    return replace(order, data_dir=data_dir, config=config, server=replace(order.server, env=env))


def install(client: Client, order: Order, state: State) -> list[Change]:
    """Plan and write a client's edits under the state's lock.

    Raises InstallRefused if one edit cannot be made, before anything is written, or if a write fails.
    """
    return carry_out(client, state, partial(plan, client, order, state), _write_change)


def carry_out(
    client: Client, state: State, plan: Callable[[], list[Change]], write: Callable[[Change, State], None]
) -> list[Change]:
    """Plan changes and write them; return the last plan.

    Under the state's lock. If another program wrote a file meanwhile, all is planned again, three times at most. Raises
    InstallRefused, and filelock.Timeout after 60 seconds.
    """
    with state.hold_lock():
        for _ in range(_TRIES):
            changes = plan()
            try:
                for change in changes:
                    write(change, state)
            except Changed:
                continue
            return changes
    raise InstallRefused(f"{client.title} keeps writing its configuration", "End it and try again.")


def _plan_change(client: Client, order: Order, path: Path, edits: Iterable[Edit], state: State) -> Change:
    content = files.read_content(path)
    old_record, now = state.records.get(str(path)), digest(content.data)
    if old_record is None or now == old_record.before != old_record.after:
        # As it was at first.
        record = Record(now)
    else:
        # Its first content is not restored over what others wrote since.
        record = replace(old_record, exact=old_record.exact and now == old_record.after, edits=list(old_record.edits))
    change = Change(content, content.data, record, is_update=old_record is not None)
    for edit in edits:
        try:
            change.after = _apply_edit(client, order, edit, change)
        except Broken as error:
            text_before = content.text[: error.at]
            line, column = text_before.count("\n") + 1, len(text_before) - (text_before.rfind("\n") + 1) + 1
            position = f"line {line}, column {column}: " if error.at else ""
            raise InstallRefused(f"{path} cannot be read as its client would: {position}{error}", by_hand(edit)) from None
        except InstallRefused as error:
            raise InstallRefused(error.message, error.hint or by_hand(edit)) from None
    if change.after != content.data:
        try:
            files.writable(path)
        except InstallRefused as error:
            raise InstallRefused(error.message, by_hand(*edits)) from None
        if content.data is None:
            record.folders = [str(folder) for folder in files.missing_folders(path)]
    record.after = digest(change.after)
    return change


def _apply_edit(client: Client, order: Order, edit: Edit, change: Change) -> bytes | None:
    if isinstance(edit, PlaceFile):
        done = Done(client.name, order.level, "file")
        old_edit = _find_edit(change.record, done)
        ours = old_edit is not None and digest(change.content.data) == change.record.after
        data = edit.text.encode("utf-8")
        if change.content.data not in (None, data) and not ours:
            raise InstallRefused(f"{change.path} is there already and not as memory-mcp wrote it", "Move it away and try again.")
        _note_edit(change.record, done)
        return data
    text = Content(change.path, change.after).text
    if isinstance(edit, AddItem):
        text = _add_item(client, order, edit, text, change)
    else:
        text = _set_key(client, order, edit, text, change)
    return change.content.encode_text(text) if text or change.after is not None else None


def _set_key(client: Client, order: Order, edit: SetKey, text: str, change: Change) -> str:
    is_json = edit.format is Format.JSON
    value_at = splice.value_at if is_json else toml.value_at
    existing = value_at(text, edit.keys)
    done = Done(client.name, order.level, "key", edit.format, list(edit.keys), edit.value)
    old_edit = _find_edit(change.record, done)
    # With another than the default name its user wants another server.
    if existing is None and edit.is_server and edit.keys[-1] == NAME:
        servers = value_at(text, edit.keys[:-1])
        if other := next((n for n, entry in servers.items() if starts_us(entry)), "") if isinstance(servers, dict) else "":
            change.notes.append(f"it is there already under the name {other}; --name NAME adds another")
            return text
    ours = edit.is_server and starts_us(existing)
    if existing is not None and not ours and existing not in (edit.value, old_edit.value if old_edit else None):
        what = f"a server {edit.keys[-1]}" if edit.is_server else ".".join(edit.keys)
        hint = "Use another name: --name NAME." if edit.is_server else ""
        raise InstallRefused(f"{change.path} has {what} that is not ours", hint)
    if existing is not None and old_edit is None:
        done.had = splice.raw_at(text, edit.keys) if is_json else existing
    if ours:
        done.value = merge_entry(existing, edit.value)
    if existing == done.value:
        _note_edit(change.record, done)
        return text
    if is_json:
        text, done.made = splice.put_value(text, edit.keys, done.value)
    else:
        text = toml.put_value(text, edit.keys, done.value)
    _note_edit(change.record, done)
    return text


def _add_item(client: Client, order: Order, edit: AddItem, text: str, change: Change) -> str:
    """Our earlier item, known by the record, is replaced."""
    existing = splice.value_at(text, edit.keys)
    done = Done(client.name, order.level, "item", Format.JSON, list(edit.keys), edit.item)
    old_edit = _find_edit(change.record, done)
    items = existing if isinstance(existing, list) else []
    if edit.item in items and old_edit is not None:
        return text
    if old_edit is not None and old_edit.value in items:
        _note_edit(change.record, done)
        return splice.replace_item(text, edit.keys, old_edit.value, edit.item)
    if runs_our_hook(items, edit.client):
        change.notes.append(f"{'.'.join(edit.keys)} runs memory-mcp already")
        return text
    text, done.made = splice.add(text, edit.keys, edit.item)
    _note_edit(change.record, done)
    return text


def _find_edit(record: Record, done: Done) -> Done | None:
    return next((edit for edit in record.edits if edit.same_place(done)), None)


def _note_edit(record: Record, done: Done) -> None:
    """Keep what the earlier edit replaced (`had`) and made."""
    old_edits = [edit for edit in record.edits if edit.same_place(done)]
    if old_edits:
        done = replace(done, had=old_edits[0].had, made=max(done.made, *(edit.made for edit in old_edits)))
    # Two clients may read the same file: their entry is one, and goes with the last of them.
    now = [done if edit.client == done.client else replace(edit, value=done.value) for edit in old_edits]
    if done not in now:
        now.append(done)
    # What is made again keeps its environment: twice is to leave the same record as once.
    first = min((record.edits.index(edit) for edit in old_edits), default=len(record.edits))
    other_edits = [edit for edit in record.edits if edit not in old_edits]
    record.edits = [*other_edits[:first], *now, *other_edits[first:]]


def _write_change(change: Change, state: State) -> None:
    path = change.path
    if change.record.edits or str(path) in state.records:
        state.records[str(path)] = change.record
    if change.after == change.content.data:
        state.save()
        return
    try:
        first = state.read_backup(path, change.record) is None and change.record.exact
        if change.content.data is not None and first and digest(change.content.data) == change.record.before:
            state.write_backup(path, change.content.data)
        state.save()
        if change.after is not None:
            files.replace(path, change.content.data, change.after)
    except OSError as error:
        raise InstallRefused(f"{path} cannot be written: {error.strerror or error}") from error


def by_hand(*edits: Edit) -> str:
    """Return what to put in by hand, "" for whole files."""
    import json

    steps = []
    for edit in edits:
        if isinstance(edit, SetKey) and edit.format is Format.TOML:
            steps.append(f"append to {edit.path}: {toml.block(edit.keys, edit.value)}" if isinstance(edit.value, dict) else "")
        elif isinstance(edit, SetKey):
            steps.append(f"add to {'.'.join(edit.keys[:-1])} in {edit.path}: {json.dumps({edit.keys[-1]: edit.value})[1:-1]}")
        elif isinstance(edit, AddItem):
            steps.append(f"add to {'.'.join(edit.keys)} in {edit.path}: {json.dumps(edit.item)}")
    return f"Mend the file and try again, or {steps[0]}" if steps else ""
