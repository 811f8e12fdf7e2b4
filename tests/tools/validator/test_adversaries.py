"""Arrangements give what their names say, for every task, and find kernels that fear them."""

import asyncio
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from task_fixtures import ArraySession

from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.validator.adversaries import ARRANGEMENTS, NEARLY, places, split_arrangement
from cuda_llm.tools.validator.adversary_rows import adversary_rows
from cuda_llm.tools.validator.cases import distribution_rows
from cuda_llm.tools.validator.distributions import draw, spellings_in
from cuda_llm.tools.validator.validate import Validated, validate
from cuda_llm.tools.validator.whole_numbers import Source

Array = npt.NDArray[Any]
NONCES = [bytes([k]) * 16 for k in range(3)]


def drawn(spelling: str, shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    values: Array = draw(spelling, np.random.default_rng(seed), shape, dtype, {"n": 10})
    return values


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(("name", "sign"), [("lowest", -1), ("highest", 1)])
def test_all_values_lie_on_one_side_as_large_as_those_drawn(
    name: str, sign: int, dtype: str
) -> None:
    spelling = "magnitudes(-126, 127)" if dtype == "float32" else "normal"
    usual, values = (
        drawn(spelling, (40, 50), dtype),
        drawn(f"{name} of {spelling}", (40, 50), dtype),
    )
    size = np.sqrt(np.square(usual.astype(np.float64)).mean())
    assert values.dtype == usual.dtype
    assert (sign * values.astype(np.float64) > 0.7 * size).all()
    assert len(np.unique(values)) > 100


def test_whole_numbers_are_all_the_smallest_or_the_largest() -> None:
    assert set(drawn("lowest of ints(3, 9)", (50,), "int32")) == {3}
    assert set(drawn("highest of bins(n)", (50,), "int32")) == {2**31 - 1}


@pytest.mark.parametrize("seed", range(6))
def test_nearly_equal_values_are_far_apart_along_other_axes(seed: int) -> None:
    values = abs(drawn("nearly_equal of normal", (7, 8, 9), seed=seed).astype(np.float64))
    spreads = [np.ptp(values, axis=axis).max() / values.max() for axis in range(3)]
    assert sorted(spread <= NEARLY for spread in spreads) == [False, False, True]


@pytest.mark.parametrize("extent", [1, 2, 3, 31, 33, 257, 1023, 1025, 4099])
def test_heavy_elements_stand_at_both_ends_and_in_every_tail(extent: int) -> None:
    found = places(extent, Source(np.random.default_rng(extent), HOST))
    assert {0, extent - 1} <= set(found) <= set(range(extent))
    for step in (2, 4, 32, 256, 1024):
        tail = extent // step * step
        assert tail == extent or tail in found
    values = drawn("few_heavy of normal", (extent,), seed=extent)
    assert 0 < np.count_nonzero(values) <= 60
    assert values[-1] == values[0] > 0
    # Terms along another axis are all equal: their sums are exact.
    assert np.frexp(values[0])[0] == 0.5


@pytest.mark.parametrize("name", list_tasks())
def test_every_task_has_adversaries_beside_inputs_that_it_draws(name: str) -> None:
    task = load_task(name)
    usual = distribution_rows(task)
    rows = list(adversary_rows(task, usual, task.sizes.edge[-1], np.random.default_rng(0)))
    assert rows
    for row in rows:
        arranged = {one: split_arrangement(text) for one, text in row.items()}
        plain = {one: spelling for one, (_, spelling) in arranged.items()}
        assert plain in [dict(one) for one in usual]
        used = [one for one, (how, _) in arranged.items() if how]
        assert used and {arranged[one][0] for one in used} <= set(ARRANGEMENTS)
        for one in used:
            argument = next(each for each in task.arguments if each.name == one)
            assert len(set(argument.distributions)) > 1
            assert "full_rank" not in spellings_in(row[one])[0]


def softmax_from_a_number(buffers: Any) -> None:
    x = buffers["x"]
    largest = np.maximum(x.max(axis=-1, keepdims=True), np.float32(-1e30))
    y = np.exp(x - largest)
    buffers["y"][...] = y / y.sum(axis=-1, keepdims=True, dtype=np.float32)


def sigmoid_right_above_minus_1000(buffers: Any) -> None:
    x = buffers["x"].astype(np.float64)
    usual = (1 / (1 + np.exp(-x))).astype(np.float32)
    buffers["y"][...] = np.where((x < -1e30).all(), np.float32(0.5), usual)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("softmax", softmax_from_a_number), ("sigmoid", sigmoid_right_above_minus_1000)],
)
@pytest.mark.parametrize("nonce", NONCES)
def test_kernels_wrong_below_their_sentinel_are_found_whatever_the_nonce(
    name: str, kernel: Any, nonce: bytes
) -> None:
    task = load_task(name)
    verdict = asyncio.run(validate(task, ArraySession(task, kernel), nonce=nonce))
    assert not isinstance(verdict, Validated)


def with_first_as_offset(buffers: Any) -> None:
    """One number is taken away from all values, and moments are of what is left."""
    x, eps = buffers["x"], np.float32(buffers["eps"])
    moved = x - x.reshape(-1)[0]
    mean = moved.mean(axis=1, keepdims=True, dtype=np.float32)
    variance = np.square(moved).mean(axis=1, keepdims=True, dtype=np.float32) - np.square(mean)
    buffers["y"][...] = (moved - mean) / np.sqrt(np.maximum(variance, 0) + eps)


def test_offsets_that_differ_from_place_to_place_are_drawn() -> None:
    task = load_task("layer_norm")
    verdict = asyncio.run(validate(task, ArraySession(task, with_first_as_offset), nonce=NONCES[0]))
    assert not isinstance(verdict, Validated)
