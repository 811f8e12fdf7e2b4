"""Patterns of wrong elements in an output, and of wrong cases among all cases."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_mutants import to_bf16, to_tf32

from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import EXACT, Terms, limits
from cuda_llm.tools.device import Level
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.compare import Expected, wrong_elements
from cuda_llm.tools.validator.find_patterns import (
    JudgedCase,
    find_case_pattern,
    find_element_pattern,
)
from cuda_llm.verdict_wording import phrase as describe

HostArray = npt.NDArray[Any]

VECTOR = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
SQUARE = VECTOR[:900].reshape(30, 30)
WIDE = VECTOR.reshape(20, 50)
POISON = 0x7B


def describe_pattern(got: HostArray, right: HostArray, **inputs: HostArray) -> str:
    expected = Expected(right.astype(np.float64) if right.dtype.kind == "f" else right)
    rule = (
        limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms())
        if right.dtype.kind == "f"
        else EXACT
    )
    wrong = wrong_elements(got, expected, rule)
    assert wrong.any()
    found = find_element_pattern(got, expected, wrong, inputs, POISON)
    return "" if found is None else describe(found)


def changed(right: HostArray, where: Any, value: Any) -> HostArray:
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
    ],
)
def test_common_mistakes_are_named(got: HostArray, right: HostArray, phrase: str) -> None:
    assert phrase in describe_pattern(got, right)


@pytest.mark.parametrize(
    ("got", "phrase"),
    [
        (changed(COUNTS, 17, 17), "off by one: too few"),
        (changed(COUNTS, 17, 19), "off by one: too many"),
        (COUNTS // 3, "too few"),
        (COUNTS * 7 + 5, "too many: counters are not reset"),
    ],
)
def test_mistakes_in_counts_are_named(got: HostArray, phrase: str) -> None:
    """The counted values are all in range, or some are out of range and counted nowhere."""
    counted = np.repeat(np.arange(100), COUNTS)
    assert phrase in describe_pattern(got, COUNTS, x=counted)
    assert phrase in describe_pattern(got, COUNTS, x=np.append(counted, [-1, 100, 10**6]))


def test_indices_are_not_taken_for_counts() -> None:
    """The last of equal maxima in place of the first is a larger index; nothing is counted."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 3, (50, 40))
    first = x.argmax(axis=1)
    last = 39 - x[:, ::-1].argmax(axis=1)
    assert describe_pattern(last, first, x=x) == ""
    assert describe_pattern(changed(first, 7, 2 * first[7] + 2), first, x=x) == ""


SUBNORMAL = (VECTOR * 1e-39).astype(np.float32)


@pytest.mark.parametrize(
    ("got", "right", "phrase"),
    [
        (SUBNORMAL * np.float32(2), SUBNORMAL, "2 times what it should be"),
        (SUBNORMAL + np.float32(1e-39), SUBNORMAL, ""),
        (np.roll(SUBNORMAL, 1), SUBNORMAL, "one place off"),
        (SUBNORMAL[::-1].copy(), SUBNORMAL, "in reverse order"),
        (SUBNORMAL[:900].reshape(30, 30).T.copy(), SUBNORMAL[:900].reshape(30, 30), "transpose"),
    ],
)
def test_subnormal_values_are_compared_on_their_own_scale(
    got: HostArray, right: HostArray, phrase: str
) -> None:
    expected = Expected(right.astype(np.float64))
    wrong = np.asarray(got != right)
    found = find_element_pattern(got, expected, wrong, {}, POISON)
    said = "" if found is None else describe(found)
    assert phrase in said
    assert bool(phrase) == bool(said)


def test_a_copied_input_is_named() -> None:
    assert describe_pattern(WIDE.copy(), WIDE + 1, A=VECTOR, B=WIDE) == "a copy of A"


def test_noise_has_no_pattern() -> None:
    rng = np.random.default_rng(1)
    got = VECTOR.copy()
    got[rng.choice(1000, 100, replace=False)] += 1
    assert describe_pattern(got, VECTOR) == ""


def test_a_single_wrong_sum_is_not_attributed_to_a_format() -> None:
    assert "bfloat16" in describe_pattern(to_bf16(VECTOR), VECTOR)
    assert "bfloat16" not in describe_pattern(to_bf16(VECTOR[:1]), VECTOR[:1])


def describe_case_pattern(cases: Sequence[JudgedCase]) -> str:
    found = find_case_pattern(cases)
    return "" if found is None else describe(found)


def case(label: str = "normal", group: str = "edge", probe: bool = False, **dims: int) -> Case:
    return Case(group=group, dims=dims, distributions={"x": label}, level=Level.CHECK, probe=probe)


def judged(is_wrong: Callable[[Mapping[str, int]], bool], *cases: Case) -> list[JudgedCase]:
    return [JudgedCase(one, not is_wrong(one.dims)) for one in cases]


VECTORS = [case(n=n) for n in (1, 4, 7, 8, 32, 48, 64, 257, 1024, 1026, 4096)]
MATRICES = [case(M=m, N=n) for m, n in ((1, 1), (32, 32), (31, 33), (64, 32), (33, 32), (32, 31))]


@pytest.mark.parametrize(
    ("is_wrong", "phrase"),
    [
        (lambda d: d["n"] % 4 != 0, "n is a multiple of 4 is right: the tail after whole vectors"),
        (lambda d: d["n"] % 64 != 0, "n is a multiple of 64 is right: the last partial tile"),
        (lambda d: d["n"] > 1024, "right up to n = 1,024, wrong from n = 1,026 on"),
        (lambda d: d["n"] < 64, "wrong up to n = 48, right from n = 64 on"),
        (lambda d: d["n"] in (7, 1024), ""),
        (lambda d: True, ""),
    ],
)
def test_rules_on_one_dim(is_wrong: Callable[[Mapping[str, int]], bool], phrase: str) -> None:
    found = describe_case_pattern(judged(is_wrong, *VECTORS))
    assert phrase in found
    assert bool(phrase) == bool(found)


@pytest.mark.parametrize(
    ("is_wrong", "phrase"),
    [
        (lambda d: d["M"] % 32 or d["N"] % 32, "M and N are multiples of"),
        (lambda d: d["M"] != d["N"], "right only where M equals N"),
        (lambda d: d["N"] % 32, "where N is a multiple of"),
    ],
)
def test_rules_on_two_dims(is_wrong: Callable[[Mapping[str, int]], bool], phrase: str) -> None:
    assert phrase in describe_case_pattern(judged(is_wrong, *MATRICES))


def test_the_failing_distributions_are_named() -> None:
    cases = [case(label, n=n) for n in (5, 6, 7) for label in ("normal", "large", "zeros")]
    found = describe_case_pattern([JudgedCase(one, one.label != "large") for one in cases])
    assert found == "only inputs drawn from large are wrong"


def test_a_probe_that_alone_fails_is_named() -> None:
    cases = [case(n=5), case(n=6), case(n=6, probe=True)]
    assert "exactness probe" in describe_case_pattern(
        [JudgedCase(one, not one.probe) for one in cases]
    )


def test_hidden_sizes_never_appear_in_a_phrase() -> None:
    cases = [case(n=10), case(n=21), case(n=77_777, group="hidden"), case(n=30)]
    assert describe_case_pattern(judged(lambda d: d["n"] > 30, *cases)) == ""
    with_edge = [*cases, case(n=50_000)]
    found = describe_case_pattern(judged(lambda d: d["n"] > 30, *with_edge))
    assert "n = 50,000 on" in found
    assert "77" not in found
