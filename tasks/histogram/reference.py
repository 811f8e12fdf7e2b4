"""histogram[b] = number of values equal to b; values that have no bin are ignored."""

from typing import Any

BATCHED = True


def reference(xp: Any, *, input: Any, num_bins: int) -> dict[str, Any]:
    # Each row of values counts into bins of its own, and one more for what has none.
    rows = input.reshape(-1, input.shape[-1])
    binned = xp.where((rows >= 0) & (rows < num_bins), rows, num_bins)
    binned += xp.arange(rows.shape[0])[:, None] * (num_bins + 1)
    counts = xp.bincount(binned.reshape(-1), minlength=rows.shape[0] * (num_bins + 1))
    kept = counts.reshape(-1, num_bins + 1)[:, :num_bins]
    return {"histogram": kept.reshape(*input.shape[:-1], num_bins)}
