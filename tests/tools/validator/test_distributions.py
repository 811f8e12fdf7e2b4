"""Every distribution a task may name gives what its name says."""

import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tasks.distribution import FAMILIES
from cuda_llm.tools.validator.distributions import (
    DISTRIBUTIONS,
    REPEATED,
    SYMMETRIC,
    draw,
    drawing_bytes,
    in_regions,
)

Array = npt.NDArray[Any]

ARGUMENTS = {
    "uniform": "(-2, 3)",
    "all_equal": "(1)",
    "ints": "(-4, n)",
    "sorted_ints": "(0, n)",
    "bins": "(n)",
    "magnitudes": "(-126, 127)",
    "scaled_rows": "(-9, 9)",
    "full_rank": "(2)",
    "spike": "(1)",
    "nearly_sorted_ints": "(0, n)",
    "descending_ints": "(0, n)",
    "rare_bins": "(n)",
    "exact_odd": "(4 * n)",
    "first_high": "(9)",
    "landmarks": "(0, 3)",
}
SPELLINGS = [
    (name + ARGUMENTS.get(name, ""), dtype)
    for name, family in FAMILIES.items()
    for dtype in ("float32", "float16") * family.floats + ("int32", "uint8") * family.integers
    if not (dtype == "uint8" and name in ("ints", "sorted_ints", "bins"))
    and name not in ("bit_patterns", "infinities")
]
SHAPES = st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple)


def drawn(spelling: str, shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    values: Array = draw(spelling, np.random.default_rng(seed), shape, dtype, {"n": 10})
    return values


def test_every_name_a_task_may_write_can_be_drawn() -> None:
    assert set(DISTRIBUTIONS) == set(FAMILIES)
    assert set(FAMILIES) >= SYMMETRIC | REPEATED


@pytest.mark.parametrize(("spelling", "dtype"), SPELLINGS)
@settings(max_examples=examples(25))
@given(shape=SHAPES, seed=st.integers(0, 1 << 32))
def test_shape_and_type_are_as_requested_and_values_are_finite(
    spelling: str, dtype: str, shape: tuple[int, ...], seed: int
) -> None:
    values = drawn(spelling, shape, dtype, seed)
    assert values.shape == shape
    assert values.dtype == np.dtype(dtype)
    assert values.flags.c_contiguous
    assert np.isfinite(values).all()
    assert np.array_equal(values, drawn(spelling, shape, dtype, seed))


@pytest.mark.parametrize("name", sorted(SYMMETRIC))
def test_symmetric_ones_centre_on_zero(name: str) -> None:
    values = drawn(name, (100_000,))
    assert abs(float(values.mean())) < 0.02
    assert float(np.abs(values).max()) < 10


def test_uniform_keeps_its_bounds() -> None:
    values = drawn("uniform(-2, 3)", (10_000,))
    assert values.min() >= -2
    assert values.max() <= 3
    assert values.min() < -1.9 < 2.9 < values.max()


def test_heavy_tail_reaches_far() -> None:
    values = np.abs(drawn("heavy_tail", (100_000,)))
    assert float(values.max()) > 20 * float(np.median(values))


def test_denormals_are_subnormal_and_not_zero() -> None:
    values = drawn("denormal", (1000,))
    assert (values != 0).all()
    assert (np.abs(values) < np.finfo(np.float32).smallest_normal).all()
    assert (values < 0).any()
    assert (values > 0).any()


def test_zeros_have_both_signs() -> None:
    values = drawn("zeros", (1000,))
    assert (values == 0).all()
    assert 300 < np.signbit(values).sum() < 700
    assert not drawn("zeros", (10,), "int32").any()


def test_constant_rows_are_constant_and_differ() -> None:
    values = drawn("constant_rows", (50, 7))
    assert (values == values[:, :1]).all()
    assert len(np.unique(values)) > 5
    assert (values != 0).all()


def test_sparse_is_mostly_zero() -> None:
    assert 0.85 < float((drawn("sparse", (10_000,)) == 0).mean()) < 0.95


def test_mixed_has_zeros_and_large_values_in_one_vector_at_changing_places() -> None:
    values = drawn("mixed", (100_000,))
    assert float((values == 0).mean()) > 0.01
    assert float(np.abs(values).max()) > 1000
    assert not np.array_equal(values, drawn("mixed", (100_000,), seed=1))


def test_mixed_matrices_differ_row_by_row() -> None:
    spread = np.abs(drawn("mixed", (200, 64))).max(axis=1)
    assert (spread == 0).any()
    assert (spread > 1000).any()


def test_bins_fall_in_and_out_and_touch_the_borders() -> None:
    values = set(drawn("bins(n)", (1000,), "int32").tolist())
    ends = np.iinfo(np.int32)
    assert {-1, 0, 9, 10, ends.min, ends.max} <= values


def test_full_range_reaches_both_ends() -> None:
    values = drawn("ints_full_range", (1000,), "int32")
    assert values.min() == np.iinfo(np.int32).min
    assert values.max() == np.iinfo(np.int32).max


@pytest.mark.parametrize("spelling", ["ints(-4, n)", "bins(n)", "ints(0, 65536)"])
def test_whole_numbers_do_not_depend_on_the_type_they_are_drawn_in(spelling: str) -> None:
    short, wide = (drawn(spelling, (999,), dtype).astype(np.int64) for dtype in ("int32", "int64"))
    ends = np.isin(wide, (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
    assert np.array_equal(short[~ends], wide[~ends])


def test_numbers_too_large_for_a_short_float_are_its_largest() -> None:
    values = drawn("uniform(-200000, 200000)", (1000,), "float16")
    assert np.abs(values).max() == np.finfo(np.float16).max


def test_sorted_ints_ascend_with_duplicates() -> None:
    values = drawn("sorted_ints(0, n)", (1000,), "int32")
    assert (np.diff(values) >= 0).all()
    assert set(values.tolist()) == set(range(10))


def test_probe_numbers_need_thirteen_bits() -> None:
    values = drawn("exact_odd_13bit", (10_000,)).astype(np.int64)
    assert (values % 2 != 0).all()
    assert np.abs(values).min() >= 4099
    assert np.abs(values).max() <= 8191
    assert set(drawn("exact_signs", (1000,)).tolist()) == {-1.0, 0.0, 1.0}


@pytest.mark.parametrize("name", ["exact_odd_13bit", "exact_signs"])
def test_a_sparse_probe_has_its_density(name: str) -> None:
    whole = draw(name, np.random.default_rng(3), (20_000,), "float32", {})
    thin = draw(name, np.random.default_rng(3), (20_000,), "float32", {}, density=0.25)
    assert 0.2 < np.count_nonzero(thin) / np.count_nonzero(whole) < 0.3


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_bit_patterns_have_all_that_a_float_can_be(dtype: str) -> None:
    values = drawn("bit_patterns", (4000,), dtype)
    nans = values[np.isnan(values)].view(f"uint{8 * values.itemsize}")
    assert len(set(nans.tolist())) > 50
    assert set(np.signbit(values[values == 0]).tolist()) == {True, False}
    assert {-np.inf, np.inf} <= set(values[np.isinf(values)].tolist())
    limits = np.finfo(dtype)
    finite = np.abs(values[np.isfinite(values)].astype(np.longdouble))
    assert finite.max() > limits.max / 4
    assert finite[finite > 0].min() < limits.smallest_normal * 1e3


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_every_pattern_of_a_byte_is_drawn(dtype: str) -> None:
    for size in (256, 300, 4000):
        assert set(drawn("bit_patterns", (size,), dtype).tolist()) == set(range(256))
    assert drawn("bit_patterns", (5, 7), dtype).shape == (5, 7)


def test_magnitudes_reach_over_the_exponents() -> None:
    exponents = np.frexp(drawn("magnitudes(-126, 127)", (5000,)))[1]
    assert exponents.min() < -120
    assert exponents.max() > 120
    assert abs(float(exponents.mean())) < 10


def test_rows_are_scaled_each_by_a_power() -> None:
    sizes = np.abs(drawn("scaled_rows(-40, 40)", (60, 50))).max(axis=1)
    assert sizes.max() / sizes.min() > 1e9


@pytest.mark.parametrize("value", [0, 1, 0.1])
def test_spikes_are_a_few_elements_that_no_sum_hides(value: float) -> None:
    values = drawn(f"spike({value})", (1000,)).astype(np.float64)
    odd = values[values != np.float32(value)]
    assert 1 <= odd.size <= 3
    assert abs(odd[0]) > 100 * max(value, 0.125)


def test_few_elements_are_out_of_order_or_of_range() -> None:
    nearly = drawn("nearly_sorted_ints(0, n)", (5000,), "int32")
    assert 0 <= (np.diff(nearly) < 0).sum() <= 3
    assert (np.diff(drawn("descending_ints(0, n)", (5000,), "int32")) <= 0).all()
    rare = drawn("rare_bins(n)", (5000,), "int32")
    assert 1 <= ((rare < 0) | (rare >= 10)).sum() <= 3


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_infinities_of_both_signs_lie_among_numbers(dtype: str) -> None:
    values = drawn("infinities", (5000,), dtype)
    largest = np.finfo(np.dtype(dtype)).max
    for special in (np.inf, -np.inf, largest, -largest):
        assert 50 < (values == special).sum() < 200
    zeros = values[values == 0]
    assert 0 < np.signbit(zeros).sum() < zeros.size
    assert not np.isnan(values).any()


def test_whole_numbers_may_be_floats() -> None:
    assert set(drawn("ints(-2, 3)", (1000,)).tolist()) == {-2, -1, 0, 1, 2}
    assert (np.diff(drawn("sorted_ints(0, n)", (1000,))) >= 0).all()
    assert (np.diff(drawn("descending_ints(0, n)", (1000,))) <= 0).all()
    assert 0 <= (np.diff(drawn("nearly_sorted_ints(0, n)", (1000,))) < 0).sum() <= 3


def test_regions_share_an_array() -> None:
    spelling = in_regions(["zeros", "all_equal(7)", "uniform_unit"])
    for shape in ((999,), (90, 3)):
        values = drawn(spelling, shape)
        assert min((values == 7).mean(), (values == 0).mean()) > 0.1
        assert ((values != 7) & (values != 0)).mean() > 0.1


@pytest.mark.parametrize(("spelling", "dtype"), SPELLINGS)
def test_on_the_way_to_a_large_array_little_is_made(spelling: str, dtype: str) -> None:
    """Of an input of 4 GB, what `magnitudes` made at once did not fit beside two runners."""
    shape, at_once = (600, 500), 1 << 14
    rng = np.random.default_rng(0)
    draw(spelling, rng, (2, 2), dtype, {"n": 100}, at_once=at_once)
    tracemalloc.start()
    values = draw(spelling, rng, shape, dtype, {"n": 100}, at_once=at_once)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert values.shape == shape
    assert values.dtype == dtype
    own = drawing_bytes(spelling, values.size, at_once)
    assert peak <= values.nbytes + own + (1 << 17)


def test_parts_are_drawn_as_the_whole_is() -> None:
    """Rows have powers of their own, and numbers of every magnitude are in each part."""
    rng = np.random.default_rng(0)
    for spelling in ("scaled_rows(-9, 9)", "mixed", "magnitudes(-20, 20)", "exact_signs"):
        values = draw(spelling, rng, (3, 40, 50), "float32", {}, at_once=300)
        rows = np.abs(values).reshape(-1, 50).max(axis=1)
        assert len(np.unique(rows)) > 1 or spelling == "exact_signs"
        assert np.count_nonzero(values) > values.size // 4
