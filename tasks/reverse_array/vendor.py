"""torch.flip and a copy back: torch reverses into a second array only, so both passes count."""

from typing import Any

NAME = "torch.flip and copy_"


def call(torch: Any, *, data: Any) -> None:
    data.copy_(torch.flip(data, (0,)))
