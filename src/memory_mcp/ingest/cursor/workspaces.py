"""Where Cursor's conversations took place, and which of them are subagents of which."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.ingest.claude_code.blocks import as_mapping, as_mappings, as_text, words_within
from memory_mcp.ingest.cursor.store import Store, open_store
from memory_mcp.ingest.cursor.store import as_text as stored_text
from memory_mcp.ingest.files import editor_data
from memory_mcp.ingest.parts import parsed, path_of

DATABASE = "state.vscdb"
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def user_folder() -> Path:
    """Return the editor's folder for the user's data on this platform (.../Cursor/User), existing or not."""
    return editor_data() / "Cursor" / "User"


def slug_of(folder: str) -> str:
    """Return the client's folder name for a path: a dash for each run of signs but ASCII letters and digits, none at its ends."""
    return _SEPARATORS.sub("-", folder).strip("-")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation took place, and its other details."""

    cwd: str = ""
    branch: str = ""
    #: The conversation whose subagent it is.
    parent: str = ""
    title: str = ""
    kind: str = ""


@dataclass(slots=True)
class Workspaces:
    """The editor's lists, read once per import."""

    #: The editor's folder.
    user: Path
    _lists: dict[str, Place] | None = field(default=None, init=False)
    _found: list[tuple[Path, str]] | None = field(default=None, init=False)

    def place(self, name: str, data: Mapping[str, object], store: Store) -> Place:
        """Return where a conversation took place: field by field by its own record, else by the lists.

        The lists are read once, from the first `store` given and the workspaces' databases.
        """
        if self._lists is None:
            newest = {own: _place(as_mapping(parsed(stored_text(value)))) for own, value in store.listed()}
            # Newer lists hold more and override older ones.
            self._lists = {**self._from_workspaces(), **_from_list(store, "composer.composerHeaders"), **newest}
        own, listed = _place(data), self._lists.get(name, Place())
        cwd = own.cwd or listed.cwd
        return Place(
            cwd, own.branch or listed.branch, own.parent or listed.parent, own.title or listed.title, own.kind or listed.kind
        )

    def folder_of(self, slug: str) -> str:
        """Return the folder that a transcript's place is named after; "" when no workspace that the editor knows is called so."""
        return next((folder for _, folder in self._folders() if slug_of(folder) == slug), "")

    def _from_workspaces(self) -> dict[str, Place]:
        """Return the places of the conversations that older clients list in the database of each workspace, by conversation id.

        Databases that cannot be read are skipped.
        """
        found: dict[str, Place] = {}
        for database, folder in self._folders():
            try:
                with open_store(database) as store:
                    for name, place in _from_list(store, "composer.composerData").items():
                        found[name] = replace(place, cwd=place.cwd or folder)
            except OSError:
                continue
        return found

    def _folders(self) -> list[tuple[Path, str]]:
        """Return (database's path, folder) of each workspace whose workspace.json names a folder, sorted by path; read once.

        Whether the database exists is not checked.
        """
        if self._found is None:
            told = sorted((self.user / "workspaceStorage").glob("*/workspace.json"))
            self._found = [(t.with_name(DATABASE), folder) for t in told if (folder := folder_in(t))]
        return self._found


def folder_in(file: Path) -> str:
    """Return the folder named in a workspace.json; "" if the file is missing or names none."""
    try:
        return path_of(as_mapping(parsed(foreign_files.read_file(file).decode("utf-8", "replace"))).get("folder"))
    except OSError:
        return ""


def _from_list(store: Store, key: str) -> dict[str, Place]:
    """Return the places of the conversations in a list that is stored under a key, by conversation id; {} without it."""
    entries = as_mappings(as_mapping(parsed(store.item(key))).get("allComposers"))
    return {as_text(entry.get("composerId")): _place(entry) for entry in entries if as_text(entry.get("composerId"))}


def _place(told: Mapping[str, object]) -> Place:
    """Return directory, branch, parent, title and kind from a conversation's own data; "" for what it lacks."""
    uri = as_mapping(as_mapping(told.get("workspaceIdentifier")).get("uri"))
    repository = next(iter(as_mappings(told.get("trackedGitRepos"))), {})
    branch = next(iter(as_mappings(repository.get("branches"))), {})
    info = as_mapping(told.get("subagentInfo"))
    return Place(
        cwd=as_text(uri.get("fsPath")) or path_of(uri.get("external")) or as_text(uri.get("path")),
        branch=as_text(told.get("createdOnBranch")) or as_text(branch.get("branchName")),
        parent=as_text(info.get("parentComposerId")),
        title=words_within(told.get("name")).strip(),
        kind=as_text(info.get("subagentTypeName")),
    )
