"""Writes the briefs of a round: the strategies that ship, and how `--strategy` finds one.

`Fsr` is Feature Search and Reinforcement (arXiv 2506.09092) with changes that the class lists;
`FsrPaper` is its Algorithm 1 to the letter, for comparison; `BestOfN` gives no feedback at all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.agents.limits import share_of_limit
from cuda_llm.agents.protocols import Choice, Strategy
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest, passed_by_speed
from cuda_llm.agents.techniques.directions import Direction, find_directions, say_opposites
from cuda_llm.dotted import is_dotted, load_dotted
from cuda_llm.errors import UsageError
from cuda_llm.search import EVERYTHING, Attempt, Brief, Components, Hint, Kind

_NEARNESS = (
    *("NONDETERMINISTIC", "WRONG_RESULT", "LATE_WRITE", "GUARD_OVERWRITTEN", "INPUT_MUTATED"),
    *("DATA_RACE", "UNINITIALISED_READ", "INVALID_SYNC", "TIMED_OUT"),
    *("ILLEGAL_ACCESS", "MISALIGNED", "DEVICE_ASSERT", "LAUNCH_FAILED", "OUT_OF_MEMORY"),
    *("HOST_CRASHED", "LOAD_FAILED", "COMPILE_FAILED"),
)
"""Codes sorted by how near the kernel came to being right; other codes come last."""


def distinct_failures(attempts: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return one attempt for each distinct failure with source, nearest to being right first.

    Two failures are the same when their `failure` is; one of an older record is its code.
    """
    kept: dict[str, Attempt] = {}
    for one in attempts:
        if is_fixable(one):
            kept.setdefault(one.failure or one.code, one)
    return tuple(sorted(kept.values(), key=lambda one: (nearness(one), one.round, one.index)))


def is_fixable(attempt: Attempt) -> bool:
    """Return whether the attempt failed by its own fault and has a source to start from."""
    ours = attempt.code.startswith("INFRA_") or attempt.code in {"DUPLICATE", "QUARANTINED"}
    return bool(attempt.source_sha) and not attempt.passed and not ours


def nearness(attempt: Attempt) -> int:
    """Rank an attempt's failure; 0 is nearest to being right."""
    return _NEARNESS.index(attempt.code) if attempt.code in _NEARNESS else len(_NEARNESS)


Assignment = tuple[Kind, Attempt | None]
"""What a candidate is to do, and its parent."""
USER = "user"
"""`Hint.by` of a person."""


def make_briefs(
    situation: Situation, orders: Sequence[Assignment], components: Components
) -> tuple[Brief, ...]:
    """Make one brief for each order, with the history and the hints that concern its parent.

    `components` is what the strategy allows; what the user switched off stays off.
    """
    allowed = components & situation.plan.components
    history = tuple(one.id for one in situation.attempts) if allowed.history else ()
    error_hints = hints_for(allowed, situation.error_hints)
    performance_hints = hints_for(allowed, situation.performance_hints)

    def hints_of(parent: Attempt | None) -> tuple[Hint, ...]:
        both = (error_hints, performance_hints)
        return tuple(hint for hints in both for hint in hints_about(hints, parent))

    chosen = choose_directions(situation, orders, hints_of) if allowed.diversity else ()
    return tuple(
        Brief(
            id=f"r{situation.round}-c{index}",
            round=situation.round,
            index=index,
            kind=kind,
            parent=None if parent is None else parent.id,
            direction=chosen[index - 1].text if chosen else "",
            against=chosen[index - 1].against if chosen else "",
            share=chosen[index - 1].share if chosen else 0.0,
            history=history,
            error_hints=hints_about(error_hints, parent),
            performance_hints=hints_about(performance_hints, parent),
            components=allowed,
        )
        for index, (kind, parent) in enumerate(orders, start=1)
    )


def choose_directions(
    situation: Situation,
    orders: Sequence[Assignment],
    hints_of: Callable[[Attempt | None], Sequence[Hint]],
) -> tuple[Direction, ...]:
    """Choose a direction for each order: those of a round differ, and say where they oppose.

    `hints_of` returns the hints that an order on that parent shows.
    """
    pools = {
        (kind, parent and parent.id): iter(
            find_directions(situation, kind, 2 * len(orders), parent=parent, hints=hints_of(parent))
        )
        for kind, parent in orders
    }
    taken = set[str]()
    chosen = []
    for kind, parent in orders:
        pool = pools[kind, parent and parent.id]
        one = next(found for found in pool if found.text not in taken)
        taken.add(one.text)
        chosen.append(one)
    return say_opposites(chosen)


def hints_for(allowed: Components, hints: Sequence[Hint]) -> tuple[Hint, ...]:
    """Return all hints where they are allowed, and otherwise those of the user."""
    return tuple(one for one in hints if allowed.hints or one.by == USER)


def hints_about(hints: Sequence[Hint], parent: Attempt | None) -> tuple[Hint, ...]:
    """Return hints on the parent, on its whole round, or on everything; newest round first.

    Of several about one cause the newest stays, because it says how often that was seen.
    """
    chosen = [one for one in hints if not one.about or parent is None or one.about == parent.id]
    return tuple(sorted(newest_hints(chosen), key=lambda one: -one.round))


def newest_hints(hints: Iterable[Hint]) -> tuple[Hint, ...]:
    """Return the hints without those that a later one about the same thing replaces."""
    kept: dict[tuple[str, ...], Hint] = {}
    for hint in hints:
        subject = (hint.cause,) if hint.cause else (hint.about, hint.text)
        key = (hint.code, hint.by, *subject)
        kept.pop(key, None)
        kept[key] = hint
    return tuple(kept.values())


@dataclass(frozen=True)
class Fsr:
    """Reinforces correctness until something passes, and performance from then on.

    Unlike the paper's Algorithm 1 (`fsr-paper`) it returns the best of all rounds, keeps the
    incumbent after ties and regressions, judges no duplicate again, feeds the profile back beside
    the latency, and leaves the incumbent's structure after rounds without gain.
    """

    name: str = "fsr"
    deduplicate: bool = True
    components: Components = EVERYTHING

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Ask for first kernels, then for fixes, then for improvements of the incumbent."""
        return make_briefs(situation, plan_assignments(situation), self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Stop at the hardware's limit, or after twice `plan.patience` rounds without gain."""
        stale = rounds_without_gain(situation)
        enough = situation.incumbent is not None and stale >= 2 * situation.plan.patience
        return at_the_limit(situation) or (f"{stale} rounds without gain" if enough else "")


MARGIN = 1.03
"""Nearer than this to what the hardware can reach, no difference is worth a round."""


def at_the_limit(situation: Situation) -> str:
    """Return why the incumbent cannot become faster, in a few words; empty where it may.

    A kernel faster than the bandwidth of DRAM allows works from the cache: then nothing is known
    about its limit.
    """
    incumbent = situation.incumbent
    share = share_of_limit(situation, incumbent) if incumbent else None
    if incumbent is None or share is None or not 1 / MARGIN <= share <= MARGIN:
        return ""
    return f"{incumbent.id} runs at the hardware's limit"


def plan_assignments(situation: Situation) -> list[Assignment]:
    """Decide what each of the N candidates is to do."""
    count = situation.plan.candidates
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
    """Count the candidates that leave the incumbent's structure: none at first, then a third."""
    if rounds_without_gain(situation) < situation.plan.patience:
        return 0
    return max(1, situation.plan.candidates // 3)


def rounds_without_gain(situation: Situation) -> int:
    """Count the judged rounds after the one that the incumbent is from."""
    judged = max((one.round for one in situation.attempts), default=0)
    return 0 if situation.incumbent is None else judged - situation.incumbent.round


def last_round(situation: Situation) -> tuple[Attempt, ...]:
    """Return the attempts of the newest round that was judged."""
    newest = max((one.round for one in situation.attempts), default=0)
    return tuple(one for one in situation.attempts if one.round == newest)


LATENCY_ONLY = Components(hints=False, profile=False, baseline=False, diversity=False)


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
        return make_briefs(situation, [order] * situation.plan.candidates, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the fastest of this round, whatever came before it."""
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
            reason=f"{first.id} is the fastest of its round, at {first.speedup:.2f}x the baseline",
            verdicts={first.id: "won"} | {one.id: "slower" for one in others},
        )

    def stop(self, situation: Situation) -> str:
        """Return nothing: it goes on for D rounds."""
        return ""


NO_FEEDBACK = Components(history=False, hints=False, profile=False)


@dataclass(frozen=True)
class BestOfN:
    """Starts every candidate from the task alone. Other strategies are compared with it."""

    name: str = "best-of-n"
    deduplicate: bool = True
    components: Components = NO_FEEDBACK

    def write_briefs(self, situation: Situation) -> tuple[Brief, ...]:
        """Ask for N first kernels in every round."""
        orders: list[Assignment] = [(Kind.FIRST, None)] * situation.plan.candidates
        return make_briefs(situation, orders, self.components)

    def choose(self, situation: Situation, judged: Sequence[Attempt]) -> Choice:
        """Choose the best of all rounds."""
        return choose_fastest(situation, judged)

    def stop(self, situation: Situation) -> str:
        """Return nothing: it goes on to the end, so that budgets stay comparable."""
        return ""


BUILTIN_STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "fsr": Fsr,
    "fsr-paper": FsrPaper,
    "best-of-n": BestOfN,
}

REQUIRED_ATTRIBUTES = ("name", "deduplicate", "components", "write_briefs", "choose", "stop")


def find_strategy(name: str) -> Strategy:
    """Return the strategy of a short name, or of a dotted path to a class or an instance.

    Raises UsageError naming what there is.
    """
    if name in BUILTIN_STRATEGIES:
        return BUILTIN_STRATEGIES[name]()
    if not is_dotted(name):
        msg = (
            f"unknown strategy {name!r}; there are {', '.join(BUILTIN_STRATEGIES)}, or module:Class"
        )
        raise UsageError(msg)
    found = load_dotted(name, "strategy")
    strategy: Strategy = found() if isinstance(found, type) else found
    missing = [part for part in REQUIRED_ATTRIBUTES if not hasattr(strategy, part)]
    if missing:
        msg = f"strategy {name!r} lacks {', '.join(missing)}; see cuda_llm.extend.Strategy"
        raise UsageError(msg)
    return strategy
