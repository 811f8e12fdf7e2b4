"""Presets: every experiment that ships is one that can begin."""

import pytest

from cuda_llm.graph.benchmark.presets import find_preset, read_presets
from cuda_llm.graph.benchmark.sweep import combine, name_runs, read_swept, settle
from cuda_llm.run_config import RunConfig
from cuda_llm.tasks.loader import load_task

COMMON = RunConfig(task="reduction", device="emulated", l2="cold", model="", reflection_model="")


@pytest.mark.parametrize("name", read_presets())
def test_every_preset_is_a_set_of_tasks_and_options_that_can_be(name: str) -> None:
    preset = find_preset(name)
    swept = read_swept(preset.sweep)
    _, settings = combine(settle(COMMON, swept), swept)
    runs, _ = name_runs({one: load_task(one).name for one in preset.tasks}, settings or ({},))
    assert len(runs) == len(set(preset.tasks)) * max(1, len(settings))
    assert preset.question.endswith("?")


def test_the_paper_s_preset_has_its_twenty_tasks_and_its_five_by_five() -> None:
    paper = find_preset("paper")
    assert len(paper.tasks) == 20
    assert all(load_task(one).published is not None for one in paper.tasks)
    assert read_swept(paper.sweep) == {"candidates": (5,), "rounds": (5,)}


def test_strategies_are_compared_on_at_least_six_tasks() -> None:
    assert len(find_preset("strategies").tasks) >= 6
