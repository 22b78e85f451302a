"""Which of a node's children are folded: short, of no durable kind, untouched by anybody, and only where there are many."""

from dataclasses import replace

import pytest

from memory_mcp.model.toc import MemoryKind, TocNode
from memory_mcp.tree.toc.quiet import LEAST, SHORT, SHOWN, choose_folded
from tests.factories import node


def segment(number: int, events: int) -> TocNode:
    return replace(node(f"toc:segment:2026-01-12:{number:012}", at="2026-01-12 09:00"), event_count=events)


def day(short: int, long: int) -> list[TocNode]:
    """Short and long ones by turns, in the order of time."""
    count = max(short, long)
    made = [n for i in range(count) for n in ([segment(i, SHORT)] * (i < short) + [segment(100 + i, SHORT + 1)] * (i < long))]
    return made


def test_the_short_ones_of_many_are_folded_in_their_order() -> None:
    children = day(short=5, long=10)
    folded = choose_folded(children)
    assert folded == [n.node_id for n in children if n.event_count <= SHORT]
    assert len(folded) == 5


@pytest.mark.parametrize(("short", "long"), [(LEAST - 1, 20), (SHOWN - 2, 2), (20, 0)])
def test_nothing_is_folded_where_it_saves_nothing_or_leaves_nothing(short: int, long: int) -> None:
    assert choose_folded(day(short, long)) == []


def test_what_is_durable_pinned_or_refined_is_never_folded() -> None:
    children = day(short=6, long=6)
    short = [n for n in children if n.event_count <= SHORT]
    kinds = {short[0].node_id: {"kind": MemoryKind.DECISION}, short[1].node_id: {"author": "agent"}}
    children = [replace(n, **kinds.get(n.node_id, {})) for n in children]  # type: ignore[arg-type]
    assert choose_folded(children, {short[2].node_id}) == [n.node_id for n in short[3:]]


def test_periods_are_never_folded() -> None:
    days = [replace(node(f"toc:day:2026-01-{d:02}"), event_count=1) for d in range(1, 32)]
    assert choose_folded(days) == []
