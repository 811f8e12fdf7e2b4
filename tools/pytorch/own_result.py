"""Runs a call of PyTorch on small inputs, to find the inputs and state that its results depend on,
how far its own results are off, and the distributions on which they can be judged."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.tasks.element_types import FloatFormat, element_type
from cuda_llm.tasks.torch_module import double_precision, import_torch
from cuda_llm.tools.pytorch.extents import Dims
from cuda_llm.tools.pytorch.subject import Subject
from cuda_llm.tools.pytorch.trace import first_line

NONLINEAR = ("uniform_signed", "normal")
LINEAR = (*NONLINEAR, "mixed", "large")
"""Further distributions of float inputs, where the call's own results stay finite and right."""
_NO_MORE = 1e-9
_MOST_UNITS = 64.0
"""Largest error of own float32 results, in rounding units times the sum of the float64 result's
absolute value and its tensor's root mean square."""
_MOST_SHORT_UNITS = 8.0
"""The same of results in floats of 16 and 8 bits, which are rounded after each operator."""
_CLASS_UNITS = 32
"""Units that sums in fp32 may be off without saying so (`tasks.tolerances`)."""
_DRAWS = 3
_FEW = 16
"""Elements of an example too few to say how far they spread."""


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """What `[tolerance]` says of roundings."""

    precision: str = "fp32"
    roundings: int = 1
    """How often a value is rounded to a short `precision` on its way to an output."""
    max_units: int = 0
    """Largest error; 0: that of the class."""


class OwnResults:
    """Results of a subject's call at a small size, on the CPU."""

    def __init__(self, subject: Subject, dims: Dims) -> None:
        self._torch = import_torch()
        self._call = subject.call
        self._dims = dims
        self.inputs, self.state = subject.examples(dims)

    def results(
        self, inputs: Sequence[Any], state: Mapping[str, Any], *, double: bool = False
    ) -> list[Any]:
        """Return the call's results. Raises TaskError where it fails."""

        def typed(one: Any) -> Any:
            floats = self._torch.is_tensor(one) and one.is_floating_point()
            return one.double() if double and floats else one

        given = [typed(one) for one in inputs]
        own = {name: typed(one) for name, one in state.items()}
        try:
            if not double:
                return self._call.call(self._torch, given, own, self._dims)
            with double_precision(self._torch):
                return self._call.call(self._torch, given, own, self._dims, double=True)
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {first_line(error)}") from error

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
        """Return how a float argument is drawn: as its example, then wider."""
        first = _drawn_like(self.inputs[place])
        return (first, *(name for name in wider if name != first and self._is_judged(name)))

    def _is_judged(self, distribution: str) -> bool:
        """Return whether own results are right where all float inputs have this distribution."""
        generator = self._torch.Generator().manual_seed(2)
        return all(map(_is_right, *self._pairs(distribution, generator)))

    def accuracy(self) -> "Accuracy":
        """Return the precision and the roundings that allow twice the error of own results."""
        torch = self._torch
        outputs = [one for one in self.results(self.inputs, self.state) if _is_float(torch, one)]
        if not outputs:
            return Accuracy()
        given = [one for one in (*self.inputs, *self.state.values()) if _is_float(torch, one)]
        shortest = min(map(_format, outputs), key=_bits)
        beyond = self._units_beyond(shortest)
        if not shortest.is_short and beyond > _MOST_UNITS:
            # Results may be long, but computed from values that were rounded to a short type.
            shortest = min(map(_format, given), key=_bits)
            beyond = self._units_beyond(shortest)
        if shortest.is_short:
            return Accuracy(precision=shortest.name, roundings=1 + math.ceil(2.0 * beyond))
        twice = math.ceil(2.0 * (beyond + 1.01))
        return Accuracy(precision=shortest.name, max_units=twice if twice > _CLASS_UNITS else 0)

    def _units_beyond(self, format: FloatFormat) -> float:
        """Return how far own results are off beyond one rounding, in rounding units times the
        element's absolute value plus its tensor's root mean square."""
        generator = self._torch.Generator().manual_seed(3)
        found = [0.0]
        for distribution in ("", *NONLINEAR) * _DRAWS:
            if distribution and not self._is_judged(distribution):
                continue
            for own, expected in zip(*self._pairs(distribution, generator), strict=True):
                if own.is_floating_point():
                    units = _units(own, expected, format, beyond=1.01)
                    found.append(units if math.isfinite(units) else 0.0)
        return max(found)

    def _pairs(self, distribution: str, generator: Any) -> tuple[list[Any], list[Any]]:
        """Return own results and float64 results on inputs of a distribution, of none on their
        own: nothing where the call fails."""
        torch = self._torch
        drawn = [
            _drawn(torch, one, distribution, generator) if _is_float(torch, one) else one
            for one in self.inputs
        ]
        try:
            return self.results(drawn, self.state), self.results(drawn, self.state, double=True)
        except TaskError:
            return [torch.tensor(math.nan)], [torch.tensor(math.nan)]


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
    own = _format(found)
    most = _MOST_SHORT_UNITS if own.is_short else _MOST_UNITS
    return _units(found, expected, own) <= most


def _units(found: Any, expected: Any, format: FloatFormat, beyond: float = 0.0) -> float:
    """Return the largest error in rounding units, beyond some units of the element itself."""
    unit = format.rounding_unit
    scale = expected.abs() + expected.square().mean().sqrt()
    error = (found.double() - expected).abs() - beyond * unit * expected.abs()
    return float((error / (unit * scale.clamp(min=1e-300))).max())


def _format(tensor: Any) -> FloatFormat:
    return element_type(str(tensor.dtype).removeprefix("torch.")).floating


def _bits(format: FloatFormat) -> int:
    return format.significand_bits


def _is_float(torch: Any, one: Any) -> bool:
    return bool(torch.is_tensor(one) and one.is_floating_point())


def _drawn_like(tensor: Any) -> str:
    values = (tensor.real if tensor.is_complex() else tensor).double().numpy()
    if values.size > 1 and np.isin(values, (-1.0, 0.0, 1.0)).all():
        return "exact_signs"
    if values.min() < 0:
        spread = float(values.std())
        if values.size < _FEW or 0.5 <= spread <= 2.0:
            return "normal"
        bound = float(f"{spread * math.sqrt(3):.2g}")
        return f"uniform({-bound:g}, {bound:g})"
    return "uniform_unit" if values.max() <= 1 else f"uniform(0, {float(np.ceil(values.max())):g})"


def _drawn(torch: Any, like: Any, distribution: str, generator: Any) -> Any:
    normal = torch.randn(like.shape, generator=generator)
    match distribution:
        case "":
            return like.flatten()[torch.randperm(like.numel(), generator=generator)].view_as(like)
        case "uniform_signed":
            normal = torch.rand(like.shape, generator=generator) * 2 - 1
        case "large":
            normal = normal * 1e4
        case "mixed":
            powers = torch.randint(-20, 14, like.shape, generator=generator)
            normal = torch.ldexp(normal, powers)
    return normal.to(like.dtype)


def _redrawn(torch: Any, one: Any) -> Any:
    return torch.rand(one.shape).to(one.dtype) if _is_float(torch, one) else one


def _equal(torch: Any, first: Sequence[Any], second: Sequence[Any]) -> bool:
    return all(torch.equal(*pair) for pair in zip(first, second, strict=True))
