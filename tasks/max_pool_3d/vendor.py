"""torch.nn.functional.max_pool3d."""

from typing import Any

NAME = "torch.nn.functional.max_pool3d"


def call(
    torch: Any,
    *,
    input: Any,
    output: Any,
    kernel: int,
    stride: int,
    padding: int,
    dilation: int,
) -> None:
    """It takes no output of the caller's: the pooled volumes are copied, a tenth of the input."""
    output.copy_(torch.nn.functional.max_pool3d(input, kernel, stride, padding, dilation=dilation))
