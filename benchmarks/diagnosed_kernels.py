"""The kernels whose diagnoses are held against Nsight Compute's counters (diagnosis_on_gpu.py).

They were chosen by rule before any was counted: of every task the honest fixtures with odd numbers,
the slowest, middle and fastest point that was recorded of its playbook (`playbook_TASK.json`), and
every second one of `tests/fixtures/diagnosed`. A third is held back, by the hashes of their names:
nothing may be tuned by it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import record
from recorded_tasks import RECORDED_TASKS, load_recorded

from cuda_llm.agents.playbook.kernels import TunableKernel
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task

FIXTURES = record.ROOT / "tests/fixtures"
SIZES: Mapping[str, Mapping[str, int]] = {
    "vector_add": {"n": 1 << 22},
    "reduction": {"n": 1 << 23},
    "histogram": {"n": 1 << 24, "num_bins": 256},
    "matrix_transpose": {"rows": 4096, "cols": 4096},
    "matrix_multiplication": {"M": 1024, "N": 2048, "K": 4096},
    "conv2d": {"H": 1024, "W": 1024, "R": 24, "S": 24},
}
"""The smallest at which the task's bytes or operations need 10 us; of `reduction` none is timed."""


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One kernel of one task at one size."""

    name: str
    task: str
    source: str

    @property
    def dims(self) -> Mapping[str, int]:
        """Return its size."""
        return SIZES[self.task]

    @property
    def held_back(self) -> bool:
        """Tell whether nothing may be tuned by it."""
        return self.name in held_back()

    def load_task(self) -> Task:
        """Load its task with this size alone."""
        task = load_task(self.task)
        return replace(task, sizes=replace(task.sizes, bench=(self.dims,)), weights=())


def short_hash(text: str) -> str:
    """Return a hash that is the same everywhere."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@cache
def kernels() -> tuple[Kernel, ...]:
    """Return all kernels, in an order that a time limit leaves some of each kind of."""
    found = [
        _kernel(f"honest/{task}/{path.stem}", task, path.read_text())
        for task in RECORDED_TASKS
        for path in sorted((FIXTURES / "honest" / task).glob("*.cu"))[::2]
    ]
    found += [one for task in RECORDED_TASKS for one in _of_playbook(task)]
    found += [
        _kernel(f"diagnosed/{path.stem}", _task_of(path.stem), path.read_text())
        for path in sorted((FIXTURES / "diagnosed").glob("*.cu"))[::2]
    ]
    return tuple(sorted(found, key=lambda one: short_hash(f"order {one.name}")))


@cache
def held_back() -> frozenset[str]:
    """Return the names of a third: those with the smallest hashes."""
    names = sorted((one.name for one in kernels()), key=short_hash)
    return frozenset(names[: len(names) // 3])


def _kernel(name: str, task: str, source: str) -> Kernel:
    return Kernel(name=name, task=task, source=source)


VERBS = {
    "adds": "vector_add",
    "convolves": "conv2d",
    "counts": "histogram",
    "multiplies": "matrix_multiplication",
    "sums": "reduction",
    "turns": "matrix_transpose",
}


def _task_of(stem: str) -> str:
    return VERBS[stem.partition("_")[0]]


def _of_playbook(name: str) -> list[Kernel]:
    recorded = json.loads((record.RESULTS / f"playbook_{name}.json").read_text())["rows"]
    ranked = sorted((row for row in recorded if row["speedup"]), key=lambda row: row["speedup"])
    source = load_recorded(name).playbook
    assert source is not None, name
    text = source.read_text()
    space = read_space(text)
    assert isinstance(space, Space), f"{name}: {space}"
    writer = TunableKernel(text, space)
    chosen = {"slowest": ranked[0], "middle": ranked[len(ranked) // 2], "fastest": ranked[-1]}
    return [
        _kernel(f"playbook/{name}/{which}", name, writer.write(row["point"]))
        for which, row in chosen.items()
    ]
