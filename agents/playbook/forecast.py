"""Forecasts how fast the points of a space are, from points that were tried: a Gaussian process.

Points are compared by their features (`point_table.py`); how much each feature matters is fitted to
what was tried.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from cuda_llm.agents.playbook.history import TriedPoint
from cuda_llm.agents.playbook.point_table import Floats, PointTable, Steps, tabulate

USUAL_WEIGHT = 0.1
"""Weight of a feature before anything is known: from one end of a feature to the other the
correlation falls to exp(-0.1). Chosen by measurement, as all below (docs/evidence.md)."""
USUAL_NOISE = 0.01
"""Variance of a score that the features do not explain, in variances of all scores."""
LOG_WEIGHT_SPREAD, LOG_NOISE_SPREAD = 1.0, 1.5
"""Standard deviations of the logarithms of both, before anything is known."""
SLOW_SHARE = 0.1
"""So many of the points count as equally slow: how slow they are says nothing of the fast."""
FIT_STEPS = 14
MOST_FITTED = 400
"""Largest number of points that weights are fitted to: a fit takes time with their cube."""
LOG_RANGE = (-7.0, 6.0)
LEAST_NOISE = 1e-4
TINY = 1e-9


class Forecast:
    """A mean and a variance of the score of each point of a table.

    The correlation of two points falls along each feature: exp(-sum of weight x difference).
    """

    def __init__(self, table: PointTable, tried: Sequence[TriedPoint]) -> None:
        """Fit to `tried`, of which a point has passed; failures count among the slowest."""
        known = tabulate(table.space, [one.point for one in tried])
        raw = np.array([math.nan if one.score is None else one.score for one in tried])
        scores, self._center, self._scale = _standardise(raw)
        count = _fitted_count(len(scores))
        first = known.features[:count]
        *weights, self._noise = _fit(first.tobytes(), first.shape[1], raw[:count].tobytes())
        self._steps = table.steps
        by_step = np.array(weights)[table.step_features] * table.step_widths
        self._step_weights = by_step.astype(np.float32)
        close = _correlate(known.steps, known.steps, self._step_weights)
        root = np.linalg.inv(np.linalg.cholesky(close + self._noise * np.eye(len(scores))))
        mean, pull, self._score_variance = _explain(root, scores)
        across = _correlate(self._steps, known.steps, self._step_weights)
        whitened = across @ root.T.astype(np.float32)
        self._best = float(scores.max())
        self._mean = mean + across @ pull
        self._variance = np.maximum(1 - np.einsum("ij,ij->i", whitened, whitened), TINY)
        self._whitened = [whitened]

    def gains(self) -> Floats:
        """Return how much faster than the best each point is expected to be, or 0 where slower."""
        doubt = np.sqrt(self._score_variance * self._variance)
        ratio = (self._mean - self._best) / doubt
        density = np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
        gains: Floats = doubt * (ratio * _share_below(ratio) + density)
        return gains

    def learn(self, at: int, score: float | None) -> None:
        """Take in the score of a point of the table; None, of an open point, for its mean."""
        along = _correlate(self._steps, self._steps[at : at + 1], self._step_weights)[:, 0]
        for part in self._whitened:
            along -= part @ part[at]
        root = math.sqrt(max(along[at], TINY) + self._noise)
        believed = float(self._mean[at])
        if score is not None:
            believed = (score - self._center) / self._scale
            self._mean = self._mean + along * ((believed - self._mean[at]) / root**2)
        self._best = max(self._best, believed)
        along /= root
        self._variance = np.maximum(self._variance - along**2, TINY)
        self._whitened.append(along[:, None])


def _standardise(scores: Floats) -> tuple[Floats, float, float]:
    """Return scores of mean 0 and deviation 1, and the mean and deviation that they had.

    A failure, NaN, counts among the slowest.
    """
    passed = scores[~np.isnan(scores)]
    slow = float(np.quantile(passed, SLOW_SHARE)) if len(passed) else 0.0
    values = np.fmax(scores, slow)
    center, scale = float(values.mean()), float(values.std()) or 1.0
    return (values - center) / scale, center, scale


def _fitted_count(tried: int) -> int:
    """Return how many of the first points weights are fitted to.

    The number grows by a tenth each time, so that a search that asks point by point fits seldom.
    """
    count = 1
    while (following := count + max(1, count // 10)) <= min(tried, MOST_FITTED):
        count = following
    return count


def _explain(root: Floats, scores: Floats) -> tuple[float, Floats, float]:
    """Return the mean, the pull of each point on those around it, and the scores' variance.

    `root` is the inverse of the Cholesky factor of the correlations with noise.
    """
    white_ones, white_scores = root.sum(axis=1), root @ scores
    mean = float(white_ones @ white_scores / (white_ones @ white_ones))
    rest = white_scores - mean * white_ones
    return mean, root.T @ rest, max(float(rest @ rest) / len(scores), TINY)


@lru_cache(maxsize=64)
def _fit(feature_bytes: bytes, width: int, score_bytes: bytes) -> tuple[float, ...]:
    """Return the weights of the features, and the noise, of the largest posterior density.

    Found by steps along the signs of its gradient (Rprop): each coordinate's step grows while its
    sign stays, and shrinks where it turns.
    """
    scores, _, _ = _standardise(np.frombuffer(score_bytes))
    features = np.frombuffer(feature_bytes).reshape(len(scores), width)
    count = len(scores)
    apart = np.abs(features[:, None] - features[None]).reshape(count * count, width)
    usual = np.log(np.append(np.full(width, USUAL_WEIGHT), USUAL_NOISE))
    spread = np.append(np.full(width, LOG_WEIGHT_SPREAD), LOG_NOISE_SPREAD)
    least = np.append(np.full(width, LOG_RANGE[0]), math.log(LEAST_NOISE))
    most = np.append(np.full(width, LOG_RANGE[1]), 0.0)
    place, step, sign = usual.copy(), np.full(width + 1, 0.6), np.zeros(width + 1)
    best, best_density = usual, -math.inf
    for _ in range(FIT_STEPS):
        weights, noise = np.exp(place[:-1]), float(np.exp(place[-1]))
        close = np.exp(-(apart @ weights)).reshape(count, count)
        root = np.linalg.inv(np.linalg.cholesky(close + noise * np.eye(count)))
        _, pull, variance = _explain(root, scores)
        density = np.log(np.diag(root)).sum() - count / 2 * math.log(variance)
        density -= (((place - usual) / spread) ** 2).sum() / 2
        if density > best_density:
            best, best_density = place, density
        slope = (np.outer(pull, pull) / variance - root.T @ root) / 2
        by_weights = -weights * ((slope * close).ravel() @ apart)
        gradient = np.append(by_weights, noise * np.trace(slope))
        turned = np.sign(gradient - (place - usual) / spread**2)
        step = np.minimum(step * np.where(turned * sign < 0, 0.5, 1.3), 1.5)
        sign = turned
        place = np.clip(place + sign * step, least, most)
    return tuple(np.exp(best))


def _correlate(steps: Steps, others: Steps, weights: Steps) -> Steps:
    """Return the correlations of points with other points, (points, others).

    A step is 1 where a point lies beyond it, and 0 before it: the sum of the weights of the steps
    that lie between two points is |a| + |b| - 2ab, so a product of matrices gives all sums.
    """
    weighted = others * weights
    apart = steps @ (-2 * weighted.T)
    apart += (steps @ weights)[:, None]
    apart += weighted.sum(axis=1)
    np.negative(np.maximum(apart, 0, out=apart), out=apart)
    return np.exp(apart, out=apart)


def _share_below(ratio: Floats) -> Floats:
    """Return the share of a normal distribution below `ratio`, exact far from its middle too."""
    values = (-ratio / math.sqrt(2)).tolist()
    return np.fromiter(map(math.erfc, values), np.float64, len(values)) / 2
