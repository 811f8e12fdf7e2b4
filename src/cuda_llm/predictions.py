"""Predicted savings of fixing a bottleneck beside the savings measured: a kind of diagnosis whose
predictions do not come true loses rank, and a refuted promise is withdrawn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Literal

from cuda_llm.profile import Bottleneck

PRIOR = 3.0
"""Weight of the initial trust in a kind of diagnosis, in trials."""
FACTOR = 2.0
"""A prediction came true where the measured saving is within this factor of the predicted
saving."""


Predictor = Literal["diagnosis", "critique"]
"""Source of a prediction: our own diagnosis, or a model's critique."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """The saving that fixing one bottleneck of the parent should bring at the largest size, and
    did."""

    code: str
    """Code of the parent's bottleneck that the attempt was ordered to fix."""
    time_us: float
    """Time of the parent."""
    saved_us: float
    """Predicted saving of the parent's time."""
    had_us: float | None = None
    """Measured saving of this attempt; negative if slower, None if the attempt did not pass."""
    by: Predictor = "diagnosis"

    @property
    def came_true(self) -> bool:
        """Whether the measured saving is within a factor of `FACTOR` of the predicted saving."""
        had = self.had_us or 0.0
        return self.saved_us / FACTOR <= had <= self.saved_us * FACTOR


class Refutation(StrEnum):
    """Why a promised saving is not promised again to kernels of a structure."""

    GONE_IN_VAIN = "gone-in-vain"
    """A kernel made from such a kernel is rid of the bottleneck, and about as fast."""
    TRIED_TWICE = "tried-twice"
    """Two orders against the bottleneck of such kernels saved next to nothing."""


@dataclass(frozen=True, kw_only=True)
class Withdrawal:
    """A promised saving that attempts refuted, with the last of them."""

    code: str
    """Code of the bottleneck."""
    why: Refutation
    attempt: str
    """Id of the attempt that was no faster."""
    promised: float
    """Part of its parent's time over all sizes that was to be saved, 0 to 1."""
    had: float
    """Part that was saved; negative if slower."""


def discern(prediction: Prediction, margin: float) -> Prediction | None:
    """Return the prediction as far as two times show it that tie within the part `margin` of the
    parent's: None where the predicted saving is a tie, and a measured tie as nothing saved."""
    least_us = margin * prediction.time_us
    if prediction.saved_us <= least_us:
        return None
    ties = prediction.had_us is not None and abs(prediction.had_us) <= least_us
    return replace(prediction, had_us=0.0) if ties else prediction


@dataclass(frozen=True, kw_only=True)
class Record:
    """The tried predictions about one bottleneck, by diagnoses or by critiques."""

    code: str
    """Code of the bottleneck."""
    tried: int
    came_true: int
    saved_us: float
    """Sum of the predicted savings."""
    had_us: float
    """Sum of the measured savings."""
    trust: float
    """Factor of a diagnosis' predictions in the ranking, 0 to 1."""
    by: Predictor = "diagnosis"


def tally(predictions: Iterable[Prediction]) -> tuple[Record, ...]:
    """Return the record of each kind of prediction that was tried, the most tried first."""
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
    """Return the mean of measured over predicted saving, pulled towards 1 while few were tried.

    (PRIOR + sum of min(1, max(0, measured / predicted))) / (PRIOR + number tried).
    """
    parts = (min(1.0, max(0.0, (one.had_us or 0.0) / one.saved_us)) for one in tried)
    return (PRIOR + sum(parts)) / (PRIOR + len(tried))


def rank(
    bottlenecks: Sequence[Bottleneck], predictions: Iterable[Prediction]
) -> tuple[Bottleneck, ...]:
    """Return the bottlenecks in the order in which to try them: by predicted saving times trust,
    then those without one.

    Predictions of critiques do not change the trust in the diagnosis.
    """
    trust = {one.code: one.trust for one in tally(predictions) if one.by == "diagnosis"}
    return tuple(
        sorted(bottlenecks, key=lambda one: one.saved_us * trust.get(one.code, 1.0), reverse=True)
    )
