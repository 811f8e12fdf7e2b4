"""Smaller sizes of the same shape, and times that follow from them."""

from itertools import islice

import pytest

from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.judge.smaller_sizes import SHORTEST, extrapolate, halvings


@pytest.mark.parametrize("name", list_tasks())
def test_each_size_has_half_of_one_extent_of_the_size_before_and_is_allowed(name: str) -> None:
    task = load_task(name)
    for dims in task.sizes.bench:
        before = dict(dims)
        for size in islice(halvings(task, dims), 50):
            (changed,) = [one for one in size if size[one] != before[one]]
            assert 2 * size[changed] == before[changed] >= SHORTEST
            assert not task.requires or evaluate(task.requires, size)
            before = dict(size)


def test_few_rows_stay_few() -> None:
    task = load_task("mlp_block")
    sizes = list(halvings(task, {"tokens": 1, "d_model": 4096, "d_ff": 14336, "eps_scale": 10}))
    assert sizes[0]["d_ff"] == 7168
    assert sizes[2]["d_model"] == 2048
    assert {one["tokens"] for one in sizes} == {1}


def test_a_time_that_grows_with_the_work_goes_on_as_it_grew() -> None:
    assert extrapolate([(1.0, 9.0), (2.0, 10.0), (4.0, 30.0)], 8.0) == pytest.approx(70.0)


@pytest.mark.parametrize(
    "points", [[(1.0, 5.0), (2.0, 4.0)], [(1.0, 3.9), (2.0, 4.0)], [(2.0, 4.0)]]
)
def test_a_unit_of_work_that_was_not_executed_takes_no_less_than_one_that_was(
    points: list[tuple[float, float]],
) -> None:
    assert extrapolate(points, 4.0) == pytest.approx(8.0)
    assert extrapolate(points, 1.0) == pytest.approx(4.0)
