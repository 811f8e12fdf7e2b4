"""Elements of memory as numbers and back, against exact arithmetic on fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuda_llm.tasks.element_types import (
    ELEMENT_TYPES,
    FORMATS,
    ElementType,
    FloatFormat,
    element_type,
)

SHORT = [one for one in ELEMENT_TYPES.values() if one.is_short]
WRAPPED = [one for one in SHORT if not one.is_native]
PATTERNS = {one.name: np.arange(1 << 8 * one.item_bytes).astype(one.stored_as) for one in WRAPPED}


def nearest(number: float, format: FloatFormat) -> float:
    """The nearest number of a format, ties to even, by exact division."""
    if math.isnan(number):
        return number
    if math.isinf(number):
        return number if format.has_infinity else math.copysign(format.largest, number)
    exact, sign = abs(Fraction(number)), math.copysign(1.0, number)
    if exact == 0:
        return number
    exponent = max(math.frexp(number)[1] - 1, format.least_exponent)
    step = Fraction(2) ** (exponent - format.significand_bits + 1)
    steps, rest = divmod(exact, step)
    if rest > step / 2 or (rest == step / 2 and steps % 2):
        steps += 1
    rounded = steps * step
    if rounded > Fraction(format.largest):
        return sign * (format.largest if format.saturates else math.inf)
    return sign * float(rounded)


def same(one: float, other: float) -> bool:
    """The same number, -0 apart from 0, or both NaN."""
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other and math.copysign(1, one) == math.copysign(1, other)


def by_definition(bits: int, exponent_bits: int, fraction_bits: int, has_infinity: bool) -> float:
    """What a bit pattern means, as IEEE 754 defines it; without infinities, as the Open Compute
    Project's specification of 8-bit formats does: all ones are NaN, all else is finite."""
    sign = -1.0 if bits >> (exponent_bits + fraction_bits) else 1.0
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1 and not has_infinity:
        if fraction == (1 << fraction_bits) - 1:
            return math.nan
    elif exponent == (1 << exponent_bits) - 1:
        return math.nan if fraction else sign * math.inf
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - fraction_bits)
    return sign * math.ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits)


@pytest.mark.parametrize(
    ("name", "definition"),
    [
        ("bfloat16", (8, 7, True)),
        ("float8_e4m3fn", (4, 3, False)),
        ("float8_e5m2", (5, 2, True)),
    ],
)
def test_every_pattern_is_the_number_that_it_means(
    name: str, definition: tuple[int, int, bool]
) -> None:
    stored = PATTERNS[name]
    numbers = element_type(name).decode(stored, np)
    assert numbers.dtype == np.float32
    for bits, number in zip(stored.tolist(), numbers.tolist(), strict=True):
        assert same(number, by_definition(bits, *definition)), hex(bits)


def test_nans_of_a_byte_are_quiet_and_a_nan_without_payload_is_that_of_the_hardware() -> None:
    for name in ("float8_e4m3fn", "float8_e5m2"):
        one = element_type(name)
        decoded = one.decode(PATTERNS[name], np)
        assert (decoded[np.isnan(decoded)].view(np.uint32) & 0x00400000).all()
        assert one.encode(np.array([np.nan]), np).tolist() == [0x7F]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_bytes_are_rounded_as_pytorch_rounds_them(name: str) -> None:
    torch = pytest.importorskip("torch")
    one, rng = element_type(name), np.random.default_rng(11)
    values = np.ldexp(rng.normal(size=20000), rng.integers(-24, 17, 20000)).astype(np.float32)
    values = values[np.abs(values) <= one.floating.largest]
    theirs = torch.from_numpy(values).to(getattr(torch, name)).view(torch.uint8).numpy()
    assert np.array_equal(one.encode(values, np), theirs)


def test_only_saturating_types_bring_numbers_into_their_range() -> None:
    beyond = np.array([1e6, -np.inf, np.nan, 3.0])
    found = element_type("float8_e4m3fn").within_range(beyond, np)
    assert np.array_equal(found, [448.0, -448.0, np.nan, 3.0], equal_nan=True)
    assert np.array_equal(element_type("bfloat16").within_range(beyond, np), beyond, equal_nan=True)


@pytest.mark.parametrize("one", WRAPPED, ids=lambda one: one.name)
def test_every_pattern_comes_back_with_its_payload(one: ElementType) -> None:
    stored = PATTERNS[one.name]
    assert np.array_equal(one.encode(one.decode(stored, np), np), stored)


@pytest.mark.parametrize("one", SHORT, ids=lambda one: one.name)
def test_numbers_around_every_element_are_rounded_to_the_nearest(one: ElementType) -> None:
    """At the middle between two neighbours, and just beside it, in float64 and in float32."""
    words = np.arange(1 << 8 * one.item_bytes).astype(f"uint{8 * one.item_bytes}")
    with np.errstate(invalid="ignore"):
        finite = one.decode(words.view(one.stored_as), np).astype(np.float64)
    finite = np.unique(finite[np.isfinite(finite)])
    finite = finite[:: 1 + finite.size // 1500]
    exponents = np.maximum(np.frexp(finite)[1] - 1, one.floating.least_exponent)
    steps = np.ldexp(1.0, exponents - one.floating.significand_bits + 1)
    middle = finite + steps / 2
    wide = np.concatenate([finite, middle, np.nextafter(middle, np.inf), np.nextafter(middle, 0)])
    for values in (wide, wide.astype(np.float32)):
        with np.errstate(over="ignore"):
            rounded = one.rounded(values, np).tolist()
        for number, found in zip(values.tolist(), rounded, strict=True):
            assert same(found, nearest(number, one.floating)), number


@pytest.mark.parametrize("one", SHORT, ids=lambda one: one.name)
@given(number=st.floats())
@example(number=65520.0)
@example(number=3.3961775292304957e38)
@example(number=-3.4028234663852886e38)
@example(number=1.7976931348623157e308)
@example(number=5e-324)
@example(number=-9.18354962e-41)
def test_any_number_is_rounded_once(one: ElementType, number: float) -> None:
    with np.errstate(over="ignore"):
        found = float(one.rounded(np.array([number]), np)[0])
    assert same(found, nearest(number, one.floating))


def test_bits_and_numbers_are_not_mistaken_for_each_other() -> None:
    with pytest.raises(TypeError, match="bfloat16 in float32; expected its bits in uint16"):
        element_type("bfloat16").decode(np.zeros(3, np.float32), np)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_facts_of_formats_are_those_of_numpy(name: str) -> None:
    found, limits = element_type(name).floating, np.finfo(name)
    assert found.rounding_unit == limits.eps / 2
    assert found.largest == float(limits.max)
    assert found.smallest_normal == float(limits.smallest_normal)
    assert found.smallest_subnormal == float(limits.smallest_subnormal)


def test_nearly_infinite_is_a_step_below_the_first_that_is_rounded_to_infinity() -> None:
    assert FORMATS["fp16"].nearly_infinite == 65520.0 - 32.0
    bf16 = FORMATS["bf16"]
    step = 2.0**120
    assert math.isinf(nearest(bf16.nearly_infinite + step, bf16))
    assert nearest(bf16.nearly_infinite + step * 0.999, bf16) == bf16.largest


def test_short_formats_are_those_whose_sums_are_kept_in_fp32() -> None:
    short = {one.name for one in ELEMENT_TYPES.values() if one.is_short}
    assert {"float16", "bfloat16"} <= short
    assert not short & {"float32", "float64", "int8", "bool"}
    assert not FORMATS["tf32"].is_short


def test_an_unknown_type_is_named_with_the_known_ones() -> None:
    with pytest.raises(KeyError, match="float8 is no element type; known: float16, bfloat16"):
        element_type("float8")
