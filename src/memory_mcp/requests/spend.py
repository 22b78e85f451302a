"""get_spend: what the language model that improves summaries and names topics was asked, what that cost, and what is due."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import level_of
from memory_mcp.model.ids import is_topic_id
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.requests.entry import answers
from memory_mcp.requests.limits import DAYS
from memory_mcp.requests.scope import Caller
from memory_mcp.upkeep.jobs.improve_summaries import left_today

if TYPE_CHECKING:
    from memory_mcp.app import App


@dataclass(frozen=True, slots=True)
class GetSpend:
    """Request for the last `days` local days, today among them."""

    days: int = DAYS.default


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOfModel:
    """What one model cost on one local day."""

    day: str
    model: str
    asked: int
    #: How many of these asked for the label of a topic.
    labels: int
    tokens_in: int
    tokens_out: int
    #: Tokens of these that are estimates, because the provider reported none.
    estimated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A reason why nodes and topics have kept their text, or got no answer."""

    outcome: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Nodes of one level, or labels of topics, that are still to be asked for."""

    level: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spend:
    """The ledger, summed; it holds no text."""

    provider: str
    model: str
    daily_tokens: int
    spent_today: int
    left_today: int
    written: int
    days: Sequence[DayOfModel]
    failures: Sequence[Failure]
    due: Sequence[Due]
    #: What the last run came to; "" before the first.
    last_run: str


@answers("get_spend", GetSpend)
def get_spend(app: "App", request: GetSpend, _: Caller) -> Spend:
    """Return the model's use by local day, latest first. Raises InvalidQuery."""
    settings, now = app.settings.summarizer, app.clock.now_ms()
    today = app.calendar.to_local(now).date()
    first = today.fromordinal(max(1, today.toordinal() - DAYS.check(request.days, "days") + 1))
    rows = app.storage.spending.list_calls(app.calendar.midnight_of(first))
    tokens_left = left_today(settings, app.storage, app.calendar, now)
    reasons = Counter((row.outcome.value, row.reason) for row in rows if row.outcome is not Outcome.OK)
    due = Counter(level_of(i).value for i in app.improver.due(now, settings.name)) if settings.is_on else Counter[str]()
    labeller = app.accelerators.create_labeller() if settings.is_on else None
    if labeller and (labels := len(labeller.topics_to_label(settings.name))):
        due["topic label"] = labels
    [job] = [status for status in app.scheduler.statuses() if status.name == "improve_summaries"]
    by_day_and_model: dict[tuple[str, str], list[ModelCall]] = {}
    for row in rows:
        by_day_and_model.setdefault((app.calendar.day_of(row.at_ms), row.model), []).append(row)
    return Spend(
        provider=settings.provider,
        model=settings.name if settings.is_on else "",
        daily_tokens=settings.daily_tokens,
        spent_today=settings.daily_tokens - tokens_left,
        left_today=max(0, tokens_left),
        written=sum(row.outcome is Outcome.OK for row in rows),
        days=[
            DayOfModel(
                day=day,
                model=model,
                asked=len(several),
                labels=sum(is_topic_id(row.node_id) for row in several),
                tokens_in=sum(row.tokens_in for row in several),
                tokens_out=sum(row.tokens_out for row in several),
                estimated=sum(row.tokens_in + row.tokens_out for row in several if row.estimated),
            )
            for (day, model), several in sorted(by_day_and_model.items(), reverse=True)
        ],
        failures=[Failure(outcome=o, reason=r, count=n) for (o, r), n in reasons.most_common()],
        due=[Due(level=level, count=count) for level, count in due.items()],
        last_run=job.last_result if settings.is_on else "",
    )
