"""Runs an imported module on small inputs, to find the inputs and state that its results depend on,
and the distributions on which its float32 result can be judged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import TorchModule, execute_with, import_torch
from cuda_llm.tools.kernelbench.extents import Dims
from cuda_llm.tools.kernelbench.trace import ModuleTrace

NONLINEAR = ("uniform_signed", "normal")
LINEAR = (*NONLINEAR, "mixed", "large")
"""Further distributions of float inputs, where the module's results stay finite and right."""
_UNIT = 2.0**-24
_NO_MORE = 1e-9
_MOST_UNITS = 64.0
"""Largest error of the module's float32 result, in rounding units times the sum of the float64
result's absolute value and its tensor's root mean square."""


class OwnResults:
    """Results of a problem's module at a small size, on the CPU."""

    def __init__(self, source: str, file: Path, dims: Dims, trace: ModuleTrace) -> None:
        self._torch = import_torch()
        self._module = TorchModule(file)
        self._dims = dims
        names = execute_with(source, file, dims)
        with self._torch.random.fork_rng(devices=[]):
            self._torch.manual_seed(1)
            model = names["Model"](*names["get_init_inputs"]())
            self.inputs = list(names["get_inputs"]())
        tensors = [*model.named_parameters(), *model.named_buffers()]
        self.state = {name: one.detach().clone() for name, one in tensors if name in trace.state}

    def results(
        self, inputs: Sequence[Any], state: Mapping[str, Any], *, double: bool = False
    ) -> list[Any]:
        """Return the module's results. Raises TaskError where the module fails."""

        def typed(one: Any) -> Any:
            floats = self._torch.is_tensor(one) and one.is_floating_point()
            return one.double() if double and floats else one

        given = [typed(one) for one in inputs]
        own = {name: typed(one) for name, one in state.items()}
        try:
            return self._module.call(self._torch, given, own, self._dims, double=double)
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {str(error).splitlines()[0]}") from error

    def require_function(self) -> None:
        """Raise TaskError where results are random, not finite, or the same whatever the inputs."""
        torch = self._torch
        first = self.results(self.inputs, self.state)
        if not _equal(torch, first, self.results(self.inputs, self.state)):
            raise TaskError("its results are random: the same inputs give others")
        if not all(one.isfinite().all() for one in first if one.is_floating_point()):
            raise TaskError("its results on its own inputs are not all finite")
        others = [_redrawn(torch, one) for one in self.inputs]
        if _equal(torch, first, self.results(others, self.state)):
            raise TaskError("its results are the same whatever the inputs")

    def read_state(self) -> tuple[str, ...]:
        """Return the parameters and buffers that results depend on by more than rounding."""

        def differs(name: str) -> bool:
            changed = {**self.state, name: self.state[name] * 1.25 + 0.5}
            found = self.results(self.inputs, changed, double=True)
            return not all(
                self._torch.allclose(one.double(), two.double(), rtol=_NO_MORE, atol=_NO_MORE)
                for one, two in zip(first, found, strict=True)
            )

        first = self.results(self.inputs, self.state, double=True)
        return tuple(n for n, one in self.state.items() if one.is_floating_point() and differs(n))

    def distributions(self, place: int, wider: Sequence[str]) -> tuple[str, ...]:
        """Return how a float input of forward is drawn: as the problem draws it, then wider."""
        first = _drawn_like(self.inputs[place])
        return (first, *(name for name in wider if name != first and self._is_judged(name)))

    def _is_judged(self, distribution: str) -> bool:
        """Return whether the module's float32 result is right where all float inputs have this
        distribution."""
        torch = self._torch
        generator = torch.Generator().manual_seed(2)
        drawn = [
            _drawn(torch, one, distribution, generator) if _is_float(torch, one) else one
            for one in self.inputs
        ]
        try:
            found = self.results(drawn, self.state)
            expected = self.results(drawn, self.state, double=True)
        except TaskError:
            return False
        return all(_is_right(*pair) for pair in zip(found, expected, strict=True))


def state_distribution(tensor: Any) -> str:
    """Return how a parameter is drawn: in the range in which its module draws it."""
    low, high = float(tensor.min()), float(tensor.max())
    if low == high:
        return f"uniform({low - 0.5:g}, {low + 0.5:g})"
    bound = max(abs(low), abs(high))
    rounded = float(f"{bound * 1.05:.2g}")
    return f"uniform({-rounded:g}, {rounded:g})" if low < 0 else f"uniform(0, {rounded:g})"


def _is_right(found: Any, expected: Any) -> bool:
    if not found.is_floating_point():
        return bool((found == expected).all())
    if not (expected.isfinite().all() and found.isfinite().all()):
        return False
    scale = expected.abs() + expected.square().mean().sqrt()
    return bool(((found.double() - expected).abs() <= _MOST_UNITS * _UNIT * scale).all())


def _is_float(torch: Any, one: Any) -> bool:
    return bool(torch.is_tensor(one) and one.is_floating_point())


def _drawn_like(tensor: Any) -> str:
    values = tensor.detach().numpy()
    if values.size > 1 and np.isin(values, (-1.0, 0.0, 1.0)).all():
        return "exact_signs"
    if values.min() < 0:
        return "normal"
    return "uniform_unit" if values.max() <= 1 else f"uniform(0, {float(np.ceil(values.max())):g})"


def _drawn(torch: Any, like: Any, distribution: str, generator: Any) -> Any:
    normal = torch.randn(like.shape, generator=generator)
    match distribution:
        case "uniform_signed":
            return torch.rand(like.shape, generator=generator) * 2 - 1
        case "large":
            return normal * 1e4
        case "mixed":
            powers = torch.randint(-20, 14, like.shape, generator=generator)
            return torch.ldexp(normal, powers)
    return normal


def _redrawn(torch: Any, one: Any) -> Any:
    return torch.rand_like(one) if _is_float(torch, one) else one


def _equal(torch: Any, first: Sequence[Any], second: Sequence[Any]) -> bool:
    return all(torch.equal(*pair) for pair in zip(first, second, strict=True))
