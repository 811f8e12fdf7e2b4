"""Records inputs, outputs and operators of a problem's module at some sizes, without computing
anything.

The module runs on PyTorch's `meta` device, where tensors have extents and types but no elements.
"""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import execute_with, import_torch
from cuda_llm.tasks.torch_trace import Operator, record_operators


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
    """Inputs, state, outputs and operators of a run of a problem's module."""

    inputs: Mapping[str, Extents | int | float]
    """Forward's arguments by name, in order."""
    state: Mapping[str, Extents]
    """Parameters and buffers by their names in the module, in order."""
    outputs: tuple[Extents, ...]
    operators: tuple[Operator, ...]
    highs: tuple[int, ...] = ()
    """Exclusive upper limits of the random integers among forward's arguments, in the order of
    drawing."""

    @property
    def tensors(self) -> tuple[Extents, ...]:
        """Return the extents of all input, state and output tensors."""
        given = (one for one in self.inputs.values() if isinstance(one, Extents))
        return (*given, *self.state.values(), *self.outputs)

    @property
    def flops(self) -> int:
        """Return the operations that any kernel needs, where the module has a single operator; else
        0, since several operators may compute values that are not used."""
        return self.operators[0].flops if len(self.operators) == 1 else 0

    @property
    def terms(self) -> int:
        """Return the number of terms of the longest sum."""
        return max((one.terms for one in self.operators), default=1)


def trace_module(source: str, file: Path, dims: Mapping[str, int]) -> ModuleTrace:
    """Run the module of a problem on `meta`. Raises TaskError where it cannot run there."""
    torch = import_torch()
    names = execute_with(source, file, dims)
    try:
        with torch.device("meta"), torch.random.fork_rng(devices=[]), torch.no_grad():
            module = names["Model"](*names["get_init_inputs"]())
            highs: list[int] = []
            _, inputs = record_operators(torch, names["get_inputs"], highs)
            called, results = record_operators(torch, lambda: module(*inputs))
    except Exception as error:
        raise TaskError(f"{file.name}: {type(error).__name__}: {_first_line(error)}") from error
    listed = results if isinstance(results, tuple | list) else [results]
    if not all(torch.is_tensor(one) for one in listed):
        raise TaskError(f"{file.name}: returns something else than tensors")
    state = [*module.named_parameters(), *module.named_buffers()]
    return ModuleTrace(
        inputs={
            name: _extents(one) if torch.is_tensor(one) else _number(one, name, file)
            for name, one in zip(_forward_names(module, len(inputs)), inputs, strict=True)
        },
        state={name: _extents(tensor) for name, tensor in state},
        outputs=tuple(map(_extents, listed)),
        operators=called,
        highs=tuple(highs),
    )


def _extents(tensor: Any) -> Extents:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Extents(dtype=dtype, shape=tuple(tensor.shape))


def _number(value: Any, name: str, file: Path) -> int | float:
    if isinstance(value, int | float):
        return value
    raise TaskError(f"{file.name}: forward's {name} is a {type(value).__name__}; expected a tensor")


def _forward_names(module: Any, count: int) -> list[str]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    plain = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    return [*plain, *(f"x{number}" for number in range(len(plain), count))][:count]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "")
