"""torch.sum."""

from typing import Any

NAME = "torch.sum"


def call(torch: Any, *, input: Any, output: Any) -> None:
    """Write the sum of input into output."""
    torch.sum(input, 0, keepdim=True, out=output)
