"""Uninstalls: restores a file's first bytes where only this program changed it, else removes our entries alone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import AddItem, Client, Environment, Format, Level, Order
from memory_mcp.install.command import Server, is_our_hook, runs_our_hook, starts_us
from memory_mcp.install.edit import files, splice, toml
from memory_mcp.install.edit.files import Content
from memory_mcp.install.edit.jsonc import Broken
from memory_mcp.install.engine import Change, carry_out
from memory_mcp.install.state import Done, Record, State, digest


def plan(client: Client, environment: Environment, levels: Sequence[Level], state: State) -> list[Change]:
    """Return what uninstalling a client at these levels would change.

    First by the records; then, in files without one, entries and hooks that start this program.
    """
    changes = []
    for name, record in state.records.items():
        mine = [edit for edit in record.edits if edit.client == client.name and edit.level in levels]
        if mine:
            changes.append(_plan_removal(Path(name), record, mine, state))
    changed_paths = {change.path for change in changes}
    for level in levels:
        changes += [
            change
            for change in _iter_recognised(client, environment, level)
            if change.path not in changed_paths and change.after != change.content.data
        ]
    return changes


def uninstall(client: Client, environment: Environment, levels: Sequence[Level], state: State) -> list[Change]:
    """Remove everything of ours for a client at these levels."""
    return carry_out(client, state, partial(plan, client, environment, levels, state), _write_change)


def _plan_removal(path: Path, record: Record, mine: list[Done], state: State) -> Change:
    """Restore the first bytes, or take out our entries if others changed the file."""
    content = files.read_content(path)
    new_record = replace(record, edits=[edit for edit in record.edits if edit not in mine])
    change = Change(content, content.data, new_record, undoing=True)
    if content.data is None or digest(content.data) == record.before:
        return change
    untouched = digest(content.data) == record.after
    new_record.exact = record.exact and untouched
    first_bytes = state.read_backup(path, record)
    if new_record.exact and not new_record.edits and (first_bytes is not None or not record.before):
        change.after = first_bytes
    else:
        change.after = _remove_edits(content, record, mine, new_record.edits)
        if not new_record.edits and untouched is False:
            change.notes.append("it was changed since; only what is memory-mcp's was taken out")
    new_record.after = digest(change.after)
    if change.after != content.data:
        files.writable(path)
    return change


def _remove_edits(content: Content, record: Record, mine: Iterable[Done], needed_edits: Sequence[Done]) -> bytes | None:
    """Return None if nothing is left of a file that install made."""
    gone = [edit for edit in mine if not any(edit.same_place(other) for other in needed_edits)]
    if any(edit.kind == "file" for edit in gone):
        # Its user changed it: it stays.
        return content.data
    text = content.text
    try:
        for edit in gone:
            text = _remove_edit(text, edit)
        for edit in gone:
            # Without the containers that were made for it and are now empty; TOML is left as it is.
            inner = len(edit.keys) if edit.kind == "item" else len(edit.keys) - 1
            for depth in range(inner, inner - edit.made, -1) if edit.format != Format.TOML else ():
                text = splice.prune(text, edit.keys[:depth])
    except Broken as error:
        what = ", ".join(".".join(edit.keys) for edit in gone)
        raise InstallRefused(f"{content.path} cannot be read as its client would: {error}", f"Take out {what} by hand.") from None
    is_toml = any(edit.format == Format.TOML for edit in gone)
    if not record.before and not needed_edits and gone and (not text.strip() if is_toml else splice.holds_nothing(text)):
        return None
    return content.encode_text(text)


def _remove_edit(text: str, edit: Done) -> str:
    if edit.format == Format.TOML:
        entry = toml.value_at(text, edit.keys)
        if entry is None or not _still_ours(entry, edit):
            return text
        return toml.drop(text, edit.keys, edit.value) if edit.had is None else toml.put_value(text, edit.keys, edit.had)
    if edit.kind == "item":
        return splice.drop_items(text, edit.keys, _match_item(edit.value))
    entry = splice.value_at(text, edit.keys)
    if entry is None or not _still_ours(entry, edit):
        return text
    return splice.drop(text, edit.keys) if edit.had is None else splice.put_raw(text, edit.keys, edit.had)


def _still_ours(entry: Any, edit: Done) -> bool:
    return entry == edit.value or starts_us(entry)


def _match_item(item: Any) -> Callable[[Any], bool]:
    inner = item.get("hooks") if isinstance(item, dict) else None
    commands = [hook.get("command") for hook in inner] if isinstance(inner, list) else [item.get("command")]

    def is_ours(entry: Any) -> bool:
        return entry == item or (isinstance(entry, dict) and entry.get("command") in commands and "hooks" not in entry)

    return is_ours


def _iter_recognised(client: Client, environment: Environment, level: Level) -> Iterable[Change]:
    for file in client.list_configs(environment, level):
        lists = client.server_keys(environment) if level is Level.USER else [client.keys]
        yield _clean_file(Path(file), partial(_remove_servers, client.format, lists))
    edits = [edit for edit in client.list_hook_edits(Order(environment, Server(), level)) if isinstance(edit, AddItem)]
    for path in dict.fromkeys(edit.path for edit in edits):
        lists = [edit.keys for edit in edits if edit.path == path]
        yield _clean_file(Path(path), partial(_remove_hooks, client, lists))


def _clean_file(path: Path, clean: Callable[[str], str]) -> Change:
    change = Change(Content(path, None), None, Record(""), undoing=True)
    try:
        change.content = content = files.read_content(path)
        change.after = content.data
        if content.data is not None:
            change.after = content.encode_text(clean(content.text))
    except (Broken, InstallRefused):
        # A file that cannot be read is of no use to the client either.
        return change
    if change.after != content.data:
        files.writable(path)
    return change


def _remove_servers(form: Format, lists: Iterable[tuple[str, ...]], text: str) -> str:
    for keys in lists:
        servers = (splice if form is Format.JSON else toml).value_at(text, keys)
        for name in [name for name, entry in servers.items() if starts_us(entry)] if isinstance(servers, dict) else []:
            path = (*keys, name)
            text = splice.drop(text, path) if form is Format.JSON else toml.drop(text, path, servers[name])
    return text


def _remove_hooks(client: Client, lists: Iterable[tuple[str, ...]], text: str) -> str:
    for keys in lists:
        hooks = splice.value_at(text, keys)
        if runs_our_hook(hooks, client.hook_client):
            text = splice.prune(splice.drop_items(text, keys, lambda item: is_our_hook(item, client.hook_client)), keys)
    return text


def _write_change(change: Change, state: State) -> None:
    """The copy is deleted once the first bytes are back."""
    path, content = change.path, change.content
    try:
        if change.after != content.data and content.data is not None:
            if str(path) not in state.records:
                state.write_backup(path, content.data)
            if change.after is None:
                files.remove(path, content.data)
            else:
                files.replace(path, content.data, change.after)
        record = change.record
        if not record.edits and change.after is None:
            files.remove_folders([Path(folder) for folder in record.folders])
        exact = not record.edits and digest(change.after) == record.before
        if str(path) in state.records:
            state.records[str(path)] = record
            state.save()
        if exact:
            state.backup(path).unlink(missing_ok=True)
    except OSError as error:
        raise InstallRefused(f"{path} cannot be written: {error.strerror or error}") from error
