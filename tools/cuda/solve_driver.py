"""Builds the command of a trusted program that calls `solve` once under a profiler or sanitizer.

The driver draws inputs from the range of the task's first distribution, and reads those that the
task's inputs.py makes from files. Outputs are not compared: correctness is judged elsewhere, with
contents that no candidate can foresee.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuda_llm.errors import MissingError
from cuda_llm.tasks.distribution import maker_in, parse_distribution
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.made_inputs import make_inputs
from cuda_llm.tasks.sizes import item_bytes, scalar_value, shape_of
from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, TaskArgument, is_float
from cuda_llm.tools.compiler.nvcc import Toolkit
from cuda_llm.tools.device import Scalar
from cuda_llm.tools.device.arguments import integer_bits
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.native import build
from cuda_llm.tools.sandbox.jail import SYSTEM

_NATIVE = Path(__file__).parent / "native" / "driver"
_TOOLS = Path(__file__).parent.parent
_CALL = _TOOLS / "device" / "native"
_SANDBOX = _TOOLS / "sandbox" / "native"
FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror")

_SPAN_BITS = {"int8": 7, "uint8": 8, "int16": 15, "uint16": 16, "bool": 1}
"""Bits of the range of random integers, for types narrower than 31 bits."""


def driver_program() -> Path:
    """Return the path of the driver, built at first use. Raises MissingError without g++."""
    confining = [_SANDBOX / part for part in ("landlock.c", "limits.c")]
    sources = [*sorted(_NATIVE.glob("*.cpp")), _CALL / "call.cpp", *confining]
    includes = [f"-I{folder}" for folder in (_NATIVE, _CALL, _SANDBOX)]
    return build("driver", sources, [*FLAGS, *includes, "-ldl"], [_NATIVE, _CALL, _SANDBOX])


def runtime_library(toolkit: Toolkit) -> Path:
    """Return the real CUDA runtime, which a candidate is bound to here. Raises MissingError."""
    for folder in ("lib64", "lib"):
        for path in sorted((toolkit.root / folder).glob("libcudart.so.*")):
            return path.resolve()
    raise MissingError(
        f"libcudart is missing beside nvcc {toolkit.version}",
        "install the CUDA runtime: pip install 'cuda-llm[toolkit]'",
    )


def driver_command(
    toolkit: Toolkit,
    task: Task,
    compiled: Compiled,
    dims: Mapping[str, int],
    folder: Path,
    *,
    seed: int,
    confined: bool,
    warm_ups: int = 0,
) -> list[str]:
    """Return the command that calls `solve` at one size: `warm_ups` unprofiled calls, then one
    profiled call.

    What inputs.py makes is written into `folder`, which the command has to find. `confined` keeps
    files from the program; leave it out for trusted kernels alone. Raises MissingError where the
    toolkit lacks a runtime, TaskError on dims that fit no shape and where inputs.py fails.
    """
    made = _write_made(task, dims, seed, folder)
    arguments = [
        made.get(argument.name) or argument_word(argument, dims) for argument in task.arguments
    ]
    return program_words(
        toolkit, compiled.library, arguments, seed=seed, warm_ups=warm_ups, confined=confined
    )


def program_words(
    toolkit: Toolkit,
    library: Path,
    arguments: Sequence[str],
    *,
    seed: int,
    warm_ups: int,
    confined: bool,
) -> list[str]:
    """Return the command for any library with a `solve`, arguments as `argument_word` writes."""
    return [
        str(driver_program()),
        *(view_words(toolkit, library) if confined else ["--"]),
        str(runtime_library(toolkit)),
        str(library),
        str(seed),
        str(warm_ups),
        *arguments,
    ]


def view_words(toolkit: Toolkit, library: Path) -> list[str]:
    """Return the options for what the driver may open with the candidate, besides $TMPDIR.

    The tools' own parts in it read theirs, which lie with the system or the toolkit.
    """
    readable = [*map(Path, (*SYSTEM, "/proc", "/sys", "/opt/nvidia")), toolkit.root, library]
    devices = [path for path in sorted(Path("/dev").glob("nvidia*")) if path.is_char_device()]
    words = [("--ro", path) for path in readable] + [("--dev", path) for path in devices]
    words.append(("--rw", Path("/dev/null")))
    options = dict.fromkeys((option, str(path)) for option, path in words if path.exists())
    return [*(word for pair in options for word in pair), "--"]


def _write_made(task: Task, dims: Mapping[str, int], seed: int, folder: Path) -> Mapping[str, str]:
    """Write the timed inputs that inputs.py makes; return the word of each, by argument."""
    function = maker_in(one.distributions[0] for one in task.arguments if one.distributions)
    if not function:
        return {}
    words = {}
    for name, values in make_inputs(task, function, seed, dims).items():
        file = folder / f"{name}-{seed}.bin"
        file.write_bytes(values.tobytes())
        words[name] = f"file:{file}"
    return words


def argument_word(argument: TaskArgument, dims: Mapping[str, int]) -> str:
    """Return one argument as a word that `native/driver.cpp` reads."""
    if argument.role == ArgumentRole.SCALAR:
        value = scalar_value(argument, dims)
        if element_type(argument.dtype).is_short:
            return f"int:{integer_bits(Scalar(value=value, ctype=CTYPES[argument.dtype]))}"
        if not is_float(argument.dtype):
            return f"int:{value}"
        return f"{'double' if argument.dtype == 'float64' else 'float'}:{value!r}"
    if argument.role == ArgumentRole.STREAM:
        return "int:0"
    count = math.prod(shape_of(argument, dims))
    if argument.role in (ArgumentRole.OUT, ArgumentRole.WORKSPACE):
        return f"out:{count * item_bytes(argument.dtype)}"
    low, high = _range(argument, dims)
    return f"in:{argument.dtype}:{count}:{low!r}:{high!r}"


def _range(argument: TaskArgument, dims: Mapping[str, int]) -> tuple[float, float]:
    """Return the half-open range of an input's contents."""
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
            return 0.0, float(1 << _SPAN_BITS.get(argument.dtype, 31))
