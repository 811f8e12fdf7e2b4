"""torch.dot."""

from typing import Any

NAME = "torch.dot"


def call(torch: Any, *, a: Any, b: Any, result: Any) -> None:
    torch.dot(a, b, out=result.view(()))
