"""Records inputs, outputs and operators of a call of PyTorch at some sizes, without computing
anything.

The call runs on PyTorch's `meta` device, where tensors have extents and types but no elements.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tasks.torch_trace import Operator, record_operators

Constant: TypeAlias = int | float | str | None
"""An argument that is no tensor, and the same at every size."""


@dataclass(frozen=True, kw_only=True)
class Extents:
    """Element type, as tasks name it, and extents of a tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Return the number of elements of the tensor."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class ModuleTrace:
    """Inputs, state, outputs and operators of a call."""

    inputs: Mapping[str, Extents | Constant]
    """Arguments by name, in order."""
    state: Mapping[str, Extents]
    """Parameters and buffers of a module by their names there, in order."""
    outputs: tuple[Extents, ...]
    operators: tuple[Operator, ...]
    highs: tuple[int, ...] = ()
    """Exclusive upper limits of random integers among the arguments, in the order of drawing."""

    @property
    def tensors(self) -> tuple[Extents, ...]:
        """Return the extents of all input, state and output tensors."""
        given = (one for one in self.inputs.values() if isinstance(one, Extents))
        return (*given, *self.state.values(), *self.outputs)

    @property
    def flops(self) -> int:
        """Return the operations that any kernel needs, where the call has a single operator; else
        0, since several operators may compute values that are not used."""
        return self.operators[0].flops if len(self.operators) == 1 else 0

    @property
    def terms(self) -> int:
        """Return the number of terms of the longest sum."""
        return max((one.terms for one in self.operators), default=1)


def trace_call(
    run: Callable[[], Any],
    inputs: Mapping[str, Any],
    state: Mapping[str, Any],
    highs: tuple[int, ...] = (),
) -> ModuleTrace:
    """Record a call whose tensors are on `meta`. Raises TaskError where it returns something else
    than tensors, and what the call raises."""
    torch = import_torch()
    called, results = record_operators(torch, run)
    listed = results if isinstance(results, tuple | list) else [results]
    for one in listed:
        if not torch.is_tensor(one):
            raise TaskError(f"returns a {type(one).__name__}; expected tensors")
    return ModuleTrace(
        inputs={n: _extents(one) if torch.is_tensor(one) else one for n, one in inputs.items()},
        state={name: _extents(tensor) for name, tensor in state.items()},
        outputs=tuple(map(_extents, listed)),
        operators=called,
        highs=highs,
    )


def _extents(tensor: Any) -> Extents:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Extents(dtype=dtype, shape=tuple(tensor.shape))


def first_line(error: Exception) -> str:
    """Return the first line of an error's text."""
    return next(iter(str(error).strip().splitlines()), "")
