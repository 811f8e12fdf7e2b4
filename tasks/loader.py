"""Reads a task from its folder, and checks it down to every size."""

import difflib
import os
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from cuda_llm.data_file import Place, UnfitError, read_as, read_table
from cuda_llm.errors import TaskError
from cuda_llm.tasks.distribution import FAMILIES, maker_of, parse_distribution
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.expressions import evaluate, names_in
from cuda_llm.tasks.signature import host_context
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import (
    CTYPES,
    ArgumentRole,
    DimRange,
    HiddenSizes,
    Task,
    TaskArgument,
    is_float,
)

TASK_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""Name that a task's folder has; anything else on a command line is a path."""

LIBRARY_FILES = ("vendor.py", "vendor.cu")

_FIELDS: Mapping[ArgumentRole, tuple[str, ...]] = {
    ArgumentRole.SCALAR: ("value",),
    ArgumentRole.IN: ("shape", "distributions", "probe"),
    ArgumentRole.INOUT: ("shape", "distributions", "probe"),
    ArgumentRole.OUT: ("shape", "initial"),
    ArgumentRole.WORKSPACE: ("shape",),
    ArgumentRole.STREAM: (),
}
"""Keys that an argument of a role may have beside name, role and dtype."""

_SHIPPED = Path(__file__).resolve().parent


def read_task(folder: Path) -> Task:
    """Read and check a task folder. Raises TaskError."""
    file = folder / "task.toml"
    table = read_table(file, TaskError)
    host = _optional(folder / "host.cu")
    files: dict[str, Any] = {
        "name": folder.name,
        "folder": folder,
        "description": _text_of(folder / "description.md"),
        "baseline": _baseline_of(folder),
        "host": _text_of(host) if host else "",
        "reference": _optional(folder / "reference.py"),
        "inputs": _optional(folder / "inputs.py"),
        "playbook": _optional(folder / "playbook.cu"),
        "libraries": tuple(filter(Path.is_file, (folder / name for name in LIBRARY_FILES))),
    }
    try:
        task = _with_whole_vectors(_with_values(read_as(Task, table, files)))
        _check(task)
    except UnfitError as unfit:
        raise TaskError(f"{file}: {_of_argument(unfit, table)}{unfit}") from None
    if task.sizes.hidden == HiddenSizes(dims={}):
        task = replace(task, sizes=replace(task.sizes, hidden=_span(task)))
    return task if task.host else replace(task, host=host_context(task))


def _of_argument(unfit: UnfitError, table: Mapping[str, Any]) -> str:
    """Return the name of the argument that does not fit, for its number says little."""
    match unfit.place:
        case ["arguments", int(index), *_]:
            given = table["arguments"][index]
            name = given.get("name") if isinstance(given, Mapping) else ""
            return f"argument {name}: " if name else ""
    return ""


def _with_values(task: Task) -> Task:
    """Give scalars that are named after a dim, and have no value of their own, the dim's value."""
    arguments = tuple(
        replace(argument, value=argument.value or argument.name)
        if argument.role == ArgumentRole.SCALAR and argument.name in task.dims
        else argument
        for argument in task.arguments
    )
    return replace(task, arguments=arguments)


def _with_whole_vectors(task: Task) -> Task:
    """Add to the conditions of a task that its vectors are whole: the sizes have to meet them."""
    conditions = [task.requires] if task.requires else []
    for argument in task.arguments:
        lanes, extents = argument.declared.lanes, argument.shape
        if lanes == 1 or any(text.isdigit() and int(text) % lanes == 0 for text in extents):
            continue
        length = " * ".join(text if text.isidentifier() else f"({text})" for text in extents)
        whole = f"({length}) % {lanes} == 0" if len(extents) > 1 else f"{length} % {lanes} == 0"
        if whole not in conditions and not _always_holds(whole, task.dims):
            conditions.append(whole)
    if len(conditions) == 1:
        return replace(task, requires=conditions[0])
    return replace(task, requires=" and ".join(f"({one})" for one in conditions))


def _always_holds(condition: str, dims: Collection[str]) -> bool:
    """Return whether a condition on remainders holds for extents of every remainder up to 12."""
    names = names_in(condition) & set(dims)
    extents = product(range(1, 13), repeat=len(names)) if len(names) <= 3 else ()
    found = [evaluate(condition, dict(zip(sorted(names), one, strict=True))) for one in extents]
    return bool(found) and all(found)


def _span(task: Task) -> HiddenSizes:
    """Make ranges that span the known sizes and cost no more than the dearest of them."""
    known = (*task.sizes.edge, *task.sizes.emulated)
    cost = f"({task.roofline.flops}) + ({task.roofline.bytes})"
    ranges = {}
    for name in task.dims:
        extents = [size[name] for size in known]
        ranges[name] = DimRange(minimum=min(extents), maximum=max(extents))
    dearest = max(float(evaluate(cost, size)) for size in known)
    return HiddenSizes(dims=ranges, cost=cost, max_cost=dearest)


def _check(task: Task) -> None:
    """Check what concerns several fields. Raises UnfitError."""
    names = [argument.name for argument in task.arguments]
    for index, argument in enumerate(task.arguments):
        place = ("arguments", index)
        _check_argument(argument, task.dims, place)
        if argument.name in names[:index]:
            raise UnfitError(f"{argument.name} twice", "a name of its own", *place, "name")
        if argument.name in task.dims and argument.value != argument.name:
            found = f"{argument.name}, which is a dim"
            raise UnfitError(found, "a name no dim has", *place, "name")
    _check_made(task)
    if not any(argument.is_output for argument in task.arguments):
        raise UnfitError("no output", "an argument with role out or inout", "arguments")
    for group in ("bench", "edge", "emulated", "large"):
        sizes = getattr(task.sizes, group)
        if not sizes and group != "large":
            raise UnfitError("none", "an array of tables", "sizes", group)
        for index, size in enumerate(sizes):
            _check_size(task, size, ("sizes", group, index))
    _check_hidden(task)
    if task.weights and len(task.weights) != len(task.sizes.bench):
        expected = f"{len(task.sizes.bench)}, one a bench size"
        raise UnfitError(f"{len(task.weights)} numbers", expected, "weights")
    if task.comparator and task.reference is None:
        raise UnfitError(task.comparator, "a reference.py that defines it", "comparator")


def _check_made(task: Task) -> None:
    """Check that inputs.py exists where it is named, and makes all of its arguments in each case:
    arrays that depend on each other come from one call."""
    first: tuple[str, ...] = ()
    for index, argument in enumerate(task.arguments):
        place = ("arguments", index, "distributions")
        made = tuple(filter(maker_of, argument.distributions))
        if not made:
            continue
        if task.inputs is None:
            raise UnfitError(made[0], f"an inputs.py beside task.toml for {made[0]}", *place)
        first = first or made
        if argument.distributions != first:
            expected = f"{[*first]}, as for every argument that inputs.py makes"
            raise UnfitError([*argument.distributions], expected, *place)


def _check_argument(argument: TaskArgument, dims: Mapping[str, str], place: Place) -> None:
    allowed = _FIELDS[argument.role]
    declared = argument.declared
    if argument.dtype and declared.element not in ("", argument.dtype):
        found = f"{declared.ctype} for elements of {argument.dtype}"
        raise UnfitError(found, f"a C++ type of {argument.dtype}, or void", *place, "ctype")
    if argument.role == ArgumentRole.SCALAR and element_type(argument.dtype).is_complex:
        expected = "two numbers, its parts, as arguments of their own"
        raise UnfitError(f"a {argument.dtype} by value", expected, *place, "dtype")
    single = declared.lanes == 1 and declared.element
    if argument.role == ArgumentRole.SCALAR and argument.dtype and not single:
        raise UnfitError(declared.ctype, "a type of single numbers by value", *place, "ctype")
    for key in ("shape", "initial", "value", "distributions", "probe"):
        given = getattr(argument, key)
        if given and key not in allowed:
            raise UnfitError(given, f"no {key} where the role is {argument.role}", *place, key)
    if bool(argument.dtype) == (argument.role == ArgumentRole.STREAM):
        needed = f"one of {', '.join(CTYPES)}" if not argument.dtype else "no dtype for a stream"
        raise UnfitError(argument.dtype or "nothing", needed, *place, "dtype")
    if "value" in allowed and not argument.value:
        raise UnfitError("nothing", "an expression in dims", *place, "value")
    if "shape" in allowed and not argument.shape:
        raise UnfitError([], "an array of expressions in dims", *place, "shape")
    if "distributions" in allowed and not argument.distributions:
        expected = "at least one, the first being used for timing"
        raise UnfitError("none", expected, *place, "distributions")
    for index, text in enumerate(argument.distributions):
        _check_distribution(text, argument.dtype, dims, (*place, "distributions", index))
    if argument.probe:
        _check_distribution(argument.probe, argument.dtype, dims, (*place, "probe"))


def _check_distribution(text: str, dtype: str, dims: Mapping[str, str], place: Place) -> None:
    try:
        distribution = parse_distribution(text)
        unknown = frozenset().union(*map(names_in, distribution.arguments)) - set(dims)
    except TaskError as error:
        raise UnfitError(text, f"a distribution ({error})", *place) from None
    if unknown:
        found = f"unknown {', '.join(sorted(unknown))}"
        raise UnfitError(found, f"only {', '.join(dims)}", *place)
    if maker_of(distribution.name):
        return
    family = FAMILIES[distribution.name]
    if not (family.floats if is_float(dtype) else family.integers):
        found = f"{distribution.name} for {dtype}"
        raise UnfitError(found, f"a distribution of {dtype} values", *place)


def _check_size(task: Task, size: Mapping[str, int], place: Place) -> None:
    """Check that a size has every dim, meets `requires`, and gives every argument an extent."""
    _check_dims(size, task, "a whole number of at least 1", place)
    if task.requires and not evaluate(task.requires, size):
        raise UnfitError(size, task.requires, *place)
    for argument in task.arguments:
        try:
            if argument.role == ArgumentRole.SCALAR:
                scalar_value(argument, size)
            elif argument.is_buffer:
                shape_of(argument, size)
            if argument.initial:
                evaluate(argument.initial, size)
            for text in argument.distributions:
                for value in parse_distribution(text).arguments:
                    evaluate(value, size)
        except TaskError as error:
            raise UnfitError(str(error), "a size that fits all", *place) from None


def _check_hidden(task: Task) -> None:
    hidden = task.sizes.hidden
    if hidden == HiddenSizes(dims={}):
        return
    _check_dims(hidden.dims, task, "a table", ("sizes", "hidden", "dims"))
    for name, limits in hidden.dims.items():
        place = ("sizes", "hidden", "dims", name, "max")
        least, step = limits.minimum, limits.multiple_of
        if limits.maximum < least:
            raise UnfitError(limits.maximum, f"a whole number of at least {least}", *place)
        if limits.maximum // step * step < least:
            expected = f"room for a multiple of {step} from {least} on"
            raise UnfitError(limits.maximum, expected, *place)


def _check_dims(given: Collection[str], task: Task, expected: str, place: Place) -> None:
    for name in task.dims:
        if name not in given:
            raise UnfitError("nothing", expected, *place, name)
    for name in given:
        if name not in task.dims:
            raise UnfitError("an unknown key", f"one of {', '.join(task.dims)}", *place, name)


def _baseline_of(folder: Path) -> Path:
    """Return baseline.cu, or the call of PyTorch that takes its place."""
    return _optional(folder / "baseline.py") or _required(folder / "baseline.cu")


def _required(path: Path) -> Path:
    if not path.is_file():
        raise TaskError(f"{path}: not found; expected a file")
    return path


def _optional(path: Path) -> Path | None:
    return path if path.is_file() else None


def _text_of(path: Path) -> str:
    try:
        text = _required(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path}: cannot be read as text: {error}") from None
    if not text.strip():
        raise TaskError(f"{path}: is empty; expected some text")
    return text


def list_tasks() -> tuple[str, ...]:
    """Return the names of the tasks that ship, sorted."""
    return tuple(sorted(file.parent.name for file in _SHIPPED.glob("[a-z]*/task.toml")))


def load_task(name_or_path: str | Path) -> Task:
    """Read a shipped task by name, or any task folder by path.

    Raises TaskError in a line that names the file, the key, the value found and the value expected.
    """
    return read_task(_find(name_or_path))


def spell_task(task: Task) -> str:
    """Return what commands find the task by from any folder, quoted for a shell."""
    is_shipped = task.folder == _SHIPPED / task.name
    return task.name if is_shipped else shlex.quote(str(task.folder))


def find_task(name_or_path: str | Path) -> Path | None:
    """Return the folder of a shipped task by name, or of any task by path; None where none is."""
    if isinstance(name_or_path, str) and name_or_path in list_tasks():
        return _SHIPPED / name_or_path
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.name == "task.toml" and path.is_file():
        return path.resolve().parent
    return None


def _find(name_or_path: str | Path) -> Path:
    found, names = find_task(name_or_path), list_tasks()
    if found is not None:
        return found
    if isinstance(name_or_path, Path) or os.sep in name_or_path:
        raise TaskError(f"{name_or_path}: no such folder; expected the folder of a task.toml")
    close = difflib.get_close_matches(str(name_or_path), names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
    raise TaskError(f"{name_or_path}: no such task or folder; {hint}")
