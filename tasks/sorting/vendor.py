"""torch.sort."""

from typing import Any

NAME = "torch.sort"


def call(torch: Any, *, data: Any) -> None:
    data.copy_(torch.sort(data).values)
