"""Requests about sharing projects with a team: its server, the projects, doing it now, and what left, came and would leave."""

from collections.abc import Sequence
from dataclasses import field, replace

from memory_mcp.app import App
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp.model.ledger import AuditEntry
from memory_mcp.requests.entry import answers
from memory_mcp.requests.plain import copy_fields
from memory_mcp.requests.scope import Caller, known_project
from memory_mcp_team.errors import ServerUnreachable
from memory_mcp_team.sharing import client, run
from memory_mcp_team.sharing.files import Progress, SharedProject, ShareFolder, Sharing, make_space_mark
from memory_mcp_team.sharing.leaving import LeavingFilter, make_route_digest, make_rules_digest
from memory_mcp_team.sharing.position import Position, follow_position
from memory_mcp_team.sharing.publishing import PUBLISHED_MARK

_NO_SERVER = "Name it first: memory-mcp share to URL --key KEY"
#: Events read at once while counting what would leave.
_PAGE = 1000
_LONGEST_KEY = 10_000


@dataclass(frozen=True, slots=True)
class ShareTo:
    """A team's server, its key, and the space to pull from ("": the only one)."""

    url: str
    key: str = field(default="", repr=False)
    space: str = ""
    insecure: bool = False
    by: str = ""


@dataclass(frozen=True, slots=True)
class ShareOff:
    """Request to forget the server: nothing is published or pulled."""

    by: str = ""


@dataclass(frozen=True, slots=True)
class ShareProject:
    """A project to publish from now on, with all its events."""

    project: str
    space: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class UnshareProject:
    """A project to publish no longer; what was published stays there."""

    project: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ShareNow:
    """Request to publish and pull once.

    `forget`: own events that others forgot are removed here, however many.
    """

    forget: bool = False


@dataclass(frozen=True, slots=True)
class ShareStatus:
    """Request for what left, what would leave next, and what came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChanged:
    """What is shared now."""

    url: str
    space: str
    projects: Sequence[str]
    member: str = ""
    role: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedNow:
    """What one run did."""

    left: int
    came: int
    offline: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectShare:
    """One project that is or was published from here; times are local."""

    project: str
    space: str
    left: int
    last: str = ""
    #: Events that leave with the next run, unless a rule keeps them back.
    would_leave: int
    #: Events that belong to it since it was shared, by another name: they wait until it is shared once more.
    waits: int
    #: The role that publishing to the space takes and that the key does not have; "" when it may.
    needs: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCame:
    """What others published of one project."""

    project: str
    came: int
    last: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """Everything about sharing; times are local, "" where there is none."""

    url: str
    space: str
    member: str = ""
    role: str = ""
    has_key: bool
    projects: Sequence[ProjectShare]
    came: Sequence[ProjectCame]
    people: dict[str, int]
    last: str = ""
    offline_since: str = ""
    error: str = ""
    kept_back: dict[str, int]
    #: What the server refused: what it was about, and the role that may.
    refused: Sequence[dict[str, str]]
    forgotten_there: int
    forgotten_here: int
    corrected: int = 0
    held: int = 0


@answers("share_to", ShareTo)
def share_to(app: App, request: ShareTo, caller: Caller) -> ShareChanged:
    """Remember a server and its key, and begin to pull.

    Another server's projects are not taken along; without a key the one for the same server is kept. Raises InvalidQuery for
    an unfit address, key or space, or a caller bound to one project; Unauthenticated or NotFound as the server says.
    """
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    url, old_sharing = client.parse_address(request.url, request.insecure), folder.load_sharing()
    key = request.key.strip() or (folder.key if old_sharing.url == url else "")
    if not key.isascii() or not key.isprintable() or len(key) > _LONGEST_KEY:
        raise InvalidQuery("the key is none", "Give it as the server's administrator gave it: --key KEY")
    space, member, role, notes = _ask_server(url, key, request.space or (old_sharing.space if old_sharing.url == url else ""))
    projects = old_sharing.projects if old_sharing.url == url else {}
    if old_sharing.projects and not projects:
        notes = [
            *notes,
            f"nothing is published there yet; {len(old_sharing.projects)} projects were shared with {old_sharing.url}",
        ]
    folder.save_key(key)
    # A run stores the role as well; until the first one ends `share add` reads it from here.
    progress = folder.load_progress()
    progress.roles.pop(space, None)
    if role:
        progress.roles[space] = [member, role]
    folder.save_progress(progress)
    folder.save_sharing(Sharing(url, space, request.insecure, app.clock.now_ms(), projects))
    _record_act(app, "share", request.by, url)
    app.scheduler.hasten("share")
    return ShareChanged(url=url, space=space, projects=sorted(projects), member=member, role=role, notes=notes)


def _ask_server(url: str, key: str, space: str) -> tuple[str, str, str, list[str]]:
    """Return the space, the member and its role there, and notes.

    A server that cannot be reached is believed if the space is named. Without a name it is the only space, or the only team's.
    """
    try:
        with client.ShareClient(url, key) as server:
            answer = server.list_spaces()
    except ServerUnreachable as error:
        if not space:
            raise InvalidQuery(f"{error.message}, and no space is named", "Try again online, or name it: --space S") from None
        return space, "", "", [f"{error.message}: it is tried again by itself"]
    spaces = {str(entry["name"]): entry for entry in answer.get("spaces", ()) if isinstance(entry, dict) and "name" in entry}
    if not space:
        teams = [name for name, entry in spaces.items() if entry.get("kind") == "team"]
        chosen = list(spaces) if len(spaces) == 1 else teams
        if len(chosen) != 1:
            names = ", ".join(sorted(spaces)) or "none"
            raise InvalidQuery("the space must be named", f"Add --space S. Spaces that this key may see: {names}.")
        space = chosen[0]
    if space not in spaces:
        raise InvalidQuery(
            f"there is no space {space!r} that this key may see", f"Spaces: {', '.join(sorted(spaces)) or 'none'}."
        )
    return space, str(answer.get("member", "")), str(spaces[space].get("role", "")), []


@answers("share_off", ShareOff)
def share_off(app: App, request: ShareOff, caller: Caller) -> ShareChanged:
    """Forget server, key and what is shared."""
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    old_sharing = folder.load_sharing()
    folder.save_sharing(Sharing())
    folder.save_key("")
    if old_sharing.url:
        _record_act(app, "unshare", request.by, old_sharing.url)
    notes = ["what was published stays there until it is forgotten; what came stays here"]
    return ShareChanged(url="", space="", projects=(), notes=notes)


@answers("share_project", ShareProject)
def share_project(app: App, request: ShareProject, caller: Caller) -> ShareChanged:
    """Publish a project from now on.

    Raises InvalidQuery for an unknown project, no server, or a caller bound to one project.
    """
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    sharing = _get_server(folder)
    if not request.project.strip():
        raise InvalidQuery("events without a project cannot be shared", "Name a project: memory-mcp projects")
    app.derivation.run()
    project = known_project(app, request.project)
    space = request.space or sharing.space
    other_projects = {name: entry for name, entry in sharing.projects.items() if name != project}
    # Of the ways in which recorded names and sessions lead to a project, that of its own name is always one.
    names = app.storage.projects.names
    streams = [(recorded, session) for _, recorded, session, _ in app.storage.projects.list_streams()]
    leading = [entry for entry in streams if names.display_name(*entry) == project]
    ways = tuple(sorted({make_route_digest(names, *entry) for entry in [(project, ""), *leading]}))
    shared = SharedProject(space, app.clock.now_ms(), ways)
    now = replace(sharing, projects={**other_projects, project: shared})
    folder.save_sharing(now)
    _record_act(app, "share", request.by, project)
    app.scheduler.hasten("share")
    if needs := _find_needed_role(folder, space):
        return _make_changed(now, [f"nothing leaves before an administrator gives you the role {needs} in the space {space}"])
    leaves, _ = _count_leaving(app, folder, replace(now, projects={project: shared})).get(project, (0, 0))
    return _make_changed(now, [f"events that leave with the next run, without secrets: {leaves:,}"])


def _find_needed_role(folder: ShareFolder, space: str) -> str:
    role = folder.load_progress().roles.get(space, ["", ""])[1]
    return "writer" if role == run.READER else ""


@answers("unshare_project", UnshareProject)
def unshare_project(app: App, request: UnshareProject, caller: Caller) -> ShareChanged:
    """Stop publishing a project; what was published stays there."""
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    sharing, typed_name = _get_server(folder), request.project
    matching = [name for name in sharing.projects if name == typed_name or name.endswith("/" + typed_name.strip("/"))]
    if len(matching) != 1:
        shared_names = ", ".join(sorted(sharing.projects)) or "none"
        raise InvalidQuery(f"{typed_name!r} is not shared", f"Shared projects: {shared_names}.")
    now = replace(sharing, projects={name: entry for name, entry in sharing.projects.items() if name != matching[0]})
    folder.save_sharing(now)
    _record_act(app, "unshare", request.by, matching[0])
    return _make_changed(now, [f"what was published of {matching[0]} stays there until it is forgotten: memory-mcp forget"])


@answers("share_now", ShareNow)
def share_now(app: App, request: ShareNow, caller: Caller) -> SharedNow:
    """Publish and pull once, in this call."""
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    _get_server(folder)
    sent_total, taken_total = _count_totals(folder)
    done = run.exchange_once(app, agreed=request.forget) or run.RunOutcome()
    # A run of the scheduler that was waited for did part of it, or all.
    now_left, now_came = _count_totals(folder)
    sent_total, taken_total = max(done.sent_count, now_left - sent_total), max(done.taken_count, now_came - taken_total)
    return SharedNow(left=sent_total, came=taken_total, offline=done.offline, error=done.error)


def _count_totals(folder: ShareFolder) -> tuple[int, int]:
    progress = folder.load_progress()
    return sum(counts[0] for counts in progress.left.values()), sum(counts[0] for counts in progress.came.values())


@answers("share_status", ShareStatus)
def share_status(app: App, _: ShareStatus, caller: Caller) -> ShareState:
    """Return what left, would leave next and came."""
    caller.refuse_all(app, "sharing")
    folder = run.get_share_folder(app)
    try:
        sharing, damaged = folder.load_sharing(), ""
    except MemoryMcpError as error:
        sharing, damaged = Sharing(), str(error)
    progress = folder.load_progress()
    member, role = (*progress.roles.get(sharing.space, []), "", "")[:2]
    return copy_fields(
        ShareState,
        progress,
        url=sharing.url,
        space=sharing.space,
        member=member,
        role=role,
        has_key=bool(folder.key),
        projects=_list_shares(app, folder, sharing, progress),
        came=[
            ProjectCame(project=name, came=count, last=app.calendar.format_iso(at))
            for name, (count, at) in sorted(progress.came.items())
        ],
        last=_format_time(app, progress.last_ok_ms),
        offline_since=_format_time(app, progress.offline_since_ms),
        error=damaged or progress.error,
    )


def _list_shares(app: App, folder: ShareFolder, sharing: Sharing, progress: Progress) -> list[ProjectShare]:
    counted, shares = _count_leaving(app, folder, sharing) if sharing.url else {}, []
    for name in dict.fromkeys((*sharing.projects, *progress.left)):
        shared, (sent_count, at) = sharing.projects.get(name), progress.left.get(name) or (0, 0)
        would_leave, waits = counted.get(name, (0, 0))
        needs = _find_needed_role(folder, shared.space) if shared else ""
        share = ProjectShare(
            project=name,
            space=shared.space if shared else "",
            left=sent_count,
            last=_format_time(app, at),
            would_leave=0 if needs else would_leave,
            waits=waits,
            needs=needs,
        )
        shares.append(share)
    return shares


def _count_leaving(app: App, folder: ShareFolder, sharing: Sharing) -> dict[str, tuple[int, int]]:
    counts_by_project: dict[str, tuple[int, int]] = {}
    for space in {stored.space for stored in sharing.projects.values()}:
        leaving, ledger = LeavingFilter.for_space(app, sharing, space), folder.open_ledger(sharing.url, space)
        seq, name = 0, PUBLISHED_MARK + make_space_mark(sharing.url, space)
        position_text, _, rules = app.storage.outbox.get_positions(name).get(name, "").partition("~")
        if not leaving.has_unshared_sessions() and rules == make_rules_digest(sharing, space, app.storage.projects.names):
            # Up to there everything was looked at by the rules in force.
            seq = follow_position(app.storage, Position.parse(position_text))[0].seq
        while events := app.storage.events.read_after(seq, _PAGE):
            for stored in events:
                leaves, waits = leaving.find_project(stored.event), leaving.find_waiting_project(stored.event)
                project = leaves or waits
                if project and stored.event.event_id not in ledger:
                    counts = counts_by_project.get(project, (0, 0))
                    counts_by_project[project] = (counts[0] + bool(leaves), counts[1] + bool(waits))
            seq = events[-1].seq
    return counts_by_project


def _get_server(folder: ShareFolder) -> Sharing:
    sharing = folder.load_sharing()
    if not sharing.url:
        raise InvalidQuery("no server is named", _NO_SERVER)
    return sharing


def _make_changed(sharing: Sharing, notes: Sequence[str]) -> ShareChanged:
    return ShareChanged(url=sharing.url, space=sharing.space, projects=sorted(sharing.projects), notes=notes)


def _record_act(app: App, what: str, by: str, subject: str) -> None:
    app.storage.audit.record_entry(AuditEntry(what, app.clock.now_ms(), app.gate.clean_name(by), subject))


def _format_time(app: App, at_ms: int) -> str:
    return app.calendar.format_iso(at_ms) if at_ms else ""
