"""torch.nn.functional.scaled_dot_product_attention."""

from typing import Any

NAME = "torch.nn.functional.scaled_dot_product_attention"


def call(torch: Any, *, Q: Any, K: Any, V: Any, output: Any, h: int) -> None:
    """The heads are views of the matrices' columns. It takes no output: the result is copied."""
    q, k, v, to = (a.view(a.shape[0], h, -1).transpose(0, 1)[None] for a in (Q, K, V, output))
    to.copy_(torch.nn.functional.scaled_dot_product_attention(q, k, v))
