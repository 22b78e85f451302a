"""Tells what starts this memory, or runs its hooks, besides the files that an install would write.

A client that finds the same server or hook in two of its locations runs both.
"""

from dataclasses import replace
from pathlib import Path

from memory_mcp.base.errors import InstallRefused
from memory_mcp.install.base import AddItem, Client, Edit, Level, Order, Place, SetKey
from memory_mcp.install.command import NAME, hook_options
from memory_mcp.install.edit import files, splice
from memory_mcp.install.edit.jsonc import Broken


def covering(client: Client, order: Order, edit: Edit) -> str:
    """Return what has an edit's effect already, "" for nothing.

    A plugin, for a server of the usual name or a hook; for a project's hook also the user's.
    """
    is_server = isinstance(edit, SetKey) and edit.is_server and edit.keys[-1] == NAME
    for plugin in client.plugins(order.place):
        if (is_server and plugin.servers) or (isinstance(edit, AddItem) and edit.keys[-1] in plugin.events):
            return f"the plugin {plugin.name} ({plugin.path})"
    if not isinstance(edit, AddItem) or order.level is Level.USER:
        return ""
    for other in client.hooks(replace(order, level=Level.USER)):
        if isinstance(other, AddItem) and other.keys == edit.keys and other.path != edit.path:
            try:
                items = splice.value_at(files.read(Path(other.path)).text, other.keys)
            except (Broken, InstallRefused):
                continue
            if hook_options(items, client.hook_client) & hook_options(edit.item, client.hook_client):
                return str(other.path)
    return ""


def plugin_notes(client: Client, place: Place) -> list[str]:
    """Return a line per plugin that brings this memory."""
    return [
        f"the plugin {plugin.name} ({plugin.path}) brings this memory; to take it out: {client.plugin_removal} {plugin.name}"
        for plugin in client.plugins(place)
    ]
