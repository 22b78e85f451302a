"""Twelve weeks of two projects, three themes each, in 72 short sessions; one theme is talked about in both of them.

Each project has a word of its own for what they share, which nobody who sees the other may ever read.
"""

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path

from memory_mcp.app import App
from memory_mcp.config import ServerSettings, Settings
from memory_mcp.indexes.settings import TopicsSettings
from memory_mcp.model.event import EventDraft, Role
from memory_mcp.storage.settings import StorageSettings
from tests.factories import BILLING, SHOP, draft
from tests.fakes import FakeClock

#: Said of the shared theme within one project alone.
SECRETS = {SHOP: "kingfisher", BILLING: "peregrine"}
#: What was asked, found, decided: of each theme, with the number of the session, and a case that no other session has: what
#: every session says tells none of them apart.
_THEMES = {
    SHOP: (
        (
            "The voucher discount in basket {n} of {case} is off by a cent.",
            "The voucher rounds every basket line of {case} before the discount is summed up.",
            "We decided that the voucher discount of {case} is summed with Decimal and rounded once per basket.",
        ),
        (
            "Searching the catalogue for accents finds nothing, query {n} of {case}.",
            "The catalogue search compares bytes, so accents of {case} never match the collation.",
            "We decided to fold accents of {case} with the ICU collation in the catalogue search.",
        ),
    ),
    BILLING: (
        (
            "The ledger is out of balance again after refund {n} of {case}.",
            "The refund of {case} posts to the suspense account, so the ledger counts it twice.",
            "We decided that every refund of {case} posts to the ledger by double entry.",
        ),
        (
            "Invoice mail {n} of {case} went out twice last night.",
            "The invoice queue retries {case} without an idempotency key, so a mail is sent again.",
            "We decided to give each invoice mail of {case} an idempotency key in the outbox.",
        ),
    ),
}
_SHARED = (
    "The canary rollout {n} of the gateway in {case} stopped at five percent.",
    "The canary rollout of {case} stops because the error budget of the gateway is spent.",
    "We decided that a canary rollout of the gateway in {case} waits for the error budget.",
)
_SYLLABLES = ("Bor", "dal", "wen", "tik", "mos", "ral", "gand", "vik")
_OWN = " Before that the {secret} hosts are drained."

#: Sessions of each theme, a week apart.
WEEKS = 12


def sessions() -> list[EventDraft]:
    """Everything that was said, in order of time."""
    return sorted(_said(), key=lambda d: d.timestamp or 0)


def _said() -> Iterator[EventDraft]:
    roles = (Role.USER, Role.ASSISTANT, Role.ASSISTANT)
    for project, secret in SECRETS.items():
        for place, theme in enumerate((*_THEMES[project], _SHARED)):
            for week in range(WEEKS):
                # Each theme has its own day of the week, and each project its own time of the day.
                day = dt.date(2025, 12, 8) + dt.timedelta(weeks=week, days=place)
                case = _SYLLABLES[place + 3 * (project == SHOP)] + _SYLLABLES[week % 6] + _SYLLABLES[6 + week // 6]
                # Said often, it would tell two topics apart.
                own = _OWN.format(secret=secret) if theme is _SHARED and week % 4 == 0 else ""
                for minute, (role, text) in enumerate(zip(roles, theme, strict=True)):
                    yield draft(
                        text.format(n=100 + week, case=case) + (own if role is Role.ASSISTANT else ""),
                        at=f"{day} {9 if project == SHOP else 14:02}:{minute:02}",
                        session=f"{project.rsplit('/', 1)[-1]}-{place}-{week}",
                        role=role,
                        project=project,
                        source_id=f"{project}-{place}-{week}-{minute}",
                    )


def lines() -> str:
    """The same as JSONL."""
    return "".join(
        json.dumps(
            {
                "id": d.source_id,
                "session_id": d.session_id,
                "timestamp": d.timestamp,
                "role": d.role,
                "text": d.text,
                "project": d.project,
                "agent": d.agent,
            }
        )
        + "\n"
        for d in sessions()
    )


def opened(place: Path, count: int | None = None, topics: TopicsSettings | None = None) -> App:
    """An App over the first `count` messages, or all; topics were not looked for yet. Today is the Monday behind."""
    settings = Settings(
        storage=StorageSettings(str(place), "Europe/Berlin"),
        server=ServerSettings(profile="full"),
        topics=topics or TopicsSettings(),
    )
    app = App(settings, FakeClock())
    app.write(sessions()[:count], "jsonl")
    app.derivation.run()
    return app
