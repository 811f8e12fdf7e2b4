"""Records the ATen operators of a PyTorch call, with the bytes and operations of each."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_SUMMING = re.compile(r"sum|mean|norm|std|var|logsumexp|softmax|_loss|prod|cdist|avg_pool")
"""Pattern of names of operators that add up elements, or multiply them."""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A call of an ATen operator that reads and writes memory."""

    name: str
    bytes_moved: int
    """Bytes of the operator's tensors, each counted once."""
    flops: int
    """Floating-point operations of a contraction; 0 for other operators."""
    terms: int
    """Largest number of terms that are added for an element of the result."""
    dtype: str = ""
    """Element type of what is contracted, as PyTorch names it; empty for other operators."""


def record_operators(
    torch: Any, run: Callable[[], Any], highs: list[int] | None = None
) -> tuple[tuple[Operator, ...], Any]:
    """Run `run` and return the operators that it called, with its result.

    The exclusive upper limits of integers drawn at random are appended to `highs`.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    called: list[Operator] = []

    class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # untyped in PyTorch
        def __torch_dispatch__(
            self, function: Any, _types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if function.is_view:
                return result
            packet = function._overloadpacket
            if packet.__name__ == "randint" and highs is not None:
                highs.append(int(args["low" in function._overloadname]))
            count = flop_registry.get(packet)
            read = list(_tensors(torch, (args, kwargs)))
            written = list(_tensors(torch, result))
            flops = 0 if count is None else int(count(*args, **(kwargs or {}), out_val=result))
            axis = args[1] if len(args) > 1 and type(args[1]) is int else None
            called.append(_operator(packet.__name__, read, written, flops, axis))
            return result

    with _Recorder():
        results = run()
    return tuple(called), results


def _operator(
    name: str, read: list[Any], written: list[Any], flops: int, axis: int | None
) -> Operator:
    least = min((one.numel() for one in written if one.numel()), default=1)
    most = max((one.numel() for one in read), default=1)
    terms = 1
    if flops:
        terms = flops // (2 * max(1, written[0].numel()))
    elif _SUMMING.search(name):
        along = -1 if axis is None or not read or axis >= read[0].dim() else axis
        length = read[0].shape[along] if read and read[0].dim() else 1
        terms = length if least >= most else most // least
    dtype = str(read[0].dtype).removeprefix("torch.") if flops and read else ""
    distinct = {id(one): one for one in (*read, *written)}.values()
    return Operator(
        name=name.rstrip("_"),
        bytes_moved=sum(one.numel() * one.element_size() for one in distinct),
        flops=flops,
        terms=max(1, terms),
        dtype=dtype,
    )


def _tensors(torch: Any, value: Any) -> Iterable[Any]:
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(torch, one)
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(torch, one)
