"""The shapes of projects and agents."""

from memory_mcp.server.wire import Wire


class OtherName(Wire):
    """Another name of a project, and who says so: person or guess."""

    name: str
    by: str


class ProjectInfo(Wire):
    """One project."""

    project: str
    events: int
    sessions: int
    first: str
    last: str
    agents: list[str] = []
    aliases: list[OtherName] = []
    split_from: str = ""


class ProjectList(Wire):
    """list_projects."""

    projects: list[ProjectInfo]
    total: int
    next_cursor: str = ""
    yours: str = ""


class AgentInfo(Wire):
    """One agent."""

    agent: str
    events: int
    sessions: int
    first: str
    last: str
    projects: list[str] = []


class AgentList(Wire):
    """list_agents."""

    agents: list[AgentInfo]


class DayActivity(Wire):
    """One day."""

    day: str
    events: int
    sessions: int


class MonthActivity(Wire):
    """One month of a project or agent."""

    month: str
    events: int


class ActivityTotal(Wire):
    """One project or agent."""

    name: str
    events: int
    sessions: int
    months: list[MonthActivity]


class AgentActivity(Wire):
    """get_agent_activity."""

    first_day: str = ""
    last_day: str = ""
    timezone: str
    scope: str
    events: int
    sessions: int
    days: list[DayActivity]
    projects: list[ActivityTotal]
    agents: list[ActivityTotal]
    years: list[int]


class ProjectChanged(Wire):
    """alias_project, split_project, undo_project."""

    project: str
    shown_as: str
    sessions: int
    undo: str = ""


class Capturing(Wire):
    """pause_capture, resume_capture."""

    project: str
    paused: bool
    until: str = ""
    all_paused: list[str] = []
