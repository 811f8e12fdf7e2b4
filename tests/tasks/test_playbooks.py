"""Each playbook: a space of different kernels, of which those in a covering sample are right."""

import asyncio
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from corpus_sample import is_whole, sample
from small_tasks import with_one_bench_size
from task_fixtures import strong_point

from cuda_llm import judge
from cuda_llm.agents.playbook.kernels import sample_points, valid_points
from cuda_llm.agents.playbook.source import read_playbook
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Point, Space
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.judge.judge import check, open_bench
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.validator.validate import Validated
from cuda_llm.verdict_wording import describe

SEED = 3
DEVICES = ("GTX 1660 SUPER", "RTX 4090", "H100 SXM", "B200")
CODES = {
    *("bank_conflicts", "uncoalesced_global", "atomic_contention", "divergence", "low_occupancy"),
    *("tail", "dram_bandwidth", "l2_bandwidth", "shared_bandwidth", "l1_bandwidth", "latency"),
    *("issue", "launch_overhead", "fp32", "int", "shuffle"),
}


@cache
def source_of(name: str) -> str:
    playbook = load_task(name).playbook
    assert playbook is not None
    return read_playbook(playbook)


@cache
def space_of(name: str) -> Space:
    space = read_space(source_of(name))
    assert isinstance(space, Space), space
    return space


def missing(space: Space, chosen: list[Point]) -> set[tuple[str, int]]:
    """Values of tunables that no chosen point has."""
    every = {(one.name, value) for one in space.tunables for value in one.values}
    return every - {pair for point in chosen for pair in point.items()}


MOST = None if is_whole() else 1
"""Points beside the strong one: in `make test` the one that covers most. The whole covering sample
of 26 playbooks takes nine minutes of two cores."""


def covering(name: str) -> list[Point]:
    """The strong point, then few more, of which all together have every value of every tunable."""
    space = space_of(name)
    offered = sample_points(space, SEED)
    chosen: list[Point] = [dict(strong_point(name).point)]
    while (left := missing(space, chosen)) and (MOST is None or len(chosen) <= MOST):
        draws = list(islice(offered, 64))
        chosen.append(max(draws, key=lambda point: len(left & set(point.items()))))
    return chosen


PLAYED = sample(reversed(list_tasks()), every=26)
OTHERS = [
    pytest.param(name, point, device, id=f"{name}-{number}-{device}")
    for at, name in enumerate(PLAYED)
    for number, point in enumerate(covering(name)[1:], start=1)
    for device in [DEVICES[(at + number) % len(DEVICES)]]
]
"""Each point on one of the GPUs."""


@pytest.fixture(autouse=True)
def _time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is judged here are results and speed-ups, and not how fast this machine is."""
    monkeypatch.setenv("CUDA_LLM_CALL_LIMIT_S", "60")


def check_point(name: str, point: Point, device_name: str) -> None:
    """Fails with the verdict in words where the point is not right."""
    bench = open_bench(load_task(name), open_device(device_name))
    _, outcome = asyncio.run(check(bench, write_point(source_of(name), point), "playbook.cu"))
    assert isinstance(outcome, Validated), f"{point}: {outcome.code}: {describe(outcome)}"


def judge_point(name: str, point: Point, device_name: str) -> float:
    """The point's speedup. Fails with the verdict in words where it did not pass.

    In `make test` at the last of the sizes that are timed: all five of attention take a minute
    and a half of one core, this one a sixth of that.
    """
    task = load_task(name) if is_whole() else with_one_bench_size(load_task(name), -1)
    judged = judge(task, write_point(source_of(name), point), device=device_name)
    assert judged.speedup is not None, f"{point}: {judged.verdict.code}: {describe(judged.verdict)}"
    return judged.speedup


@pytest.mark.parametrize("name", sample(list_tasks(), every=9))
def test_every_valid_point_is_a_kernel_of_its_own(name: str) -> None:
    kernels = [write_point(source_of(name), point) for point in valid_points(space_of(name))]
    assert len(set(kernels)) == len(kernels)
    assert len(kernels) >= 24
    assert not any("tunable" in kernel for kernel in kernels)


@pytest.mark.parametrize("name", list_tasks())
def test_hints_name_reasons_that_profiles_give(name: str) -> None:
    preferences = space_of(name).preferences
    assert preferences
    assert {one.code for one in preferences} <= CODES


@pytest.mark.parametrize("name", list_tasks())
def test_every_value_of_every_tunable_can_be_chosen(name: str) -> None:
    assert not missing(space_of(name), list(valid_points(space_of(name))))


@pytest.mark.parametrize("name", sample(reversed(list_tasks()), every=9))
def test_the_experts_point_beats_the_baseline(name: str) -> None:
    strong = strong_point(name)
    assert judge_point(name, dict(strong.point), "emulated") >= strong.least_speedup


@pytest.mark.parametrize(("name", "point", "device"), OTHERS)
def test_a_point_is_right_on_gpus_of_all_sizes(name: str, point: Point, device: str) -> None:
    check_point(name, point, f"emulated:{device}")


@pytest.mark.evidence
@pytest.mark.parametrize(
    "dims",
    [
        pytest.param({"rows": 20, "cols": 32_772}, id="a block holds parts of several rows"),
        pytest.param({"rows": 1, "cols": 400_004}, id="more parts of a row than resident blocks"),
    ],
)
def test_long_rows_of_softmax_are_right_and_end(dims: dict[str, int]) -> None:
    """44 blocks are resident: 100 parts of 20 rows are in different turns of them, and 49 of one
    row cannot wait for each other."""
    task = load_task("softmax")
    sizes = replace(task.sizes, emulated=(dims,), edge=({"rows": 1, "cols": 1},), large=())
    bench = open_bench(replace(task, sizes=sizes), open_device("emulated:GTX 1660 SUPER"))
    point: Point = dict(strong_point("softmax").point) | {"HOLD": 2, "LONG": 3, "STREAM": 0}
    source = write_point(source_of("softmax"), point)
    _, outcome = asyncio.run(check(bench, source, "playbook.cu"))
    assert isinstance(outcome, Validated), describe(outcome)
