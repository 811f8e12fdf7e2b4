"""torch.sigmoid."""

from typing import Any

NAME = "torch.sigmoid"


def call(torch: Any, *, x: Any, y: Any) -> None:
    torch.sigmoid(x, out=y)
