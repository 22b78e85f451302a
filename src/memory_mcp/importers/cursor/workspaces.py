"""Where Cursor's conversations took place, and which of them are subagents of which."""

import re
from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path

from memory_mcp.base import foreign_files
from memory_mcp.base.dataclass import dataclass
from memory_mcp.importers.blocks import as_mapping, as_mappings, as_text, words_within
from memory_mcp.importers.client_importer import editor_data
from memory_mcp.importers.cursor.store import Store, open_store
from memory_mcp.importers.cursor.store import as_text as stored_text
from memory_mcp.importers.parts import decode_json, path_of

DATABASE = "state.vscdb"
_SEPARATORS = re.compile(r"[^A-Za-z0-9]+")


def user_folder() -> Path:
    """Return the editor's folder for the user's data."""
    return editor_data() / "Cursor" / "User"


def slug_of(folder: str) -> str:
    """Return the client's folder name for a path.

    A dash for each run of signs but ASCII letters and digits, none at its ends.
    """
    return _SEPARATORS.sub("-", folder).strip("-")


@dataclass(frozen=True, slots=True)
class ConversationInfo:
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
    _lists: dict[str, ConversationInfo] | None = field(default=None, init=False)
    _folder_list: list[tuple[Path, str]] | None = field(default=None, init=False)

    def find_info(self, name: str, data: Mapping[str, object], store: Store) -> ConversationInfo:
        """Return where a conversation took place.

        Field by field by its own record, else by the lists, which are read once, from the first `store` given and the
        workspaces' databases.
        """
        if self._lists is None:
            newest = {key: _info_of(as_mapping(decode_json(stored_text(value)))) for key, value in store.list_conversations()}
            # Newer lists hold more and override older ones.
            self._lists = {**self._from_workspaces(), **_from_list(store, "composer.composerHeaders"), **newest}
        own_info, listed = _info_of(data), self._lists.get(name, ConversationInfo())
        cwd = own_info.cwd or listed.cwd
        return ConversationInfo(
            cwd,
            own_info.branch or listed.branch,
            own_info.parent or listed.parent,
            own_info.title or listed.title,
            own_info.kind or listed.kind,
        )

    def folder_of(self, slug: str) -> str:
        """Return the folder of a transcript's slug; "" if unknown."""
        return next((folder for _, folder in self._list_folders() if slug_of(folder) == slug), "")

    def _from_workspaces(self) -> dict[str, ConversationInfo]:
        infos: dict[str, ConversationInfo] = {}
        for database, folder in self._list_folders():
            try:
                with open_store(database) as store:
                    for name, info in _from_list(store, "composer.composerData").items():
                        infos[name] = replace(info, cwd=info.cwd or folder)
            except OSError:
                continue
        return infos

    def _list_folders(self) -> list[tuple[Path, str]]:
        """Return (database, folder) of each workspace; databases may be missing."""
        if self._folder_list is None:
            files = sorted((self.user / "workspaceStorage").glob("*/workspace.json"))
            self._folder_list = [(t.with_name(DATABASE), folder) for t in files if (folder := folder_in(t))]
        return self._folder_list


def folder_in(file: Path) -> str:
    """Return the folder in a workspace.json; "" for none."""
    try:
        return path_of(as_mapping(decode_json(foreign_files.read_file(file).decode("utf-8", "replace"))).get("folder"))
    except OSError:
        return ""


def _from_list(store: Store, key: str) -> dict[str, ConversationInfo]:
    entries = as_mappings(as_mapping(decode_json(store.editor_value(key))).get("allComposers"))
    return {as_text(entry.get("composerId")): _info_of(entry) for entry in entries if as_text(entry.get("composerId"))}


def _info_of(data: Mapping[str, object]) -> ConversationInfo:
    uri = as_mapping(as_mapping(data.get("workspaceIdentifier")).get("uri"))
    repository = next(iter(as_mappings(data.get("trackedGitRepos"))), {})
    branch = next(iter(as_mappings(repository.get("branches"))), {})
    info = as_mapping(data.get("subagentInfo"))
    return ConversationInfo(
        cwd=as_text(uri.get("fsPath")) or path_of(uri.get("external")) or as_text(uri.get("path")),
        branch=as_text(data.get("createdOnBranch")) or as_text(branch.get("branchName")),
        parent=as_text(info.get("parentComposerId")),
        title=words_within(data.get("name")).strip(),
        kind=as_text(info.get("subagentTypeName")),
    )
