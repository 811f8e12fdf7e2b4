"""Replaces the sizes at which a task is timed by the user's own sizes."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from cuda_llm.errors import TaskError, UsageError, nearest
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import spell_task
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task


def with_sizes(task: Task, spelled: Iterable[str]) -> Task:
    """Return the task timed at sizes spelled `M=4096,N=2048`; without sizes, the unchanged task.

    Sizes that are only checked, and hidden sizes, stay unchanged, so that a kernel has to be right
    beyond the timed sizes. Raises UsageError for a size that the task cannot have.
    """
    sizes = tuple(_read_size(task, text) for text in spelled)
    if not sizes:
        return task
    for at, size in enumerate(sizes):
        if size in sizes[:at]:
            raise UsageError(f"--size {spell_size(size)}: given twice")
    return replace(task, sizes=replace(task.sizes, bench=sizes), weights=())


def spell_size(size: Mapping[str, int]) -> str:
    """Return a size in the form that `--size` takes."""
    return ",".join(f"{name}={value}" for name, value in size.items())


def _read_size(task: Task, text: str) -> Mapping[str, int]:
    """Parse a size; return its dims in the task's order."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = (one.strip() for one in part.partition("="))
        if not equals or not value.isascii() or not value.replace("_", "").isdigit():
            raise UsageError(f"--size {text}: {part.strip()!r} is no NAME=NUMBER; {_example(task)}")
        if name not in task.dims:
            raise UsageError(
                f"--size {text}: {task.name} has no {name!r}; {nearest(name, task.dims)}"
            )
        if name in found:
            raise UsageError(f"--size {text}: {name} is given twice")
        if int(value) < 1:
            raise UsageError(f"--size {text}: {name} is {int(value)}; expected at least 1")
        found[name] = int(value)
    missing = [name for name in task.dims if name not in found]
    if missing:
        raise UsageError(f"--size {text}: {', '.join(missing)} not given; {_example(task)}")
    size = {name: found[name] for name in task.dims}
    _check(task, text, size)
    return size


def _check(task: Task, text: str, size: Mapping[str, int]) -> None:
    """Check that every argument has an extent there. Raises UsageError."""
    if task.requires and not evaluate(task.requires, size):
        raise UsageError(f"--size {text}: {task.name} requires {task.requires}")
    for argument in task.arguments:
        try:
            if argument.is_buffer:
                shape_of(argument, size)
            if argument.role is not ArgumentRole.SCALAR:
                continue
            value = scalar_value(argument, size)
        except TaskError as error:
            raise UsageError(f"--size {text}: {error}") from None
        if argument.dtype == "int32" and not -(2**31) <= value < 2**31:
            raise UsageError(
                f"--size {text}: {argument.name} would be {value:,}, beyond its 32 bits"
            )


def _example(task: Task) -> str:
    return f"as in --size {spell_size(task.sizes.bench[0])}; cuda-llm tasks show {spell_task(task)}"
