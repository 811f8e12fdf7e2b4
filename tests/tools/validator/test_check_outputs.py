"""Outputs of a timed call: every element, part by part, or by projections of all of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_kernels import HONEST, OUTPUTS, multiply_library
from array_mutants import SHORT
from small_tasks import small_task
from strict_arrays import strict_arrays

from cuda_llm.errors import TaskError
from cuda_llm.outcomes import ElementKind, ElementPattern, WrongResult
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Level
from cuda_llm.tools.device.buffers import HOST
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case, timed_case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.check_outputs import Method, check_batch, check_outputs
from cuda_llm.tools.validator.parts import chosen_rows

Array = npt.NDArray[Any]
MATMUL = small_task("matrix_multiplication")
DIMS = {"M": 61, "N": 150, "K": 128}
SMALL_PARTS = replace(HOST, part_bytes=1 << 16)


def timed(task: Task, dims: dict[str, int], seed: int = 0) -> tuple[Case, dict[str, Array]]:
    case = timed_case(task, dims, Level.CHECK, "bench")
    return case, draw_inputs(task, case, np.random.default_rng(seed))


def honest(task: Task, case: Case, inputs: dict[str, Array]) -> dict[str, Array]:
    name = OUTPUTS[task.name]
    spec = next(spec for spec in buffer_specs(task, case.dims) if spec.name == name)
    empty = np.zeros(spec.shape, spec.dtype)
    return {name: np.array(HONEST[task.name][0]({**inputs, name: empty}), spec.dtype)}


@pytest.mark.parametrize("name", HONEST)
def test_right_outputs_pass_in_one_part_and_in_many(name: str) -> None:
    task = small_task(name)
    case, inputs = timed(task, dict(task.sizes.edge[-1]))
    outputs = honest(task, case, inputs)
    for arrays in (HOST, SMALL_PARTS, replace(HOST, part_bytes=1 << 12)):
        assert check_outputs(task, case, inputs, outputs, arrays) is None


@pytest.mark.parametrize("name", HONEST)
def test_one_wrong_element_is_reported_with_its_index_for_any_parts(name: str) -> None:
    task = small_task(name)
    case, inputs = timed(task, dict(task.sizes.edge[-1]))
    outputs = honest(task, case, inputs)
    (name, right) = next(iter(outputs.items()))
    place = tuple(extent * 2 // 3 for extent in right.shape)
    right[place] += right[place] + 1
    for arrays in (HOST, SMALL_PARTS, replace(HOST, part_bytes=1 << 12)):
        verdict = check_outputs(task, case, inputs, outputs, arrays)
        assert isinstance(verdict, WrongResult)
        assert verdict.index == place
        assert (verdict.wrong, verdict.elements) == (1, right.size)
        assert verdict.got == right[place]


def test_parts_are_found_along_any_axis() -> None:
    task = small_task("matrix_transpose")
    case, inputs = timed(task, {"rows": 90, "cols": 70})
    assert (
        check_outputs(task, case, inputs, {"output": inputs["input"].T.copy()}, SMALL_PARTS) is None
    )
    verdict = check_outputs(
        task, case, inputs, {"output": inputs["input"].reshape(70, 90)}, SMALL_PARTS
    )
    assert isinstance(verdict, WrongResult)
    assert verdict.looks_like == ElementPattern(kind=ElementKind.COPIED, buffer="input")


@pytest.mark.parametrize("seed", range(4))
def test_honest_products_pass_their_projections(seed: int) -> None:
    case, inputs = timed(MATMUL, DIMS, seed)
    outputs = honest(MATMUL, case, inputs)
    for arrays in (HOST, SMALL_PARTS):
        found = check_outputs(
            MATMUL, case, inputs, outputs, arrays, method=Method.PROJECTED, seed=seed
        )
        assert found is None


def test_any_single_wrong_element_is_found_by_projections() -> None:
    """Off by more than 2^-14 of its scale: found with certainty."""
    case, inputs = timed(MATMUL, DIMS)
    right = honest(MATMUL, case, inputs)["C"]
    scale = np.abs(inputs["A"]) @ np.abs(inputs["B"])
    places = np.random.default_rng(0)
    for turn in range(60):
        i, j = int(places.integers(61)), int(places.integers(150))
        wrong = right.copy()
        wrong[i, j] += np.float32(2.0**-13 * scale[i, j] * places.choice((-1, 1)))
        verdict = check_outputs(
            MATMUL, case, inputs, {"C": wrong}, method=Method.PROJECTED, seed=turn
        )
        assert isinstance(verdict, WrongResult)
        assert verdict.index == (i, j)


def test_errors_that_cancel_in_plain_sums_are_found() -> None:
    case, inputs = timed(MATMUL, DIMS)
    wrong = honest(MATMUL, case, inputs)["C"]
    wrong[40, 10] += 3
    wrong[40, 11] -= 3
    found = sum(
        check_outputs(MATMUL, case, inputs, {"C": wrong}, method=Method.PROJECTED, seed=turn)
        is not None
        for turn in range(20)
    )
    assert found >= 18


@pytest.mark.parametrize("precision", SHORT)
def test_short_formats_are_refused_by_projections(precision: str) -> None:
    case, inputs = timed(MATMUL, {"M": 64, "N": 150, "K": 4096})
    shorten = SHORT[precision]
    product = multiply_library({"A": shorten(inputs["A"]), "B": shorten(inputs["B"])})
    verdict = check_outputs(MATMUL, case, inputs, {"C": product}, method=Method.PROJECTED, seed=1)
    assert isinstance(verdict, WrongResult)


def test_rounding_too_small_for_a_row_and_too_large_on_average_is_reported() -> None:
    case, inputs = timed(MATMUL, {"M": 2000, "N": 150, "K": 64})
    right = inputs["A"].astype(np.float64) @ inputs["B"].astype(np.float64)
    scale = np.abs(inputs["A"]) @ np.abs(inputs["B"])
    noise = np.random.default_rng(3).choice((-1, 1), right.shape) * 20 * 2.0**-24 * scale
    noise[[0, *range(1, 2000, 2)]] = 0
    near = (right + noise).astype(np.float32)
    verdict = check_outputs(MATMUL, case, inputs, {"C": near}, method=Method.PROJECTED, seed=2)
    assert isinstance(verdict, WrongResult)


def test_tf32_in_all_rows_but_the_chosen_ones_is_refused() -> None:
    case, inputs = timed(MATMUL, {"M": 300, "N": 150, "K": 4096})
    outputs = honest(MATMUL, case, inputs)["C"]
    kept = chosen_rows(300, 5)
    short = multiply_library({key: SHORT["tf32"](given) for key, given in inputs.items()})
    short[kept] = outputs[kept]
    verdict = check_outputs(MATMUL, case, inputs, {"C": short}, method=Method.PROJECTED, seed=5)
    assert isinstance(verdict, WrongResult)
    assert verdict.index[0] not in kept


def test_a_single_nan_is_found_by_projections() -> None:
    case, inputs = timed(MATMUL, DIMS)
    wrong = honest(MATMUL, case, inputs)["C"]
    wrong[33, 149] = np.nan
    verdict = check_outputs(MATMUL, case, inputs, {"C": wrong}, method=Method.PROJECTED, seed=4)
    assert isinstance(verdict, WrongResult)
    assert verdict.index == (33, 149)


def test_projections_run_on_a_device() -> None:
    arrays, xp = strict_arrays()
    case, inputs = timed(MATMUL, DIMS)
    right = honest(MATMUL, case, inputs)
    there = {name: xp.asarray(array) for name, array in inputs.items()}
    outputs = {"C": xp.asarray(right["C"])}
    for method in Method:
        xp.waits = 0
        found = check_outputs(MATMUL, case, there, outputs, arrays, method=method, seed=1)
        assert found is None
        assert xp.waits <= 2
    outputs["C"][60, 3] = 7e6
    for method in Method:
        verdict = check_outputs(MATMUL, case, there, outputs, arrays, method=method, seed=1)
        assert isinstance(verdict, WrongResult)
        assert verdict.index == (60, 3)


def test_a_task_without_projections_is_not_projected() -> None:
    task = small_task("vector_add")
    case, inputs = timed(task, {"n": 10})
    with pytest.raises(TaskError, match="no projection"):
        check_outputs(task, case, inputs, honest(task, case, inputs), method=Method.PROJECTED)


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("part_bytes", [1 << 28, 1 << 17])
def test_many_calls_are_judged_like_each_alone(name: str, part_bytes: int) -> None:
    task = small_task(name)
    dims = dict(task.sizes.edge[-1])
    calls = [timed(task, dims, seed) for seed in range(5)]
    case = calls[0][0]
    inputs = {key: np.stack([given[key] for _, given in calls]) for key in calls[0][1]}
    right = [honest(task, case, given)[OUTPUTS[name]] for _, given in calls]
    outputs = {OUTPUTS[name]: np.stack(right)}
    arrays = replace(HOST, part_bytes=part_bytes)
    assert check_batch(task, case, inputs, outputs, arrays) is None
    wrong = outputs[OUTPUTS[name]]
    place = tuple(extent - 1 for extent in right[0].shape)
    wrong[(3, *place)] += wrong[(3, *place)] + 1
    found = check_batch(task, case, inputs, outputs, arrays)
    assert found is not None
    assert found[0] == 3
    assert found[1].index == place


@pytest.mark.parametrize("name", HONEST)
def test_many_calls_need_few_synchronisations_on_a_device(name: str) -> None:
    arrays, xp = strict_arrays()
    task = small_task(name)
    calls = [timed(task, dict(task.sizes.edge[2]), seed) for seed in range(6)]
    case = calls[0][0]
    inputs = {key: xp.asarray(np.stack([given[key] for _, given in calls])) for key in calls[0][1]}
    made = [honest(task, case, given)[OUTPUTS[name]] for _, given in calls]
    outputs = {OUTPUTS[name]: xp.asarray(np.stack(made))}
    assert check_batch(task, case, inputs, outputs, arrays) is None
    assert xp.waits <= 3


def test_a_batch_may_not_hide_a_call_with_too_large_a_root_mean_square() -> None:
    case = timed_case(MATMUL, DIMS, Level.CHECK, "bench")
    given = [draw_inputs(MATMUL, case, np.random.default_rng(seed)) for seed in range(9)]
    inputs = {key: np.stack([one[key] for one in given]) for key in given[0]}
    outputs = np.stack([honest(MATMUL, case, one)["C"] for one in given])
    scale = np.abs(inputs["A"][4]) @ np.abs(inputs["B"][4])
    outputs[4] += (6 * 2.0**-24 * scale).astype(np.float32)
    found = check_batch(MATMUL, case, inputs, {"C": outputs})
    assert found is not None
    assert found[0] == 4
    assert found[1].limit == 4.0
