"""Makes tasks of problems of KernelBench: PyTorch modules with `get_inputs`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cuda_llm.errors import TaskError, UsageError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import write_task
from cuda_llm.tasks.task import is_float
from cuda_llm.tasks.torch_module import import_torch, whole_numbers
from cuda_llm.tools.kernelbench.extents import Dims, Expressed, TraceAt, express
from cuda_llm.tools.kernelbench.own_result import (
    LINEAR,
    NONLINEAR,
    OwnResults,
    state_distribution,
)
from cuda_llm.tools.kernelbench.problem_folder import (
    ImportedProblem,
    SolveArgument,
    files_of,
    name_arguments,
)
from cuda_llm.tools.kernelbench.small_sizes import SmallSizes, TooLarge, choose_sizes
from cuda_llm.tools.kernelbench.tolerance import ScaleRule, choose_judging
from cuda_llm.tools.kernelbench.trace import Extents, ModuleTrace, trace_module

_PYTHON_WHOLE = 1 << 31


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Result of importing a problem: its task folder, or the reason why there is none."""

    problem: Path
    folder: Path | None
    reason: str = ""
    """Reason why no folder was made; empty where a folder was made."""


def import_problems(path: Path, out: Path) -> Iterator[Imported]:
    """Make a task folder in `out` of each problem: of a single file, or of all files in a folder.

    The problems are executed. Raises UsageError where there is no problem, MissingError without
    PyTorch.
    """
    import_torch()
    files = [path] if path.is_file() else sorted(path.glob("*.py"), key=_number_first)
    if not files:
        raise UsageError(f"{path}: no problem there; expected a .py file or a folder of them")
    out.mkdir(parents=True, exist_ok=True)
    for file in files:
        try:
            folder = write_task(task_name(file), out, files_of(read_problem(file)))
            load_task(folder)
        except (TaskError, UsageError) as error:
            yield Imported(problem=file, folder=None, reason=str(error))
        else:
            yield Imported(problem=file, folder=folder)


def task_name(file: Path) -> str:
    """Return the name of a problem's task: lower case, its number at the end."""
    match = re.fullmatch(r"(\d+)_(.*)", file.stem)
    name = f"{match[2]}_{match[1]}" if match else file.stem
    plain = re.sub(r"_+", "_", re.sub(r"[^a-z0-9]", "_", name.lower())).strip("_")
    return plain if plain[:1].isalpha() else f"problem_{plain}"


def _number_first(file: Path) -> tuple[int, str]:
    match = re.match(r"\d+", file.name)
    return (int(match[0]) if match else 0, file.name)


def read_problem(file: Path) -> ImportedProblem:
    """Execute a problem and find the contents of its task. Raises TaskError."""
    try:
        source = file.read_text(encoding="utf-8")
        numbers = whole_numbers(source)
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise TaskError(f"{file}: cannot be read: {error}") from None

    @cache
    def traced(dims: tuple[tuple[str, int], ...]) -> ModuleTrace:
        return trace_module(source, file, dict(dims))

    def trace_at(dims: Dims) -> ModuleTrace:
        return traced(tuple(dims.items()))

    expressed, sizes = _find_sizes(numbers, trace_at)
    trace = trace_at({})
    judging = choose_judging(trace, expressed.terms)
    own = OwnResults(source, file, sizes.emulated[0], trace)
    own.require_function()
    wider = NONLINEAR if judging.scale is ScaleRule.SPREAD else LINEAR
    state = own.read_state()
    outputs = [f"out{place}" for place in range(len(trace.outputs))]
    wanted = [*trace.inputs, *state, *(["out"] if len(outputs) == 1 else outputs)]
    named = name_arguments(wanted, expressed.dims)
    highs = iter(expressed.highs)

    def input_argument(place: int, name: str) -> SolveArgument:
        given = trace.inputs[name]
        if not isinstance(given, Extents):
            dtype = "float32" if isinstance(given, float) else "int32"
            return SolveArgument(
                name=named[name], source=name, dtype=dtype, shape=(), value=repr(given)
            )
        drawn = own.distributions(place, wider) if is_float(given.dtype) else _whole(given, highs)
        return SolveArgument(
            name=named[name],
            source=name,
            dtype=given.dtype,
            shape=expressed.inputs[name],
            distributions=drawn,
        )

    return ImportedProblem(
        title=file.stem.replace("_", " ").strip(),
        source=source,
        trace=trace,
        expressed=expressed,
        sizes=sizes,
        inputs=tuple(input_argument(*pair) for pair in enumerate(trace.inputs)),
        state=tuple(
            SolveArgument(
                name=named[name],
                source=name,
                dtype=trace.state[name].dtype,
                shape=expressed.state[name],
                distributions=(state_distribution(own.state[name]),),
            )
            for name in state
        ),
        outputs=tuple(
            SolveArgument(name=named[name], source="", dtype=one.dtype, shape=shape)
            for name, one, shape in zip(
                wanted[-len(outputs) :], trace.outputs, expressed.outputs, strict=True
            )
        ),
        judging=judging,
    )


def _find_sizes(numbers: Dims, trace_at: TraceAt) -> tuple[Expressed, SmallSizes]:
    """Find dims and small sizes; the module's own extents vary where nothing else is small."""
    expressed = express(numbers, trace_at)
    try:
        if expressed.dims:
            return expressed, choose_sizes(expressed, trace_at)
    except TooLarge:
        expressed = express(numbers, trace_at, of_state=True)
        return expressed, choose_sizes(expressed, trace_at)
    raise TaskError(
        "no whole number of the file can change alone and give an extent of forward's arguments"
    )


def _whole(given: Extents, highs: Iterator[str]) -> tuple[str, ...]:
    if given.dtype == "bool":
        next(highs, None)
        return ("ints(0, 2)",)
    return (f"ints(0, {next(highs, _PYTHON_WHOLE)})",)
