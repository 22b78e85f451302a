"""One run of sharing: sends what is to leave, then takes in what others published; being offline is normal."""

import threading
from collections.abc import Callable

from memory_mcp.app import App
from memory_mcp.base import failpoints
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import InvalidQuery, MemoryMcpError
from memory_mcp_team.errors import ServerUnreachable
from memory_mcp_team.sharing.client import ShareClient
from memory_mcp_team.sharing.files import Progress, ShareFolder
from memory_mcp_team.sharing.publishing import PublishRun
from memory_mcp_team.sharing.taking import TakeRun

#: One run at a time: a job and a command may come together.
_TURN = threading.Lock()
READER = "reader"
#: For so long after a server was named (milliseconds) it is asked every few seconds: a person may wait at a second machine.
_NEW_SERVER_MS, _NEW_SERVER_PAUSE = 120_000, 5.0

failpoints.declare(
    {
        "share.sent": "events of a shared project are acknowledged by the server, nothing of that is noted here",
        "share.taken": "events of a page that others published are committed, how far the space was read is not",
    }
)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """Outcome of a run; `offline` and `error` say why it did not do all."""

    sent_count: int = 0
    taken_count: int = 0
    offline: str = ""
    error: str = ""

    @property
    def summary(self) -> str:
        """The outcome in words."""
        summary = f"published {self.sent_count:,} events, took in {self.taken_count:,}"
        why = f"offline ({self.offline})" if self.offline else self.error
        return f"{summary}; {why}" if why else summary


def get_share_folder(app: App) -> ShareFolder:
    """Return the folder for sharing; InvalidQuery for a memory without one."""
    if app.directory is None:
        raise InvalidQuery("a memory without a directory shares nothing", "Name a data directory.")
    return ShareFolder(app.directory)


def exchange_once(app: App, should_stop: Callable[[], bool] = lambda: False, agreed: bool = False) -> RunOutcome | None:
    """Publish to and pull from each space once.

    One run of this process at a time. A reader only pulls. An error of one space is in the outcome, and the next one is tried;
    if the server does not answer, the run ends. `agreed`: own events that others forgot are removed here, however many.
    """
    share_folder = get_share_folder(app)
    sharing = share_folder.load_sharing()
    if not sharing.url:
        return None
    with _TURN:
        progress, sent_count, taken_count = share_folder.load_progress(), 0, 0
        offline = error = ""
        with ShareClient(sharing.url, share_folder.key, should_stop) as client:
            for space in sharing.spaces:
                try:
                    member_role = client.get_permissions(space)
                    role = str(member_role.get("role", ""))
                    progress.roles[space] = [str(member_role.get("member", "")), role]
                    out = PublishRun(app, share_folder, client, space, progress, should_stop)
                    back = TakeRun(app, share_folder, client, space, progress, should_stop, agreed)
                    try:
                        if role != READER:
                            out.run()
                        back.run()
                    finally:
                        sent_count, taken_count = sent_count + out.sent_count, taken_count + back.new_count
                except ServerUnreachable as failure:
                    offline = failure.message
                    break
                except MemoryMcpError as failure:
                    error = error or f"{space}: {failure.message}. {failure.hint}"
        _note_outcome(app, progress, offline, error)
        share_folder.save_progress(progress)
    return RunOutcome(sent_count, taken_count, offline, error)


def _note_outcome(app: App, progress: Progress, offline: str, error: str) -> None:
    now = app.clock.now_ms()
    progress.error = error
    if offline:
        progress.offline_since_ms = progress.offline_since_ms or now
    else:
        progress.offline_since_ms = 0
        progress.last_ok_ms = now if not error else progress.last_ok_ms


def run_job(app: App, should_stop: Callable[[], bool]) -> str:
    """Run once for the job `share`; return what it did.

    Raises InvalidQuery if a run failed, not for being offline.
    """
    done = exchange_once(app, should_stop) if app.directory is not None else None
    if done is not None and done.error:
        raise InvalidQuery(done.error, "memory-mcp share status")
    if done is not None and 0 <= app.clock.now_ms() - get_share_folder(app).load_sharing().since_ms < _NEW_SERVER_MS:
        app.scheduler.hasten("share", _NEW_SERVER_PAUSE)
    return done.summary if done is not None else ""
