"""What a wrong output is called."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_mutants import to_bf16, to_tf32

from cuda_llm.fact_wording import describe_elements
from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tools.validator.compare import Expected, wrong_elements
from cuda_llm.tools.validator.find_patterns import find_element_pattern
from cuda_llm.tools.validator.tolerances import EXACT, Terms, limits

Array = npt.NDArray[Any]

VECTOR = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
SQUARE = VECTOR[:900].reshape(30, 30)
WIDE = VECTOR.reshape(20, 50)
POISON = 0x7B


def told(got: Array, right: Array, **inputs: Array) -> str:
    expected = Expected(right.astype(np.float64) if right.dtype.kind == "f" else right)
    rule = (
        limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms())
        if right.dtype.kind == "f"
        else EXACT
    )
    wrong = wrong_elements(got, expected, rule)
    assert wrong.any()
    found = find_element_pattern(got, expected, wrong, inputs, POISON)
    return "" if found is None else describe_elements(found)


def changed(right: Array, where: Any, value: Any) -> Array:
    got = right.copy()
    got[where] = value
    return got


POISONED = np.full(4, POISON, np.uint8).view(np.float32)[0]
COUNTS = np.arange(1, 101)


@pytest.mark.parametrize(
    ("got", "right", "phrase"),
    [
        (np.full_like(VECTOR, POISONED), VECTOR, "the output is never written"),
        (changed(VECTOR, slice(-8, None), POISONED), VECTOR, "never written: the last elements"),
        (changed(VECTOR, slice(0, None, 3), POISONED), VECTOR, "every 3th element"),
        (np.full_like(VECTOR, np.nan), VECTOR, "NaN"),
        (changed(VECTOR, slice(3, 5), np.nan), VECTOR, "NaN in 0.2 %"),
        (changed(VECTOR, 7, np.inf), VECTOR, "infinity"),
        (np.zeros_like(VECTOR), VECTOR, "all zeros"),
        (np.full_like(VECTOR, 3), VECTOR, "one constant everywhere"),
        (SQUARE.T.copy(), SQUARE, "the transpose"),
        (WIDE.T.copy().reshape(WIDE.shape), WIDE, "the transpose"),
        (np.roll(VECTOR, 1), VECTOR, "one place off"),
        (VECTOR[::-1].copy(), VECTOR, "in reverse order"),
        (VECTOR * 2, VECTOR, "2 times what it should be"),
        (VECTOR / 32, VECTOR, "one 32th"),
        (-VECTOR, VECTOR, "the negative"),
        (to_tf32(VECTOR), VECTOR, "TF32 or half"),
        (to_bf16(VECTOR), VECTOR, "bfloat16"),
        (changed(VECTOR, slice(-5, None), 9), VECTOR, "the last elements are wrong (0.5 %"),
        (changed(VECTOR, -1, 9), VECTOR, "the last element only"),
        (changed(VECTOR, 0, 9), VECTOR, "the first element only"),
        (changed(WIDE, (slice(None), slice(-2, None)), 9), WIDE, "the last columns"),
        (changed(WIDE, slice(-3, None), 9), WIDE, "the last rows"),
        (changed(WIDE, (slice(-3, None), slice(-4, None)), 9), WIDE, "the last corner"),
        (changed(COUNTS, 17, 17), COUNTS, "off by one: too few"),
        (changed(COUNTS, 17, 19), COUNTS, "off by one: too many"),
        (COUNTS // 3, COUNTS, "too few"),
        (COUNTS * 7 + 5, COUNTS, "too many"),
    ],
)
def test_common_mistakes_are_named(got: Array, right: Array, phrase: str) -> None:
    assert phrase in told(got, right)


def test_a_copied_input_is_named() -> None:
    assert told(WIDE.copy(), WIDE + 1, A=VECTOR, B=WIDE) == "a copy of A"


def test_noise_has_no_pattern() -> None:
    rng = np.random.default_rng(1)
    got = VECTOR.copy()
    got[rng.choice(1000, 100, replace=False)] += 1
    assert told(got, VECTOR) == ""


def test_a_single_wrong_sum_is_not_attributed_to_a_format() -> None:
    assert "bfloat16" in told(to_bf16(VECTOR), VECTOR)
    assert "bfloat16" not in told(to_bf16(VECTOR[:1]), VECTOR[:1])
