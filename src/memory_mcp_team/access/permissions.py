"""Who calls, and what they may do: decided from values alone, without a database or a token.

Invariants
1. What a caller may do in a space is the lower of two: the role granted there, and the highest role that the token or key allows.
2. A space without a grant does not exist: its absence and its being another's are one error.
3. A request that the table does not name is refused.

Change here: which role a request needs, or name the role of a new one.
Change here: add a role.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

from memory_mcp.base.dataclass import dataclass
from memory_mcp_team.errors import InsufficientScope, PermissionDenied, no_such_space


class Role(Enum):
    """What a member may do in a space.

    Each role may do what those before it may. The values are stored.
    """

    READER = "reader"
    WRITER = "writer"
    CURATOR = "curator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        """The role's position: 0 for reader to 3 for admin."""
        return _RANKS[self]


class Act(Enum):
    """What a request does to a memory."""

    READ = "read"
    WRITE = "write"
    CURATE = "curate"
    ADMIN = "admin"


_RANKS: Mapping[Role, int] = {role: rank for rank, role in enumerate(Role)}
#: The lowest role that may do an act.
LOWEST_ROLES: Mapping[Act, Role] = dict(zip(Act, Role, strict=True))
#: OAuth scopes, and those of keys, by the highest role that each allows.
SCOPES: Mapping[str, Role] = {f"memory:{act.value}": role for act, role in LOWEST_ROLES.items()}


@dataclass(frozen=True, slots=True)
class Grant:
    """A member's role in a space, with the space's name."""

    space: int
    name: str
    #: team, project or private.
    kind: str
    role: Role


@dataclass(frozen=True, slots=True)
class Principal:
    """A member of a tenant who has proved their identity."""

    tenant: int
    #: Of quotas and metrics: small, standard or large.
    tenant_class: str
    #: From 1; never 0, which is the program itself.
    member: int
    name: str
    #: Whether the member administers the tenant: its members, spaces, grants and keys. It opens no space.
    is_tenant_admin: bool
    #: One per space that the member may see, in the order of their names.
    grants: tuple[Grant, ...]
    #: The highest role that the scopes of the token or key allow; None: none of them is about a memory.
    max_role: Role | None
    #: Of the API key; "" for a token of the OpenID provider.
    key_id: str = ""

    def find_role(self, space: int) -> Role | None:
        """Return the role in a space, up to `max_role`, or None."""
        granted = next((grant.role for grant in self.grants if grant.space == space), None)
        if granted is None or self.max_role is None:
            return None
        return min(granted, self.max_role, key=lambda role: role.rank)

    def find_grant(self, name: str) -> Grant | None:
        """Return the grant of the space of that name, or None."""
        if self.max_role is None:
            return None
        return next((grant for grant in self.grants if grant.name == name), None)


def is_allowed(principal: Principal, space: int, act: Act) -> bool:
    """Return whether the caller may do `act` in a space."""
    role = principal.find_role(space)
    return role is not None and role.rank >= LOWEST_ROLES[act].rank


def get_grant(principal: Principal, name: str) -> Grant:
    """Return the grant of the space of that name, or raise NotFound."""
    grant = principal.find_grant(name)
    if grant is None:
        raise no_such_space(name)
    return grant


def check_request(principal: Principal, space: int, request: str) -> None:
    """Check that the caller may make a request in a space.

    Raises NotFound for a space that is not the caller's to see, InsufficientScope if only the scopes of the token or key forbid
    it, PermissionDenied if the role is too low or no role allows the request.
    """
    if principal.find_role(space) is None:
        raise no_such_space()
    act = ACTS.get(request)
    if act is None:
        raise PermissionDenied(f"{request} is not offered to teams", "Use the tools and commands that the server lists.")
    if is_allowed(principal, space, act):
        return
    needed, scope = LOWEST_ROLES[act], f"memory:{act.value}"
    if any(grant.space == space and grant.role.rank >= needed.rank for grant in principal.grants):
        hint = f"Get a token or key with the scope {scope}."
        raise InsufficientScope(f"the scope {scope} is needed for {request}", hint, scope)
    hint = f"Ask an administrator of the space for the role {needed.value}."
    raise PermissionDenied(f"the role {needed.value} is needed for {request} in this space", hint)


def find_highest_role(scopes: Iterable[str]) -> Role | None:
    """Return the highest role that scopes such as "memory:write" allow.

    Unknown scopes are skipped; None if no scope is about a memory.
    """
    roles = [SCOPES[scope] for scope in scopes if scope in SCOPES]
    return max(roles, key=lambda role: role.rank, default=None)


def _map_acts(act: Act, names: str) -> dict[str, Act]:
    return dict.fromkeys(names.split(), act)


#: What each request does, by its name in the registry of requests; then what comes in by other ways.
ACTS: Mapping[str, Act] = {
    **_map_acts(
        Act.READ,
        """intelligent_search teleport_search vector_teleport hybrid_search topics_by_query get_top_topics get_topic_map
        get_topic get_toc_nodes_for_topic get_related_topics export_shown expand_grip browse_toc get_toc_root get_node
        get_events recall_for continue_session handoff search_children search_node navigate plan_query classify_query
        get_retrieval_status get_teleport_status get_vector_index_status get_topic_graph_status refine_due refine_show audit
        list_jobs list_projects list_agents get_agent_activity get_timeline get_today get_friction list_runs
        list_hints list_paused list_excluded recall""",
    ),
    **_map_acts(Act.WRITE, "remember ingest_events hooks import"),
    **_map_acts(
        Act.CURATE, "label_topic refine_summary pin correct retract reject_hint alias_project split_project undo_project"
    ),
    **_map_acts(Act.CURATE, "pause_capture resume_capture exclude include"),
    # What tells of the server's own machine (its disk, its clients, what it spent) is its administrators' alone.
    **_map_acts(Act.ADMIN, "forget rebuild_index prune_index run_job pause_job resume_job get_overview get_spend list_clients"),
    **_map_acts(Act.ADMIN, "backup restore config"),
}
#: Requests about a person's own store, which a team's server has none of: refused to everybody.
NOT_OFFERED = frozenset({"share_status", "share_project", "unshare_project", "share_to", "share_now", "share_off"})
