"""Which models a run asks, as its config says, and what is found before its device is opened."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from run_starts import asked

from cuda_llm.errors import UsageError
from cuda_llm.graph.parts import NO_PARTS, Parts
from cuda_llm.graph.runs.parts import find_parts, find_parts_by_name
from cuda_llm.graph.runs.record import describe_run
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import draft, write_task


@pytest.mark.parametrize(
    ("named", "writer", "critic"),
    [
        ({"model": "one"}, "one", "one"),
        ({"model": "one", "reflection_model": "two"}, "one", "two"),
        ({"generator": "playbook", "model": "one"}, "", ""),
        ({"generator": "playbook", "reflection_model": "two"}, "", "two"),
    ],
)
def test_reflection_asks_its_own_model_or_the_writers(
    tmp_path: Path, named: dict[str, Any], writer: str, critic: str
) -> None:
    parts = find_parts(asked(tmp_path, **named), NO_PARTS)
    assert (parts.model, parts.critic) == (writer, critic)


@pytest.mark.parametrize(
    "blind", [{"strategy": "best-of-n"}, {"strategy": "fsr-paper"}, {"without": ("hints",)}]
)
@pytest.mark.parametrize("own", ["", "two"])
def test_nobody_is_asked_for_hints_that_no_prompt_would_hold(
    tmp_path: Path, blind: dict[str, Any], own: str
) -> None:
    """A comparison of strategies compares what they spend on kernels."""
    parts = find_parts(asked(tmp_path, model="one", reflection_model=own, **blind), NO_PARTS)
    assert (parts.model, parts.critic) == ("one", "")


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ("strategy", "fsrr"),
        ("prompts", "no-such-folder"),
        ("generator", "playbok"),
        ("agents", ("no_such_module:agent",)),
    ],
)
def test_a_misspelled_part_is_refused_before_the_device_is_opened(
    tmp_path: Path, part: str, name: str | tuple[str]
) -> None:
    opened = tmp_path / "opened"
    device = tmp_path / "device.py"
    device.write_text(f"def remote():\n    open({str(opened)!r}, 'w').close()\n")
    spec = f"{device}:remote"
    with pytest.raises(UsageError, match=name if isinstance(name, str) else name[0]):
        find_parts(asked(tmp_path, device=spec, **{part: name}), NO_PARTS)
    assert not opened.exists()
    with pytest.raises(UsageError, match="gives a NoneType"):
        find_parts(asked(tmp_path, device=spec), NO_PARTS)
    assert opened.exists()


def test_a_run_records_the_objective_that_was_decided(tmp_path: Path) -> None:
    """The user's goes before the task's own, and a resumed run finds the same."""
    found = find_parts(asked(tmp_path, objective="worst"), NO_PARTS)
    assert found.task.objective == found.config.objective == "worst"
    assert find_parts(asked(tmp_path), NO_PARTS).config.objective == "geomean"
    own = replace(load_task("vector_add"), objective="largest")
    assert find_parts(asked(tmp_path), Parts(task=own)).config.objective == "largest"
    weighted = find_parts(asked(tmp_path, weights=(1, 1, 1, 1, 4)), NO_PARTS)
    assert describe_run(weighted)["request"]["weights"] == [1, 1, 1, 1, 4]
    again = find_parts_by_name(weighted.config, NO_PARTS)
    assert again.task.weights == (1, 1, 1, 1, 4)
    sized = find_parts(asked(tmp_path, sizes=("n=96", "n=500"), weights=(1, 3)), NO_PARTS)
    again = find_parts_by_name(sized.config, NO_PARTS)
    assert again.task.sizes.bench == ({"n": 96}, {"n": 500})
    assert again.task.weights == (1, 3)
    with pytest.raises(UsageError, match="--weight: 2 given"):
        find_parts(asked(tmp_path, weights=(1, 2)), NO_PARTS)


def test_a_task_with_guesses_is_refused_before_any_prompt(tmp_path: Path) -> None:
    """The playbook generator is no exception: reflection may write prompts too."""
    source = "__global__ void k(const float* x, float* y, int n) { y[0] = x[n - 1]; }\n"
    folder = write_task("mine", tmp_path, draft("mine", source, "k", "k.cu"))
    with pytest.raises(UsageError, match=r"task.toml:\d+: a guess of `tasks new`"):
        find_parts(asked(tmp_path, task=str(folder), model="one"), NO_PARTS)
