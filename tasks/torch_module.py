"""A PyTorch module as the oracle and the baseline of a task.

Its file defines `Model`, `get_inputs()` and `get_init_inputs()`, as a problem of KernelBench does.
Whole numbers that the file assigns at its top level may be dims of the task: the file is executed
with their values in their place.
"""

import ast
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
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
    try:
        tree = ast.parse(source, str(file))
    except SyntaxError as error:
        raise TaskError(f"{file}:{error.lineno}: {error.msg}") from None
    for statement in tree.body:
        for name, node, _ in _assigned_numbers(statement):
            if name in numbers:
                _replace(statement, node, ast.copy_location(ast.Constant(numbers[name]), node))
    names: dict[str, Any] = {"__name__": file.stem, "__file__": str(file)}
    try:
        exec(compile(tree, str(file), "exec"), names)
    except Exception as error:
        raise TaskError(f"{file}: {type(error).__name__}: {error}") from error
    for name in ("Model", "get_inputs", "get_init_inputs"):
        if not callable(names.get(name)):
            raise TaskError(f"{file}: has no {name}; expected a problem of KernelBench")
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


class TorchModule:
    """The PyTorch module of a file, at any of the task's sizes."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._source = file.read_text(encoding="utf-8")
        self._built: OrderedDict[object, Any] = OrderedDict()

    def compute(
        self,
        xp: Any,
        inputs: Sequence[Any],
        state: Mapping[str, Any],
        dims: Mapping[str, int],
        outputs: Sequence[str],
    ) -> dict[str, Any]:
        """Return the module's outputs by name, computed in float64 where it computes in floats.

        `inputs` are forward's arguments in order, `state` the parameters and buffers that are not
        the module's own; arrays of `xp`, NumPy or CuPy.
        """
        torch = import_torch()
        tensors = [_tensor(torch, one) for one in inputs]
        own = {name: _tensor(torch, one) for name, one in state.items()}
        with double_precision(torch):
            results = self.call(torch, tensors, own, dims, double=True)
        tensors.clear()
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
        """Return the sums of the absolute values of all terms, of a module linear in each."""
        absolute = [abs(one) for one in inputs]
        return self.compute(
            xp, absolute, {name: abs(one) for name, one in state.items()}, dims, outputs
        )

    def spread(self, xp: Any, expected: Mapping[str, Any]) -> dict[str, Any]:
        """Return |expected| plus its root mean square: no element is more exact than its tensor."""
        return {
            name: abs(one) + xp.sqrt(xp.mean(xp.square(xp.where(xp.isfinite(one), one, 0.0))))
            for name, one in expected.items()
        }

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
    """Have tensors that a module makes without a type made of float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
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


def _is_host(array: Any) -> bool:
    return type(array).__module__.partition(".")[0] == "numpy"


def _array(xp: Any, tensor: Any) -> Any:
    tensor = tensor.detach().contiguous()
    return tensor.numpy() if xp.__name__ == "numpy" else xp.from_dlpack(tensor)
