"""What a size makes of an argument: its shape or its value."""

from collections.abc import Mapping

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.task import TaskArgument


def shape_of(argument: TaskArgument, dims: Mapping[str, int]) -> tuple[int, ...]:
    """Returns the extents of a buffer. Raises TaskError where one is no whole number from 1 on."""
    extents = []
    for text in argument.shape:
        extent = evaluate(text, dims)
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1:
            raise TaskError(
                f"{argument.name}: {text} is {extent} at {dict(dims)}; "
                "expected a whole number of at least 1"
            )
        extents.append(extent)
    return tuple(extents)


def scalar_value(argument: TaskArgument, dims: Mapping[str, int]) -> int | float:
    """Returns the value of a scalar argument, a float where its dtype is one."""
    value = evaluate(argument.value, dims)
    return float(value) if argument.dtype.startswith("float") else int(value)
