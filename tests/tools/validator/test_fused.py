"""One kernel says of a comparison what many operations on arrays say."""

from typing import Any

import numpy as np
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strict_arrays import strict_arrays

from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import EXACT, Terms, limits
from cuda_llm.tools.validator.compare import Expected, OutputComparison, compare
from cuda_llm.tools.validator.fused import MOST_ROWS, compare_on_device, first_difference

RULES = {
    "elementwise": limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms()),
    "reduction": limits(Tolerance(kind=ToleranceClass.REDUCTION), Terms(count=9, symmetric=True)),
    "half": limits(Tolerance(kind=ToleranceClass.DOT, precision="fp16"), Terms(count=9)),
    "exact": EXACT,
}
TYPES = [
    *(("float32", "float32"), ("float32", "float64"), ("float64", "float64"), ("float32", "int64")),
    *(("int32", "int64"), ("int64", "int64"), ("uint8", "int64"), ("int32", "float64")),
]
SPECIAL = (0.0, -0.0, np.nan, np.inf, -np.inf, 1e39, -1e39, 1e-44, 3.0)


def on_device(got: Any, value: Any, scale: Any, rule: str) -> OutputComparison:
    arrays, xp = strict_arrays()
    there = [None if one is None else xp.asarray(one) for one in (value, scale)]
    assert compare_on_device(xp.asarray(got), there[0], there[1], RULES[rule], arrays) is not None
    return compare(xp.asarray(got), Expected(*there), RULES[rule], arrays)


def assert_same(one: OutputComparison, other: OutputComparison) -> None:
    assert (one.elements, one.wrong, one.first, one.limit) == (
        *(other.elements, other.wrong, other.first),
        other.limit,
    )
    assert one.max_units == pytest.approx(other.max_units, rel=1e-12, nan_ok=True)
    if np.isfinite(other.max_units):
        assert one.rms_units == pytest.approx(other.rms_units, rel=1e-12)
    assert np.array([one.got, one.expected]) == pytest.approx(
        np.array([other.got, other.expected]), nan_ok=True
    )


@pytest.mark.parametrize("types", TYPES)
@settings(max_examples=examples(12))
@given(
    seed=st.integers(0, 1 << 32),
    size=st.sampled_from([1, 7, 63, 64, 1000, 9 * MOST_ROWS]),
    rule=st.sampled_from(sorted(RULES)),
    scaled=st.booleans(),
    errors=st.sampled_from([0.0, 1e-8, 3e-7, 1e-3]),
    odd=st.lists(st.tuples(st.sampled_from(SPECIAL), st.sampled_from(SPECIAL)), max_size=3),
)
def test_kernels_and_array_operations_agree(
    types: tuple[str, str],
    seed: int,
    size: int,
    rule: str,
    scaled: bool,
    errors: float,
    odd: list[tuple[float, float]],
) -> None:
    rng = np.random.default_rng(seed)
    value = rng.standard_normal(size) * 40
    got = value * (1 + errors * rng.standard_normal(size))
    if types[0].startswith("float") and types[1].startswith("float"):
        for place, (here, there) in enumerate(odd[:size]):
            got[place * size // 3], value[place * size // 3] = here, there
    if not types[0].startswith("float"):
        rule, got, value = "exact", np.rint(np.abs(got)), np.rint(np.abs(value))
    with np.errstate(all="ignore"):
        got, value = got.astype(types[0]), value.astype(types[1])
    scale = np.abs(rng.standard_normal(size)) * 100 if scaled else None
    plain = compare(got, Expected(value, scale), RULES[rule])
    assert_same(on_device(got, value, scale, rule), plain)


def test_the_first_wrong_element_is_named_whichever_thread_takes_it() -> None:
    value = np.ones(40 * MOST_ROWS)
    got = value.astype(np.float32)
    got[[-1, 5 * MOST_ROWS + 3, 17]] = 2
    result = on_device(got, value, None, "elementwise")
    assert (result.wrong, result.first) == (3, (17,))


def test_types_without_a_kernel_are_compared_all_the_same() -> None:
    arrays, xp = strict_arrays()
    value = np.linspace(-3, 3, 300)
    got = value.astype(np.float16)
    assert (
        compare_on_device(xp.asarray(got), xp.asarray(value), None, RULES["half"], arrays) is None
    )
    there = compare(xp.asarray(got), Expected(xp.asarray(value)), RULES["half"], arrays)
    assert_same(there, compare(got, Expected(value), RULES["half"]))


@pytest.mark.parametrize("kernels", [True, False])
@pytest.mark.parametrize("size", [1, 8, 999, 1 << 16])
def test_one_different_byte_is_seen_anywhere(kernels: bool, size: int) -> None:
    arrays, xp = strict_arrays() if kernels else strict_arrays(None)
    one = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for place in {0, size // 2, size - 1}:
        other = one.copy()
        other[place] ^= 64
        pair = (xp.asarray(one), xp.asarray(other))
        assert first_difference([(pair[0], pair[0].copy()), pair], arrays) == 1
    assert first_difference([(xp.asarray(one), xp.asarray(one.copy()))], arrays) is None
