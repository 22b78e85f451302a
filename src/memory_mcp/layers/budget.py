"""The six bounds, and the count against them."""

from dataclasses import dataclass, field, replace

from memory_mcp.clock import Clock
from memory_mcp.errors import ConfigError
from memory_mcp.model.tokens import estimate_tokens


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
class Budget:
    """What a search has used so far. Counters are exact; nothing beyond a bound is begun."""

    bounds: StopConditions
    clock: Clock
    factor: float = 1.0
    nodes_visited: int = 0
    rpc_calls: int = 0
    depth: int = 0
    tokens: int = 0
    #: Names of the bounds that stopped something, in the order they did.
    hit: list[str] = field(default_factory=list)
    started: float = field(init=False)

    def __post_init__(self) -> None:
        """The time runs from here."""
        self.started = self.clock.monotonic()

    def elapsed_ms(self) -> int:
        """Milliseconds since the start."""
        return int((self.clock.monotonic() - self.started) * 1000)

    def _stopped(self, name: str, used: int, more: int) -> bool:
        if used + more <= getattr(self.bounds, name):
            return False
        if name not in self.hit:
            self.hit.append(name)
        return True

    def out_of_time(self) -> bool:
        """Whether the time is up."""
        return self._stopped("timeout_ms", self.elapsed_ms(), 0)

    def call(self) -> bool:
        """Count one call; False, and nothing counted, when there is none left or the time is up."""
        if self.out_of_time() or self._stopped("max_rpc_calls", self.rpc_calls, 1):
            return False
        self.rpc_calls += 1
        return True

    def visit(self, count: int) -> int:
        """Count up to `count` nodes; how many may be compared."""
        allowed = min(count, self.bounds.max_nodes_visited - self.nodes_visited)
        if allowed < count:
            self._stopped("max_nodes_visited", self.nodes_visited, count)
        self.nodes_visited += allowed
        return allowed

    def nodes_left(self) -> int:
        """Nodes that may still be compared."""
        return self.bounds.max_nodes_visited - self.nodes_visited

    def go_down(self, depth: int) -> bool:
        """Whether a search may stand at this depth (years are 1); remembers the deepest."""
        if self._stopped("max_depth", depth, 0):
            return False
        self.depth = max(self.depth, depth)
        return True

    def spend(self, text: str) -> bool:
        """Count the tokens of a piece of the answer; False, and nothing counted, when they do not fit."""
        tokens = estimate_tokens(text, self.factor)
        if self._stopped("max_token_budget", self.tokens, tokens):
            return False
        self.tokens += tokens
        return True
