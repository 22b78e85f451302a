"""The six bounds, and the count against them.

Invariants
1. Counters are exact, whoever counts: paths of one search that run side by side share them.
2. Nothing beyond a bound is begun. A soft budget may go beyond one bound, once and by at most half, and only while nothing
   was found; that it did is told.
3. A cancelled branch is out of time, and so is every branch of a search whose caller has gone.
"""

import threading
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
    lock: threading.RLock = field(default_factory=threading.RLock)


@dataclass(slots=True)
class Budget:
    """One path's view of what a search may still use."""

    bounds: StopConditions
    clock: Clock
    factor: float = 1.0
    #: Whether every bound is hard (agent-retrieval-policy-prd.md, section 5.5: enforcement by intent).
    strict: bool = True
    spent: Spent = field(default_factory=Spent)
    #: Milliseconds after which this path alone ends; None: with the search.
    own_ms: int | None = None
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
        """For one of several paths: the same counters, an end of its own."""
        return replace(self, own_ms=own_ms)

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
        return self._cancelled.is_set() or (self._gone is not None and self._gone.is_set())

    def is_cancelled(self) -> bool:
        """As `cancelled`, to be handed on."""
        return self.cancelled

    def elapsed_ms(self) -> int:
        """Milliseconds since the search began."""
        return int((self.clock.monotonic() - self.started) * 1000)

    def left_ms(self) -> float:
        """Milliseconds until this path must end; negative when it is over."""
        now = self.clock.monotonic()
        left = self.bounds.timeout_ms - (now - self.started) * 1000
        return left if self.own_ms is None else min(left, self.own_ms - (now - self._begun) * 1000)

    def limit(self, name: str) -> int:
        """A bound, as far as it may be gone now."""
        bound: int = getattr(self.bounds, name)
        return bound + bound // 2 if self.spent.exceeded == name else bound

    def _stopped(self, name: str, used: int, more: int) -> bool:
        with self.spent.lock:
            if used + more <= self.limit(name):
                return False
            may_exceed = not self.strict and not self.spent.satisfied and not self.spent.exceeded
            if may_exceed and getattr(self.bounds, name) > 1:
                self.spent.exceeded = name
                if used + more <= self.limit(name):
                    return False
            if name not in self.hit:
                self.hit.append(name)
            return True

    def out_of_time(self) -> bool:
        """Whether this path must end: the time is up, or nobody wants it any more."""
        if self.cancelled:
            return True
        if self.own_ms is not None and (self.clock.monotonic() - self._begun) * 1000 > self.own_ms:
            self._tell_time()
            return True
        return self._stopped("timeout_ms", self.elapsed_ms(), 0)

    def is_short_of(self, ms: float) -> bool:
        """Whether less than that is left, which counts as the time being up."""
        if self.left_ms() >= ms:
            return False
        self._tell_time()
        return True

    def _tell_time(self) -> None:
        with self.spent.lock:
            if "timeout_ms" not in self.hit:
                self.hit.append("timeout_ms")

    def call(self) -> bool:
        """Count one call; False, and nothing counted, when there is none left or the time is up."""
        with self.spent.lock:
            if self.out_of_time() or self._stopped("max_rpc_calls", self.rpc_calls, 1):
                return False
            self.spent.rpc_calls += 1
            return True

    def visit(self, count: int) -> int:
        """Count up to `count` nodes; how many may be compared."""
        with self.spent.lock:
            if count > self.nodes_left():
                self._stopped("max_nodes_visited", self.nodes_visited, count)
            allowed = min(count, self.nodes_left())
            self.spent.nodes_visited += allowed
            return allowed

    def nodes_left(self) -> int:
        """Nodes that may still be compared."""
        return max(0, self.limit("max_nodes_visited") - self.nodes_visited)

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
                if "max_token_budget" not in self.hit:
                    self.hit.append("max_token_budget")
                return False
            self.spent.tokens += tokens
            return True
