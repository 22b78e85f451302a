"""The shapes of refining: what is due, what is read of a node, and what it became."""

from typing import Annotated

from pydantic import Field

from memory_mcp.server.wire import Bullet, Recalled, Wire


class DueNode(Wire):
    """A segment or day worth refining."""

    node_id: str
    level: str
    title: str
    events: int
    tokens: int
    session_id: str = ""
    project: str = ""


class DueNodes(Recalled):
    """refine_due."""

    due: list[DueNode]
    more: bool | None = None
    scope: str
    notices: list[str] = []


class Line(Wire):
    """An event, shortened."""

    when: str
    who: str
    text: str
    grip_ids: list[str] = []


class Before(Wire):
    """What came before a segment."""

    session_id: str = ""
    before: list[Line] = []


class Part(Wire):
    """A child of a period."""

    node_id: str
    title: str
    events: int
    author: str = ""
    bullets: list[Bullet] = []


class Material(Recalled):
    """refine_show."""

    node_id: str
    level: str
    title: str
    author: str = ""
    bullets: list[Bullet] = []
    context: Before | None = None
    events: list[Line] = []
    children: list[Part] = []
    left_out: Annotated[int, Field(description="Events or children; a larger token_budget shows them")] = 0
    scope: str


class Refined(Recalled):
    """refine_summary."""

    node_id: str
    title: str
    version: int
    author: str
    notices: list[str] = []
