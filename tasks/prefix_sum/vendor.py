"""torch.cumsum."""

from typing import Any

NAME = "torch.cumsum"


def call(torch: Any, *, input: Any, output: Any) -> None:
    torch.cumsum(input, 0, out=output)
