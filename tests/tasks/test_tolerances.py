"""The limits hold for what they allow and not for what they forbid."""

import math
from dataclasses import replace

import numpy as np
import pytest
from array_kernels import multiply_in_order, sum_in_order

from cuda_llm.tasks.task import SummationOrder, Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import EXACT, ROUNDING_UNIT, Terms, limits
from cuda_llm.tools.validator.compare import Expected, compare

REDUCTION = Tolerance(kind=ToleranceClass.REDUCTION)
ELEMENTWISE = Tolerance(kind=ToleranceClass.ELEMENTWISE)


def test_exact_tasks_require_equality() -> None:
    assert limits(Tolerance(kind=ToleranceClass.EXACT), Terms(count=1e6)) is EXACT


def test_limits_written_in_a_task_win() -> None:
    own = limits(Tolerance(kind=ToleranceClass.DOT, max_units=7, rms_units=2), Terms(count=1e6))
    assert (own.max_units, own.rms_units) == (7, 2)


@pytest.mark.parametrize("count", [1, 256, 10_000, 1 << 20])
def test_a_chain_may_err_by_the_root_of_its_length_and_a_tree_may_not(count: int) -> None:
    chain = limits(REDUCTION, Terms(count=count))
    tree = limits(
        Tolerance(kind=ToleranceClass.REDUCTION, order=SummationOrder.TREE), Terms(count=count)
    )
    assert chain.max_units == max(32, 2 * math.sqrt(count))
    assert tree.max_units == 32
    assert limits(REDUCTION, Terms(count=count, symmetric=True)).max_units == 32


@pytest.mark.parametrize("count", [1000, 65_537, 1 << 20])
@pytest.mark.parametrize("draw", ["positive", "symmetric"])
def test_one_chain_of_float32_additions_stays_within_a_quarter(count: int, draw: str) -> None:
    rng = np.random.default_rng(count)
    for _ in range(10):
        values = rng.random(count, np.float32)
        if draw == "symmetric":
            values = rng.standard_normal(count, np.float32)
        exact = values.astype(np.float64)
        own = limits(REDUCTION, Terms(count=count, symmetric=draw == "symmetric"))
        result = compare(
            sum_in_order({"input": values}),
            Expected(exact.sum(keepdims=True), np.abs(exact).sum(keepdims=True)),
            own,
        )
        assert result.max_units < own.max_units / 4 * 1.5


def test_a_chain_of_one_repeated_value_needs_the_worst_case() -> None:
    """0.1 added a million times drifts one way: far beyond the root, within the count."""
    count = 1 << 20
    values = np.full(count, 0.1, np.float32)
    exact = values.astype(np.float64).sum(keepdims=True)
    summed = sum_in_order({"input": values})
    assert compare(
        summed, Expected(exact, exact), limits(REDUCTION, Terms(count=count, repeated=True))
    ).ok
    assert not compare(summed, Expected(exact, exact), limits(REDUCTION, Terms(count=count))).ok


@pytest.mark.parametrize("terms", [64, 1024, 4096])
def test_dot_products_distinguish_float32_from_half_accumulation(terms: int) -> None:
    rng = np.random.default_rng(terms)
    a, b = (rng.standard_normal(s, np.float32) for s in ((24, terms), (terms, 24)))
    buffers = {"A": a, "B": b, "C": np.zeros((24, 24), np.float32)}
    wide = a.astype(np.float64), b.astype(np.float64)
    expected = Expected(wide[0] @ wide[1], np.abs(wide[0]) @ np.abs(wide[1]))
    own = limits(Tolerance(kind=ToleranceClass.DOT), Terms(count=terms, symmetric=True))
    honest = compare(multiply_in_order(buffers), expected, own)
    assert honest.max_units < own.max_units / 4
    assert compare(multiply_in_order(buffers, np.float16), expected, own).max_units > 1000


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_short_outputs_may_be_rounded_once(precision: str) -> None:
    tolerance = Tolerance(kind=ToleranceClass.DOT, precision=precision)
    own = limits(tolerance, Terms(count=100, symmetric=True))
    right = np.linspace(1.0, 2.0, 1001)
    step = ROUNDING_UNIT[precision] * 2
    rounded = np.rint(right / step) * step
    assert compare(rounded, Expected(right, np.full_like(right, 10.0)), own).ok
    twice = rounded + step * np.sign(rounded - right)
    assert not compare(twice, Expected(right, np.full_like(right, 10.0)), own).ok


def test_tf32_tasks_accept_rounded_operands_and_not_bfloat16() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((16, 64)), rng.random((64, 16))
    expected = Expected(a @ b, a @ b)
    own = limits(Tolerance(kind=ToleranceClass.DOT, precision="tf32"), Terms(count=64))
    step = np.float64(2.0**-11)
    assert compare((a * (1 + step)) @ (b * (1 + step)), expected, own).ok
    assert not compare((a * (1 + 8 * step)) @ (b * (1 + 8 * step)), expected, own).ok


def test_sums_may_flush_denormals_as_global_float_atomics_do_and_single_results_may_not() -> None:
    right = np.array([1000 * 2.0**-130])
    got = np.zeros(1, np.float32)
    scale = np.array([1000 * 2.0**-127])
    assert compare(got, Expected(right, scale), limits(REDUCTION, Terms(count=1000))).ok
    tree = Tolerance(kind=ToleranceClass.REDUCTION, order=SummationOrder.TREE)
    assert not compare(got, Expected(right, scale), limits(tree, Terms(count=1000))).ok
    assert not compare(got, Expected(right), limits(ELEMENTWISE, Terms())).ok


def test_a_plain_silu_is_right_where_its_exponential_overflows() -> None:
    """From x = -88.7 on the quotient is -0, where x / (1 + exp(-x)) is up to 2^-121.5."""
    x = np.linspace(-110, 110, 44_001).astype(np.float32)
    wide = x.astype(np.float64)
    right = Expected(wide / (1 + np.exp(-wide)))
    with np.errstate(over="ignore"):
        plain = x / (np.float32(1) + np.exp(-x))
    own = limits(ELEMENTWISE, Terms(may_overflow=True))
    assert (plain[wide < -89] == 0).all() and (right.value[wide < -89] < -1e-46).all()
    assert compare(plain, right, own).ok
    assert not compare(plain, right, limits(ELEMENTWISE, Terms())).ok
    cut_off = np.where(x < -80, np.float32(0), plain)
    assert not compare(cut_off, right, own).ok


def test_roundings_before_the_last_are_relative_to_the_scale() -> None:
    tolerance = Tolerance(kind=ToleranceClass.DOT, precision="bf16")
    once = limits(tolerance, Terms(count=64))
    often = limits(replace(tolerance, roundings=4), Terms(count=64))
    assert often == replace(once, scale_weight=once.scale_weight + 3)
