"""Loads a task's reference.py when it is first needed, and calls its functions for validation.

A reference.py may define these functions (`xp` is NumPy or CuPy; every other parameter is named
after an `in` or `inout` argument, a scalar argument or a dim of the task; only named parameters are
passed):

    def reference(xp, *, A, B, n): -> {"C": array}           required
    def scale(xp, *, A, B, n):     -> {"C": array}           optional
    def my_rule(xp, got, *, A, n): -> {"C": array}           where task.toml says comparator

- Float inputs arrive as float64, integers and bools as int64, shaped as in task.toml. They are
  private copies: a reference may overwrite them.
- `PROMOTED = False` declares that inputs may arrive in their own types, without a copy (in
  float32 where NumPy has no such type): the reference may then not write to inputs, and computes
  float sums in float64 by `dtype`.
- `reference` returns the value of every `out` and `inout` argument, float64 or exact integers,
  in the argument's shape; values that are only moved may keep their type.
- `scale` returns the divisor of each element's error, before the error is counted in rounding
  units: sum|x| for a sum, |A||B| for a product of matrices. Without `scale` it is |reference|.
- `SPLIT = "M"` names a dim along which outputs can be computed in parts: for some of its indices,
  the function gets the inputs restricted to these indices, and returns the outputs restricted
  likewise. Every output must have the dim as an extent. `SPLIT` bounds the memory of large sizes.
- `BATCHED = True` declares that `reference` and `scale` also take inputs with a leading axis, one
  index for each call, and return outputs with this axis: many small calls are then judged at once.
- `project(xp, vectors, *, ...)` returns each output times `vectors`, whose columns have the length
  of the output's last axis, without computing the output; `project_scale` returns, in that shape,
  at least the Euclidean norm of an output row's scales times the vector. Both together make it
  possible to check sizes whose reference would take too long.
- A comparator gets the candidate's outputs and returns, for every output, the error of each
  element in rounding units; NaN is wrong.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cuda_llm.errors import NoMemory, TaskError, describe_error, lacks_memory
from cuda_llm.settings import settings
from cuda_llm.tasks.element_types import ElementType
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task, TaskArgument
from cuda_llm.tasks.task_module import REMEDY, import_module_file, named_parameters
from cuda_llm.tasks.time_limit import Overdue, call_within

Arrays = Mapping[str, Any]
"""Argument name to an array of `xp`."""
Dims = Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Reference:
    """The oracle of a task. `xp` is the array module the inputs belong to.

    Inputs and a candidate's outputs are passed as memory holds them (`element_types`). All three
    raise TaskError where reference.py fails or returns something else than promised, and NoMemory
    where it finds too little of that.
    """

    compute: Callable[[Any, Arrays, Dims], dict[str, Any]]
    """`compute(xp, inputs, dims)`: expected value of every output."""
    scale: Callable[[Any, Arrays, Dims], dict[str, Any]] | None
    """`scale(xp, inputs, dims)`: what errors are divided by; None: |expected|."""
    comparator: Callable[[Any, Arrays, Arrays, Dims], dict[str, Any]] | None
    """`comparator(xp, got, inputs, dims)`: error of each element in rounding units."""
    split: str = ""
    """Dim along which outputs can be computed in parts."""
    promoted: bool = True
    """Whether inputs are copied into float64 and int64; else functions get inputs in their own
    types."""
    batched: bool = False
    """Whether inputs may have a leading axis, one index for each call; outputs then have this axis
    too."""
    project: Callable[[Any, Any, Arrays, Dims], dict[str, Any]] | None = None
    """`project(xp, vectors, inputs, dims)`: outputs times vectors."""
    project_scale: Callable[[Any, Any, Arrays, Dims], dict[str, Any]] | None = None
    """`project_scale(xp, vectors, inputs, dims)`: norms of the rows' scales times vectors."""


def load_reference(task: Task) -> Reference:
    """Import the task's reference.py. Raises TaskError, also where the task has none."""
    if task.reference is None:
        raise TaskError(f"{task.folder}: has no reference.py; expected one")
    import numpy as np

    limit_s = settings().reference_limit_s
    module = import_module_file(task.reference, limit_s)
    given = (ArgumentRole.IN, ArgumentRole.INOUT, ArgumentRole.SCALAR)
    known = set(task.dims) | {a.name for a in task.arguments if a.role in given}
    outputs = {a.name: a for a in task.arguments if a.is_output}

    types = task.element_types
    batched = bool(getattr(module, "BATCHED", False))
    promoted = bool(getattr(module, "PROMOTED", True))

    def bind(name: str, leading: int, projected: bool = False) -> Callable[..., dict[str, Any]]:
        function = getattr(module, name, None)
        where = f"{task.reference}: {name}"
        if not callable(function):
            raise TaskError(f"{where}: not found; expected a function")
        wanted = named_parameters(function, leading, known, where)

        def call(xp: Any, *rest: Any) -> dict[str, Any]:
            *got, inputs, dims = rest
            # Outputs, which a comparator gets; a projection gets vectors of float64.
            got = [_decoded(xp, types, o) if isinstance(o, Mapping) else o for o in got]
            arrays = _decoded(xp, types, inputs)
            if promoted:
                arrays = _promoted(xp, arrays)
            named = {**dims, **_scalars(task, dims), **arrays}
            try:
                # Infinities and NaNs among the inputs are no mistake of the reference.
                with np.errstate(all="ignore"):
                    own = {key: named[key] for key in wanted}
                    result = call_within(limit_s, lambda: function(xp, *got, **own))
            except Overdue:
                raise TaskError(
                    f"{where}: did not return within {limit_s:g} s of processor time at "
                    f"{dict(dims)}; {REMEDY}"
                ) from None
            except Exception as error:
                if lacks_memory(error):
                    raise NoMemory("device memory", f"{where}: {describe_error(error)}") from None
                raise TaskError(f"{where}: {type(error).__name__}: {error}") from error
            if not isinstance(result, dict) or set(result) != set(outputs):
                found = sorted(result) if isinstance(result, dict) else type(result).__name__
                raise TaskError(
                    f"{where}: returned {found}; expected a dict with {sorted(outputs)}"
                )
            shaped = {}
            for key, argument in outputs.items():
                array = xp.asarray(result[key])
                shape = (*_calls(task, inputs, batched), *shape_of(argument, dims))
                if projected:
                    shape = (*shape[:-1], got[0].shape[1])
                if array.shape != shape:
                    raise TaskError(
                        f"{where}: {key} has shape {array.shape}; expected {shape} at {dict(dims)}"
                    )
                real = name not in ("reference", "project") or not types[key].is_complex
                if real and array.dtype.kind == "c":
                    raise TaskError(f"{where}: {key} is complex; expected real numbers")
                shaped[key] = array
            return shaped

        return call

    split = _split(module, task, outputs.values())
    both = hasattr(module, "project") and hasattr(module, "project_scale")
    if both and any(split in ("", one.shape[-1]) for one in outputs.values()):
        raise TaskError(f"{task.reference}: project: expected SPLIT to name another axis")
    return Reference(
        compute=bind("reference", leading=1),
        scale=bind("scale", leading=1) if hasattr(module, "scale") else None,
        comparator=bind(task.comparator, leading=2) if task.comparator else None,
        split=split,
        promoted=promoted,
        batched=batched,
        project=bind("project", leading=2, projected=True) if both else None,
        project_scale=bind("project_scale", leading=2, projected=True) if both else None,
    )


def _split(module: Any, task: Task, outputs: Iterable[TaskArgument]) -> str:
    """Return the dim that SPLIT names. Raises TaskError where an output does not have it once."""
    dim = str(getattr(module, "SPLIT", ""))
    for output in outputs:
        if dim and output.shape.count(dim) != 1:
            raise TaskError(
                f"{task.reference}: SPLIT = {dim!r}; expected an extent of {output.name}, which "
                f"has {', '.join(output.shape)}"
            )
    return dim


def _scalars(task: Task, dims: Dims) -> dict[str, int | float]:
    return {a.name: scalar_value(a, dims) for a in task.arguments if a.role == ArgumentRole.SCALAR}


def _calls(task: Task, inputs: Arrays, batched: bool) -> tuple[int, ...]:
    """Return the extent of the inputs' leading axis as a tuple; empty without such an axis."""
    for argument in task.arguments:
        if batched and argument.name in inputs:
            array = inputs[argument.name]
            return tuple(array.shape[: array.ndim - len(argument.shape)])
    return ()


def _decoded(xp: Any, types: Mapping[str, ElementType], arrays: Arrays) -> dict[str, Any]:
    """Return the numbers of stored elements."""
    return {name: types[name].decode(array, xp) for name, array in arrays.items()}


def _promoted(xp: Any, inputs: Arrays) -> dict[str, Any]:
    """Copy the inputs into types in which no reference can lose precision."""
    return {
        name: array.astype({"f": "float64", "c": "complex128"}.get(array.dtype.kind, "int64"))
        for name, array in inputs.items()
    }
