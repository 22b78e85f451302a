"""What a team's server offers beside the tools of a memory: the spaces that a caller may use."""

from typing import Annotated

from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult

from memory_mcp.server.tools.kit import Kit, answer, tool
from memory_mcp.server.wire import Wire
from memory_mcp.team.host import served


class SpaceShown(Wire):
    """A space that the caller may use."""

    name: str
    kind: str
    role: str


class SpacesShown(Wire):
    """list_spaces."""

    current: str
    spaces: list[SpaceShown]


class SpaceTools:
    """The group of one."""

    def __init__(self, kit: Kit) -> None:
        self._kit = kit

    def tools(self) -> list[Tool]:
        """In the order offered."""
        return [tool(self.list_spaces, "Spaces of the team")]

    async def list_spaces(self) -> Annotated[CallToolResult, SpacesShown]:
        """Spaces (team, project, private) that you may use, your role in each, and the one this connection works in.

        Another one: the header Memory-Space, or the address /spaces/NAME/mcp.
        """
        caller = served()
        roles = ((grant, caller.principal.role_in(grant.space)) for grant in caller.principal.grants)
        shown = [SpaceShown(name=grant.name, kind=grant.kind, role=role.value) for grant, role in roles if role is not None]
        return answer(SpacesShown(current=caller.grant.name if caller.grant else "", spaces=shown))
