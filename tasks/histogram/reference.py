"""histogram[b] = number of values equal to b; values that have no bin are ignored."""

from typing import Any


def reference(xp: Any, *, input: Any, num_bins: int) -> dict[str, Any]:
    counted = input[(input >= 0) & (input < num_bins)]
    return {"histogram": xp.bincount(counted, minlength=num_bins)}
