"""torch.add."""

from typing import Any

NAME = "torch.add"


def call(torch: Any, *, A: Any, B: Any, C: Any) -> None:
    torch.add(A, B, out=C)
