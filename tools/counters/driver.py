"""A program of ours around a candidate: one call of `solve` for a tool to look at.

Inputs are drawn by the driver, from the range that the task's first distribution names. Its outputs
are nobody's verdict: correctness is judged elsewhere, with contents that no candidate can foresee.
"""

import math
from collections.abc import Mapping

from cuda_llm.tasks.distribution import parse_distribution
from cuda_llm.tasks.dtypes import CTYPES, is_float
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.shapes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole, Task, TaskArgument

_SPAN = {"int8": 7, "uint8": 8, "int16": 15, "uint16": 16, "bool": 1}
"""Bits of a whole number's range, where it is less than 31."""


def driver_source(task: Task, dims: Mapping[str, int]) -> str:
    """C++ of `main(argc, argv)`: arguments are a seed and how many calls come before the one."""
    setup, passed, names = [], [], []
    for index, argument in enumerate(task.arguments):
        ctype = CTYPES[argument.dtype]
        if argument.role == ArgumentRole.SCALAR:
            passed.append(f"static_cast<{ctype}>({scalar_value(argument, dims)!r})")
            continue
        name = f"buffer_{index}"
        names.append(name)
        count = math.prod(shape_of(argument, dims))
        setup.append(f"driver::Buffer {name}({count}ull * sizeof({ctype}));")
        if argument.role != ArgumentRole.OUT:
            low, high = _range(argument, dims)
            setup.append(f"{name}.hold<{ctype}>({low!r}, {high!r}, seed + {index});")
        passed.append(f"{name}.as<{ctype}>()")
    lines = [
        '#include "driver.h"',
        "",
        "int main(int argc, char** argv)",
        "{",
        "    const unsigned long long seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;",
        "    const int warm_ups = argc > 2 ? std::atoi(argv[2]) : 0;",
        *(f"    {line}" for line in setup),
        f"    return driver::drive({{{', '.join(f'&{name}' for name in names)}}}, warm_ups, [&] {{",
        f"        solve({', '.join(passed)});",
        "    });",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _range(argument: TaskArgument, dims: Mapping[str, int]) -> tuple[float, float]:
    """Half-open range of an input's contents."""
    if is_float(argument.dtype):
        return -1.0, 1.0
    drawn = parse_distribution(argument.distributions[0])
    match drawn.name:
        case "ints" | "sorted_ints":
            low, high = (float(evaluate(text, dims)) for text in drawn.arguments)
            return low, high
        case "bins":
            return 0.0, float(evaluate(drawn.arguments[0], dims))
        case _:
            return 0.0, float(1 << _SPAN.get(argument.dtype, 31))
