"""Named input distributions, each `(rng, shape, dtype, *arguments) -> array`.

`tasks.distribution` says how a task spells them. Float values come in the magnitudes kernels get
wrong: zeros of both signs, denormals, large values, heavy tails, and several of these in one array.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.expressions import evaluate

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Distribution = Callable[..., Array]


def _is_integer(dtype: npt.DTypeLike) -> bool:
    return bool(np.issubdtype(np.dtype(dtype), np.integer))


def normal(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Mean 0, variance 1, full mantissas: the one to time with."""
    values: Array = rng.standard_normal(shape, dtype=np.float32)
    return values.astype(dtype, copy=False)


def uniform(
    rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, low: float, high: float
) -> Array:
    """Even over [low, high)."""
    values: Array = rng.random(shape, dtype=np.float32) * np.float32(high - low) + np.float32(low)
    return _stored(values, dtype)


def uniform_signed(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Even over [-1, 1)."""
    return uniform(rng, shape, dtype, -1, 1)


def uniform_unit(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Even over [0, 1): sums grow without cancelling."""
    return uniform(rng, shape, dtype, 0, 1)


def heavy_tail(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Student's t with 3 degrees of freedom: a few elements carry much of the sum."""
    freedom = rng.standard_gamma(1.5, shape, dtype=np.float32) / np.float32(1.5)
    return _stored(normal(rng, shape, np.float32) / np.sqrt(freedom), dtype)


def large(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Normal times 1e4."""
    return _stored(normal(rng, shape, np.float32) * np.float32(1e4), dtype)


def denormal(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Subnormal numbers of either sign: a kernel that flushes them is seen."""
    kind = np.dtype(dtype)
    smallest = np.finfo(kind).smallest_subnormal
    steps = 1 << min(np.finfo(kind).nmant, 23)
    counts = rng.integers(1, steps, shape) * rng.choice((-1, 1), shape)
    values: Array = (counts * smallest.astype(np.float64)).astype(kind)
    return values


def zeros(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Zeros, for floats of both signs."""
    values = np.zeros(shape, dtype)
    if not _is_integer(dtype):
        values[rng.random(shape) < 0.5] = -0.0
    return values


def _short_values(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Nonzero multiples of 1/4 up to 2: a long sum of one such value has no rounding bias."""
    values: Array = np.asarray(rng.integers(1, 9, shape) * rng.choice((-0.25, 0.25), shape))
    return values.astype(dtype)


def constant_rows(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """One value for each index of the first axis."""
    rows = _short_values(rng, (*shape[:1], *(1,) * (len(shape) - 1)), dtype)
    return np.array(np.broadcast_to(rows, shape))


def sparse(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Nine of ten are zero."""
    values = normal(rng, shape, np.float32)
    values[rng.random(shape) < 0.9] = 0
    return values.astype(dtype)


def mixed(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Rows (or segments of a vector) that follow different distributions, at random places."""
    kinds = (normal, zeros, large, sparse, uniform_unit, denormal, heavy_tail)
    values = np.empty(shape, dtype)
    if len(shape) > 1:
        rows = values.reshape(-1, shape[-1])
        choice = rng.integers(0, len(kinds), len(rows))
        for number, kind in enumerate(kinds):
            chosen = np.flatnonzero(choice == number)
            rows[chosen] = kind(rng, (len(chosen), shape[-1]), dtype)
        return values
    cuts = np.sort(rng.integers(0, shape[0] + 1, 2 * len(kinds)))
    for first, last in zip((0, *cuts), (*cuts, shape[0]), strict=True):
        kind = kinds[rng.integers(0, len(kinds))]
        values[first:last] = kind(rng, (int(last - first),), dtype)
    return values


def ints_full_range(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Every value of an integer dtype, its two ends among them."""
    limits = np.iinfo(np.dtype(dtype))
    values = rng.integers(limits.min, limits.max, shape, dtype=limits.dtype.type, endpoint=True)
    return _with_values(rng, values, (limits.min, limits.max, -1 if limits.min else 0, 0))


def ints(
    rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, low: int, high: int
) -> Array:
    """Whole numbers in [low, high), both ends among them."""
    values = rng.integers(low, high, shape, dtype=np.int64).astype(dtype)
    return _with_values(rng, values, (low, high - 1))


def sorted_ints(
    rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, low: int, high: int
) -> Array:
    """Whole numbers in [low, high), ascending in memory order, duplicates side by side."""
    return np.sort(ints(rng, shape, dtype, low, high), axis=None).reshape(shape)


def bins(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, count: int) -> Array:
    """Bin numbers, mostly in [0, count), the rest just and far outside, the borders among them."""
    margin = max(1, count // 10)
    values = rng.integers(-margin, count + margin, shape, dtype=np.int64).astype(dtype)
    ends = np.iinfo(np.dtype(dtype))
    return _with_values(rng, values, (-1, 0, count - 1, count, int(ends.min), int(ends.max)))


def all_equal(rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, value: float) -> Array:
    """One value everywhere: every atomic hits one address."""
    return np.full(shape, value, dtype)


def exact_odd_13bit(
    rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, keep: float = 1.0
) -> Array:
    """Odd whole numbers, 4099 to 8191 either side of 0, of which a share `keep` is not zeroed.

    Thirteen significant bits: float32 holds them, TF32, fp16 and bf16 do not, so a linear
    operation on them is exact in any order of float32 sums and in nothing shorter.
    """
    values = (rng.integers(2049, 4096, shape) * 2 + 1) * rng.choice((-1, 1), shape)
    return _thinned(rng, np.asarray(values, dtype), keep)


def exact_signs(
    rng: np.random.Generator, shape: Shape, dtype: npt.DTypeLike, keep: float = 1.0
) -> Array:
    """-1, 0 and 1."""
    return _thinned(rng, rng.integers(-1, 2, shape).astype(dtype), keep)


def _thinned(rng: np.random.Generator, values: Array, keep: float) -> Array:
    return (
        values
        if keep >= 1
        else np.where(rng.random(values.shape) < keep, values, 0).astype(values.dtype)
    )


def _stored(values: Array, dtype: npt.DTypeLike) -> Array:
    """In the float type asked for, finite where that type is short."""
    largest = float(np.finfo(np.dtype(dtype)).max)
    stored: Array = np.clip(values, -largest, largest).astype(dtype)
    return stored


def _with_values(rng: np.random.Generator, values: Array, wanted: tuple[int, ...]) -> Array:
    """Put as many of `wanted` as fit in a quarter of the array at random places."""
    flat = values.reshape(-1)
    fits = wanted[: flat.size // 4]
    flat[rng.choice(flat.size, len(fits), replace=False)] = fits
    return values


DISTRIBUTIONS: Mapping[str, Distribution] = MappingProxyType(
    {
        function.__name__: function
        for function in (
            normal,
            uniform_signed,
            uniform_unit,
            uniform,
            heavy_tail,
            large,
            denormal,
            zeros,
            all_equal,
            constant_rows,
            sparse,
            mixed,
            exact_odd_13bit,
            exact_signs,
            ints_full_range,
            ints,
            sorted_ints,
            bins,
        )
    }
)

SYMMETRIC = frozenset({"normal", "uniform_signed"})
"""Independent elements around zero, no long tail: their sums cancel, so tolerances are tight."""

REPEATED = frozenset({"all_equal", "constant_rows"})
"""One value many times: every addition of a chain may round the same way."""


def draw(
    spelling: str,
    rng: np.random.Generator,
    shape: Shape,
    dtype: npt.DTypeLike,
    dims: Mapping[str, int],
    keep: float = 1.0,
) -> Array:
    """An array of the distribution a task spells `spelling`. `keep` thins an exactness probe."""
    parsed = parse_distribution(spelling)
    arguments = [evaluate(text, dims) for text in parsed.arguments]
    if keep < 1:
        arguments.append(keep)
    return DISTRIBUTIONS[parsed.name](rng, shape, dtype, *arguments)
