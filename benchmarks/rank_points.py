"""The kernels by which the emulated device is judged: points spread over each task's playbook."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from cuda_llm.agents.playbook.kernels import Kernels
from cuda_llm.agents.playbook.spread import spread_out
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.tunable import Space
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task

POINTS = 12
SEED = 1
SIZES: Mapping[str, tuple[Mapping[str, int], ...]] = {
    "vector_add": ({"n": 1 << 20}, {"n": 1 << 22}),
    "reduction": ({"n": 1 << 18}, {"n": 1 << 20}),
    "histogram": ({"n": 1 << 20, "num_bins": 256}, {"n": 1 << 22, "num_bins": 256}),
    "matrix_transpose": ({"rows": 1024, "cols": 1024}, {"rows": 2048, "cols": 2048}),
    "matrix_multiplication": ({"M": 512, "N": 512, "K": 512}, {"M": 1024, "N": 1024, "K": 1024}),
    "conv2d": ({"H": 256, "W": 256, "R": 24, "S": 24}, {"H": 512, "W": 512, "R": 24, "S": 24}),
}
"""Timed sizes, the same on both devices: as large as a CPU can emulate in seconds."""


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One kernel of one task."""

    task: Task
    point: Mapping[str, int]
    """Of the playbook; empty for the task's baseline."""
    source: str

    @property
    def name(self) -> str:
        """`TILE=32 WIDTH=4`, or `baseline`."""
        return " ".join(f"{key}={value}" for key, value in self.point.items()) or "baseline"


def variants(name: str) -> Iterator[Variant]:
    """The baseline, then points of the playbook that are different kernels."""
    task = load_task(name)
    assert task.playbook, f"{name} has no playbook"
    source = task.playbook.read_text()
    space = read_space(source)
    assert isinstance(space, Space), f"{task.playbook}: {space}"
    kernels = Kernels(source, space)
    yield Variant(task=task, point={}, source=task.baseline.read_text())
    seen: dict[str, Mapping[str, int]] = {}
    for point in spread_out(space, kernels.candidates(random.Random(SEED)), ()):
        seen.setdefault(kernels.sha(point), dict(point))
        if len(seen) == POINTS:
            break
    for point in islice(seen.values(), POINTS):
        yield Variant(task=task, point=point, source=kernels.write(point))
