"""A call of PyTorch as the oracle and the baseline of a task: a module of KernelBench, or what
`tasks.torch_function` reads.

A KernelBench file defines `Model`, `get_inputs()` and `get_init_inputs()`. Whole numbers that the
file assigns at its top level may be dims of the task: the file is executed with their values in
their place.
"""

import ast
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from cuda_llm.errors import MissingError, TaskError
from cuda_llm.tasks.expressions import evaluate

_KEPT = 4
"""Number of sizes whose modules are kept built, most recent calls first."""


def import_torch() -> Any:
    """Return PyTorch. Raises MissingError without it."""
    try:
        import torch
    except ImportError:
        raise MissingError("PyTorch is missing", "pip install 'cuda-llm[torch]'") from None
    return torch


def whole_numbers(source: str) -> dict[str, int]:
    """Return the whole numbers that the source assigns at its top level, by name.

    Numbers of a tuple are named by the tuple and their index: `shape_0`.
    """
    return {
        name: value
        for statement in ast.parse(source).body
        for name, _, value in _assigned_numbers(statement)
    }


def execute_with(source: str, file: Path, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Execute the source with other whole numbers at its top level, and return its names.

    Raises TaskError where the source fails.
    """
    tree = _parsed(source, file)
    for statement in tree.body:
        for name, node, _ in _assigned_numbers(statement):
            if name in numbers:
                _replace(statement, node, ast.copy_location(ast.Constant(numbers[name]), node))
    names = _executed(tree, file)
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not callable(names.get(name)):
            raise TaskError(f"{file}: has no {name}; expected a problem of KernelBench")
    return names


def execute(source: str, file: Path) -> dict[str, Any]:
    """Execute the source, and return its names. Raises TaskError where the source fails."""
    return _executed(_parsed(source, file), file)


def _parsed(source: str, file: Path) -> ast.Module:
    try:
        return ast.parse(source, str(file))
    except SyntaxError as error:
        raise TaskError(f"{file}:{error.lineno}: {error.msg}") from None


def _executed(tree: ast.Module, file: Path) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    try:
        exec(compile(tree, str(file), "exec"), names)
    except Exception as error:
        raise TaskError(f"{file}: {type(error).__name__}: {error}") from error
    return names


def _assigned_numbers(statement: ast.stmt) -> list[tuple[str, ast.expr, int]]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Tuple(elts=nodes)):
            named = [(f"{name}_{place}", node) for place, node in enumerate(nodes)]
        case ast.Assign(targets=[ast.Name(id=name)], value=node):
            named = [(name, node)]
        case _:
            return []
    found = [(name, node, _whole_number(node)) for name, node in named]
    return [(name, node, value) for name, node, value in found if value is not None]


def _whole_number(node: ast.expr) -> int | None:
    try:
        value = evaluate(ast.unparse(node), {})
    except (TaskError, ZeroDivisionError):
        return None
    return value if type(value) is int else None


def _replace(statement: ast.stmt, node: ast.expr, new: ast.expr) -> None:
    assert isinstance(statement, ast.Assign)
    if isinstance(statement.value, ast.Tuple):
        statement.value.elts = [new if one is node else one for one in statement.value.elts]
    else:
        statement.value = new


class TorchCall(ABC):
    """A call of PyTorch, at any of the task's sizes."""

    @abstractmethod
    def call(
        self,
        torch: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        *,
        double: bool = False,
    ) -> list[Any]:
        """Call it on tensors, and return its outputs in order. With `double`, floats are float64,
        and what the call has of its own is, too."""

    def compute(
        self,
        xp: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        outputs: Sequence[str],
        types: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Return the outputs by name, computed in float64 where the call computes in floats.

        `inputs` are the arguments in order, `state` the parameters and buffers that are not a
        module's own; arrays of `xp`, NumPy or CuPy. With `types` of inputs and state, in order,
        the call computes in them, as the baseline does.
        """
        torch = import_torch()
        tensors = [_tensor(torch, one) for one in (*inputs, *state.values())]
        if types:
            tensors = [_typed(torch, *pair) for pair in zip(tensors, types, strict=True)]
        given = tensors[: len(inputs)]
        own = dict(zip(state, tensors[len(inputs) :], strict=True))
        with nullcontext() if types else double_precision(torch):
            results = self.call(torch, given, own, dims, double=not types)
        tensors.clear()
        given.clear()
        own.clear()
        named = zip(outputs, results, strict=True)
        arrays = {name: _array(xp, torch.atleast_1d(result)) for name, result in named}
        if torch.cuda.is_initialized():
            # What PyTorch keeps of temporaries is memory that was planned for buffers.
            torch.cuda.empty_cache()
        return arrays

    def scale(
        self,
        xp: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        outputs: Sequence[str],
    ) -> dict[str, Any]:
        """Return the sums of the absolute values of all terms, of a call linear in each."""
        absolute = [one if one is None or isinstance(one, str) else abs(one) for one in inputs]
        return self.compute(
            xp, absolute, {name: abs(one) for name, one in state.items()}, dims, outputs
        )

    def spread(
        self,
        xp: Any,
        expected: Mapping[str, Any],
        own: Mapping[str, Any],
        unit: float,
    ) -> dict[str, Any]:
        """Return |expected| plus its root mean square: no element is more exact than its tensor.

        `own` are the results in the call's own types: their root mean square error and their median
        relative error are added, in rounding units. Where a call grows what was rounded before, as
        an exponential does, it is that far off.
        """

        def size(one: Any) -> Any:
            return xp.sqrt(xp.mean(xp.square(xp.where(xp.isfinite(one), one, 0.0))))

        found = {}
        for name, one in expected.items():
            found[name] = abs(one) + size(one)
            if one.dtype.kind == "f":
                error = abs(own[name] - one)
                error = xp.where(xp.isfinite(error), error, 0.0)
                relative = xp.median(error / xp.maximum(abs(one), 1e-300))
                found[name] = found[name] + (size(error) + relative * abs(one)) / unit
        return found


class TorchModule(TorchCall):
    """The module of a problem of KernelBench."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._source = file.read_text(encoding="utf-8")
        self._built: OrderedDict[object, Any] = OrderedDict()

    def call(
        self,
        torch: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        *,
        double: bool = False,
    ) -> list[Any]:
        """Call the module on tensors, and return its outputs in order."""
        device = next((one.device for one in inputs if torch.is_tensor(one)), "cpu")
        module = self._module(torch, dims, str(device), double)
        own = dict(module.named_parameters()) | dict(module.named_buffers())
        # A module in training writes to its buffers: they are copies, and the same at each call.
        given = {name: one.clone() for name, one in module.named_buffers()}
        given |= {name: one.reshape(own[name].shape) for name, one in state.items()}
        with torch.no_grad():
            result = torch.func.functional_call(module, given, tuple(inputs))
        return list(result) if isinstance(result, tuple | list) else [result]

    def _module(self, torch: Any, dims: Mapping[str, int], device: str, double: bool) -> Any:
        key = (tuple(sorted(dims.items())), device, double)
        if key not in self._built:
            names = execute_with(self._source, self._file, dims)
            with torch.random.fork_rng(devices=[]), torch.device(device):
                torch.manual_seed(0)
                module = names["Model"](*names["get_init_inputs"]())
            self._built[key] = module.double() if double else module
        self._built.move_to_end(key)
        while len(self._built) > _KEPT:
            self._built.popitem(last=False)
        return self._built[key]


@contextmanager
def double_precision(torch: Any) -> Iterator[None]:
    """Have every tensor made of float64 that would be made without a type, or of float32 or a float
    of 16 bits: what a call rounds on its way is part of its error, not of its meaning.

    Floats of 8 bits stay, since a call that converts to them quantises.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    wider = dict.fromkeys((torch.float32, torch.float16, torch.bfloat16), torch.float64)
    wider[torch.complex64] = torch.complex128

    class _Widened(TorchDispatchMode):  # type: ignore[misc]  # untyped in PyTorch
        def __torch_dispatch__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            given = dict(kwargs or {})
            if "dtype" in given:
                given["dtype"] = wider.get(given["dtype"], given["dtype"])
            return function(*args, **given)

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with _Widened():
            yield
    finally:
        torch.set_default_dtype(before)


def _tensor(torch: Any, given: Any) -> Any:
    """Return an array as a tensor, float64 for float arrays; numbers are returned unchanged."""
    if not hasattr(given, "dtype"):
        return given
    tensor = torch.from_dlpack(given) if hasattr(given, "device") and not _is_host(given) else None
    if tensor is None:
        tensor = torch.from_numpy(given.copy())
    if tensor.is_complex():
        return tensor.cdouble()
    return tensor.double() if tensor.is_floating_point() else tensor.clone()


def _typed(torch: Any, given: Any, dtype: str) -> Any:
    """Return a tensor of floats in another type; everything else is returned unchanged."""
    is_float = torch.is_tensor(given) and given.is_floating_point()
    return given.to(getattr(torch, dtype)) if is_float else given


def _is_host(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "numpy"


def _array(xp: Any, tensor: Any) -> Any:
    tensor = tensor.detach().contiguous()
    if tensor.is_floating_point() and tensor.element_size() < 4:
        tensor = tensor.double()
    return tensor.numpy() if xp.__name__ == "numpy" else xp.from_dlpack(tensor)
