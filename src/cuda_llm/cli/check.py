"""`cuda-llm check`: the faults of a kernel on the emulated device, without reference or times."""

import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_llm.cli.completion import TaskName
from cuda_llm.cli.evaluate import SizeOption
from cuda_llm.errors import UsageError, nearest
from cuda_llm.own_thread import await_here
from cuda_llm.source_kinds import require_solve

if TYPE_CHECKING:
    from cuda_llm.outcomes import Verdict
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device.buffers import Array
    from cuda_llm.tools.judge.sanitize import Remark, Sanitized

CHECK_SCHEMA = 1
FAULTS_FOUND = 1
SCRATCH_BYTES = 1 << 30
LABEL = 16
"""Width of the left column."""


def check(
    file: Annotated[Path, typer.Argument(help="CUDA source file; - is stdin.")],
    task: Annotated[
        TaskName | None,
        typer.Option("--task", help="Task, or its folder, whose arguments solve() takes."),
    ] = None,
    launch: Annotated[
        str,
        typer.Option(
            metavar="STATEMENT",
            help="How the kernel is launched: '<<<(n + 255) / 256, 256>>>', or a whole statement.",
        ),
    ] = "",
    entry: Annotated[
        str | None, typer.Option(help="Kernel or host function, if the file has several.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=EXTENT,...",
            help="Extents of a pointer, in integer parameters: x=rows,cols. Repeatable.",
        ),
    ] = None,
    size: SizeOption = None,
    inputs: Annotated[
        Path | None,
        typer.Option(metavar="FILE.npz", help="Arrays and numbers by parameter; others are drawn."),
    ] = None,
    device: Annotated[
        str, typer.Option(help="emulated, or emulated:GPU, as in emulated:H200.")
    ] = "emulated",
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Report races, bounds, unset values and barriers of any kernel; no reference, no GPU.

    The kernel is executed on the emulated device at small sizes, and is not timed.
    """
    from cuda_llm.cli.evaluate import read_sources
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.cli.progress import open_progress
    from cuda_llm.redaction import printable
    from cuda_llm.tools.judge.sanitize import Sanitized, sanitize
    from cuda_llm.tools.open_device import open_device

    if device.partition(":")[0] != "emulated":
        raise UsageError(f"--device {device}: expected emulated, or emulated:GPU, which watches")
    ((name, source),) = read_sources([file])
    given = read_inputs(inputs)
    with tempfile.TemporaryDirectory(prefix="cuda-llm-check-") as folder:
        checked = prepare(
            source, name, Path(folder), task=task, launch=launch, entry=entry, shapes=shape or (),
            sizes=size or (), given=given,
        )  # fmt: skip
        chosen = open_device(device)
        with open_progress([name]) as progress:
            progress.prepare(chosen.prepare)
            found = await_here(
                sanitize(
                    checked.task,
                    chosen,
                    checked.source,
                    name,
                    sizes=checked.sizes,
                    inputs=checked.inputs,
                )
            )
    if as_json:
        print_document(json_text(check_document(name, chosen.name, checked.task, found)))
    else:
        typer.echo(printable(f"{name} · {chosen.name} (every access watched; no reference)"))
        for label, text in report(found):
            typer.echo(printable(f"  {label:<{LABEL}} {text}".rstrip()))
    return 0 if isinstance(found, Sanitized) and not found.faults else FAULTS_FOUND


@dataclass(frozen=True, kw_only=True)
class ToCheck:
    """A kernel as the emulated device calls it."""

    task: "Task"
    source: str
    sizes: tuple[Mapping[str, int], ...] = ()
    """Sizes that the user gave; empty for those of the task."""
    inputs: "Mapping[str, Array]"


def prepare(
    source: str,
    name: str,
    folder: Path,
    *,
    task: str | None,
    launch: str,
    entry: str | None,
    shapes: Sequence[str],
    sizes: Sequence[str],
    given: "Mapping[str, Array]",
) -> ToCheck:
    """Return the kernel with its arguments: of a task, or of its own signature, drafted in
    `folder`. Raises UsageError where options contradict the source or each other."""
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tasks.new_task import draft, write_task
    from cuda_llm.tasks.own_sizes import with_sizes

    if task is not None:
        for option, value in {"--launch": launch, "--entry": entry, "--shape": shapes}.items():
            if value:
                raise UsageError(f"{option} beside --task: a task says how its solve() is called")
        require_solve(source, name)
        loaded, text = load_task(task), source
    else:
        named, statement = read_launch(launch, entry, source, name)
        read = {one.partition("=")[0].strip(): read_shape(one) for one in shapes}
        extents = {key: tuple(map(str, one.shape)) for key, one in given.items() if one.ndim}
        files = draft("checked", source, named, name, launch=statement, shapes={**extents, **read})
        loaded, text = load_task(write_task("checked", folder, files)), files["baseline.cu"]
        capabilities = replace(
            loaded.capabilities, scratch_bytes=str(SCRATCH_BYTES), device_to_host=True
        )
        loaded = replace(loaded, capabilities=capabilities)
    known = [argument.name for argument in loaded.arguments]
    for unknown in given.keys() - known - set(loaded.dims):
        raise UsageError(f"--inputs: the kernel has no {unknown}; {nearest(unknown, known)}")
    numbers = {key: one for key, one in given.items() if not one.ndim}
    if numbers and not sizes:
        sizes = [",".join(f"{key}={int(one)}" for key, one in numbers.items())]
    own = with_sizes(loaded, sizes).sizes.bench if sizes else ()
    arrays = fit_inputs(loaded, own, {key: one for key, one in given.items() if one.ndim})
    return ToCheck(task=loaded, source=text, sizes=own, inputs=arrays)


def read_launch(launch: str, entry: str | None, source: str, name: str) -> tuple[str, str]:
    """Return the kernel that a launch names, and the whole statement; an empty statement where the
    launch is to be guessed. Raises UsageError."""
    from cuda_llm.tasks.cuda_source import read_cuda
    from cuda_llm.tasks.entry_point import read_entry
    from cuda_llm.tasks.new_task import choose_entry

    if not launch:
        return entry or choose_entry(source, name), ""
    if "<<<" not in launch or ">>>" not in launch:
        raise UsageError(f"--launch {launch}: expected '<<<blocks, threads>>>' in it")
    spelled = re.search(r"([\w:]+(?:\s*<[^<>;]*>)?)\s*<<<", launch)
    named = spelled[1] if spelled else entry or _only_kernel(source, name)
    text = launch.strip().rstrip(";")
    if spelled is None:
        text = f"{named}{text}"
    if text.rstrip().endswith(">>>"):
        text = f"{text}({', '.join(read_entry(read_cuda(source), named, name).passed)})"
    return named, f"{text};"


def _only_kernel(source: str, name: str) -> str:
    """Return the kernel that a launch without a name is of. Raises UsageError."""
    from cuda_llm.tasks.cuda_source import read_cuda

    kernels = list(dict.fromkeys(one.qualified for one in read_cuda(source).kernels))
    if not kernels:
        raise UsageError(f"{name}: has no kernel; expected a __global__ function")
    if len(kernels) > 1:
        raise UsageError(f"{name}: has kernels {', '.join(kernels)}: add --entry {kernels[0]}")
    return kernels[0]


def read_shape(text: str) -> tuple[str, ...]:
    """Parse `x=rows,cols` and return the extents. Raises UsageError."""
    _, equals, extents = text.partition("=")
    found = tuple(one.strip() for one in extents.split(","))
    if not equals or not all(found):
        raise UsageError(f"--shape {text}: expected NAME=EXTENT,..., as in x=rows,cols")
    return found


def read_inputs(path: Path | None) -> "dict[str, Array]":
    """Return the arrays of an .npz file by name. Raises UsageError."""
    import zipfile

    import numpy as np

    if path is None:
        return {}
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except (OSError, ValueError, AttributeError, zipfile.BadZipFile):
        raise UsageError(f"--inputs {path}: expected a file that numpy.savez wrote") from None


def fit_inputs(
    task: "Task", sizes: Sequence[Mapping[str, int]], arrays: "Mapping[str, Array]"
) -> "Mapping[str, Array]":
    """Return arrays as memory holds the arguments, in their shapes. Raises UsageError where an
    array has not as many elements as its argument."""
    import numpy as np

    from cuda_llm.tasks.element_types import element_type
    from cuda_llm.tasks.sizes import shape_of

    if not arrays:
        return {}
    if len(sizes) != 1:
        needed = ",".join(f"{name}=NUMBER" for name in task.dims)
        raise UsageError(f"--inputs: expected one --size {needed}, the size that the arrays have")
    fitted = {}
    for argument in task.arguments:
        if argument.name not in arrays:
            continue
        array, wanted = arrays[argument.name], shape_of(argument, sizes[0])
        count = math.prod(wanted)
        if array.size != count:
            raise UsageError(
                f"--inputs: {argument.name} has {array.size:,} elements; expected "
                f"{count:,}, {' x '.join(map(str, wanted))}"
            )
        element = element_type(argument.dtype)
        # Bits of a type that NumPy lacks arrive as they are, numbers are rounded to it.
        is_stored = not element.is_native and array.dtype.name == element.stored_as
        stored = array if is_stored else element.encode(array, np)
        fitted[argument.name] = stored.reshape(wanted)
    return fitted


def report(found: "Sanitized | Verdict") -> list[tuple[str, str]]:
    """Return the rows that are printed: a label, and a line of text."""
    from cuda_llm.cli.evaluate_output import fault_rows, labelled
    from cuda_llm.tools.judge.sanitize import Sanitized
    from cuda_llm.verdict_wording import describe

    if not isinstance(found, Sanitized):
        return labelled(found.code, describe(found))
    rows: list[tuple[str, str]] = []
    for fault in found.faults:
        rows += fault_rows(fault, found.calls)
    rows += [("note", describe_remark(one)) for one in found.remarks]
    sizes = f"{len(found.sizes)} size{'s' * (len(found.sizes) != 1)}"
    if not found.faults:
        called = f"{found.calls} calls at {sizes}, in several orders of blocks and warps"
        rows.append(("no fault", f"{called}: races, bounds, initialisation, barriers"))
    return rows


def describe_remark(remark: "Remark") -> str:
    """Return a remark in words."""
    from cuda_llm.figure_wording import describe_dims

    at = describe_dims(remark.dims)
    elements = f"{remark.count:,} of {remark.of:,} elements of {remark.buffer}"
    match remark.kind:
        case "unwritten":
            return f"{elements} are never written ({at})"
        case "order-dependent":
            return f"{elements} differ between orders of blocks and warps ({at})"
        case "held-memory":
            return (
                f"{remark.count:,} bytes of {remark.of} allocation"
                f"{'s' * (remark.of != 1)} are not freed when the call returns ({at})"
            )
        case "no-launch":
            return f"no kernel is launched ({at})"


def check_document(
    name: str, device: str, task: "Task", found: "Sanitized | Verdict"
) -> dict[str, Any]:
    """Return the fields of `--json`."""
    from cuda_llm.cli.evaluate_output import fault_fields
    from cuda_llm.tools.judge.sanitize import Sanitized, all_findings

    head = {"schema": CHECK_SCHEMA, "file": name, "device": device, "task": task.name}
    if not isinstance(found, Sanitized):
        return {**head, "faults": list(map(fault_fields, all_findings(found)))}
    return {
        **head,
        "faults": list(map(fault_fields, found.faults)),
        "remarks": [asdict(one) for one in found.remarks],
        "sizes": [dict(one) for one in found.sizes],
        "calls": found.calls,
        "kernels": found.kernels,
    }
