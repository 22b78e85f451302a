"""The commands of a team: `share`, `admin team` and `admin migrate-to`."""

from memory_mcp.cli.commands.registry import Command

SHARE = Command(
    "publish chosen projects to a space of a team's server, and pull what others published there",
    "memory_mcp_team.commands.share",
    state_command="share status",
    is_forwarded=True,
)
TEAM = Command("say who may use a memory that many people share; every act is kept in its audit", "memory_mcp_team.commands.team")
MIGRATE = Command(
    "copy the whole memory into another engine's store, and check the copy; this one is not changed",
    "memory_mcp_team.commands.migrate",
    is_forwarded=True,
)
