"""The protocol of a job, and the report of one run."""

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Protocol, runtime_checkable

from memory_mcp.base.dataclass import dataclass
from memory_mcp.upkeep.jobs.schedule import Schedule


@dataclass(frozen=True, slots=True)
class JobReport:
    """The result of one run, in words and in numbers."""

    words: str
    counts: Mapping[str, int] = field(default_factory=dict)


class Job(Protocol):
    """Background work that calls rooms; killed at any point it leaves a valid store, and its next run goes on."""

    @property
    def name(self) -> str:
        """The name by which commands know the job."""
        ...

    @property
    def help(self) -> str:
        """What the job does, in half a sentence."""
        ...

    @property
    def schedule(self) -> Schedule:
        """When the job is due."""
        ...

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:
        """Run once at `now_ms` (UTC ms) and report.

        A run ends early, between two steps, once `should_stop` returns true, and the report says so. Whatever goes wrong is
        raised; the scheduler keeps the error and tries again.
        """
        ...


@runtime_checkable
class WaitingJob(Protocol):
    """A job that mostly waits for something outside: it runs next to the others, which do not wait for it."""

    waits: bool


@runtime_checkable
class RequestedJob(Protocol):
    """A job that does more when a person starts it than on its schedule."""

    def run_requested(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:
        """Run once, including work left for later."""
        ...
