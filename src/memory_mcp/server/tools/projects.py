"""Projects and agents of the memory, for the full profile: what there is, and mending what could not be known."""

from typing import Annotated

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from memory_mcp.requests.activity import AgentActivity, GetAgentActivity
from memory_mcp.requests.limits import PAGE, YEAR
from memory_mcp.requests.projects import (
    AgentList,
    AliasProject,
    ListAgents,
    ListProjects,
    ProjectChanged,
    ProjectList,
    SplitProject,
    UndoProject,
)
from memory_mcp.server import arguments
from memory_mcp.server.caller import agent_of
from memory_mcp.server.tools.kit import SETS, Group, offered

_Name = Annotated[str, Field(description="A project as list_projects shows it, or its last parts", max_length=500)]


class Projects(Group):
    """List and rename projects and agents (full profile)."""

    @offered("Projects")
    async def list_projects(
        self, limit: arguments.Page = PAGE.default, cursor: arguments.Cursor = ""
    ) -> Annotated[CallToolResult, ProjectList]:
        """Projects with their activity and other names, the latest first."""
        return await self._kit.ask(ListProjects(limit, cursor))

    @offered("Agents")
    async def list_agents(self) -> Annotated[CallToolResult, AgentList]:
        """Agents with their activity, the latest first."""
        return await self._kit.ask(ListAgents())

    @offered("Activity by day")
    async def get_agent_activity(
        self,
        days: Annotated[int | None, Field(description="The last so many; default: a year", ge=YEAR.least, le=YEAR.most)] = None,
        since: arguments.Since = "",
        until: arguments.Until = "",
        agent: arguments.Agent = "",
        project: arguments.Project = "",
        scope: arguments.Scope = "",
    ) -> Annotated[CallToolResult, AgentActivity]:
        """Events and sessions of each local day, totals by project and by agent, and the years that hold anything."""
        return await self._kit.ask(GetAgentActivity(days, since, until, agent, project, scope))

    @offered("Two projects are one", SETS)
    async def alias_project(self, ctx: Context, project: _Name, same_as: _Name) -> Annotated[CallToolResult, ProjectChanged]:
        """Show all of a project, stored and to come, under another's name. Ask the user first; undo_project takes it back."""
        return await self._kit.write(AliasProject(project, same_as, agent_of(ctx)))

    @offered("One project is two", SETS)
    async def split_project(
        self,
        ctx: Context,
        project: _Name,
        folder: Annotated[str, Field(description="Sessions that began there or below", max_length=1000)] = "",
        sessions: Annotated[list[str] | None, Field(description="Session ids", max_length=200)] = None,
        name: Annotated[str, Field(description="Default: the folder", max_length=500)] = "",
    ) -> Annotated[CallToolResult, ProjectChanged]:
        """Make sessions of a project one of their own. Ask the user first; undo_project takes it back."""
        return await self._kit.write(SplitProject(project, folder, tuple(sessions or ()), name, agent_of(ctx)))

    @offered("Take back an alias or a split", SETS)
    async def undo_project(self, ctx: Context, project: _Name) -> Annotated[CallToolResult, ProjectChanged]:
        """Take back an alias, a guess or a split, by the name that it was made for."""
        return await self._kit.write(UndoProject(project, agent_of(ctx)))
