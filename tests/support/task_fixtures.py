"""What each shipped task brings to its tests: wrong kernels, honest arithmetic, a strong point."""

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from array_mutants import mutants
from measured_site import Buffers, MeasuredSession, running, untimed

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tasks.task_module import import_module_file
from cuda_llm.tools.device import Argument, CallOptions, CallReport
from cuda_llm.tools.device.session import Scalar

FIXTURES = Path(__file__).parents[1] / "fixtures"
MUTANTS = FIXTURES / "mutants"
PLAYBOOKS = FIXTURES / "playbooks"
IMPORT_LIMIT_S = 60.0

Row = Mapping[str, Any]
Definition = Callable[[Mapping[str, npt.NDArray[Any]], Mapping[str, int]], Mapping[str, Any]]


@cache
def read_table(path: Path) -> Mapping[str, Any]:
    """A TOML file."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def mutant_rows(task: str) -> list[Row]:
    """Wrong kernels of a task, `file` relative to `MUTANTS`.

    how = "file" is a compiled kernel, "python" a function on arrays through the real referee, and
    "not applicable" says by its `reason` why the task cannot have it. Any of `codes` is right.
    """
    return list(_rows(task, "mutant"))


def honest_rows(task: str) -> list[Row]:
    """Optimised kernels that must pass wherever a mutant fails."""
    return list(_rows(task, "honest"))


def _rows(task: str, kind: str) -> Iterator[Row]:
    for row in read_table(MUTANTS / task / "table.toml").get(kind, []):
        place = {"file": f"{task}/{row['file']}"} if "file" in row else {}
        yield {"task": task, **row, **place}


@dataclass(frozen=True, kw_only=True)
class Strong:
    """What an expert would ship."""

    point: Mapping[str, int]
    least_speedup: float
    """Modelled, over the baseline on an RTX 3090 Ti."""


def strong_point(task: str) -> Strong:
    """The expert's point of a task's playbook."""
    return Strong(**read_table(PLAYBOOKS / f"{task}.toml"))


OnArrays = Callable[[Mapping[str, Any]], None]
"""Writes the outputs of one call, from buffers and scalars by their names."""


@dataclass(frozen=True, kw_only=True)
class ArrayKernels:
    """`on_arrays.py` of a task: what it means and how it goes wrong, in NumPy."""

    honest: Mapping[str, OnArrays]
    """In the arithmetic of a kernel; they round differently."""
    wrong: Mapping[str, OnArrays]
    by_definition: Definition
    """The outputs in Python's own arithmetic."""


@cache
def array_kernels(task: str) -> ArrayKernels | None:
    """None where the task has no such file."""
    path = MUTANTS / task / "on_arrays.py"
    if not path.is_file():
        return None
    module = import_module_file(path, IMPORT_LIMIT_S)
    return ArrayKernels(
        honest=module.HONEST, wrong=module.WRONG, by_definition=module.by_definition
    )


class ArraySession(MeasuredSession):
    """A session of a function on arrays, which is given the scalars of its call too."""

    def __init__(self, task: Task, function: OnArrays) -> None:
        """The scalars are those of the task's arguments."""
        self._scalars: dict[str, int | float] = {}
        self._task = task

        def candidate(buffers: Buffers, options: CallOptions) -> None:
            with np.errstate(all="ignore"):
                function({**buffers, **self._scalars})

        super().__init__(untimed(candidate))

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Make one call that is not timed."""
        pairs = zip(self._task.arguments, arguments, strict=True)
        self._scalars = {one.name: got.value for one, got in pairs if isinstance(got, Scalar)}
        return await super().call(arguments, options)


def wrong_session(task: Task, kind: str) -> MeasuredSession:
    """Return the session of a task's wrong kernel that is a function on arrays."""
    written = array_kernels(task.name)
    if written is None:
        return running(mutants(task.name)[kind])
    return ArraySession(task, written.wrong[kind])
