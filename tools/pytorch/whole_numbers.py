"""Finds the values that a function's arguments of whole numbers may have, and those of floats with
infinities among them.

An index is found by trial: the function runs at small sizes with one value everywhere, and the
largest value that PyTorch does not refuse is one below the extent that is indexed. Whole numbers
that PyTorch accepts at any size are no index, and keep the range of the example.

Some values mean something of their own: -100 of a label to ignore, -inf or False of a place that is
masked. They are mixed among the others by inputs.py, never at the first place of a row, which would
else have nothing but such values.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

from cuda_llm.errors import TaskError
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.torch_module import TorchCall, import_torch
from cuda_llm.tools.pytorch.extents import Dims, Expressed
from cuda_llm.tools.pytorch.small_sizes import SmallSizes
from cuda_llm.tools.pytorch.subject import WholeNumbers
from cuda_llm.tools.pytorch.trace import ModuleTrace

_HIGHEST = 1 << 20
"""Index that no extent of a small size has."""
_LEAST = 5
"""Least extent at which indices are tried."""
_MOST_SPECIAL = 4
"""Values outside the indexed extent that an example may have, as -100 of labels to ignore."""


class Trialled(Protocol):
    """What is tried: a call and the arguments of its example, cut to any size."""

    steps: Mapping[str, int]

    @property
    def call(self) -> TorchCall: ...
    @property
    def arguments(self) -> Mapping[str, Any]: ...
    def trace_at(self, dims: Dims) -> ModuleTrace: ...
    def examples(self, dims: Dims) -> tuple[list[Any], dict[str, Any]]: ...


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values of an argument."""

    low: int = 0
    high: str = "1"
    """Exclusive limit: an expression in dims."""
    others: str = ""
    """What draws floats and truth values beside special ones: an expression of inputs.py with
    `size`; empty for whole numbers from low to high."""
    special: tuple[int | float | bool, ...] = ()
    """Further values, as -100 of labels to ignore."""
    share: float = 0.0
    """Share of the example's elements that have a special value."""
    is_index: bool = False


@dataclass(frozen=True, kw_only=True)
class Ranges:
    """The range of each argument of whole numbers, and of floats with infinities among them."""

    by_name: Mapping[str, Range]
    shapes: Mapping[str, tuple[str, ...]]

    def bound_at(self, name: str, dims: Dims) -> int | None:
        """Return the exclusive limit of an index at a size; None of other arguments."""
        found = self.by_name.get(name)
        return int(evaluate(found.high, dims)) if found is not None and found.is_index else None

    @property
    def shared(self) -> Mapping[str, str]:
        """Return dims that are the same as others: an index of both has to stay below both, and
        they are alike in the example."""
        pairs = (re.fullmatch(r"min\((\w+), (\w+)\)", one.high) for one in self.by_name.values())
        return {pair[2]: pair[1] for pair in pairs if pair}

    def drawn(self) -> WholeNumbers:
        """Return how the arguments are drawn."""
        special = {name: one for name, one in self.by_name.items() if one.special}
        plain = {
            name: (f"ints({one.low}, {one.high})",)
            for name, one in self.by_name.items()
            if name not in special
        }
        if not special:
            return WholeNumbers(distributions=plain)
        made = dict.fromkeys(special, ("inputs.as_example",))
        return WholeNumbers(distributions={**plain, **made}, makers=self._makers(special))

    def _makers(self, special: Mapping[str, Range]) -> str:
        """Return the text of an inputs.py that mixes special values among the others."""
        used = sorted(
            {
                name
                for argument, one in special.items()
                for text in (one.high, *self.shapes[argument])
                for name in _names_in(text)
            }
        )
        lines = [
            '"""Arguments among whose values some have a meaning of their own."""',
            "",
            "import numpy as np",
            "",
            "",
            f"def as_example(rng, *, {', '.join(used)}):",
            f'    """As the example: {", ".join(_values(special))} in places, first in no row."""',
            "    made = {}",
        ]
        for name, one in special.items():
            values = f"[{', '.join(_values({name: one}))}]"
            lines += [
                f"    size = [{', '.join(self.shapes[name])}]",
                f"    others = {one.others or f'rng.integers({one.low}, {one.high}, size=size)'}",
                f"    is_special = rng.random(size) < {one.share:.2g}",
                "    is_special[..., 0] = False",
                f'    made["{name}"] = np.where(is_special, rng.choice({values}, size), others)',
            ]
        return "\n".join([*lines, "    return made"]) + "\n"


def _values(special: Mapping[str, Range]) -> list[str]:
    """Return the special values as Python writes them."""
    values = [str(value) for one in special.values() for value in one.special]
    return [value.replace("inf", "np.inf") for value in dict.fromkeys(values)]


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def ranges_of(tried: Trialled, expressed: Expressed, sizes: SmallSizes) -> Ranges:
    """Find the range of each argument of whole numbers. Raises TaskError where there is none."""
    torch = import_torch()
    whole = _whole(torch, tried.arguments)
    places = distinct_sizes(tried, expressed, sizes) if whole else []
    found = {
        name: _float_range(one)
        for name, one in tried.arguments.items()
        if torch.is_tensor(one) and one.is_floating_point() and not one.double().isfinite().all()
    }
    for name, one in whole.items():
        if one.dtype is torch.bool:
            found[name] = _truth_range(tried, name, places[0])
            continue
        limits = [_limit(torch, tried, name, dims) for dims in places]
        found[name] = _range(name, one, limits, places, expressed)
    return Ranges(by_name=found, shapes=expressed.inputs)


def distinct_sizes(tried: Trialled, expressed: Expressed, sizes: SmallSizes) -> list[Dims]:
    """Return small sizes at which no two dims are alike, as far as the function accepts any."""
    names = list(expressed.dims)
    found = []
    for ordered in (names, names[::-1]):
        dims = {}
        for name, more in zip(ordered, range(0, 2 * len(names), 2), strict=True):
            step = tried.steps.get(name, 1)
            dims[name] = step * (-(-_LEAST // step) + more)
        placed = {name: dims[name] for name in names}
        try:
            tried.trace_at(placed)
        except TaskError:
            continue
        found.append(placed)
    known = sorted((*sizes.edge, *sizes.emulated), key=lambda dims: -len(set(dims.values())))
    return [*found, *known[: 3 - len(found)]]


def _range(
    name: str, example: Any, limits: Sequence[int | None], places: Sequence[Dims], of: Expressed
) -> Range:
    low, high = int(example.min()), int(example.max())
    if any(one is None for one in limits):
        return Range(low=low, high=str(high + 1))
    every = {str(one) for one in limits}
    least_of = (
        f"min({one}, {other})"
        for one, other in combinations(of.dims, 2)
        if of.dims[one] == of.dims[other]
    )
    extents = (extent for shape in of.inputs.values() for extent in shape)
    candidates = [*of.dims, *extents, *every, *least_of]
    for text in candidates:
        if all(evaluate(text, dims) == one for dims, one in zip(places, limits, strict=True)):
            break
    else:
        raise TaskError(
            f"{name} is an index, but below {', '.join(map(str, limits))} at "
            f"{', '.join(str(dict(dims)) for dims in places)}: no dim has these values"
        )
    outside = example[(example < 0) | (example >= evaluate(text, of.dims))]
    special = sorted(set(outside.flatten().tolist()))
    if len(special) > _MOST_SPECIAL:
        raise TaskError(
            f"{name} of the example has {len(special)} values outside of [0, {text}), which it "
            f"indexes; expected at most {_MOST_SPECIAL}"
        )
    share = outside.numel() / max(1, example.numel())
    return Range(low=0, high=text, special=tuple(special), share=share, is_index=True)


def _whole(torch: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: one
        for name, one in arguments.items()
        if torch.is_tensor(one) and not one.is_floating_point() and not one.is_complex()
    }


def _float_range(example: Any) -> Range:
    """Return how floats are drawn among which are infinities: the others as the example's."""
    finite = example[example.isfinite()].double()
    distinct = finite.unique().tolist()
    if len(distinct) <= _MOST_SPECIAL:
        others = f"rng.choice({distinct or [0.0]}, size)"
    else:
        others = f"rng.normal({float(finite.mean()):.2g}, {float(finite.std()):.2g}, size)"
    special = tuple(example[~example.isfinite()].double().unique().tolist())
    share = 1.0 - finite.numel() / example.numel()
    return Range(others=others, special=special, share=share)


def _truth_range(tried: Trialled, name: str, dims: Dims) -> Range:
    """Return how truth values are drawn: at random, unless a row of False gives no number."""
    given, state = tried.examples(dims)
    arguments = dict(zip(tried.arguments, given, strict=True))
    arguments[name] = arguments[name] & False
    found = _called(tried, arguments, state)
    floats = [one for one in found or () if one.is_floating_point()]
    if found is None or all(one.isfinite().all() for one in floats):
        return Range(high="2")
    is_false = 1.0 - float(tried.arguments[name].double().mean())
    return Range(others="np.ones(size, bool)", special=(False,), share=is_false)


def _called(
    tried: Trialled, arguments: Mapping[str, Any], state: Mapping[str, Any]
) -> list[Any] | None:
    """Return the results of a call; None where PyTorch refuses it."""
    try:
        return tried.call.call(import_torch(), [*arguments.values()], state, {})
    except Exception:
        return None


def runs_at(tried: Trialled, dims: Dims) -> bool:
    """Return whether the function computes at a size: more is checked than on `meta`."""
    torch = import_torch()
    given, state = tried.examples(dims)
    arguments = dict(zip(tried.arguments, given, strict=True))
    zeros = {name: torch.zeros_like(one) for name, one in _whole(torch, arguments).items()}
    return _called(tried, {**arguments, **zeros}, state) is not None


def _limit(torch: Any, tried: Trialled, name: str, dims: Dims) -> int | None:
    """Return the extent that an argument indexes at a size; None where it is no index."""
    given, state = tried.examples(dims)
    arguments = dict(zip(tried.arguments, given, strict=True))
    arguments |= {n: torch.zeros_like(one) for n, one in _whole(torch, arguments).items()}

    def accepts(value: int) -> bool:
        filled = torch.full_like(arguments[name], value)
        return _called(tried, {**arguments, name: filled}, state) is not None

    highest: int = min(_HIGHEST, torch.iinfo(arguments[name].dtype).max)
    if accepts(highest) or not accepts(0):
        return None
    low, high = 0, highest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if accepts(middle) else (low, middle)
    return high
