"""The clients: which use this memory, what their hooks and imports brought, and transcripts not imported yet."""

import sys
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base import paths
from memory_mcp.base.errors import MemoryMcpError
from memory_mcp.cli import render
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look, Opened, connect_daemon
from memory_mcp.config import Settings
from memory_mcp.install.base import Environment
from memory_mcp.install.status import ClientStatus, statuses, trusting
from memory_mcp.model.event import HOOK, TOOL
from memory_mcp.service.client import link
from memory_mcp.service.client.spoolfile import client_of

if TYPE_CHECKING:
    from memory_mcp.capture.rescue import DeletionForecast

#: With hooks on, a day of work leaves events; a week without any may be a holiday, and is worth a look.
_QUIET_MS = 7 * 86_400_000


def check_clients(look: Look) -> Iterator[Check]:
    """Yield a line for each client that is here.

    WARN where a client's file cannot be read, its hooks wait for trust or something is on twice, FAIL where its command is not
    there. One failed line alone where the records of install cannot be read.
    """
    try:
        clients = [client for client in client_statuses(look) if client.found]
    except MemoryMcpError as error:
        yield Check(FAIL, "clients", error.message, error.hint)
        return
    if not clients:
        yield Check(OK, "clients", "none was found here", "memory-mcp install --help names those that are known")
    for client in clients:
        if client.configured or client.unreadable:
            yield _check(client)
        if client.doubled:
            yield Check(WARN, f"client {client.client}", f"{client.title}: {client.doubled}", client.undoubling_command)
    if without := [client for client in clients if not client.configured and not client.unreadable]:
        several = len(without) > 1
        text = f"{', '.join(client.title for client in without)} {'do' if several else 'does'} not use this memory"
        step = "memory-mcp setup, or one of them: memory-mcp install CLIENT" if several else ""
        yield Check(OK, "clients", text, step or f"memory-mcp install {without[0].client}")


def _check(client: ClientStatus) -> Check:
    name, install = f"client {client.client}", f"memory-mcp install {client.client}"
    missing = [server for server in client.servers if not server.runs]
    if client.unreadable:
        return Check(WARN, name, f"{client.title}: {'; '.join(client.unreadable)}", f"{install} --dry-run")
    if missing:
        text = f"{client.title} would start {missing[0].command}, which is not there"
        return Check(FAIL, name, text, client.repair(missing[0]))
    paths = ", ".join(dict.fromkeys(server.path for server in client.servers))
    hooks = "hooks on" if client.recording else "no hooks in its configuration"
    if client.untrusted:
        hooks = "; ".join(client.hook_lines())
    step = client.meanwhile if client.untrusted else ""
    return Check(WARN if step else OK, name, f"{client.title} uses this memory ({paths}); {hooks}", step)


def client_statuses(look: Look) -> list[ClientStatus]:
    """Return every client's status; hooks that handed over count as trusted.

    The store is only read, and only if hooks of a client wait for trust. Raises InstallRefused where the records of
    install cannot be read.
    """
    all_statuses = statuses(Environment(sys.platform, look.environ, str(look.home), str(Path.cwd())))
    if not any(status.untrusted for status in all_statuses):
        return all_statuses
    clients = {source.removeprefix(HOOK) for source in _list_sources(look) if source.startswith(HOOK)}
    clients.update(_iter_spooled_clients(look))
    return [trusting(status, clients) for status in all_statuses]


def _list_sources(look: Look) -> list[str]:
    if (line := connect_daemon(look)) is not None:
        try:
            return list(link.call_on_line(line, "memory/sources", {})["sources"])
        except (link.Refused, OSError, ValueError, KeyError):
            return []
        finally:
            line.close()
    if not (look.directory / "memory.duckdb").is_file():
        return []
    from memory_mcp.storage.duckdb import open_read_only

    try:
        storage = open_read_only(look.directory)
    except MemoryMcpError:
        return []
    try:
        return list(storage.latest_times())
    finally:
        storage.close()


def _iter_spooled_clients(look: Look) -> Iterator[str]:
    with suppress(OSError):
        for payload in (Path(paths.spool_dir(str(look.directory))) / "new").iterdir():
            with suppress(ValueError):
                yield client_of(payload.name)


def check_transcripts(opened: Opened) -> Iterator[Check]:
    """Yield a line for each client whose transcripts are here.

    WARN where files that are not imported are deleted soon and the client is not followed, and for tables that no reader knows.
    """
    from memory_mcp.capture.following import followed_names
    from memory_mcp.capture.rescue import forecast_deletions
    from memory_mcp.capture.sources import all_importers

    outbox = opened.storage.outbox
    client_fates = forecast_deletions(all_importers(opened.settings.ingest), outbox.get_positions("import:"), opened.now_ms)
    yield from _describe_fates(client_fates, followed_names(outbox), opened.calendar.day_of)


def check_transcripts_before_store(settings: Settings, now_ms: int) -> Iterator[Check]:
    """Yield the same where nothing is imported yet.

    Days are in the machine's zone; `now_ms` is in milliseconds since 1970.
    """
    from memory_mcp.capture.rescue import forecast_deletions
    from memory_mcp.capture.sources import all_importers

    client_fates = forecast_deletions(all_importers(settings.ingest), {}, now_ms)
    yield from _describe_fates(client_fates, (), lambda ms: time.strftime("%Y-%m-%d", time.localtime(ms / 1000)))


def _describe_fates(
    client_fates: "Sequence[DeletionForecast]", followed: Container[str], day_of: Callable[[int], str]
) -> Iterator[Check]:
    if not client_fates:
        yield Check(OK, "transcripts", "no client keeps any in its usual place")
    for fate in client_fates:
        is_followed = fate.importer in followed
        file_counts = f"{render.plural(fate.files, 'file')}, {f'{fate.new_files:,} not' if fate.new_files else 'all'} imported"
        words = [f"{fate.title}: {file_counts}"]
        if fate.deleted_soon:
            soon = f"{fate.deleted_soon:,} in the next days ({day_of(fate.first_deletion_ms)} the first)"
            words.append(f"it deletes them after {fate.days} days, {soon}")
            words.append(f"{fate.new_deleted_soon:,} of those are not imported")
        elif fate.days:
            words.append(f"it deletes them after {fate.days} days")
        words += ["followed"] if is_followed else []
        step = f"memory-mcp import {fate.importer}, or from now on: memory-mcp watch on {fate.importer}"
        is_lost = fate.new_deleted_soon and not is_followed
        text = "; ".join(words)
        yield Check(WARN if is_lost else OK, "transcripts", text, step if fate.new_files and not is_followed else "")
        if fate.unread_tables:
            yield _warn_of_tables(fate)


def _warn_of_tables(fate: "DeletionForecast") -> Check:
    several = len(fate.unread_tables) > 1
    tables = f"{'tables' if several else 'a table'} with conversation that no reader knows: {', '.join(fate.unread_tables)}"
    text = f"{fate.title}: its database has {tables}; what is in {'them' if several else 'it'} is not imported"
    return Check(WARN, "transcripts", text, "update memory-mcp: newer versions know newer clients")


def check_arrivals(opened: Opened) -> Iterator[Check]:
    """Yield the last events by hooks and by imports.

    WARN where hooks brought nothing for a week; none at all is OK.
    """
    latest = opened.storage.latest_times()
    hooks = {source.removeprefix(HOOK): ms for source, ms in latest.items() if source.startswith(HOOK)}
    imports = {source: ms for source, ms in latest.items() if not source.startswith(HOOK) and source != TOOL}
    when = "; ".join(f"{client} {render.minute(opened.calendar.format_iso(ms))}" for client, ms in sorted(hooks.items()))
    if not hooks:
        step = "memory-mcp install --status shows which clients have hooks; they act in new sessions"
        yield Check(OK, "events by hooks", "none yet: nothing is recorded while you work", step)
    elif opened.now_ms - max(hooks.values()) > _QUIET_MS:
        step = "if you have worked since then, look whether the client's hooks still call memory-mcp hook"
        yield Check(WARN, "events by hooks", f"the last came long ago: {when}", step)
    else:
        yield Check(OK, "events by hooks", f"the last: {when}")
    when = "; ".join(f"{source} {render.minute(opened.calendar.format_iso(ms))}" for source, ms in sorted(imports.items()))
    step = "" if imports else "memory-mcp import"
    yield Check(OK, "events by imports", f"the newest: {when}" if imports else "none yet", step)
