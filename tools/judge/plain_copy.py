"""A plain copy by an elementwise kernel: beyond L2 it is faster than the driver's own copy."""

from typing import Any

NAME = "plain copy"


def call(torch: Any, *, A: Any, B: Any) -> None:
    """Write A to B, n x n float32 each, as a product with one."""
    torch.mul(A, 1.0, out=B)
