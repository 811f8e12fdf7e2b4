"""What the right answer is, in float64 and exact integers. Delete this file to compare with
baseline.cu instead; verdicts then say `differential`.
"""

from typing import Any


def reference(xp: Any, *, x: Any) -> dict[str, Any]:
    """Every output by name. `xp` is NumPy or CuPy; name the inputs, scalars and dims you need."""
    return {"y": 2 * x}


# For sums and products: what an element's error is divided by, e.g. the sum of absolute values.
# def scale(xp: Any, *, x: Any) -> dict[str, Any]:
#     return {"y": xp.abs(2 * x)}
