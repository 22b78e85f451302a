"""`retrieval status`: what the memory can do at the moment, in the layout of the cognitive architecture."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from memory_mcp.cli import render
from memory_mcp.cli.commands.base import Subparsers, as_json, family, leaf, opened

if TYPE_CHECKING:
    from memory_mcp.layers.base import LayerStatus

#: Order of the layout.
_ORDER = ("bm25", "vector", "hybrid", "topics", "agentic")
_UNITS = {"bm25": "docs", "vector": "vectors", "hybrid": "docs", "topics": "topics"}


def add(parsers: Subparsers) -> None:
    """Arguments of `retrieval`."""
    inner = family(parsers, "retrieval", "show how questions are answered")
    leaf(inner, "status", run, "show tier and layers")


def run(args: argparse.Namespace) -> int:
    """Show the tier and every layer."""
    from memory_mcp.policy.tier import detect

    with opened(args, catch_up=False) as app:
        statuses = app.engine.statuses()
    tier = detect(statuses)
    layers = [_shape(s) for s in sorted(statuses, key=lambda s: _ORDER.index(s.name.value))]
    data = {"tier": int(tier), "name": tier.label, "layers": layers}
    render.emit(as_json(args), data, _lines(data))
    return 0


def _shape(status: "LayerStatus") -> dict[str, Any]:
    shape = {
        "name": status.name.value,
        "enabled": status.enabled,
        "healthy": status.healthy,
        "count": status.count,
        "reason": status.reason,
        "enable_with": status.enable_with,
    }
    return {k: v for k, v in shape.items() if v != ""}


def _lines(data: dict[str, Any]) -> Iterator[str]:
    usable = [x for x in data["layers"] if x["enabled"] and x["healthy"]]
    yield "Retrieval Capabilities"
    yield "-" * 40
    yield f"Current Tier:    {data['tier']} ({data['name']})"
    yield "Available Layers:"
    for layer in usable:
        what = f"{layer['count']} {_UNITS[layer['name']]}" if layer["name"] in _UNITS else "TOC available"
        yield f"  - {layer['name'] + ':':<8} healthy ({what})"
    yield "Unavailable:"
    others = [x for x in data["layers"] if x not in usable]
    for layer in others:
        yield f"  - {layer['name'] + ':':<8} {layer.get('reason', 'unhealthy')}"
    if not others:
        yield "  (none)"
