"""Valid cross-correlation, one term of the filter at a time."""

from typing import Any


def reference(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    rows = input.shape[0] - filter.shape[0] + 1
    columns = input.shape[1] - filter.shape[1] + 1
    output = xp.zeros((rows, columns))
    for r in range(filter.shape[0]):
        for s in range(filter.shape[1]):
            output += input[r : r + rows, s : s + columns] * filter[r, s]
    return {"output": output}


def scale(xp: Any, *, input: Any, filter: Any) -> dict[str, Any]:
    return reference(xp, input=xp.abs(input), filter=xp.abs(filter))
