"""The outcome of running a plan: what each layer gave, and one list made of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_mcp.search.layers.base import Hit, LayerAnswer, LayerName, Theme
from memory_mcp.search.policy.chain import MADE_OF
from memory_mcp.search.policy.explain import Outcome, Tried
from memory_mcp.search.policy.merge import describe_merging, merge_by_odds, merge_layers
from memory_mcp.search.policy.path import Path
from memory_mcp.search.policy.plan import Plan, Skipped


@dataclass(frozen=True, slots=True)
class Verdict:
    """How good one layer's answer is."""

    #: Whether no further layer is needed.
    sufficient: bool
    #: How sure the layer's answer is to be about the question, 0..1.
    best: float
    reason: str
    #: Whether it found as many as can be shown, so that what other layers found after it could not be.
    fills_answer: bool = False


@dataclass(slots=True)
class Run:
    """The outcome of a plan."""

    #: What was found, best first.
    hits: tuple[Hit, ...] = ()
    #: The layer that answered, or the last one asked.
    method: str = LayerName.AGENTIC
    used: tuple[LayerName, ...] = ()
    #: Topics of the answer, if the topics layer ran; in addition to the hits.
    themes: tuple[Theme, ...] = ()
    tried: list[Tried] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    #: Whether one layer's evidence was enough.
    sufficient: bool = False
    arbitration: str = ""
    answers: dict[LayerName, LayerAnswer] = field(default_factory=dict)
    verdicts: dict[LayerName, Verdict] = field(default_factory=dict)
    #: The layers that were run, in the order in which they were begun.
    paths: list[Path] = field(default_factory=list)

    @property
    def is_partial(self) -> bool:
        """Whether an index that answered lacks something of the query's time."""
        return any(answer.is_partial for answer in self.answers.values())

    @property
    def lacks_something(self) -> bool:
        """Whether an index lacks something that the tree did not search."""
        return self.is_partial and LayerName.AGENTIC not in self.answers

    @property
    def fills_answer(self) -> bool:
        """Whether a layer found as many as can be shown."""
        return any(verdict.fills_answer for verdict in self.verdicts.values()) and not self.is_partial

    def merge_answers(self, plan: Plan) -> "Run":
        """Merge what was found, and return the run."""
        lists = {p.name: p.hits for p in self.paths if p.name in self.verdicts and p.hits}
        by_odds = self.is_partial and LayerName.AGENTIC in lists and len(lists) > 1
        odds = {name: self.verdicts[name].best for name in lists}
        self.hits = merge_by_odds(lists, odds) if by_odds else merge_layers(lists)
        self.arbitration = describe_merging(lists, by_odds=by_odds)
        self.used, self.method = tuple(lists), self._name_method(plan, tuple(lists))
        self.tried = [self._with_cause(tried) for tried in self.tried]
        self._add_themes()
        return self

    def _with_cause(self, tried: Tried) -> Tried:
        path = next((path for path in self.paths if path.name == tried.layer), None)
        cut = path.find_cut(self.paths) if path is not None and tried.outcome is Outcome.NOTHING else None
        return cut or tried

    def _add_themes(self) -> None:
        """Take the themes that layers found, if any; those layers count as used, before others."""
        tellers = tuple(name for name, answer in self.answers.items() if answer.themes)
        if tellers:
            self.themes = tuple(theme for name in tellers for theme in self.answers[name].themes)
            self.used, self.method = (*tellers, *self.used), "+".join((*tellers, *([self.method] if self.hits else [])))

    def _name_method(self, plan: Plan, names: Sequence[LayerName]) -> str:
        if not names:
            return LayerName.AGENTIC if any(p.name is LayerName.AGENTIC for p in self.paths) else plan.paths[-1]
        if len(names) == 1:
            return names[0]
        whole_layer = next((whole_layer for whole_layer, parts in MADE_OF.items() if parts == set(names)), None)
        return whole_layer or "+".join(names)
