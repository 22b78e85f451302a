"""Count what a search uses against its six bounds.

Invariants
1. Counters are exact under threads: parallel paths of one search share one `Spent`.
2. Nothing beyond a bound is begun. A soft budget may exceed one bound, once and by at most half, and only while nothing was
found; `Spent.exceeded` names it. A bound that the caller names is never exceeded.
3. A cancelled budget is out of time, and so are all budgets made from it. A set `GONE` event cancels every budget of its call.
4. A share never uses what is reserved for the attempts after it.
5. Only a path with `first_find_ms` goes on when its time is up, and only while the whole search has found nothing.

Change here: a bound's default.
"""

import math
import threading
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import field, replace
from typing import Any

from memory_mcp.base.clock import Clock
from memory_mcp.base.dataclass import dataclass
from memory_mcp.base.errors import ConfigError
from memory_mcp.model.tokens import estimate_tokens

#: The event that is set when the caller of the current call has disconnected; its budgets are out of time then.
GONE: ContextVar[threading.Event | None] = ContextVar("gone", default=None)
#: Milliseconds that the last resort has for its first find, whatever the time limit: it takes 60 on an idle machine, the first
#: question after a start included.
FIRST_FIND_MS = 1000.0
#: Longest time in seconds that a call waits in a queue; an older arrival time is ignored.
_WAITED = 60.0
#: When the call arrived (`time.monotonic`): time spent in a queue counts against the call's time limit.
SINCE: ContextVar[float | None] = ContextVar("since", default=None)


def leave_out(seconds: float) -> None:
    """Exclude `seconds` from the time limits of later budgets."""
    since = SINCE.get()
    if since is not None:
        SINCE.set(since + seconds)


@dataclass(frozen=True, slots=True)
class StopConditions:
    """Bounds of a search (agent-retrieval-policy-prd.md, section 5.5)."""

    max_depth: int = field(default=5, metadata={"help": "Levels a search may go down."})
    max_nodes_visited: int = field(default=100, metadata={"help": "Nodes whose terms or text may be compared."})
    max_rpc_calls: int = field(
        default=20, metadata={"help": "Layer searches, children searches, node fetches and grip expansions."}
    )
    max_token_budget: int = field(default=4000, metadata={"help": "Tokens of an answer's results."})
    timeout_ms: int = field(default=5000, metadata={"help": "Wall time of a search in milliseconds."})
    beam_width: int = field(default=1, metadata={"help": "Expansions run at once."})

    def __post_init__(self) -> None:
        """Raise ConfigError for a bound out of range."""
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.beam_width > 5:
            raise ConfigError("beam_width must be at most 5")

    def with_changes(self, **changes: int | None) -> "StopConditions":
        """Return these bounds with those that are not None.

        Raises ConfigError for one out of range.
        """
        named = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **named) if named else self


@dataclass(slots=True)
class Spent:
    """What all paths of one search have used so far."""

    nodes_visited: int = 0
    rpc_calls: int = 0
    depth: int = 0
    tokens: int = 0
    #: Names of the bounds that were reached, in that order.
    hit: list[str] = field(default_factory=list)
    #: The one bound that was exceeded, "" for none.
    exceeded: str = ""
    #: Whether anything was found; then no bound may be exceeded.
    satisfied: bool = False
    #: Names passed to `visit_named`: each is counted once in a search.
    visited_names: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class _Share:
    nodes: int
    calls: int
    #: The limits are lifted once anything was found, because no later attempt follows.
    until_found: bool


@dataclass(slots=True)
class Budget:
    """What one path of a search may still use."""

    bounds: StopConditions
    clock: Clock
    factor: float = 1.0
    #: Whether no bound may be exceeded (agent-retrieval-policy-prd.md, section 5.5: enforcement by intent).
    strict: bool = True
    #: Names of bounds set by the caller: never exceeded, even if not `strict`.
    hard: frozenset[str] = frozenset()
    spent: Spent = field(default_factory=Spent)
    #: Time limit of this path alone in milliseconds; None for that of the search.
    own_ms: int | None = None
    #: Limits of this attempt alone; None for those of the search.
    attempt_share: _Share | None = None
    #: The budget this was made from; its limits apply too.
    parent: "Budget | None" = None
    #: Only the time limit of the parent applies, not its nodes and calls.
    is_separate: bool = False
    #: Milliseconds from its begin that this path has in any case, while the search has found nothing.
    first_find_ms: float = 0.0
    #: Takes an answer as far as it goes (`layers.base.LayerAnswer`): it counts if the time is up before the whole one is there.
    on_partial: Callable[[Any], None] = lambda _: None
    started: float = field(default=-1.0)
    #: Start of this path on the clock's monotonic time, in seconds.
    begun: float = field(init=False)
    #: Nodes and calls that this path has used, and the bounds that ended it or a path made from it.
    used_nodes: int = field(init=False, default=0)
    used_calls: int = field(init=False, default=0)
    cut_by: list[str] = field(init=False, default_factory=list)
    _cancelled: threading.Event = field(init=False, default_factory=threading.Event)
    _gone: threading.Event | None = field(init=False)

    def __post_init__(self) -> None:
        self.begun = self.clock.monotonic()
        self._gone = GONE.get()
        if self.started < 0:
            since = SINCE.get()
            # With a clock other than the machine's the arrival time is meaningless.
            arrived = since is not None and 0 <= self.begun - since < _WAITED
            self.started = since if since is not None and arrived else self.begun

    def branch_path(self, own_ms: int | None = None) -> "Budget":
        """Return a budget for a parallel path, with counters shared.

        It has its own cancellation and, unless None, a limit of `own_ms` ms.
        """
        return replace(self, own_ms=own_ms, attempt_share=None, parent=self)

    def take_share(self, fraction: float, until_found: bool = False) -> "Budget":
        """Return a budget with a fraction of the nodes, calls and time.

        For attempts in turn: each has at least one node and one call while there are any, and 1.0 gives the last everything left.
        With `until_found` the limits are lifted once something was found.
        """
        if fraction >= 1:
            return self.branch_path()
        attempt_share = _Share(math.ceil(self.nodes_left() * fraction), math.ceil(self.calls_left() * fraction), until_found)
        return replace(self, own_ms=max(1, int(self.left_ms() * fraction)), attempt_share=attempt_share, parent=self)

    def separate(self, own_ms: int) -> "Budget":
        """Return a budget with counters of its own and `own_ms` milliseconds.

        For work next to the search for results, which must find the same with it as without.
        """
        return replace(self, own_ms=own_ms, attempt_share=None, parent=self, spent=Spent(), is_separate=True)

    def leaving_nodes(self, nodes: int) -> "Budget":
        """Return a budget that leaves nodes and a call to another path."""
        path_share = _Share(max(0, self.nodes_left() - nodes), max(0, self.calls_left() - 1), until_found=False)
        return replace(self, attempt_share=path_share, parent=self)

    def cancel(self) -> None:
        """Cancel this path and every budget made from it, for good."""
        self._cancelled.set()

    def is_cancelled(self) -> bool:
        """Return whether this path, a parent or the call was cancelled."""
        if self._cancelled.is_set() or (self._gone is not None and self._gone.is_set()):
            return True
        return self.parent is not None and self.parent.is_cancelled()

    def elapsed_ms(self) -> int:
        """Return the milliseconds since the search began or the call arrived."""
        return int((self.clock.monotonic() - self.started) * 1000)

    def left_ms(self) -> float:
        """Return the milliseconds until this path must end; may be negative."""
        return self.ms_to_limit() if self.spent.satisfied else max(self.ms_to_limit(), self.ms_to_first_find())

    def ms_to_first_find(self) -> float:
        """Return the milliseconds left for a first find."""
        return self.first_find_ms - (self.clock.monotonic() - self.begun) * 1000 if self.first_find_ms else 0.0

    def ms_to_limit(self) -> float:
        """Return the milliseconds until this path's limit; may be negative."""
        now = self.clock.monotonic()
        return min(self.bounds.timeout_ms - (now - self.started) * 1000, self._own_ms_left(now))

    def _own_ms_left(self, now: float) -> float:
        left_ms = math.inf if self.own_ms is None or self._is_released() else self.own_ms - (now - self.begun) * 1000
        return left_ms if self.parent is None else min(left_ms, self.parent._own_ms_left(now))

    def _is_released(self) -> bool:
        return self.attempt_share is not None and self.attempt_share.until_found and self.spent.satisfied

    def limit(self, name: str) -> int:
        """Return a bound's current value: half more if it was exceeded."""
        bound: int = getattr(self.bounds, name)
        return bound + bound // 2 if self.spent.exceeded == name else bound

    def _is_stopped_by(self, name: str, used: int, more: int) -> bool:
        """Return whether `more` on top of `used` would exceed a bound.

        If so, the bound is recorded as reached; a soft one may instead be exceeded by half, once and while nothing was found.
        """
        with self.spent.lock:
            if used + more <= self.limit(name):
                return False
            soft = not self.strict and name not in self.hard
            may_exceed = soft and not self.spent.satisfied and not self.spent.exceeded
            if may_exceed and getattr(self.bounds, name) > 1:
                self.spent.exceeded = name
                if used + more <= self.limit(name):
                    return False
            self.record_hit(name)
            return True

    def record_hit(self, name: str) -> None:
        """Add the name of a bound to `hit`, once."""
        with self.spent.lock:
            if name not in self.spent.hit:
                self.spent.hit.append(name)
            self.note_cut(name)

    def note_cut(self, name: str) -> None:
        """Note that a bound ended this path, not the whole search."""
        with self.spent.lock:
            path: Budget | None = self
            while path is not None:
                if name not in path.cut_by:
                    path.cut_by.append(name)
                path = None if path.is_separate else path.parent

    def out_of_time(self) -> bool:
        """Return whether this path must end; a time limit is recorded."""
        if self.is_cancelled():
            return True
        if self.first_find_ms and not self.spent.satisfied:
            return self.is_short_of(0)
        if self._own_ms_left(self.clock.monotonic()) < 0:
            self.record_hit("timeout_ms")
            return True
        return self._is_stopped_by("timeout_ms", self.elapsed_ms(), 0)

    def is_short_of(self, ms: float) -> bool:
        """Return whether less than `ms` milliseconds are left, and record that."""
        if self.left_ms() >= ms:
            return False
        self.record_hit("timeout_ms")
        return True

    def count_call(self) -> bool:
        """Count one call; False if none is left or the time is up."""
        with self.spent.lock:
            if self.out_of_time():
                return False
            if self._own_left()[1] < 1:
                self.record_hit("max_rpc_calls")
                return False
            if self._is_stopped_by("max_rpc_calls", self.spent.rpc_calls, 1):
                return False
            self.spent.rpc_calls += 1
            self._count_use(0, 1)
            return True

    def visit_nodes(self, count: int) -> int:
        """Count up to `count` nodes as visited; return how many may be compared, 0 to `count`.

        Fewer than `count` are recorded as the bound reached; a soft bound may be exceeded for them first.
        """
        with self.spent.lock:
            within = min(count, self._own_left()[0])
            if within < count:
                self.record_hit("max_nodes_visited")
            if within > self.nodes_left():
                self._is_stopped_by("max_nodes_visited", self.spent.nodes_visited, int(within))
            allowed = min(count, self.nodes_left())
            self.spent.nodes_visited += allowed
            self._count_use(allowed, 0)
            return allowed

    def visit_named(self, names: Sequence[str]) -> int:
        """Count nodes by name, once; return how many names may be used.

        Names that were counted before cost nothing; the first one that does not fit ends it.
        """
        with self.spent.lock:
            allowed = self.visit_nodes(sum(name not in self.spent.visited_names for name in names))
            for used, name in enumerate(names):
                if name not in self.spent.visited_names:
                    if not allowed:
                        return used
                    self.spent.visited_names.add(name)
                    allowed -= 1
            return len(names)

    def nodes_left(self) -> int:
        """Return how many nodes may still be compared."""
        return int(max(0, min(self.limit("max_nodes_visited") - self.spent.nodes_visited, self._own_left()[0])))

    def calls_left(self) -> int:
        """Return how many calls may still be made."""
        return int(max(0, min(self.limit("max_rpc_calls") - self.spent.rpc_calls, self._own_left()[1])))

    def _own_left(self) -> tuple[float, float]:
        nodes, calls = (math.inf, math.inf) if self.parent is None or self.is_separate else self.parent._own_left()
        if self.attempt_share is None or self._is_released():
            return nodes, calls
        return min(nodes, self.attempt_share.nodes - self.used_nodes), min(calls, self.attempt_share.calls - self.used_calls)

    def _count_use(self, nodes: int, calls: int) -> None:
        self.used_nodes += nodes
        self.used_calls += calls
        if self.parent is not None and not self.is_separate:
            self.parent._count_use(nodes, calls)

    def go_down(self, depth: int) -> bool:
        """Return whether a search may enter this depth (years are 1).

        If so, record it if it is the deepest so far; if not, record the bound as reached. A soft bound may be exceeded for it.
        """
        with self.spent.lock:
            if self._is_stopped_by("max_depth", depth, 0):
                return False
            self.spent.depth = max(self.spent.depth, depth)
            return True

    def spend_tokens(self, text: str) -> bool:
        """Count the tokens of a text; False, counting nothing, without room."""
        tokens = estimate_tokens(text, self.factor)
        with self.spent.lock:
            if self.spent.tokens + tokens > self.bounds.max_token_budget:
                self.record_hit("max_token_budget")
                return False
            self.spent.tokens += tokens
            return True
