"""Makes tasks of calls of PyTorch: of problems of KernelBench, and of plain functions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cuda_llm.errors import TaskError, UsageError
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.new_task import write_task
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tools.pytorch.extents import Expressed, express
from cuda_llm.tools.pytorch.function import FunctionExample
from cuda_llm.tools.pytorch.kernelbench import KernelBenchProblem, plain_name, task_name
from cuda_llm.tools.pytorch.own_result import LINEAR, NONLINEAR, OwnResults, state_distribution
from cuda_llm.tools.pytorch.problem_folder import (
    ImportedProblem,
    SolveArgument,
    files_of,
    name_arguments,
)
from cuda_llm.tools.pytorch.small_sizes import SmallSizes, TooLarge, choose_sizes
from cuda_llm.tools.pytorch.split import find_split
from cuda_llm.tools.pytorch.subject import Subject
from cuda_llm.tools.pytorch.tolerance import ScaleRule, choose_judging
from cuda_llm.tools.pytorch.trace import Extents


@dataclass(frozen=True, kw_only=True)
class Imported:
    """Result of importing a problem: its task folder, or the reason why there is none."""

    problem: Path
    folder: Path | None
    reason: str = ""
    """Reason why no folder was made; empty where a folder was made."""


def import_problems(path: Path, out: Path) -> Iterator[Imported]:
    """Make a task folder in `out` of each problem of KernelBench: of a file, or of all in a folder.

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
            folder = write_task(task_name(file), out, files_of(read(KernelBenchProblem(file))))
            load_task(folder)
        except (TaskError, UsageError) as error:
            yield Imported(problem=file, folder=None, reason=str(error))
        else:
            yield Imported(problem=file, folder=folder)


def import_function(named: str, example: str, out: Path) -> Path:
    """Make a task folder in `out` of a function or module, and return the folder.

    `named` is `FILE.py:function`, `example` an expression of its arguments in the names of the file
    and of PyTorch. Both are executed. Raises TaskError where they make no task, UsageError where
    there is no such file, MissingError without PyTorch.
    """
    import_torch()
    path, separator, function = named.partition(".py:")
    file = Path(f"{path}.py")
    if not separator or not function.strip():
        raise UsageError(f"{named}: expected FILE.py:function, as in mine.py:swiglu")
    if not file.is_file():
        raise UsageError(f"{file}: not found; expected a Python file that defines {function}")
    try:
        problem = read(FunctionExample(file, function.strip(), example))
    except TaskError as error:
        raise TaskError(_with_place(str(error), named)) from None
    out.mkdir(parents=True, exist_ok=True)
    name = plain_name(re.sub(r"\(.*", "", function))
    name = f"my_{name}" if name in list_tasks() else name
    folder = write_task(name, out, files_of(problem))
    load_task(folder)
    return folder


def _with_place(text: str, named: str) -> str:
    file = f"{named.partition('.py:')[0]}.py"
    return text if text.startswith(file) else f"{named}: {text}"


def _number_first(file: Path) -> tuple[int, str]:
    match = re.match(r"\d+", file.name)
    return (int(match[0]) if match else 0, file.name)


def read(subject: Subject) -> ImportedProblem:
    """Find the contents of a task. Raises TaskError."""
    expressed, sizes = _find_sizes(subject)
    trace = subject.trace_at({})
    whole = subject.whole_numbers(expressed, sizes)
    judging = choose_judging(trace, expressed.terms)
    own = OwnResults(subject, sizes.emulated[0])
    own.require_function()
    plain = subject.runs_on_parts or judging.scale is ScaleRule.SPREAD
    wider = NONLINEAR if plain else LINEAR
    state = own.read_state()
    outputs = [f"out{place}" for place in range(len(trace.outputs))]
    wanted = [*trace.inputs, *state, *(["out"] if len(outputs) == 1 else outputs)]
    named = name_arguments(wanted, expressed.dims)

    def input_argument(place: int, name: str) -> SolveArgument:
        given = trace.inputs[name]
        if not isinstance(given, Extents):
            dtype = "float32" if isinstance(given, float) else "int32"
            return SolveArgument(
                name=named[name], source=name, dtype=dtype, shape=(), value=repr(given)
            )
        drawn = whole.distributions.get(name) or own.distributions(place, wider)
        return SolveArgument(
            name=named[name],
            source=name,
            dtype=given.dtype,
            shape=expressed.inputs[name],
            distributions=drawn,
            rank=len(given.shape),
        )

    return ImportedProblem(
        wording=subject.wording,
        source=subject.source,
        constructor=subject.constructor,
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
        accuracy=own.accuracy(),
        makers=whole.makers,
        split=find_split(subject, own, expressed, sizes.emulated[0]),
    )


def _find_sizes(subject: Subject) -> tuple[Expressed, SmallSizes]:
    """Find dims and small sizes; the module's own extents vary where nothing else is small."""
    numbers, steps, trace_at = subject.numbers, subject.steps, subject.trace_at
    expressed = express(numbers, trace_at, steps)
    try:
        if expressed.dims:
            return expressed, choose_sizes(expressed, trace_at, steps)
    except TooLarge:
        expressed = express(numbers, trace_at, steps, of_state=True)
        return expressed, choose_sizes(expressed, trace_at, steps)
    raise TaskError(
        "no whole number of the file can change alone and give an extent of forward's arguments"
    )
