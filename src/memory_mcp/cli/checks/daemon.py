"""The background process, and the way into the store: by the daemon that has it open, or opened read-only here."""

import json
import time
from collections.abc import Iterator
from typing import Any

from memory_mcp import __version__
from memory_mcp.base.errors import MemoryMcpError, SchemaTooOld, StorageLocked
from memory_mcp.cli.checks.base import FAIL, INSIDE, OK, WARN, Check, Look, Opened, connect_daemon, run_checks
from memory_mcp.service.client import link
from memory_mcp.storage import highwater

RESTART = "memory-mcp daemon restart"
#: A daemon that is busy answers later than one that is not (seconds).
_PATIENCE = 60.0


def check_daemon(look: Look) -> Iterator[Check]:
    """Yield whether a daemon runs; none is started.

    WARN for another version, for settings that changed since its start, and for what it notes of itself.
    """
    line = connect_daemon(look)
    if line is None:
        yield Check(OK, "daemon", "none runs; the next client or command starts one")
        return
    about = line.about
    line.close()
    who = f"process {about.get('pid')}, version {about.get('memory-mcp')}"
    if about.get("memory-mcp") != __version__:
        step = f"use one version everywhere, then: {RESTART}"
        yield Check(WARN, "daemon", f"{who}; this command is version {__version__}", step)
    elif stale := about.get("stale"):
        text = f"{who}; the settings file changed since it started ({stale})"
        yield Check(WARN, "daemon", text, f"any other command applies it, or {RESTART}")
    elif note := about.get("note"):
        yield Check(WARN, "daemon", f"{who}; {note}", RESTART)
    else:
        yield Check(OK, "daemon", f"{who}, with the settings of now")


def check_inside(look: Look, secrets: bool = False) -> Iterator[Check]:
    """Yield the checks of the store's inside.

    `secrets`: those that read every stored text, instead. Asked of the daemon where one runs, else read here. Without a database
    file FAIL if events were acknowledged once.
    """
    if (line := connect_daemon(look)) is not None:
        yield from _check_by_daemon(line, secrets)
    elif (look.directory / "memory.duckdb").is_file():
        yield from _check_here(look, secrets)
    elif (high_water := highwater.load_mark(look.directory)) and high_water.events:
        text = f"the database file is gone, and with it the {high_water.events:,} events that were acknowledged"
        step = "restore a backup, or put the file back; memory-mcp import reads what sources still hold"
        yield Check(FAIL, "store", text, step)
    elif look.settings is not None:
        if look.directory.is_dir():
            yield Check(OK, "store", "there is none yet", "memory-mcp setup")
        from memory_mcp.cli.checks.clients import check_transcripts_before_store

        yield from check_transcripts_before_store(look.settings, time.time_ns() // 1_000_000)


def _check_by_daemon(line: link.Line, secrets: bool) -> Iterator[Check]:
    """FAIL where it cannot open the store; WARN where it does not answer (after 60 seconds, with `secrets` never)."""
    output_parts: list[str] = []
    params: dict[str, Any] = {"argv": ["doctor", "--secrets" if secrets else "--store", "--json"]}
    try:
        line.sock.settimeout(None if secrets else _PATIENCE)
        link.call_on_line(line, "cli/run", params, lambda message: output_parts.append(message.get("out", "")))
        check_values = json.loads("".join(output_parts))["checks"]
    except link.Refused as error:
        # The daemon runs, and cannot open the store.
        yield Check(FAIL, "store", str(error), "mend what it names; the next call opens the store again")
        return
    except (OSError, ValueError, KeyError):
        text = f"held by the daemon (process {line.about.get('pid')}), which does not tell about it"
        yield Check(WARN, "store", text, f"{RESTART}, then: memory-mcp doctor")
        return
    finally:
        line.close()
    yield Check(OK, "lock", f"held by the daemon (process {line.about.get('pid')}), which answers")
    for values in check_values:
        yield Check(values["state"], values["name"], values["text"], values["next_step"])


def _check_here(look: Look, secrets: bool) -> Iterator[Check]:
    """One line alone where it cannot be opened: WARN if it is locked or of an older schema, else FAIL."""
    if look.settings is None:
        return
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.storage.duckdb import open_read_only

    try:
        storage = open_read_only(look.directory)
    except StorageLocked as error:
        yield Check(WARN, "lock", error.message, "for the checks of the store itself, run this again when that has ended")
        return
    except SchemaTooOld as error:
        yield Check(WARN, "store", error.message, error.hint)
        return
    except MemoryMcpError as error:
        yield Check(FAIL, "store", error.message, error.hint)
        return
    try:
        yield Check(OK, "lock", "free")
        opened = Opened(storage, Calendar(storage.timezone), look.settings, time.time_ns() // 1_000_000)
        yield from run_checks(("secrets",) if secrets else INSIDE, opened)
    except MemoryMcpError as error:
        yield Check(FAIL, "store", error.message, error.hint)
    finally:
        storage.close()
