"""Which cases a second look makes."""

import pytest

from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.device import Level
from cuda_llm.tools.judge.emulated_check import MOST_WATCHED_WORK, watched_cases
from cuda_llm.tools.validator.cases import generator


@pytest.mark.parametrize("name", list_tasks())
def test_every_edge_size_and_one_like_those_timed_is_watched_for_races(name: str) -> None:
    task = load_task(name)
    cases = watched_cases(task, generator(b"1" * 16, name, "plan", 0))
    assert {case.level for case in cases} == {Level.FULL}
    assert max(case.work for case in cases) <= MOST_WATCHED_WORK
    listed = [*task.sizes.edge, task.sizes.emulated[0]]
    assert all(any(case.dims == dims for case in cases) for dims in listed)
    assert all(case.dims in listed for case in cases)
