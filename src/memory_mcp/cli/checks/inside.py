"""The way into the store without changing it: through the daemon that has it open, or opened here to be read alone."""

import json
import time
from collections.abc import Iterator
from typing import Any

from memory_mcp.base.errors import MemoryMcpError, SchemaTooOld, StorageLocked
from memory_mcp.cli.checks import registry
from memory_mcp.cli.checks.base import FAIL, OK, WARN, Check, Look, Opened
from memory_mcp.cli.checks.hook_events import running
from memory_mcp.service.client import link
from memory_mcp.storage import highwater

RESTART = "memory-mcp daemon restart"
#: A daemon that is busy answers later than one that is not (seconds).
_PATIENCE = 60.0


def checks(look: Look, secrets: bool = False) -> Iterator[Check]:
    """Yield the checks of the store's inside; `secrets`: those that read every stored text again, instead.

    Asked of the daemon where one runs, else read here. Without a database file: FAIL if events were acknowledged
    once, else that there is no store yet, and what clients' transcripts there are.
    """
    if (line := running(look)) is not None:
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
        from memory_mcp.cli.checks import transcripts

        yield from transcripts.before_a_store(look.settings, time.time_ns() // 1_000_000)


def _check_by_daemon(line: link.Line, secrets: bool) -> Iterator[Check]:
    """Yield what the daemon finds in the store that it has open, and close the connection.

    FAIL where it cannot open the store; WARN where it does not answer (after 60 seconds, with `secrets` never).
    """
    output_parts: list[str] = []
    params: dict[str, Any] = {"argv": ["doctor", "--secrets" if secrets else "--store", "--json"]}
    try:
        line.sock.settimeout(None if secrets else _PATIENCE)
        link.converse(line, "cli/run", params, lambda message: output_parts.append(message.get("out", "")))
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
    """Yield what is found in the store, opened here to be read alone and closed again; nothing without settings.

    One line alone where it cannot be opened: WARN if it is locked or of an older schema, else FAIL.
    """
    if look.settings is None:
        return
    from memory_mcp.model.calendar import Calendar
    from memory_mcp.storage.duckdb import look_at

    try:
        storage = look_at(look.directory)
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
        yield from registry.run(("secrets",) if secrets else registry.INSIDE, opened)
    finally:
        storage.close()
