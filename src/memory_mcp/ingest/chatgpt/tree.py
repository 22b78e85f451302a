"""Walk the tree of a conversation: each message after its parent, with the branch it belongs to.

Invariants
1. A message's time depends on those it follows alone, never on which branch is shown: another export moves nothing.
2. Broken trees give what they hold: an unknown parent begins anew, a circle ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from memory_mcp.ingest.claude_code.blocks import as_list, as_mapping, as_text


@dataclass(frozen=True, slots=True)
class Node:
    """A message and its place."""

    id: str
    #: The message before it; "" at the beginning.
    parent: str
    #: What its branch is called; "" on the one that is shown.
    branch: str
    message: Mapping[str, object]


def nodes_of(mapping: Mapping[str, object], current: str) -> Iterator[Node]:
    """Yield a conversation's nodes depth first, each after its parent, children in the order that the parent names.

    The branch that ends at `current`, else at the last node whose path leads to a root, is the one shown, named ""; any other is
    "branch:<id of its first message>", and a first child outside the shown branch stays in its parent's. Nodes of a
    circle come last, each as a branch of its own.
    """
    if current not in mapping:
        ends = (k for k in reversed(list(mapping)) if any(_parent(mapping, above) not in mapping for above in _path(mapping, k)))
        current = next(ends, "")
    shown_ids, children = _path(mapping, current), _children(mapping)
    visited: set[str] = set()
    roots = [key for key in mapping if _parent(mapping, key) not in mapping]
    waiting = [(key, "" if key in shown_ids else f"branch:{key}") for key in reversed(roots)]
    # A circle has no root: its nodes come last, each on its own.
    waiting = [(key, f"branch:{key}") for key in reversed(list(mapping))] + waiting
    while waiting:
        key, branch = waiting.pop()
        if key in visited:
            continue
        visited.add(key)
        yield Node(key, _parent(mapping, key), branch, as_mapping(as_mapping(mapping[key]).get("message")))
        for number, child in reversed(list(enumerate(children.get(key, ())))):
            goes_on = child in shown_ids or (branch and not number)
            waiting.append((child, branch if goes_on else f"branch:{child}"))


def _path(mapping: Mapping[str, object], leaf: str) -> set[str]:
    """Return the ids from a leaf up to its root, both included; it ends where a parent is unknown or comes again."""
    path: set[str] = set()
    while leaf in mapping and leaf not in path:
        path.add(leaf)
        leaf = _parent(mapping, leaf)
    return path


def _parent(mapping: Mapping[str, object], key: str) -> str:
    """Return the id of a node's parent; "" where it names none."""
    return as_text(as_mapping(mapping.get(key)).get("parent"))


def _children(mapping: Mapping[str, object]) -> dict[str, list[str]]:
    """Return the ids of children by the id of their parent ("" or an unknown id for roots).

    They are in the order in which the parents name them; those not named come last.
    """
    children: dict[str, list[str]] = {}
    for key in mapping:
        children.setdefault(_parent(mapping, key), []).append(key)
    for key, siblings in children.items():
        listed_children = as_mapping(mapping.get(key)).get("children")
        order = {c: n for n, c in enumerate(as_list(listed_children)) if isinstance(c, str)}
        siblings.sort(key=lambda child: order.get(child, len(order)))
    return children
