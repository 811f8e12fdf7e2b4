"""Finds which extents of a call's arguments are one dim, by `torch.export` with symbolic sizes.

Every extent gets a symbol of its own. What the call's operators ask of their operands comes back as
equations between symbols, so that two extents are one dim where the call needs them to be equal,
and not where their numbers only happen to be.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuda_llm.errors import TaskError
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.pytorch.extents import Dims
from cuda_llm.tools.pytorch.trace import first_line

_SOURCE = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")


@dataclass(frozen=True, kw_only=True)
class SymbolicShapes:
    """Shapes of a call's tensors, as expressions in its dims."""

    dims: Dims
    """Value of each dim in the example, by name."""
    shapes: tuple[tuple[str, ...], ...]
    """For each tensor its extents, as a task spells expressions."""


def find_symbols(
    run: Callable[..., Any], tensors: Sequence[Any], names: Sequence[str]
) -> SymbolicShapes:
    """Return the shapes of `tensors`, the arguments of `run`, in dims named after `names`.

    Nothing is computed. Raises TaskError where a result's shape, or what is called, depends on the
    values of tensors, or where PyTorch cannot export the call.
    """
    torch = import_torch()
    guards, sources = _exported(torch, run, tensors)
    named = {symbol: f"{_plain(names[place])}_{axis}" for symbol, (place, axis) in sources.items()}
    symbols = {at: symbol for symbol, at in sources.items()}
    replaced = _solved(guards, sources)
    shapes, dims = [], {}
    for place, tensor in enumerate(tensors):
        extents = []
        for axis, value in enumerate(tensor.shape):
            symbol = symbols.get((place, axis))
            if symbol is None:
                extents.append(str(value))
                continue
            expression = replaced.get(symbol, symbol)
            for one in expression.free_symbols:
                where, at = sources[one]
                dims[named[one]] = int(tensors[where].shape[at])
            extents.append(_spelled(expression, named))
        shapes.append(tuple(extents))
    return SymbolicShapes(dims=dims, shapes=tuple(shapes))


def _exported(
    torch: Any, run: Callable[..., Any], tensors: Sequence[Any]
) -> tuple[list[Any], dict[Any, tuple[int, int]]]:
    """Return what must hold between symbols, and the tensor and the axis of each symbol."""
    from torch.export import Dim, export

    class _Called(torch.nn.Module):  # type: ignore[misc]  # untyped in PyTorch
        def forward(self, *tensors: Any) -> Any:
            return run(*tensors)

    free = tuple(dict.fromkeys(range(one.dim()), Dim.AUTO) for one in tensors)
    try:
        with torch.no_grad():
            program = export(
                _Called(), tuple(tensors), dynamic_shapes={"tensors": free}, strict=False
            )
    except Exception as error:
        raise TaskError(_reason(torch, run, tensors, error)) from error
    held = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    environment = next(one.fake_mode.shape_env for one in held if hasattr(one, "fake_mode"))
    results = [*program.graph.nodes][-1].args[0]
    for one in results:
        shape = getattr(getattr(one, "meta", {}).get("val"), "shape", ())
        if any(str(extent).startswith("u") or "u" in _symbols_of(extent) for extent in shape):
            raise TaskError("the shape of its result depends on the values of its arguments")
    found = {}
    for symbol, origins in environment.var_to_sources.items():
        # A method in older versions of PyTorch, a property in newer ones.
        origin = origins[0].name if origins else ""
        match = _SOURCE.fullmatch(origin() if callable(origin) else origin)
        if match:
            found[symbol] = (int(match[1]), int(match[2]))
    return [one.expr for one in environment.guards], found


def _symbols_of(extent: Any) -> str:
    """Return the first letters of an extent's symbols: `u` of those that depend on values."""
    node = getattr(extent, "node", None)
    return "" if node is None else "".join(str(one)[0] for one in node.expr.free_symbols)


def _solved(guards: Sequence[Any], sources: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the symbols that follow others, with what they are in terms of these."""
    replaced: dict[Any, Any] = {}
    for guard in guards:
        if not getattr(guard, "is_Equality", False):
            continue
        left, right = (side.xreplace(replaced) for side in guard.args)
        # Of two symbols the one of the later argument follows.
        pairs = sorted(
            ((left, right), (right, left)), key=lambda pair: sources.get(pair[0], (-1, -1))
        )
        for symbol, rest in reversed(pairs):
            own = rest.free_symbols
            if symbol in sources and own and symbol not in own and own <= set(sources):
                replaced = {one: what.xreplace({symbol: rest}) for one, what in replaced.items()}
                replaced[symbol] = rest
                break
    return replaced


def _spelled(expression: Any, named: Mapping[Any, str]) -> str:
    """Return an expression as a task spells it."""
    text = re.sub(r"\b(Max|Min)\b", lambda match: match[0].lower(), str(expression))
    own = {str(symbol): name for symbol, name in named.items()}
    return re.sub(r"\bs\d+\b", lambda match: own[match[0]], text)


def _plain(name: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in name)


def _reason(torch: Any, run: Callable[..., Any], tensors: Sequence[Any], error: Exception) -> str:
    """Return why a call cannot be exported: of shapes that do not fit, in numbers, not symbols."""
    text = str(error)
    if "data-dependent" in text or "DataDependent" in type(error).__name__:
        return (
            "what it computes depends on the values of its arguments beyond their shapes "
            "(`.item()`, `if tensor`, a shape made of values); a task needs fixed shapes"
        )
    try:
        with torch.no_grad():
            run(*(one.to("meta") for one in tensors))
    except Exception as plain:
        error = plain
    return f"{type(error).__name__}: {first_line(error)}"
