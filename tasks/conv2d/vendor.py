"""torch.nn.functional.conv2d, which calls cuDNN where that has a kernel for the shape.

There is no form that writes into an array of the caller's: its result is copied.
"""

from typing import Any

NAME = "torch conv2d"


def call(torch: Any, *, input: Any, filter: Any, output: Any) -> None:
    """Write the valid cross-correlation of input with filter into output."""
    output.copy_(torch.nn.functional.conv2d(input[None, None], filter[None, None])[0, 0])
