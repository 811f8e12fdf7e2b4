"""Asks Optuna which points to try next."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda_llm.agents.tunables.space import Point, Space, is_valid
from cuda_llm.log import use_our_handler

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution


@dataclass(frozen=True, kw_only=True)
class TriedPoint:
    """A point that was judged, and how fast its kernel is."""

    point: Point
    score: float | None
    """Logarithm of its speed-up; None where it failed."""


def suggest(space: Space, tried: Sequence[TriedPoint], seed: int) -> Iterator[dict[str, int]]:
    """Yields valid points without end, perhaps with repeats; equal arguments give equal points.

    The study is rebuilt from `tried`, in its order, and lives in memory. Points that were suggested
    stay open in it, so that the next ones keep away from them; one that breaks a condition counts
    as pruned.
    """
    from optuna.trial import TrialState

    kinds = _kinds(space)
    study = _rebuild(space, tried, seed, kinds)
    while True:
        trial = study.ask(kinds)
        point = {one.name: one.values[trial.params[one.name]] for one in space.tunables}
        if is_valid(space, point):
            yield point
        else:
            study.tell(trial, state=TrialState.PRUNED)


def _rebuild(
    space: Space, tried: Sequence[TriedPoint], seed: int, kinds: "dict[str, BaseDistribution]"
) -> "Study":
    """Makes a study of the points in `tried`.

    Failures count as pruned, because TPE ignores trials that failed.

    The sampler was chosen by measurement (docs/playbook.md).
    """
    import optuna
    from optuna.trial import TrialState

    use_our_handler("optuna")
    sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, n_startup_trials=1)
    with _quiet():
        study = optuna.create_study(sampler=sampler, direction="maximize")
    for one in tried:
        params = {each.name: each.values.index(one.point[each.name]) for each in space.tunables}
        state = TrialState.PRUNED if one.score is None else TrialState.COMPLETE
        study.add_trial(
            optuna.create_trial(params=params, distributions=kinds, value=one.score, state=state)
        )
    return study


@contextmanager
def _quiet() -> Iterator[None]:
    """Optuna announces each new study on stderr; what the user has told it to say stays so."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _kinds(space: Space) -> "dict[str, BaseDistribution]":
    """Makes the distributions of the values' indices; those of the first tunable have no order."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    structure, *others = space.tunables
    kinds: dict[str, BaseDistribution] = {
        one.name: IntDistribution(0, len(one.values) - 1) for one in others
    }
    return {structure.name: CategoricalDistribution(range(len(structure.values)))} | kinds
