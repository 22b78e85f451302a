"""The six bounds, and the count against them.

Invariants
1. Counters are exact, whoever counts: paths of one search that run side by side share them.
2. Nothing beyond a bound is begun. A soft budget may go beyond one bound, once and by at most half, and only while nothing
   was found; that it did is told. A bound that the caller names is never exceeded.
3. A cancelled budget is out of time, with everything made of it, and so is every budget of a search whose caller has gone.
4. A share never uses what is kept for the attempts after it.
"""

import math
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from memory_mcp.clock import Clock
from memory_mcp.errors import ConfigError
from memory_mcp.model.tokens import estimate_tokens

#: Set by whoever runs a call for somebody who may go away: set, the call's budgets are out of time.
GONE: ContextVar[threading.Event | None] = ContextVar("gone", default=None)
#: No call waits longer for its turn (seconds).
_WAITED = 60.0
#: When the call arrived (`time.monotonic`), set by the same: what it waited for its turn counts against its time.
SINCE: ContextVar[float | None] = ContextVar("since", default=None)


def leave_out(seconds: float) -> None:
    """Do not count this much of the time since the call arrived against its time limit."""
    since = SINCE.get()
    if since is not None:
        SINCE.set(since + seconds)


@dataclass(frozen=True, slots=True)
class StopConditions:
    """Where a search ends whatever it has found (agent-retrieval-policy-prd.md, section 5.5)."""

    max_depth: int = field(default=5, metadata={"help": "Levels a search may go down."})
    max_nodes_visited: int = field(default=100, metadata={"help": "Nodes whose terms or text may be compared."})
    max_rpc_calls: int = field(
        default=20, metadata={"help": "Layer searches, children searches, node fetches and grip expansions."}
    )
    max_token_budget: int = field(default=4000, metadata={"help": "Tokens of an answer's results."})
    timeout_ms: int = field(default=5000, metadata={"help": "Wall time of a search in milliseconds."})
    beam_width: int = field(default=1, metadata={"help": "Expansions run at once."})

    def __post_init__(self) -> None:
        """Every bound is positive; a beam is at most 5."""
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.beam_width > 5:
            raise ConfigError("beam_width must be at most 5")

    def with_(self, **changes: int | None) -> "StopConditions":
        """A copy with those bounds that are given."""
        return replace(self, **{k: v for k, v in changes.items() if v is not None})


@dataclass(slots=True)
class Spent:
    """What a search has used so far, by all of its paths together."""

    nodes_visited: int = 0
    rpc_calls: int = 0
    depth: int = 0
    tokens: int = 0
    #: Names of the bounds that stopped something, in the order they did.
    hit: list[str] = field(default_factory=list)
    #: The one bound that was exceeded, "" for none.
    exceeded: str = ""
    #: Whether something was found, so that no bound needs to be exceeded.
    satisfied: bool = False
    #: What was visited by name; seen by another layer again, it costs nothing more.
    named: set[str] = field(default_factory=set)
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class _Share:
    """What one attempt of a search may use by itself, and has used."""

    nodes: int
    calls: int
    #: The limits end with the first thing found: no later attempt needs what was kept for it.
    until_found: bool
    nodes_used: int = 0
    calls_used: int = 0


@dataclass(slots=True)
class Budget:
    """One path's view of what a search may still use."""

    bounds: StopConditions
    clock: Clock
    factor: float = 1.0
    #: Whether every bound is hard (agent-retrieval-policy-prd.md, section 5.5: enforcement by intent).
    strict: bool = True
    #: Bounds that are hard even where others are not: those that the caller named.
    hard: frozenset[str] = frozenset()
    spent: Spent = field(default_factory=Spent)
    #: Milliseconds after which this path alone ends; None: with the search.
    own_ms: int | None = None
    #: What this attempt alone may use; None: whatever the search may.
    own: _Share | None = None
    #: What this was made of: its limits hold here too.
    parent: "Budget | None" = None
    #: Only the time of what it was made of holds here, not its nodes and calls.
    is_apart: bool = False
    started: float = field(default=-1.0)
    _begun: float = field(init=False)
    _cancelled: threading.Event = field(init=False, default_factory=threading.Event)
    _gone: threading.Event | None = field(init=False)

    def __post_init__(self) -> None:
        """The time runs from here; a branch's search began before."""
        self._begun = self.clock.monotonic()
        self._gone = GONE.get()
        if self.started < 0:
            since = SINCE.get()
            # A clock that is not the machine's own knows nothing of when a call arrived.
            arrived = since is not None and 0 <= self._begun - since < _WAITED
            self.started = since if since is not None and arrived else self._begun

    def branch(self, own_ms: int | None = None) -> "Budget":
        """Return a budget for one of several paths: the same counters, an end of its own."""
        return replace(self, own_ms=own_ms, own=None, parent=self)

    def share(self, fraction: float, until_found: bool = False) -> "Budget":
        """Return a budget for one of several attempts: a fraction of the nodes, calls and time that are left.

        What the attempt uses counts for the whole search. It has at least one node and one call while there are any. The last
        attempt takes 1.0, which is everything that is left. With `until_found` the limits end once something was found,
        because no attempt follows then.
        """
        if fraction >= 1:
            return self.branch()
        own = _Share(math.ceil(self.nodes_left() * fraction), math.ceil(self.calls_left() * fraction), until_found)
        return replace(self, own_ms=max(1, int(self.left_ms() * fraction)), own=own, parent=self)

    def apart(self, own_ms: int) -> "Budget":
        """Return a budget for what tells something else than results: bounds of the same size, and an end of its own.

        Nothing of what it uses is taken from the search for results, which finds the same with it as without.
        """
        return replace(self, own_ms=own_ms, own=None, parent=self, spent=Spent(), is_apart=True)

    def beside(self, nodes: int) -> "Budget":
        """Return a budget for paths that run beside one which is to have so many nodes, and a call, to itself."""
        own = _Share(max(0, self.nodes_left() - nodes), max(0, self.calls_left() - 1), until_found=False)
        return replace(self, own=own, parent=self)

    @property
    def nodes_visited(self) -> int:
        """Nodes compared."""
        return self.spent.nodes_visited

    @property
    def rpc_calls(self) -> int:
        """Calls made."""
        return self.spent.rpc_calls

    @property
    def depth(self) -> int:
        """Deepest level stood at; years are 1."""
        return self.spent.depth

    @property
    def tokens(self) -> int:
        """Of the answer."""
        return self.spent.tokens

    @property
    def hit(self) -> list[str]:
        """See Spent."""
        return self.spent.hit

    @property
    def begun(self) -> float:
        """When this path began, on the clock's monotonic time (seconds)."""
        return self._begun

    def cancel(self) -> None:
        """Say that the path is no longer wanted."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether this path is no longer wanted, or nobody waits for the search."""
        if self._cancelled.is_set() or (self._gone is not None and self._gone.is_set()):
            return True
        return self.parent is not None and self.parent.cancelled

    def is_cancelled(self) -> bool:
        """As `cancelled`, to be handed on."""
        return self.cancelled

    def elapsed_ms(self) -> int:
        """Milliseconds since the search began."""
        return int((self.clock.monotonic() - self.started) * 1000)

    def left_ms(self) -> float:
        """Milliseconds until this path must end; negative when it is over."""
        now = self.clock.monotonic()
        return min(self.bounds.timeout_ms - (now - self.started) * 1000, self._own_ms_left(now))

    def _own_ms_left(self, now: float) -> float:
        """Milliseconds until the first end of its own that this path, or what it was made of, has."""
        left = math.inf if self.own_ms is None or self._is_released() else self.own_ms - (now - self._begun) * 1000
        return left if self.parent is None else min(left, self.parent._own_ms_left(now))

    def _is_released(self) -> bool:
        """Whether this attempt's limits have ended with what was found."""
        return self.own is not None and self.own.until_found and self.spent.satisfied

    def limit(self, name: str) -> int:
        """A bound, as far as it may be gone now."""
        bound: int = getattr(self.bounds, name)
        return bound + bound // 2 if self.spent.exceeded == name else bound

    def _stopped(self, name: str, used: int, more: int) -> bool:
        with self.spent.lock:
            if used + more <= self.limit(name):
                return False
            soft = not self.strict and name not in self.hard
            may_exceed = soft and not self.spent.satisfied and not self.spent.exceeded
            if may_exceed and getattr(self.bounds, name) > 1:
                self.spent.exceeded = name
                if used + more <= self.limit(name):
                    return False
            self.tell(name)
            return True

    def tell(self, name: str) -> None:
        """Enter the name of a bound that stopped something."""
        with self.spent.lock:
            if name not in self.hit:
                self.hit.append(name)

    def out_of_time(self) -> bool:
        """Whether this path must end: the time is up, or nobody wants it any more."""
        if self.cancelled:
            return True
        if self._own_ms_left(self.clock.monotonic()) < 0:
            self.tell("timeout_ms")
            return True
        return self._stopped("timeout_ms", self.elapsed_ms(), 0)

    def is_short_of(self, ms: float) -> bool:
        """Whether less than that is left, which counts as the time being up."""
        if self.left_ms() >= ms:
            return False
        self.tell("timeout_ms")
        return True

    def call(self) -> bool:
        """Count one call; False, and nothing counted, when there is none left or the time is up."""
        with self.spent.lock:
            if self.out_of_time():
                return False
            if self._own_left()[1] < 1:
                self.tell("max_rpc_calls")
                return False
            if self._stopped("max_rpc_calls", self.rpc_calls, 1):
                return False
            self.spent.rpc_calls += 1
            self._use(0, 1)
            return True

    def visit(self, count: int) -> int:
        """Count up to `count` nodes; how many may be compared."""
        with self.spent.lock:
            within = min(count, self._own_left()[0])
            if within < count:
                self.tell("max_nodes_visited")
            if within > self.nodes_left():
                self._stopped("max_nodes_visited", self.nodes_visited, int(within))
            allowed = min(count, self.nodes_left())
            self.spent.nodes_visited += allowed
            self._use(allowed, 0)
            return allowed

    def visit_named(self, names: Sequence[str]) -> int:
        """Count what is visited by name, each once in a whole search; how many of the first of them may be used."""
        with self.spent.lock:
            left = self.visit(sum(name not in self.spent.named for name in names))
            for used, name in enumerate(names):
                if name not in self.spent.named:
                    if not left:
                        return used
                    self.spent.named.add(name)
                    left -= 1
            return len(names)

    def nodes_left(self) -> int:
        """Nodes that may still be compared."""
        return int(max(0, min(self.limit("max_nodes_visited") - self.nodes_visited, self._own_left()[0])))

    def calls_left(self) -> int:
        """Calls that may still be made."""
        return int(max(0, min(self.limit("max_rpc_calls") - self.rpc_calls, self._own_left()[1])))

    def _own_left(self) -> tuple[float, float]:
        """Nodes and calls left to the attempts that this path is part of; infinite where it is part of none."""
        nodes, calls = (math.inf, math.inf) if self.parent is None or self.is_apart else self.parent._own_left()
        if self.own is None or self._is_released():
            return nodes, calls
        return min(nodes, self.own.nodes - self.own.nodes_used), min(calls, self.own.calls - self.own.calls_used)

    def _use(self, nodes: int, calls: int) -> None:
        """Count for the attempts that this path is part of."""
        if self.own is not None:
            self.own.nodes_used += nodes
            self.own.calls_used += calls
        if self.parent is not None and not self.is_apart:
            self.parent._use(nodes, calls)

    def go_down(self, depth: int) -> bool:
        """Whether a search may stand at this depth (years are 1); remembers the deepest."""
        with self.spent.lock:
            if self._stopped("max_depth", depth, 0):
                return False
            self.spent.depth = max(self.depth, depth)
            return True

    def spend(self, text: str) -> bool:
        """Count the tokens of a piece of the answer; False, and nothing counted, when they do not fit."""
        return self.spend_tokens(estimate_tokens(text, self.factor))

    def spend_tokens(self, tokens: int) -> bool:
        """As `spend`, for a piece of so many tokens. Never exceeded: whoever asks has no room for more."""
        with self.spent.lock:
            if self.tokens + tokens > self.bounds.max_token_budget:
                self.tell("max_token_budget")
                return False
            self.spent.tokens += tokens
            return True
