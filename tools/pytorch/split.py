"""Finds a dim along which a call's outputs can be computed in parts, from parts of its inputs."""

from collections.abc import Sequence
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.pytorch.extents import Dims, Expressed
from cuda_llm.tools.pytorch.own_result import OwnResults
from cuda_llm.tools.pytorch.subject import Subject

_KEPT = 0.6
"""Share of the indices that a part has in the trial."""


def find_split(subject: Subject, own: OwnResults, expressed: Expressed, dims: Dims) -> str:
    """Return the dim whose parts need the least of the inputs at the call's own size, or nothing.

    All outputs have the dim as one extent, and for some of its indices come out the same from the
    inputs' same indices. It is tried in float64 at the size `dims`, whose arguments `own` has.
    """
    possible = [
        name
        for name in expressed.dims
        if subject.runs_on_parts
        and dims[name] >= 2
        and subject.steps.get(name, 1) == 1
        and all(shape.count(name) == 1 for shape in expressed.outputs)
    ]
    separable = [name for name in possible if _is_separable(own, expressed, dims, name)]
    sizes = {name: _elements_of_part(subject, expressed, name) for name in separable}
    return min(separable, key=lambda name: sizes[name], default="")


def _elements_of_part(subject: Subject, expressed: Expressed, name: str) -> int:
    """Return the elements of all tensors where the dim has few indices, the others their own."""
    own = expressed.dims
    try:
        return sum(one.elements for one in subject.trace_at({**own, name: 2}).tensors)
    except TaskError:
        return sum(one.elements for one in subject.trace_at(own).tensors)


def _is_separable(own: OwnResults, expressed: Expressed, dims: Dims, name: str) -> bool:
    torch = import_torch()
    kept = torch.arange(dims[name])[-max(1, int(_KEPT * dims[name])) :].flip(0)
    shapes = iter(expressed.inputs.values())
    inputs = [
        _part(one, next(shapes), name, kept) if torch.is_tensor(one) else one for one in own.inputs
    ]
    state = {n: _part(one, expressed.state[n], name, kept) for n, one in own.state.items()}
    try:
        whole = own.results(own.inputs, own.state, double=True)
        parts = own.results(inputs, state, double=True)
    except TaskError:
        return False
    return all(
        _same(torch, _part(one, shape, name, kept), part)
        for one, part, shape in zip(whole, parts, expressed.outputs, strict=True)
    )


def _part(tensor: Any, shape: Sequence[str], name: str, kept: Any) -> Any:
    for axis, extent in enumerate(shape if tensor.dim() else ()):
        if extent == name:
            tensor = tensor.index_select(axis, kept)
    return tensor


def _same(torch: Any, one: Any, other: Any) -> bool:
    if one.shape != other.shape:
        return False
    return bool(torch.allclose(one.double(), other.double(), rtol=1e-9, atol=1e-9, equal_nan=True))
