"""Rows and outbox entries of a build; shared by the engines. Pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from memory_mcp.model.calendar import TocLevel, parents_of
from memory_mcp.model.change import ChangeKind
from memory_mcp.model.ids import grip_key, node_key
from memory_mcp.model.toc import TocNode

#: Versions of a node that are kept at least, the current one included.
VERSIONS_KEPT = 3
#: Versions of a node between two removals of old ones: each takes three statements.
VERSIONS_BETWEEN = 4


def make_changes(nodes: Iterable[TocNode]) -> list[tuple[ChangeKind, str]]:
    """Return an outbox entry (kind, node id) for each node, in order."""
    return [
        (ChangeKind.SEGMENT_PUBLISHED if n.level is TocLevel.SEGMENT else ChangeKind.NODE_PUBLISHED, n.node_id) for n in nodes
    ]


def select_outdated(nodes: Sequence[TocNode]) -> list[TocNode]:
    """Return the nodes whose old versions are to be removed now.

    That is every fourth version beyond the three that are kept.
    """
    return [n for n in nodes if n.version > VERSIONS_KEPT and (n.version - VERSIONS_KEPT) % VERSIONS_BETWEEN == 0]


def make_bullet_columns(nodes: Sequence[TocNode]) -> tuple[list[list[Any]], list[list[Any]]]:
    """Return columns for inserts into bullet and bullet_grip.

    In schema order; [] if there are no rows. Those of bullet_grip are: node key, version, index of the bullet, index of the grip
    in it, grip key.
    """
    rows: list[tuple[Any, ...]] = []
    links: list[tuple[int, ...]] = []
    for node in nodes:
        key = node_key(node.node_id)
        for pos, b in enumerate(node.bullets):
            rows.append((key, node.version, pos, b.text, b.kind.value, b.project, b.agent))
            links += [(key, node.version, pos, at, grip_key(g)[0]) for at, g in enumerate(b.grip_ids)]
    return [list(c) for c in zip(*rows, strict=True)], [list(c) for c in zip(*links, strict=True)]


def make_parent_columns(nodes: Sequence[TocNode]) -> list[list[Any]]:
    """Return columns for an insert into node_parent.

    Which parents a node has follows from its id, so a later version of it changes nothing.
    """
    rows = [(node_key(n.node_id), node_key(parent), n.node_id, n.start_ms) for n in nodes for parent in parents_of(n.node_id)]
    return [list(c) for c in zip(*rows, strict=True)]
