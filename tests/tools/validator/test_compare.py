"""No wrong element gets through, wherever it is; no right one is refused."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import EXACT, Terms, limits
from cuda_llm.tools.validator.compare import CHUNK, Expected, compare, wrong_elements

Array = npt.NDArray[Any]

ELEMENTWISE = limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms())
REDUCTION = limits(Tolerance(kind=ToleranceClass.REDUCTION), Terms(count=100, symmetric=True))
MILLION = 1_000_000
RIGHT = np.random.default_rng(0).standard_normal(MILLION)


@given(
    index=st.integers(0, MILLION - 1),
    factor=st.sampled_from([0.0, -1.0, 1.0 + 2.0**-19, 1.0 - 2.0**-19, 2.0]),
)
@settings(max_examples=examples(25))
def test_one_wrong_element_among_a_million_is_found_at_its_place(index: int, factor: float) -> None:
    got = RIGHT.astype(np.float32)
    got[index] *= np.float32(factor)
    result = compare(got, Expected(RIGHT), ELEMENTWISE)
    assert result.wrong == 1
    assert result.first == (index,)
    assert result.got == got[index]
    assert result.expected == RIGHT[index]
    assert result.max_units > ELEMENTWISE.max_units


@given(
    index=st.integers(0, 2 * CHUNK),
    value=st.sampled_from([np.nan, np.inf, -np.inf]),
    kind=st.sampled_from(["float32", "float16"]),
    rule=st.sampled_from([ELEMENTWISE, REDUCTION, EXACT]),
    reference=st.sampled_from([0.0, 1.0, -3.5, 1e-30]),
)
@settings(max_examples=examples(60))
def test_a_non_finite_value_never_passes_for_a_finite_one(
    index: int, value: float, kind: str, rule: Any, reference: float
) -> None:
    right = np.full(2 * CHUNK + 1, reference)
    got = right.astype(kind)
    if rule is not EXACT:
        assert compare(got, Expected(got.astype(np.float64)), rule).ok
    got[index] = value
    expected = Expected(right, np.full(right.shape, 1e30)) if rule is REDUCTION else Expected(right)
    result = compare(got, expected, rule)
    assert not result.ok
    assert index in np.flatnonzero(wrong_elements(got, expected, rule))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("rule", [ELEMENTWISE, EXACT])
def test_a_non_finite_reference_requires_just_that_value(value: float, rule: Any) -> None:
    expected = Expected(np.array([1.0, value, 2.0]))
    assert compare(np.array([1, value, 2], np.float32), expected, rule).ok
    for other in {0.0, 1.0, np.nan, np.inf, -np.inf} - {value}:
        if np.isnan(other) and np.isnan(value):
            continue
        result = compare(np.array([1, other, 2], np.float32), expected, rule)
        assert result.first == (1,)


def test_a_reference_too_large_for_the_output_type_requires_infinity() -> None:
    expected = Expected(np.array([1e39, -1e39]))
    assert compare(np.array([np.inf, -np.inf], np.float32), expected, ELEMENTWISE).ok
    assert not compare(np.array([np.inf, np.inf], np.float32), expected, ELEMENTWISE).ok


@pytest.mark.parametrize(
    ("wanted", "got", "right"),
    [
        (70000.0, np.inf, True),
        (70000.0, 65504.0, False),
        (65519.9, np.inf, True),
        (65520.1, 65504.0, True),
        (65400.0, np.inf, False),
        (-65519.9, np.inf, False),
        (-65519.9, -np.inf, True),
    ],
)
def test_a_half_may_round_to_infinity_only_beside_the_largest_number(
    wanted: float, got: float, right: bool
) -> None:
    rule = limits(Tolerance(kind=ToleranceClass.DOT, precision="fp16"), Terms(count=100))
    expected = Expected(np.array([wanted]), np.array([1e5]))
    assert compare(np.array([got], np.float16), expected, rule).ok == right


@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=examples(30))
def test_permuting_elements_is_found_where_it_moves_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    right = rng.standard_normal(50)
    order = rng.permutation(50)
    result = compare(right[order].astype(np.float32), Expected(right), ELEMENTWISE)
    assert result.wrong == int((order != np.arange(50)).sum())


@given(seed=st.integers(0, 1 << 32), exponent=st.integers(-148, 120))
@settings(max_examples=examples(50))
def test_correct_rounding_is_at_most_one_unit_at_any_magnitude(seed: int, exponent: int) -> None:
    right = np.random.default_rng(seed).standard_normal(100) * 2.0**exponent
    result = compare(right.astype(np.float32), Expected(right), ELEMENTWISE)
    assert result.ok
    assert result.max_units <= 1.0


def test_flushed_denormals_are_wrong() -> None:
    right = np.array([1e-40, -2e-41])
    assert compare(right.astype(np.float32), Expected(right), ELEMENTWISE).ok
    assert compare(np.zeros(2, np.float32), Expected(right), ELEMENTWISE).wrong == 2


def test_negative_zero_equals_zero() -> None:
    zeros = np.array([-0.0, 0.0], np.float32)
    assert compare(zeros, Expected(np.zeros(2)), ELEMENTWISE).ok
    assert compare(zeros, Expected(np.zeros(2)), EXACT).ok


def test_the_scale_decides_what_an_error_weighs() -> None:
    got, right = np.array([1e-3], np.float32), np.array([0.0])
    assert compare(got, Expected(right, np.array([1e4])), REDUCTION).ok
    assert not compare(got, Expected(right, np.array([1.0])), REDUCTION).ok


def test_small_errors_everywhere_are_found_by_their_root_mean_square() -> None:
    right = np.ones(1000)
    got = (right * (1 + 10 * 2.0**-24)).astype(np.float32)
    result = compare(got, Expected(right, right), REDUCTION)
    assert result.wrong == 1000
    assert result.limit == REDUCTION.rms_units
    assert compare(got[:10], Expected(right[:10], right[:10]), REDUCTION).ok


def test_integers_are_compared_exactly_at_any_size() -> None:
    right = np.array([2**31 - 1, -(2**31), 7])
    assert compare(right.astype(np.int32), Expected(right), EXACT).ok
    result = compare((right - [1, 0, 0]).astype(np.int32), Expected(right), EXACT)
    assert (result.wrong, result.first) == (1, (0,))


def test_the_comparator_of_a_task_decides_and_nan_is_wrong() -> None:
    got = np.zeros((2, 2), np.float32)
    units = np.array([[0.0, 8.0], [np.nan, 9.0]])
    result = compare(got, Expected(np.ones((2, 2)), units=units), ELEMENTWISE)
    assert result.wrong == 2
    assert result.first == (1, 0)
    assert result.max_units == np.inf


def test_an_output_of_another_shape_is_a_bug_of_ours() -> None:
    with pytest.raises(ValueError, match="reference"):
        compare(np.zeros(3, np.float32), Expected(np.zeros(4)), ELEMENTWISE)
