"""PyTorch's tensors, devices and streams."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def look(name: str, tensor: Any) -> tuple[str, tuple[int, ...], bool, int, int]:
    """Dtype, shape, whether contiguous, address and device. Raises TypeError and ValueError."""
    if not hasattr(tensor, "data_ptr"):
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        raise TypeError(f"{name}: is a {kind}; expected a torch.Tensor")
    if not tensor.is_cuda:
        raise ValueError(f"{name}: lies on {tensor.device}; expected a CUDA device")
    if tensor.requires_grad:
        raise ValueError(f"{name}: requires grad, and the kernel has no backward: pass a detach()")
    dtype = str(tensor.dtype).removeprefix("torch.")
    contiguous = bool(tensor.is_contiguous())
    return dtype, tuple(tensor.shape), contiguous, tensor.data_ptr(), tensor.device.index


def empty(shape: tuple[int, ...], dtype: str, device: int) -> Any:
    """A new tensor. Raises ImportError where PyTorch is missing."""
    torch = need_torch()
    return torch.empty(shape, dtype=getattr(torch, dtype), device=f"cuda:{device}")


def target(device: int) -> str:
    """nvcc's name of the GPU's architecture."""
    major, minor = need_torch().cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


@contextmanager
def in_order(device: int) -> Iterator[None]:
    """Let the default stream, where `solve` works, wait for the current one, then the reverse."""
    cuda = need_torch().cuda
    with cuda.device(device):
        current, default = cuda.current_stream(), cuda.default_stream()
        if current != default:
            default.wait_stream(current)
        yield
        if current != default:
            current.wait_stream(default)


def as_operator(
    name: str,
    function: Callable[..., Any],
    *,
    inputs: Sequence[str],
    mutated: Sequence[str],
    dims: Sequence[str],
    outputs: Mapping[str, str],
    shapes: Callable[[Mapping[str, Sequence[int]], Mapping[str, int | None]], Mapping[str, Any]],
) -> Any:
    """`function` as an operator of torch.library, which torch.compile does not look into.

    `outputs` is dtype by name; `shapes` tells them from the shapes of the inputs and the dims.
    """
    torch = need_torch()
    tensors = [
        f"Tensor(a{index}!) {one}" if one in mutated else f"Tensor {one}"
        for index, one in enumerate(inputs)
    ]
    numbers = ["*", *(f"SymInt? {one}=None" for one in dims)] if dims else []
    results = ", ".join("Tensor" for _ in outputs)
    arrow = results if len(outputs) == 1 else f"({results})"
    operator = torch.library.custom_op(
        name,
        function,
        mutates_args=tuple(mutated),
        device_types="cuda",
        schema=f"({', '.join((*tensors, *numbers))}) -> {arrow}",
    )

    def fake(*given: Any, **sizes: int | None) -> Any:
        found = shapes(
            {one: tensor.shape for one, tensor in zip(inputs, given, strict=True)}, sizes
        )
        made = [
            torch.empty(found[one], dtype=getattr(torch, dtype), device=given[0].device)
            for one, dtype in outputs.items()
        ]
        if not made:
            return None
        return made[0] if len(made) == 1 else tuple(made)

    operator.register_fake(fake)
    return operator


def need_torch() -> Any:
    """PyTorch. Raises ImportError with the remedy."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ImportError("PyTorch is missing; install it: pip install torch") from None
