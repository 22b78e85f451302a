"""Asks the configured language model for better summaries and topic labels; does nothing without one.

Summaries of nodes come first; labels of topics get what is left of the budget.

Each answer is written down and published as it comes, so that a run which ends anywhere is gone on with by the next.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.model.calendar import Calendar
from memory_mcp.model.ids import NodeId, TopicId
from memory_mcp.model.ledger import ModelCall, Outcome
from memory_mcp.storage.base import Storage
from memory_mcp.tree.llm.answer import MAX_OUT, Rarity, Reply, Unavailable, Unusable, check_label, check_summary
from memory_mcp.tree.llm.material import Prompt, label_prompt, summary_prompt
from memory_mcp.tree.llm.settings import SummarizerSettings
from memory_mcp.tree.toc.improve import Improver
from memory_mcp.upkeep.jobs.base import JobReport
from memory_mcp.upkeep.jobs.schedule import Every

if TYPE_CHECKING:
    from memory_mcp.indexes.topics.labelling import Labeller, UnlabelledTopic
    from memory_mcp.tree.llm.command import Command

#: How often it is looked whether the run is to end, and how long what is under way is then waited for (seconds).
_LOOK, _GRACE = 0.2, 1.0
#: So many answers in a row that cannot be used end a run: the model is not up to it, or not the one that was meant.
_MAX_UNUSABLE = 5
#: Topic labels requested in one run: a memory has hundreds of topics, and only the first are often seen.
_LABELS = 20


@dataclass(frozen=True, slots=True)
class SummaryParts:
    """The parts of other rooms that the job works with."""

    storage: Storage
    calendar: Calendar
    clock: Clock
    improver: Improver
    #: Returns what labels topics, loading it; None where there are no topics.
    labeller: Callable[[], "Labeller | None"]
    #: A folder of our own for commands to run in; None where there is none.
    directory: Path | None
    #: Calls a function under the publishing lock and returns its result; where that is true, periods above are updated.
    publishing: Callable[[Callable[[], bool]], bool]
    #: Returns a text as it may be stored; "" when it may not be.
    clean: Callable[[str], str]
    #: Whether an import is under way: the tree changes under the work.
    busy: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class _Question:
    """A text to ask for."""

    #: The node or topic, and the digest of its content at this time: see `ModelCall`.
    target: NodeId | TopicId
    source: str
    prompt: Prompt
    #: Publishes an answer, and returns False when its target changed meanwhile; raises Unusable.
    publish: Callable[[str], bool]


#: Returns a question when its turn comes; None when there is nothing to ask any more.
_Due = Callable[[], _Question | None]


@dataclass(frozen=True, slots=True)
class _PendingQuestion:
    """One question under way."""

    due: _Due
    question: _Question
    at_ms: int
    began: float = field(default_factory=time.monotonic)

    @property
    def reserved_tokens(self) -> int:
        return self.question.prompt.tokens * 5 // 4 + MAX_OUT


class ImproveSummaries:
    """Asks one question for each text, up to `concurrency` of them at once, in threads that only wait."""

    name = "improve_summaries"
    help = "let a language model say what nodes hold and topics are called (summarizer.command)"
    schedule = Every(1800)
    #: Beside the other jobs: see `base.Waiting`.
    waits = True

    def __init__(self, settings: SummarizerSettings, hands: SummaryParts) -> None:
        self._settings = settings
        self._hands = hands

    def run(self, now_ms: int, should_stop: Callable[[], bool]) -> JobReport:  # noqa: ARG002 - see Job
        """Ask for summaries and labels that are due; report.

        The report counts them by outcome (ok, fallback, failed) and as "left"; it has none where no model is set, and
        then nothing is done. A model that fails ends the run and is the reason in the report; it is not raised.
        """
        if not self._settings.is_on:
            return JobReport("off: summarizer.command is not set", {})
        run = _Run(self._settings, self._hands, should_stop)
        run.work()
        counts = {outcome.value: run.outcomes[outcome] for outcome in Outcome}
        counts["left"] = len(run.due) + run.put_off
        words = f"{counts['ok']:,} written, {counts['fallback']:,} kept as they were, {counts['failed']:,} without an answer"
        return JobReport(f"{words}; {counts['left']:,} left" + (f"; stopped: {run.reason}" if run.reason else ""), counts)


class _Run:
    """One run of the job."""

    def __init__(self, settings: SummarizerSettings, hands: SummaryParts, should_stop: Callable[[], bool]) -> None:
        self._settings = settings
        self._hands = hands
        self._should_stop = should_stop
        self._stopped = threading.Event()
        self._answers: queue.SimpleQueue[tuple[_PendingQuestion, Reply | Exception]] = queue.SimpleQueue()
        self._under_way: list[_PendingQuestion] = []
        self._in_a_row = 0
        self.due: deque[_Due] = deque()
        #: Labels of topics that are left to the next run.
        self.put_off = 0
        self.outcomes = dict.fromkeys(Outcome, 0)
        #: Why the run ended before everything was done; "" when it did not.
        self.reason = ""

    def work(self) -> None:
        if self._hands.busy():
            self.reason = "an import is under way"
            return
        try:
            for due in (self._due_nodes, self._due_labels):
                self.due.extend(due())
                while self.due or self._under_way:
                    if not self.reason and self._should_stop():
                        self.reason = "the process ends"
                    elif not self.reason and self._hands.busy():
                        self.reason = "an import is under way"
                    if self.reason:
                        return
                    self._begin_questions()
                    if self._under_way:
                        self._take_answer(_LOOK)
        finally:
            self._stopped.set()
            until = time.monotonic() + _GRACE
            while self._under_way and (seconds_left := until - time.monotonic()) > 0:
                self._take_answer(seconds_left)
            for question in self._under_way:
                self._record_cost(question, Outcome.FAILED, "stopped", (question.question.prompt.tokens, 0), estimated=True)
                self.due.appendleft(question.due)

    def _due_nodes(self) -> list[_Due]:
        node_ids = self._hands.improver.due(self._hands.clock.now_ms(), self._settings.name)
        return [partial(self._node_question, node_id) for node_id in node_ids]

    def _due_labels(self) -> list[_Due]:
        labeller = self._hands.labeller()
        if labeller is None:
            return []
        topics = labeller.topics_to_label(self._settings.name)
        self.put_off = len(topics[_LABELS:])
        return [partial(self._topic_question, labeller, topic) for topic in topics[:_LABELS]]

    def _node_question(self, node_id: NodeId) -> _Question | None:
        improver, model = self._hands.improver, self._settings.name
        material = improver.collect_material(node_id)
        if material is None:
            return None

        def publish(answer: str) -> bool:
            written = check_summary(answer, material, self._rarity, self._hands.clean)
            return self._hands.publishing(lambda: improver.publish(material, written, model))

        return _Question(node_id, material.source, summary_prompt(material), publish)

    def _topic_question(self, labeller: "Labeller", due: "UnlabelledTopic") -> _Question | None:
        material = labeller.read_material(due)
        if material is None:
            return None

        def publish(answer: str) -> bool:
            label = check_label(answer, material, self._rarity, self._hands.clean)
            if labeller.is_taken(due, label):
                raise Unusable("another topic is called so")
            return labeller.publish_label(due, label, self._settings.name)

        return _Question(due.topic_id, due.request_basis, label_prompt(material), publish)

    @cached_property
    def _command(self) -> "Command":
        from memory_mcp.tree.llm.command import Command

        return Command(self._settings.command, self._settings.timeout_secs, self._hands.directory)

    @cached_property
    def _rarity(self) -> Rarity:
        return self._hands.improver.read_rarity()

    def _begin_questions(self) -> None:
        while self.due and not self.reason and len(self._under_way) < self._settings.concurrency:
            question = self.due[0]()
            if question is None:
                self.due.popleft()
                continue
            pending = _PendingQuestion(self.due[0], question, self._hands.clock.now_ms())
            reserved = sum(other.reserved_tokens for other in self._under_way)
            if (
                pending.reserved_tokens
                > left_today(self._settings, self._hands.storage, self._hands.calendar, pending.at_ms) - reserved
            ):
                # What is under way may cost less than was held for it.
                if not self._under_way:
                    self.reason = "the budget of the day does not bear another question"
                return
            self.due.popleft()
            self._under_way.append(pending)
            threading.Thread(target=self._await_answer, args=(self._command, pending), name="asking", daemon=True).start()

    def _await_answer(self, command: "Command", pending: _PendingQuestion) -> None:
        try:
            answer: Reply | Exception = command.ask(pending.question.prompt, self._stopped, self._settings.retries)
        except Exception as error:
            answer = error
        self._answers.put((pending, answer))

    def _take_answer(self, patience: float) -> None:
        try:
            pending, answer = self._answers.get(timeout=patience)
        except queue.Empty:
            return
        self._under_way.remove(pending)
        if isinstance(answer, Reply):
            cost, estimated = (answer.tokens_in, answer.tokens_out), answer.estimated
            try:
                is_published = pending.question.publish(answer.text)
            except Unusable as error:
                self._fall_back(pending, str(error), cost, estimated)
                return
            self._in_a_row = 0
            outcome, reason = (Outcome.OK, "") if is_published else (Outcome.FALLBACK, "what it is of changed meanwhile")
            self._record_cost(pending, outcome, reason, cost, estimated)
        elif isinstance(answer, Unavailable):
            self._record_cost(pending, Outcome.FAILED, str(answer), (answer.tokens_in, 0), estimated=True)
            self.due.appendleft(pending.due)
            self.reason = self.reason or str(answer)
        else:
            raise answer

    def _fall_back(self, pending: _PendingQuestion, reason: str, cost: tuple[int, int], estimated: bool) -> None:
        self._record_cost(pending, Outcome.FALLBACK, reason, cost, estimated)
        self._in_a_row += 1
        if self._in_a_row >= _MAX_UNUSABLE:
            self.reason = self.reason or f"{_MAX_UNUSABLE} answers in a row could not be used ({reason})"

    def _record_cost(
        self, pending: _PendingQuestion, outcome: Outcome, reason: str, cost: tuple[int, int], estimated: bool
    ) -> None:
        took = round((time.monotonic() - pending.began) * 1000)
        made_of = (pending.question.target, pending.question.source, self._settings.name)
        self._hands.storage.spending.record_call(ModelCall(pending.at_ms, *made_of, *cost, estimated, outcome, reason, took))
        self.outcomes[outcome] += 1


def left_today(settings: SummarizerSettings, storage: Storage, calendar: Calendar, now_ms: int) -> int:
    """Return the tokens left of today's budget.

    In the store's zone; negative if it is exceeded.
    """
    midnight = calendar.midnight_of(calendar.to_local(now_ms).date())
    return settings.daily_tokens - storage.spending.count_tokens(midnight)


def last_problem(storage: Storage, calendar: Calendar, now_ms: int) -> str:
    """Return why the last question of today gave no text; "" if it gave one, and where none was asked."""
    midnight = calendar.midnight_of(calendar.to_local(now_ms).date())
    call = next(iter(storage.spending.list_calls(midnight)[-1:]), None)
    return call.reason if call is not None and call.outcome is not Outcome.OK else ""
