"""What diagnoses and critiques predicted of a remedy, and what came of it: a kind of diagnosis that
does not come true loses rank.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cuda_llm.profile import Bottleneck

PRIOR = 3.0
"""Trials that the belief in a kind of diagnosis is worth before there is one."""
FACTOR = 2.0
"""A prediction came true where what was had is within this factor of it."""


Predictor = Literal["diagnosis", "critique"]
"""Who predicted: our own diagnosis, or a model's critique."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What fixing one thing of the parent should save at the largest size, and what was saved."""

    code: str
    """Of the parent's bottleneck that the order was against."""
    time_us: float
    """The parent's time."""
    saved_us: float
    """Of it, as predicted."""
    had_us: float | None = None
    """Of it, by this attempt; negative where it is slower, None where it did not pass."""
    by: Predictor = "diagnosis"

    @property
    def came_true(self) -> bool:
        """Return whether it was had within a factor of `FACTOR`."""
        had = self.had_us or 0.0
        return self.saved_us / FACTOR <= had <= self.saved_us * FACTOR


@dataclass(frozen=True, kw_only=True)
class Record:
    """The predictions of one kind of diagnosis, or of critiques of it, that were tried out."""

    code: str
    tried: int
    came_true: int
    saved_us: float
    """Predicted, summed."""
    had_us: float
    """Summed."""
    trust: float
    """0 to 1: what a diagnosis' predictions are multiplied with for their rank."""
    by: Predictor = "diagnosis"


def tally(predictions: Iterable[Prediction]) -> tuple[Record, ...]:
    """Return the record of each kind that was tried, those tried most first."""
    kinds: dict[tuple[str, Predictor], list[Prediction]] = {}
    for one in predictions:
        if one.had_us is not None and one.saved_us > 0:
            kinds.setdefault((one.code, one.by), []).append(one)
    found = (
        Record(
            code=code,
            tried=len(tried),
            came_true=sum(one.came_true for one in tried),
            saved_us=sum(one.saved_us for one in tried),
            had_us=sum(one.had_us or 0.0 for one in tried),
            trust=_trust(tried),
            by=by,
        )
        for (code, by), tried in kinds.items()
    )
    return tuple(sorted(found, key=lambda one: (-one.tried, one.code, one.by)))


def _trust(tried: Sequence[Prediction]) -> float:
    """Return the mean part that was had of what was predicted, shrunk towards 1 while few tried.

    (PRIOR + sum of min(1, max(0, had / predicted))) / (PRIOR + number tried).
    """
    parts = (min(1.0, max(0.0, (one.had_us or 0.0) / one.saved_us)) for one in tried)
    return (PRIOR + sum(parts)) / (PRIOR + len(tried))


def rank(
    bottlenecks: Sequence[Bottleneck], predictions: Iterable[Prediction]
) -> tuple[Bottleneck, ...]:
    """Return them by predicted saving times trust; those without a prediction keep their place.

    What critiques expected says nothing of the diagnosis' own predictions.
    """
    trust = {one.code: one.trust for one in tally(predictions) if one.by == "diagnosis"}
    removable = [one for one in bottlenecks if one.saved_us > 0]
    ordered = iter(
        sorted(removable, key=lambda one: one.saved_us * trust.get(one.code, 1.0), reverse=True)
    )
    return tuple(next(ordered) if one.saved_us > 0 else one for one in bottlenecks)
