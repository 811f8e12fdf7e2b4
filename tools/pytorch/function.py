"""A plain PyTorch function, or a module, with example arguments as the subject of a task."""

import inspect
import math
import re
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.element_types import ELEMENT_TYPES
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.torch_function import TorchFunction
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.pytorch.extents import Dims, Expressed, express
from cuda_llm.tools.pytorch.small_sizes import SmallSizes, TooLarge, choose_sizes
from cuda_llm.tools.pytorch.subject import WholeNumbers, Wording
from cuda_llm.tools.pytorch.symbols import find_symbols
from cuda_llm.tools.pytorch.trace import ModuleTrace, first_line, trace_call
from cuda_llm.tools.pytorch.whole_numbers import Ranges, distinct_sizes, ranges_of, runs_at

_STEPS = (*range(1, 33), 48, 64, 96, 128, 256)
"""Distances tried between the values that an extent may have."""


class FunctionExample:
    """A `Subject`. File and example are executed. Raises TaskError where they make no call."""

    runs_on_parts = True

    def __init__(self, file: Path, name: str, example: str) -> None:
        self.call = TorchFunction(file, name)
        self.source = file.read_text(encoding="utf-8")
        self.constructor = (
            "torch_function",
            f'TorchFunction(Path(__file__).with_name("module.py"), {name!r})'.replace("'", '"'),
        )
        self._whole: Ranges | None = None
        self.arguments = self._bound(_evaluated(self.call, example))
        torch = import_torch()
        own = self.call.state
        named = {n: one for n, one in self.arguments.items() if torch.is_tensor(one)} | own
        if not any(one.numel() for one in named.values()):
            raise TaskError("no argument of the example is a tensor with elements")
        found = find_symbols(self._called, list(named.values()), list(named))
        self._shapes: Mapping[str, tuple[str, ...]] = dict(zip(named, found.shapes, strict=True))
        self.numbers: Dims = found.dims
        self._traced = cache(self._trace)
        self.steps: Mapping[str, int] = {
            name: self._step(name, value) for name, value in found.dims.items()
        }
        self._share_dims()
        kind = "module" if own else "function"
        self.wording = Wording(
            title=f"{name} of {file.name}",
            origin="a PyTorch function",
            noun=f"{kind} {name}",
            computes=f"Compute what the PyTorch {kind} `{name}` of this file computes, for any of "
            "the sizes:",
            argument=f"{name}'s",
            remarks="Shapes are those of the arguments. A kernel may round as often as the\n"
            "function does: after each operator, to the operator's type.",
            dim="extent {name}, {value:,} in the example",
        )

    def _bound(self, example: tuple[Any, ...] | dict[str, Any]) -> dict[str, Any]:
        """Return the example's arguments by the names that the function gives them, in order."""
        function = getattr(self.call.function, "forward", self.call.function)
        given = example if isinstance(example, dict) else {}
        try:
            parameters = inspect.signature(function)
            bound = parameters.bind(*(() if given else example), **given)
        except (TypeError, ValueError) as error:
            raise TaskError(f"the example does not fit: {error}") from None
        arguments: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            match parameters.parameters[name].kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    arguments |= {f"{name}_{place}": one for place, one in enumerate(value)}
                case inspect.Parameter.KEYWORD_ONLY | inspect.Parameter.VAR_KEYWORD:
                    raise TaskError(
                        f"{name} is passed by keyword alone; wrap the function in another that "
                        "takes it by place"
                    )
                case _:
                    arguments[name] = value
        torch = import_torch()
        for name, value in arguments.items():
            if torch.is_tensor(value):
                dtype = str(value.dtype).removeprefix("torch.")
                if dtype not in ELEMENT_TYPES:
                    raise TaskError(f"{name} is {dtype}; known: {', '.join(ELEMENT_TYPES)}")
            elif not _is_constant(value):
                raise TaskError(
                    f"{name} is a {type(value).__name__}; expected a tensor, a number, a text or "
                    "None: wrap the function in another that takes tensors one by one"
                )
        return arguments

    def _share_dims(self) -> None:
        """Make one dim of those that are alike in the example and only work together: the function
        computes at no other sizes, which `meta` may not see, or one index indexes both."""
        expressed = express(self.numbers, self.trace_at, self.steps)
        try:
            sizes = choose_sizes(expressed, self.trace_at, self.steps)
        except TooLarge:
            # Extents of the state may yet be dims.
            return
        trial = distinct_sizes(self, expressed, sizes)[0]
        if not runs_at(self, trial):
            alike = (
                (one, other)
                for one, other in combinations(self.numbers, 2)
                if self.numbers[one] == self.numbers[other]
            )
            for kept, name in alike:
                if name in trial and runs_at(self, {**trial, name: trial.get(kept, trial[name])}):
                    self._make_one(name, kept)
                    break
            expressed = express(self.numbers, self.trace_at, self.steps)
            sizes = choose_sizes(expressed, self.trace_at, self.steps)
        for name, kept in ranges_of(self, expressed, sizes).shared.items():
            self._make_one(name, kept)

    def _make_one(self, name: str, kept: str) -> None:
        self.numbers = {one: value for one, value in self.numbers.items() if one != name}
        self._shapes = {
            argument: tuple(re.sub(rf"\b{name}\b", kept, extent) for extent in shape)
            for argument, shape in self._shapes.items()
        }
        self._traced.cache_clear()

    def _called(self, *tensors: Any) -> Any:
        """Call the function on the tensors among its arguments, then those of its state."""
        torch = import_torch()
        given = iter(tensors)
        inputs = [next(given) if torch.is_tensor(o) else o for o in self.arguments.values()]
        state = dict(zip(self.call.state, given, strict=True))
        results = self.call.call(torch, inputs, state, {})
        return tuple(results)

    def trace_at(self, dims: Dims) -> ModuleTrace:
        """Run the function on `meta`. Raises TaskError where it cannot run there."""
        return self._traced(tuple({**self.numbers, **dims}.items()))

    def _trace(self, dims: tuple[tuple[str, int], ...]) -> ModuleTrace:
        torch, at = import_torch(), dict(dims)
        state = self.call.state
        made = {
            name: torch.empty(self._shape(name, at), dtype=one.dtype, device="meta")
            for name, one in {**self.arguments, **state}.items()
            if torch.is_tensor(one)
        }
        inputs = {name: made.get(name, one) for name, one in self.arguments.items()}
        own = {name: made[name] for name in state}
        try:
            return trace_call(
                lambda: self.call.call(torch, [*inputs.values()], own, {}), inputs, own
            )
        except TaskError:
            raise
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {first_line(error)}") from error

    def _shape(self, name: str, dims: Dims) -> tuple[int, ...]:
        at = {**self.numbers, **dims}
        return tuple(int(evaluate(extent, at)) for extent in self._shapes[name])

    def _step(self, name: str, value: int) -> int:
        """Return the least distance to other values of an extent that the function accepts."""

        def accepts(other: int) -> bool:
            try:
                return all(one.elements for one in self.trace_at({name: other}).tensors)
            except TaskError:
                return False

        steps = (one for one in _STEPS if value % one == 0)
        return next((s for s in steps if accepts(value + s) and accepts(value + 2 * s)), 1)

    def examples(self, dims: Dims) -> tuple[list[Any], dict[str, Any]]:
        """Return the example cut to a size; where the size is longer, the example is repeated.

        Indices stay below the extents that they index. Raises TaskError where the function writes
        to an argument.
        """
        torch = import_torch()
        arguments = self._cut(dims)
        if self._whole:
            for name, one in arguments.items():
                bound = self._whole.bound_at(name, dims)
                if torch.is_tensor(one) and bound is not None:
                    arguments[name] = torch.where(one >= bound, one % bound, one)
        return [*arguments.values()], {
            n: self._fitted(n, one, dims) for n, one in self.call.state.items()
        }

    def _cut(self, dims: Dims) -> dict[str, Any]:
        torch = import_torch()
        return {
            name: self._fitted(name, one, dims) if torch.is_tensor(one) else one
            for name, one in self.arguments.items()
        }

    def _fitted(self, name: str, tensor: Any, dims: Dims) -> Any:
        torch = import_torch()
        for axis, extent in enumerate(self._shape(name, dims)):
            places = torch.arange(extent) % tensor.shape[axis]
            tensor = tensor.index_select(axis, places)
        return tensor.clone()

    def whole_numbers(self, expressed: Expressed, sizes: SmallSizes) -> WholeNumbers:
        """Return the ranges that the function accepts, or else those of the example."""
        self._whole = ranges_of(self, expressed, sizes)
        self._refuse_writes(sizes.emulated[0])
        return self._whole.drawn()

    def _refuse_writes(self, dims: Dims) -> None:
        torch = import_torch()
        inputs, state = self.examples(dims)
        before = [one.clone() if torch.is_tensor(one) else one for one in inputs]
        try:
            self.call.call(torch, inputs, state, {})
        except Exception as error:
            raise TaskError(f"{type(error).__name__}: {first_line(error)}") from error
        for name, one, kept in zip(self.arguments, inputs, before, strict=True):
            if torch.is_tensor(one) and not torch.equal(one, kept):
                raise TaskError(
                    f"writes to its argument {name}; return a new tensor instead "
                    f"(`{name} = {name}.clone()` at its beginning)"
                )


def _evaluated(call: TorchFunction, example: str) -> tuple[Any, ...] | dict[str, Any]:
    """Return the arguments that an expression makes, in the names of the file and of PyTorch."""
    torch = import_torch()
    names = {**vars(torch), **call.names, "torch": torch}
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            made = eval(example, names)
    except Exception as error:
        raise TaskError(
            f"--example {example!r}: {type(error).__name__}: {first_line(error)}; expected its "
            "arguments, as in 'randn(2048, 4096, dtype=bfloat16), randn(4096, dtype=bfloat16)'"
        ) from error
    if isinstance(made, dict):
        return made
    return tuple(made) if isinstance(made, tuple | list) else (made,)


def _is_constant(value: Any) -> bool:
    """Return whether Python writes a value so that it can be read again."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, tuple | list):
        return all(map(_is_constant, value))
    return value is None or isinstance(value, int | str)
