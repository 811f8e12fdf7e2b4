"""Named input distributions, each `(source, shape, dtype, *arguments) -> array`.

`tasks.distribution` says how a task spells them. Float values come in the magnitudes kernels get
wrong: zeros of both signs, denormals, large values, heavy tails, and several of these in one array.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tools.device.buffers import HOST, Array, Arrays, Random

Shape = tuple[int, ...]
InputDistribution = Callable[..., Array]


@dataclass(frozen=True)
class Source:
    """Where random arrays come from, and the memory they are made in."""

    rng: Random
    arrays: Arrays

    @property
    def xp(self) -> Any:
        """Return the module of the arrays."""
        return self.arrays.xp


def _is_integer(dtype: npt.DTypeLike) -> bool:
    return bool(np.issubdtype(np.dtype(dtype), np.integer))


def normal(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw with mean 0, variance 1 and full mantissas: the distribution to time with."""
    values: Array = source.rng.standard_normal(shape, dtype=np.float32)
    return values.astype(dtype, copy=False)


def uniform(source: Source, shape: Shape, dtype: npt.DTypeLike, low: float, high: float) -> Array:
    """Draw evenly over [low, high)."""
    values: Array = source.rng.random(shape, dtype=np.float32)
    if (low, high) != (0, 1):
        values *= np.float32(high - low)
        values += np.float32(low)
    return _stored(source, values, dtype)


def uniform_signed(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw evenly over [-1, 1)."""
    return uniform(source, shape, dtype, -1, 1)


def uniform_unit(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw evenly over [0, 1): sums grow without cancelling."""
    return uniform(source, shape, dtype, 0, 1)


def heavy_tail(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw Student's t with 3 degrees of freedom: a few elements carry much of the sum."""
    freedom: Array = source.rng.standard_gamma(1.5, shape, dtype=np.float32)
    freedom /= np.float32(1.5)
    values = normal(source, shape, np.float32)
    values /= source.xp.sqrt(freedom, out=freedom)
    return _stored(source, values, dtype)


def large(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values times 1e4."""
    values = normal(source, shape, np.float32)
    values *= np.float32(1e4)
    return _stored(source, values, dtype)


def denormal(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw subnormal numbers of either sign, which detect a kernel that flushes them."""
    kind = np.dtype(dtype)
    smallest = np.finfo(kind).smallest_subnormal
    steps = 1 << min(np.finfo(kind).nmant, 23)
    counts = source.rng.integers(1, steps, shape) * source.rng.choice((-1, 1), shape)
    values: Array = (counts * smallest.astype(np.float64)).astype(kind)
    return values


def zeros(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Return zeros, for floats of both signs."""
    values = source.xp.zeros(shape, dtype)
    if not _is_integer(dtype):
        values[source.rng.random(shape) < 0.5] = -0.0
    return values


def _short_values(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw nonzero multiples of 1/4 up to 2: a long sum of one has no rounding bias."""
    counts = source.rng.integers(1, 9, shape)
    values: Array = counts * source.rng.choice((-0.25, 0.25), shape)
    return values.astype(dtype)


def constant_rows(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw one value for each index of the first axis."""
    rows = _short_values(source, (*shape[:1], *(1,) * (len(shape) - 1)), dtype)
    return source.xp.broadcast_to(rows, shape).copy()


def sparse(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values, of which nine of ten are zero."""
    values = normal(source, shape, np.float32)
    values[source.rng.random(shape) < 0.9] = 0
    return values.astype(dtype, copy=False)


def mixed(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw rows (or segments of a vector) of different distributions, at random places."""
    kinds = (normal, zeros, large, sparse, uniform_unit, denormal, heavy_tail)
    to_host, values = source.arrays.to_host, source.xp.empty(shape, dtype)
    if len(shape) > 1:
        rows = values.reshape(-1, shape[-1])
        choice = to_host(source.rng.integers(0, len(kinds), len(rows)))
        for number, kind in enumerate(kinds):
            chosen = np.flatnonzero(choice == number)
            rows[source.xp.asarray(chosen)] = kind(source, (len(chosen), shape[-1]), dtype)
        return values
    cuts = np.sort(to_host(source.rng.integers(0, shape[0] + 1, 2 * len(kinds))))
    for first, last in zip((0, *cuts), (*cuts, shape[0]), strict=True):
        kind = kinds[source.rng.integers(0, len(kinds))]
        values[first:last] = kind(source, (int(last - first),), dtype)
    return values


def ints_full_range(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw from all values of an integer dtype, its two ends among them."""
    limits = np.iinfo(np.dtype(dtype))
    kind = limits.dtype.type
    values = source.rng.integers(limits.min, limits.max, shape, dtype=kind, endpoint=True)
    return _with_values(source, values, (limits.min, limits.max, -1 if limits.min else 0, 0))


def ints(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), both ends among them."""
    return _with_values(source, _whole(source, shape, dtype, low, high), (low, high - 1))


def sorted_ints(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), ascending in memory order."""
    values = ints(source, shape, dtype, low, high)
    return source.xp.sort(values, axis=None).reshape(shape)


def bins(source: Source, shape: Shape, dtype: npt.DTypeLike, count: int) -> Array:
    """Draw bin numbers, most in [0, count), some just and far outside, the borders among them."""
    margin = max(1, count // 10)
    values = _whole(source, shape, dtype, -margin, count + margin)
    ends = np.iinfo(np.dtype(dtype))
    return _with_values(source, values, (-1, 0, count - 1, count, int(ends.min), int(ends.max)))


def all_equal(source: Source, shape: Shape, dtype: npt.DTypeLike, value: float) -> Array:
    """Return one value everywhere: every atomic hits one address."""
    return source.xp.full(shape, value, dtype)


def exact_odd_13bit(
    source: Source, shape: Shape, dtype: npt.DTypeLike, density: float = 1.0
) -> Array:
    """Draw odd numbers, 4099 to 8191 either side of 0, of which a share `density` is not zeroed.

    Thirteen significant bits: float32 holds them, TF32, fp16 and bf16 do not, so a linear
    operation on them is exact in any order of float32 sums and in nothing shorter.
    """
    values = (source.rng.integers(2049, 4096, shape) * 2 + 1) * source.rng.choice((-1, 1), shape)
    return _with_density(source, values.astype(dtype), density)


def exact_signs(source: Source, shape: Shape, dtype: npt.DTypeLike, density: float = 1.0) -> Array:
    """Draw -1, 0 and 1."""
    return _with_density(source, source.rng.integers(-1, 2, shape).astype(dtype), density)


def _with_density(source: Source, values: Array, density: float) -> Array:
    if density >= 1:
        return values
    chosen = source.rng.random(values.shape) < density
    return source.xp.where(chosen, values, 0).astype(values.dtype)


def _whole(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw whole numbers in [low, high), the same in 32 bits as in 64."""
    ends = np.iinfo(np.int32)
    short = np.dtype(dtype) == np.int32 and ends.min <= low and high - 1 <= ends.max
    values: Array = source.rng.integers(low, high, shape, dtype=np.int32 if short else np.int64)
    return values.astype(dtype, copy=False)


def _stored(source: Source, values: Array, dtype: npt.DTypeLike) -> Array:
    """Convert numbers drawn in float32 to `dtype`, finite where that type is short."""
    largest = float(np.finfo(np.dtype(dtype)).max)
    if largest < float(np.finfo(np.float32).max):
        source.xp.clip(values, -largest, largest, out=values)
    return values.astype(dtype, copy=False)


def _with_values(source: Source, values: Array, wanted: tuple[int, ...]) -> Array:
    """Put as many of `wanted` as fit in a quarter of the array at random places."""
    flat = values.reshape(-1)
    fits = wanted[: flat.size // 4]
    if fits:
        places = source.rng.choice(flat.size, len(fits), replace=False)
        flat[places] = source.xp.asarray(np.asarray(fits).astype(values.dtype))
    return values


DISTRIBUTIONS: Mapping[str, InputDistribution] = MappingProxyType(
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
    rng: Random,
    shape: Shape,
    dtype: npt.DTypeLike,
    dims: Mapping[str, int],
    density: float = 1.0,
    arrays: Arrays = HOST,
) -> Array:
    """Draw an array of the distribution a task spells `spelling`; `density` is a probe's."""
    parsed = parse_distribution(spelling)
    arguments = [evaluate(text, dims) for text in parsed.arguments]
    if density < 1:
        arguments.append(density)
    return DISTRIBUTIONS[parsed.name](Source(rng, arrays), shape, dtype, *arguments)
