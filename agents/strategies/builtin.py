"""Decides what each candidate is to do: the strategies that ship, and how `--strategy` finds one.

`Fsr` is Feature Search and Reinforcement (arXiv 2506.09092) with changes that the class lists;
`FsrPaper` is its Algorithm 1 to the letter, for comparison; `BestOfN` gives no feedback at all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from cuda_llm.agents.composition import CompositionRefused
from cuda_llm.agents.limits import share_of_limit, shares_of_limit
from cuda_llm.agents.protocols import Choice, Composer, Strategy, Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest, passed_by_speed
from cuda_llm.agents.strategies.briefs import Assignment, distinct_failures, make_briefs
from cuda_llm.agents.strategies.partners import find_pair
from cuda_llm.agents.strategies.splits import propose_composition
from cuda_llm.agents.techniques.directions import open_orders
from cuda_llm.components import EVERYTHING, Components
from cuda_llm.dotted import is_dotted, load_dotted, split_dotted
from cuda_llm.errors import UsageError
from cuda_llm.figure_wording import describe_attempt_speed
from cuda_llm.own_part import find_misfit, make_part
from cuda_llm.search import Attempt, Brief, Kind
from cuda_llm.tasks.objective import scoring_of

SWITCH = {"switch": True}
"""Metadata of the fields of a strategy that the strategy's name may switch on or off."""

MARGIN = 1.03
"""Nearer than this to what the hardware can reach, no difference is worth a round."""
LATENCY_ONLY = Components(hints=False, profile=False, baseline=False, diversity=False)
NO_FEEDBACK = Components(history=False, hints=False, profile=False)


@dataclass(frozen=True)
class Fsr:
    """Reinforces correctness until something passes, and performance from then on.

    Unlike the paper's Algorithm 1 (`fsr-paper`) it returns the best of all rounds, keeps the
    incumbent after ties and regressions, judges no duplicate again, feeds the profile back beside
    the latency, and leaves the incumbent's structure after rounds without gain. Its switches are
    named in `--strategy`: `fsr+no-pairs+no-critique`. What is on by default was measured
    (docs/evidence.md).
    """

    name: str = "fsr"
    deduplicate: bool = True
    components: Components = EVERYTHING
    composition: bool = field(default=True, metadata=SWITCH)
    """Whether two kernels that together are faster than any single kernel are put behind one
    `solve`."""
    pairs: bool = field(default=True, metadata=SWITCH)
    """Whether one brief of a round shows a second kernel, where there is one that beats the
    incumbent at some size, and whose advantage the candidate is to take over."""
    critique: bool = field(default=True, metadata=SWITCH)
    """Whether one brief of a round orders the change that a critique asks for."""
    lessons: bool = field(default=False, metadata=SWITCH)
    """Whether prompts say what came true in runs of other tasks on this GPU, and this run's own
    orders are kept for others."""

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Ask for first kernels, then for fixes, then for improvements of the incumbent."""
        orders = plan_assignments(situation)
        if not self.critique:
            situation = without_changes(situation)
        allowed = self.components & situation.config.components
        pair = find_pair(situation, orders) if self.pairs and allowed.history else None
        return make_briefs(situation, orders, self.components, pair)

    def compose(self, situation: Situation) -> Trial | CompositionRefused | None:
        """Put together the two kernels that are each the best at some of the sizes."""
        return propose_composition(situation) if self.composition else None

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Stop at the hardware's limit, or after twice `patience` rounds without gain."""
        stale = rounds_without_gain(situation)
        enough = situation.incumbent is not None and stale >= 2 * situation.config.patience
        return at_the_limit(situation) or (f"{stale} rounds without gain" if enough else "")


def at_the_limit(situation: Situation) -> str:
    """Return why the incumbent cannot become faster, in a few words; empty where it may.

    A kernel faster than the bandwidth of DRAM allows works from the cache: then nothing is known
    about its limit, and no other size is made up for.
    """
    incumbent = situation.incumbent
    share = share_of_limit(situation, incumbent) if incumbent else None
    if incumbent is None or share is None or share > MARGIN:
        return ""
    reached = [min(1.0, one) for one in shares_of_limit(situation, incumbent)]
    if scoring_of(situation.task, situation.sizes).score(reached) < 1 / MARGIN:
        return ""
    return f"{incumbent.id} runs at the hardware's limit"


def plan_assignments(situation: Situation) -> list[Assignment]:
    """Decide what each of the N candidates is to do."""
    count = situation.config.candidates
    incumbent = situation.incumbent
    if incumbent is None:
        failures = distinct_failures(last_round(situation)) or distinct_failures(situation.attempts)
        if not failures:
            return [(Kind.FIRST, None)] * count
        return [(Kind.FIX, failures[index % len(failures)]) for index in range(count)]
    departing = count_departing(situation)
    improving: list[Assignment] = [(Kind.IMPROVE, incumbent)] * (count - departing)
    return improving + [(Kind.DEPART, incumbent)] * departing


def count_departing(situation: Situation) -> int:
    """Count the candidates that leave the incumbent's structure: none at first, then a third, but
    never the only candidate that could make the change that a critique orders."""
    incumbent, count = situation.incumbent, situation.config.candidates
    if incumbent is None or rounds_without_gain(situation) < situation.config.patience:
        return 0
    ordered = bool(open_orders(situation, incumbent, situation.performance_hints))
    return min(max(1, count // 3), count - ordered)


def rounds_without_gain(situation: Situation) -> int:
    """Count the judged rounds after the round of the incumbent."""
    judged = max((one.round for one in situation.attempts), default=0)
    return 0 if situation.incumbent is None else judged - situation.incumbent.round


def last_round(situation: Situation) -> tuple[Attempt, ...]:
    """Return the attempts of the newest round that was judged."""
    newest = max((one.round for one in situation.attempts), default=0)
    return tuple(one for one in situation.attempts if one.round == newest)


def without_changes(situation: Situation) -> Situation:
    """Return the situation with what critiques ask for as mere hints."""
    hints = tuple(replace(one, change="", gain=0.0) for one in situation.performance_hints)
    return replace(situation, performance_hints=hints)


@dataclass(frozen=True)
class FsrPaper:
    """Feeds back latency alone, and returns the last round's winner."""

    name: str = "fsr-paper"
    deduplicate: bool = False
    components: Components = LATENCY_ONLY

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Ask for the same N times."""
        order: Assignment = (Kind.FIRST, None)
        failures = distinct_failures(last_round(situation))
        if situation.incumbent is not None:
            order = (Kind.IMPROVE, situation.incumbent)
        elif failures:
            order = (Kind.FIX, failures[0])
        return make_briefs(situation, [order] * situation.config.candidates, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the fastest kernel of this round, whatever the incumbent."""
        before = situation.incumbent
        passed = passed_by_speed(judged)
        if not passed:
            return Choice(
                incumbent=None if before is None else before.id,
                reason="nothing of this round passed",
            )
        first, *others = passed
        return Choice(
            incumbent=first.id,
            reason=f"{first.id} is the fastest of its round, at "
            f"{describe_attempt_speed(first, ' the baseline')}",
            verdicts={first.id: "won"} | {one.id: "slower" for one in others},
        )

    def stop(self, situation: Situation) -> str:
        """Return an empty reason: the search has D rounds."""
        return ""


@dataclass(frozen=True)
class BestOfN:
    """Starts every candidate from the task alone. Other strategies are compared with it."""

    name: str = "best-of-n"
    deduplicate: bool = True
    components: Components = NO_FEEDBACK

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Ask for N first kernels in every round."""
        orders: list[Assignment] = [(Kind.FIRST, None)] * situation.config.candidates
        return make_briefs(situation, orders, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Return an empty reason: the search has all its rounds, so that budgets stay
        comparable."""
        return ""


BUILTIN_STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "fsr": Fsr,
    "fsr-paper": FsrPaper,
    "best-of-n": BestOfN,
}


def find_strategy(name: str) -> Strategy:
    """Return the strategy of a short name, or of a dotted path to a class or an instance.

    Raises UsageError naming what there is.
    """
    base, *switches = name.split("+")
    if base in BUILTIN_STRATEGIES:
        return _switched(BUILTIN_STRATEGIES[base](), name, switches)
    if not is_dotted(name):
        msg = (
            f"unknown strategy {name!r}; there are {', '.join(BUILTIN_STRATEGIES)}, or FILE.py:NAME"
        )
        raise UsageError(msg)
    given = f"strategy {name!r}"
    found = load_dotted(name, "strategy")
    strategy: Strategy = make_part(found, given, split_dotted(name)[0])
    if misfit := find_strategy_misfit(strategy):
        raise UsageError(f"{given} {misfit}; see cuda_llm.extend.Strategy")
    return strategy


def find_strategy_misfit(part: object) -> str:
    """Return what keeps an object from being a strategy, as `find_misfit` does."""
    composes = isinstance(part, Composer)
    return find_misfit(part, Strategy) or (find_misfit(part, Composer) if composes else "")


def _switched(strategy: Strategy, name: str, switches: Sequence[str]) -> Strategy:
    """Return the strategy with its switches as named: `pairs` on, `no-pairs` off."""
    known = [one.name for one in fields(strategy) if one.metadata == SWITCH]  # type: ignore[arg-type]
    for text in switches:
        if text.removeprefix("no-") not in known:
            there = f"has {', '.join(known)}" if known else "has none"
            raise UsageError(f"strategy {name!r}: unknown switch {text!r}; {strategy.name} {there}")
    chosen = {text.removeprefix("no-"): not text.startswith("no-") for text in switches}
    return replace(strategy, name=name, **chosen) if chosen else strategy  # type: ignore[type-var]
