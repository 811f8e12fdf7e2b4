"""Loads a task's inputs.py when it is first needed, and makes inputs that depend on each other.

Some inputs are right only together: the offsets, columns and values of a sparse matrix, a page
table and its lengths, a mask and what it masks. A function of inputs.py makes all of them at once:

    def power_law(rng, *, rows, nonzeros): -> {"offsets": array, "columns": array}

- task.toml names the function where an argument names its distributions, for every argument that
  inputs.py makes alike: `distributions = ["inputs.power_law", "inputs.empty_rows"]`. The first
  function is the one whose inputs are timed.
- `rng` is a `numpy.random.Generator`; equal seeds have to give equal arrays. Every other parameter
  is named after a dim or a scalar argument.
- The function returns the numbers of each of these arguments, in the argument's shape. They are
  arrays of NumPy in host memory; numbers are rounded to the argument's element type, and whole
  numbers have to fit the type.
- The first line of a function's docstring says what it makes; prompts quote the line.
"""

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.errors import TaskError
from cuda_llm.settings import settings
from cuda_llm.tasks.distribution import maker_of
from cuda_llm.tasks.element_types import ElementType, element_type
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tasks.task_module import REMEDY, import_module_file, named_parameters
from cuda_llm.tasks.time_limit import Overdue, call_within

HostArrays = Mapping[str, npt.NDArray[Any]]
Dims = Mapping[str, int]


def make_inputs(task: Task, function: str, seed: int, dims: Dims) -> HostArrays:
    """Return the arrays that a function of inputs.py makes, by argument, as memory holds them.

    Raises TaskError where inputs.py fails or returns something else than promised.
    """
    if task.inputs is None:
        raise TaskError(f"{task.folder}: has no inputs.py; expected a file that defines {function}")
    where = f"{task.inputs}: {function}"
    limit_s = settings().reference_limit_s
    make = getattr(import_module_file(task.inputs, limit_s), function, None)
    if not callable(make):
        raise TaskError(f"{where}: not found; expected a function")
    scalars = {
        one.name: scalar_value(one, dims)
        for one in task.arguments
        if one.role == ArgumentRole.SCALAR
    }
    known = {**scalars, **dims}
    given = {name: known[name] for name in named_parameters(make, 1, known, where)}
    made = _called(make, seed, given, limit_s, where)
    wanted = {one.name: one for one in task.arguments if any(map(maker_of, one.distributions))}
    if not isinstance(made, dict) or set(made) != set(wanted):
        found = sorted(made) if isinstance(made, dict) else type(made).__name__
        raise TaskError(f"{where}: returned {found}; expected a dict with {sorted(wanted)}")
    stored = {}
    for name, argument in wanted.items():
        values, shape = np.asarray(made[name]), shape_of(argument, dims)
        if values.shape != shape:
            raise TaskError(
                f"{where}: {name} has shape {values.shape}; expected {shape} at {dict(dims)}"
            )
        stored[name] = _stored(values, element_type(argument.dtype), f"{where}: {name}")
    return stored


def _called(
    make: Callable[..., Any], seed: int, given: Mapping[str, Any], limit_s: float, where: str
) -> Any:
    try:
        return call_within(limit_s, lambda: make(np.random.default_rng(seed), **given))
    except Overdue:
        raise TaskError(
            f"{where}: did not return within {limit_s:g} s of processor time at {dict(given)}; "
            f"{REMEDY}"
        ) from None
    except Exception as error:
        raise TaskError(f"{where}: {type(error).__name__}: {error}") from error


def _stored(values: npt.NDArray[Any], element: ElementType, where: str) -> npt.NDArray[Any]:
    """Round numbers to elements. Raises TaskError where a whole number does not fit its type."""
    if not element.is_native:
        return np.asarray(element.encode(values.astype(element.array), np))
    with np.errstate(all="ignore"):
        stored = values.astype(element.array)
    is_whole = stored.dtype.kind in "iub"
    if is_whole and not np.array_equal(stored, values):
        wrong = values[stored != values].flat[0]
        raise TaskError(f"{where}: holds {wrong}; expected numbers that {element.name} can hold")
    return np.ascontiguousarray(stored)


def describe_made(inputs: Path, function: str) -> str:
    """Return what a function of inputs.py makes: the first line of the function's docstring, or the
    function's name in words."""
    for node in ast.parse(inputs.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            text = ast.get_docstring(node) or ""
            if text:
                return text.splitlines()[0].rstrip(".")
    return function.replace("_", " ")
