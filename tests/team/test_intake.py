"""Payloads of hooks that come while others are being stored."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import psycopg
from anyio import wait_all_tasks_blocked

from memory_mcp.base.errors import InvalidQuery, NotFound
from memory_mcp.capture import sources
from memory_mcp_team.access.permissions import Role
from memory_mcp_team.errors import QuotaExceeded
from memory_mcp_team.server.host import CALL
from memory_mcp_team.server.intake import Intake, Payload, PayloadResult
from tests.team.servers import Team
from tests.team.test_open_memories import as_caller, principal, server_of


def prompt(text: str, key: str = "") -> Payload:
    told = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "cwd": "/work/shop", "prompt": text}
    return Payload("claude-code", json.dumps(told).encode(), key)


@contextmanager
def held(team: Team) -> Iterator[None]:
    """Nobody can write to a memory of the database."""
    with psycopg.connect(team.url.replace("user=memory", "user=postgres")) as raw:
        raw.execute("SELECT 1 FROM head FOR UPDATE")
        yield
        raw.rollback()


async def sent(intake: Intake, team: Team, payloads: list[Payload]) -> list[PayloadResult | Exception]:
    """What becomes of payloads that all come while the first is being stored."""
    outcomes: dict[int, PayloadResult | Exception] = {}

    async def send(number: int) -> None:
        try:
            outcomes[number] = await intake.store_payload(payloads[number])
        except Exception as error:
            outcomes[number] = error

    async with anyio.create_task_group() as tasks:
        with held(team):
            for number in range(len(payloads)):
                tasks.start_soon(send, number)
                await wait_all_tasks_blocked()
    return [outcomes[number] for number in range(len(payloads))]


def commits(team: Team) -> int:
    return len(team.rows("acme", "SELECT 1 FROM outbox WHERE kind = 'events_appended'"))


def texts(team: Team) -> list[str]:
    return [str(text) for (text,) in team.rows("acme", "SELECT text FROM event ORDER BY seq")]


def test_what_comes_while_a_payload_is_stored_is_stored_next_in_one_commit(team: Team, tmp_path: Path) -> None:
    team.member("acme", "Ada", team=Role.ADMIN)
    with server_of(team, tmp_path) as server:

        async def main() -> list[PayloadResult | Exception]:
            CALL.set(as_caller(principal(team, "acme", "Ada"), "team"))
            intake = Intake(server.host, sources.client_hooks())
            broken = Payload("claude-code", b"{")
            strange = Payload("nobody", b"{}")
            first, several = prompt("The first.", "k0"), [prompt(f"Number {n}.", f"k{n}") for n in range(1, 21)]
            return await sent(intake, team, [first, *several, broken, strange, several[0]])

        outcomes = anyio.run(main)
    assert outcomes[:21] == [PayloadResult(1)] * 21
    assert isinstance(outcomes[21], InvalidQuery)
    assert isinstance(outcomes[22], NotFound)
    assert outcomes[23] == PayloadResult(0)
    assert texts(team) == ["The first.", *(f"Number {n}." for n in range(1, 21))]
    assert commits(team) == 2


def test_who_may_not_record_all_that_came_together_may_record_what_fits(team: Team, tmp_path: Path) -> None:
    team.member("acme", "Ada", team=Role.ADMIN)
    with server_of(team, tmp_path, {"team.limits.standard.events_per_day": "4"}) as server:

        async def main() -> list[PayloadResult | Exception]:
            CALL.set(as_caller(principal(team, "acme", "Ada"), "team"))
            return await sent(Intake(server.host, sources.client_hooks()), team, [prompt(f"Number {n}.") for n in range(8)])

        outcomes = anyio.run(main)
    assert outcomes[:4] == [PayloadResult(1)] * 4
    assert all(isinstance(outcome, QuotaExceeded) for outcome in outcomes[4:])
    assert texts(team) == [f"Number {n}." for n in range(4)]


def test_a_sender_that_hangs_up_in_time_has_sent_nothing(team: Team, tmp_path: Path) -> None:
    team.member("acme", "Ada", team=Role.ADMIN)
    with server_of(team, tmp_path) as server:

        async def main() -> None:
            CALL.set(as_caller(principal(team, "acme", "Ada"), "team"))
            intake = Intake(server.host, sources.client_hooks())
            async with anyio.create_task_group() as tasks:
                with held(team):
                    tasks.start_soon(intake.store_payload, prompt("The first."))
                    await wait_all_tasks_blocked()
                    with anyio.move_on_after(0.2) as waited:
                        await intake.store_payload(prompt("Nobody waits for this."))
                    assert waited.cancelled_caught
                    tasks.start_soon(intake.store_payload, prompt("The last."))
                    await wait_all_tasks_blocked()

        anyio.run(main)
    assert texts(team) == ["The first.", "The last."]
