"""Outputs checked by random signed sums of their elements (Freivalds 1977), in float64.

A vector v holds random signs in one group of an output row's elements and zeros elsewhere; the
groups of a round cover the row. With e_j an element's error, the row's projection is off by
sum_j v_j e_j. The signs are drawn after the outputs were written, so by Hoeffding's inequality an
output whose errors keep to T rounding units u of their scales s_j (root mean square over the group)
gives |sum v_j e_j| <= Z T u || v s || but for a chance of 2 exp(-Z^2 / 2): 5e-18 for each of some
1e8 projections. That is the limit. What breaks it:

- one wrong element, whichever, in every round, if it is off by more than 2 Z T u || v s ||: with 64
  elements in a group and T = 4, by more than 2^-14 of its scale;
- several in one group: by more than half of the root of their squares' sum with a probability of at
  least 3/16 a round (Paley and Zygmund's inequality; the fourth moment of a signed sum is at most
  three times its second one squared), and each group and round tries anew;
- short formats everywhere: the mean square of all projections is held to (2 T u)^2 too, which
  TF32's rounding exceeds ten-fold at 4,096 terms.
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.validator.tolerances import Limits

GROUP = 64
"""Elements that one vector adds up."""
MOST_GROUPS = 64
ROUNDS = 2
Z = 9.0
EXACT_ROWS = 32


def random_vectors(length: int, seed: int) -> npt.NDArray[np.float64]:
    """Columns of signs and zeros: every element is in one vector of each round."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    groups = min(MOST_GROUPS, -(-length // GROUP))
    vectors = np.zeros((length, groups * ROUNDS))
    for turn in range(ROUNDS):
        group = rng.permutation(length) % groups
        vectors[np.arange(length), turn * groups + group] = rng.choice((-1.0, 1.0), length)
    return vectors


def projected_limits(own: Limits, vectors: npt.NDArray[np.float64]) -> Limits:
    """The limits of the projections of outputs whose elements are judged by `own`."""
    largest = float(np.count_nonzero(vectors, axis=0).max())
    return replace(
        own,
        max_units=max(Z * own.rms_units, own.max_units),
        rms_units=2.0 * own.rms_units,
        floor=own.floor * largest**0.5,
        # |y| is at most the scale it is measured with.
        scale_weight=own.scale_weight + own.value_weight,
        value_weight=0.0,
    )


def chosen_rows(extent: int, seed: int) -> list[int]:
    """The first row, the last one, and random ones."""
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    some = rng.choice(extent, min(extent, EXACT_ROWS), replace=False).tolist()
    return sorted({0, extent - 1, *some})
