"""Draws floats in the magnitudes that kernels get wrong: zeros of both signs, denormals, large
values, heavy tails, and several of these in one array."""

import numpy as np
import numpy.typing as npt

from cuda_llm.tasks.element_types import FloatFormat
from cuda_llm.tools.device.buffers import Array
from cuda_llm.tools.validator.whole_numbers import (
    Shape,
    Source,
    few_places,
    in_parts,
    in_parts_of_rows,
    int_limits,
    is_integer,
)

EXACT_SUM = 2.0**24
"""Whole numbers below this are exact in float32, and so are their sums in any order."""


def limits_of(source: Source, dtype: npt.DTypeLike) -> FloatFormat:
    """Return range and precision of what numbers drawn in `dtype` are stored in."""
    return source.element_of(dtype).floating


@in_parts
def normal(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw with mean 0, variance 1 and full mantissas: the distribution to time with."""
    values: Array = source.rng.standard_normal(shape, dtype=np.float32)
    return values.astype(dtype, copy=False)


@in_parts
def uniform(source: Source, shape: Shape, dtype: npt.DTypeLike, low: float, high: float) -> Array:
    """Draw evenly over [low, high)."""
    values: Array = source.rng.random(shape, dtype=np.float32)
    if (low, high) != (0, 1):
        values *= np.float32(high - low)
        values += np.float32(low)
    return _stored(source, values, dtype)


@in_parts
def uniform_signed(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw evenly over [-1, 1)."""
    return uniform(source, shape, dtype, -1, 1)


@in_parts
def uniform_unit(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw evenly over [0, 1): sums grow without cancelling."""
    return uniform(source, shape, dtype, 0, 1)


@in_parts
def heavy_tail(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw Student's t with 3 degrees of freedom: a few elements carry much of the sum."""
    freedom: Array = source.rng.standard_gamma(1.5, shape, dtype=np.float32)
    freedom /= np.float32(1.5)
    values = normal(source, shape, np.float32)
    values /= source.xp.sqrt(freedom, out=freedom)
    return _stored(source, values, dtype)


@in_parts
def large(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values times 1e4."""
    values = normal(source, shape, np.float32)
    values *= np.float32(1e4)
    return _stored(source, values, dtype)


@in_parts
def denormal(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw subnormal numbers of either sign, which detect a kernel that flushes them."""
    stored_in = limits_of(source, dtype)
    steps = 1 << min(stored_in.significand_bits - 1, 23)
    counts = source.rng.integers(1, steps, shape) * source.rng.choice((-1, 1), shape)
    values: Array = (counts * stored_in.smallest_subnormal).astype(dtype)
    return values


@in_parts
def zeros(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Return zeros, for floats of both signs."""
    values = source.xp.zeros(shape, dtype)
    if not is_integer(dtype):
        values[source.rng.random(shape) < 0.5] = -0.0
    return values


def _short_values(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw nonzero multiples of 1/4 up to 2: a long sum of them has no rounding bias."""
    counts = source.rng.integers(1, 9, shape)
    values: Array = counts * source.rng.choice((-0.25, 0.25), shape)
    return values.astype(dtype)


def constant_rows(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw one value for each index of the first axis."""
    rows = _short_values(source, (*shape[:1], *(1,) * (len(shape) - 1)), dtype)
    return source.xp.broadcast_to(rows, shape).copy()


@in_parts
def sparse(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values, of which nine of ten are zero."""
    values = normal(source, shape, np.float32)
    values[source.rng.random(shape) < 0.9] = 0
    return values.astype(dtype, copy=False)


@in_parts_of_rows
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


@in_parts
def magnitudes(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw numbers of every magnitude from 2^low up to 2^(high + 1), where the type has them."""
    stored_in = limits_of(source, dtype)
    most = int(np.frexp(stored_in.largest)[1]) - 1
    first, last = max(int(low), stored_in.least_exponent), min(int(high), most)
    powers = source.xp.asarray(np.ldexp(1.0, np.arange(first, last + 1)))
    exponents = source.rng.integers(0, last - first + 1, shape)
    # At most 2 - 2^-12, which rounds to less than 2 in every type.
    significands = 1 + source.rng.random(shape, dtype=np.float32) * np.float32(0.999)
    signed = significands * source.rng.choice((-1.0, 1.0), shape)
    return (signed * source.xp.take(powers, exponents)).astype(dtype)


@in_parts_of_rows
def scaled_rows(source: Source, shape: Shape, dtype: npt.DTypeLike, low: int, high: int) -> Array:
    """Draw normal values times one power of two from 2^low to 2^high a row, or for a vector."""
    values = normal(source, shape, np.float32).astype(np.float64)
    rows = values.reshape(-1, shape[-1])
    powers = np.ldexp(1.0, np.arange(int(low), int(high) + 1))
    each = source.rng.integers(0, len(powers), (rows.shape[0], 1))
    rows *= source.xp.take(source.xp.asarray(powers), each)
    return _stored(source, values, dtype)


def full_rank(source: Source, shape: Shape, dtype: npt.DTypeLike, offset: float) -> Array:
    """Draw normal values plus `offset`, and more in one column of each row in turn.

    As many rows as columns are 4 sqrt(c) I + E, and |E| is about 2 sqrt(c): a condition of about 3.
    """
    values = normal(source, shape, np.float32)
    columns = shape[-1]
    rows = values.reshape(-1, columns)
    index = source.xp.arange(rows.shape[0])
    rows[index, index % columns] += np.float32(4 * columns**0.5)
    values += np.float32(offset)
    return _stored(source, values, dtype)


def spike(source: Source, shape: Shape, dtype: npt.DTypeLike, value: float) -> Array:
    """Return `value` everywhere except in a few random places, which hold another value."""
    values = source.xp.full(shape, value, dtype)
    flat = values.reshape(-1)
    if not flat.size:
        return values
    sign = 1 if source.rng.integers(0, 2) else -1
    if is_integer(dtype):
        ends = int_limits(dtype)
        other: float = int(value) + sign
        other = other if ends.min <= other <= ends.max else int(value) - sign
    else:
        # As much as all others together, so that no rounding of their sum hides it.
        weight = flat.size * max(abs(value), 0.125) * int(source.rng.integers(9, 16)) / 8
        other = sign * min(weight, limits_of(source, dtype).largest / 16)
    for place in few_places(source, flat.size):
        flat[place] = other
    return values


def outliers(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values, with huge, tiny or zero values in a few random places."""
    values = normal(source, shape, dtype)
    flat = values.reshape(-1)
    for place in few_places(source, flat.size):
        power = (-40, -12, 12, 12, 40)[int(source.rng.integers(0, 5))]
        most = limits_of(source, dtype).largest
        flat[place] = flat[place] * min(2.0**power, most / 16)
    return values


@in_parts
def infinities(source: Source, shape: Shape, dtype: npt.DTypeLike) -> Array:
    """Draw normal values, of which one in eight is 0, infinite or the largest number, of either
    sign."""
    values = normal(source, shape, dtype)
    kind = source.rng.integers(0, 24, shape)
    for number, special in enumerate((0.0, np.inf, limits_of(source, dtype).largest)):
        chosen = source.xp.copysign(special, values).astype(dtype)
        values = source.xp.where(kind == number, chosen, values)
    return values


def all_equal(source: Source, shape: Shape, dtype: npt.DTypeLike, value: float) -> Array:
    """Return one value everywhere: every atomic hits one address."""
    return source.xp.full(shape, value, dtype)


@in_parts
def exact_odd_13bit(
    source: Source, shape: Shape, dtype: npt.DTypeLike, density: float = 1.0
) -> Array:
    """Draw odd numbers, 4099 to 8191 either side of 0, of which a share `density` is not zeroed.

    Thirteen significant bits: float32 holds them, TF32, fp16 and bf16 do not, so a linear
    operation on them is exact in any order of float32 sums and in nothing shorter.
    """
    values = (source.rng.integers(2049, 4096, shape) * 2 + 1) * source.rng.choice((-1, 1), shape)
    return _with_density(source, values.astype(dtype), density)


def first_high(source: Source, shape: Shape, dtype: npt.DTypeLike, value: float) -> Array:
    """Return zeros but for `value` in the first place of each row."""
    values = source.xp.zeros(shape, dtype)
    values[..., 0] = value
    return values


@in_parts
def exact_signs(source: Source, shape: Shape, dtype: npt.DTypeLike, density: float = 1.0) -> Array:
    """Draw -1, 0 and 1."""
    return _with_density(source, source.rng.integers(-1, 2, shape).astype(dtype), density)


@in_parts
def exact_odd(source: Source, shape: Shape, dtype: npt.DTypeLike, terms: float) -> Array:
    """Draw odd numbers of either sign, of which `terms` add up to less than 2^24.

    None is zero: a sum that leaves one out, or adds one twice, is another whole number.
    """
    largest = min(8191, max(1, int(EXACT_SUM // max(terms, 1))))
    values = source.rng.integers(0, (largest + 1) // 2, shape) * 2 + 1
    signed: Array = values * source.rng.choice((-1, 1), shape)
    return signed.astype(dtype)


def _with_density(source: Source, values: Array, density: float) -> Array:
    if density >= 1:
        return values
    chosen = source.rng.random(values.shape) < density
    return source.xp.where(chosen, values, 0).astype(values.dtype)


def _stored(source: Source, values: Array, dtype: npt.DTypeLike) -> Array:
    """Convert numbers drawn in float32 to `dtype`, finite where that type is short."""
    largest = limits_of(source, dtype).largest
    if largest < float(np.finfo(np.float32).max):
        source.xp.clip(values, -largest, largest, out=values)
    return values.astype(dtype, copy=False)
