"""`cuda-llm gate`: fails where a kernel of `kernels.toml` got wrong or slower."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.own_thread import await_here

if TYPE_CHECKING:
    from cuda_llm.cli.progress import Progress
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.gate.plan import GatePlan
    from cuda_llm.tools.gate.recording import Recording
    from cuda_llm.tools.gate.report import GateReport
    from cuda_llm.tools.judge.judged import Judged

GATE_SCHEMA = 1
FAILED = 1
Texts = Mapping[str, str]
"""Sources of kernels by the names of the kernels."""


def gate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Kernels, their tasks and what is accepted.")
    ] = Path("kernels.toml"),
    record: Annotated[
        bool, typer.Option("--record", help="Write what later gates are compared with.")
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            metavar="REF", help="Compare with the kernels of a git commit, judged beside these."
        ),
    ] = "",
    device: Annotated[
        str, typer.Option(help="Device that judges.  [default: that of the file]")
    ] = "",
    junit: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the outcome as JUnit XML, too.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Write the outcome as Markdown, too.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Judge a repository's kernels, and fail where any is wrong, or slower than recorded.

    On an emulated device the counts of instructions, bytes, bank conflicts and registers are
    compared, too: they are the same on every machine.
    """
    from cuda_llm.atomic_file import write_atomically
    from cuda_llm.cli.json_text import json_text, print_document
    from cuda_llm.cli.progress import open_progress
    from cuda_llm.outcomes import InfraFailed
    from cuda_llm.redaction import printable
    from cuda_llm.tools.compiler.nvcc import find_toolkit
    from cuda_llm.tools.gate import report as words
    from cuda_llm.tools.gate.comparison import compare
    from cuda_llm.tools.gate.plan import read_plan
    from cuda_llm.tools.gate.recording import (
        Recording,
        read_recording,
        record_kernel,
        write_recording,
    )
    from cuda_llm.tools.open_device import open_device
    from cuda_llm.verdict_wording import describe

    if record and against:
        raise UsageError("--record writes what is compared later; leave out --against")
    plan = read_plan(file)
    texts = read_texts(plan)
    older = texts_at(plan, against) if against else {}
    chosen = open_device(device or plan.file.device)
    nvcc = find_toolkit().version
    path = plan.recording
    earlier = None if record or against else find_recording(path, chosen.name, nvcc)
    with open_progress([*texts]) as progress:
        progress.prepare(chosen.prepare)
        judged, judged_older = await_here(judge_texts(plan, chosen, texts, older, progress))
    now = Recording(
        nvcc=nvcc,
        time_source=chosen.capabilities.time_source,
        kernels={name: record_kernel(one, texts[name]) for name, one in judged.items()},
    )
    before, beside = (earlier or now).kernels, f"compared with {path}"
    if record:
        accepted = keep_accepted(plan, now, read_recording(path).devices.get(chosen.name))
        write_recording(path, chosen.name, accepted)
        beside = f"recorded in {path}"
    elif against:
        before = {name: record_kernel(one, older[name]) for name, one in judged_older.items()}
        beside = f"compared with commit {against}"
    report = words.GateReport(
        device=chosen.name,
        time_source=now.time_source,
        beside=beside,
        gone=() if earlier is None else [*filter(lambda one: one not in texts, earlier.kernels)],
        kernels=[
            compare(
                name,
                before.get(name),
                now.kernels[name],
                kernel.accept,
                tuple(describe(judged[name].verdict)),
                may_be_new=bool(against),
            )
            for name, kernel in plan.file.kernel.items()
        ],
    )
    for place, text in ((junit, words.junit), (markdown, words.markdown)):
        if place is not None:
            write_atomically(place, text(report))
    if as_json:
        print_document(json_text(gate_fields(report)))
    else:
        typer.echo("\n".join(map(printable, words.lines(report))))
    if any(isinstance(one.verdict, InfraFailed) for one in judged.values()):
        return InfrastructureError.exit_code
    return FAILED if report.failed else 0


def gate_fields(report: "GateReport") -> dict[str, Any]:
    """Return the outcome as plain JSON (docs/schemas/gate.schema.json)."""
    from cuda_llm.codec import encode

    kernels = [
        {**encode(one), "change": one.change, "ratio": one.ratio, "error": one.error}
        for one in report.kernels
    ]
    return {"schema": GATE_SCHEMA, **encode(report), "kernels": kernels}


def read_texts(plan: "GatePlan") -> Texts:
    """Return the sources of all kernels as they stand now. Raises UsageError for one that cannot be
    judged."""
    from cuda_llm.graph.judge import read_kernel

    kernels = plan.file.kernel.items()
    return {name: read_kernel(plan.source_of(kernel))[1] for name, kernel in kernels}


def texts_at(plan: "GatePlan", commit: str) -> Texts:
    """Return the sources at a git commit; a kernel that the commit does not have is left out.

    Raises UsageError where there is no such commit, or no git repository.
    """
    folder = plan.path.absolute().parent
    known = ask_git(folder, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if known is None:
        raise UsageError(f"--against {commit}: no such commit in the git repository of {folder}")
    found = {}
    for name, kernel in plan.file.kernel.items():
        text = ask_git(folder, "show", f"{known.strip()}:./{kernel.file}")
        if text is not None:
            found[name] = text
    return found


def ask_git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints in a folder; None where git refuses. Raises UsageError without git."""
    try:
        asked = subprocess.run(
            ("git", "-C", str(folder), *arguments), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise UsageError("--against: git is not installed") from None
    return asked.stdout if asked.returncode == 0 else None


def find_recording(path: Path, device: str, nvcc: str) -> "Recording":
    """Return what was recorded on this device. Raises UsageError where nothing was, or by another
    nvcc: registers and instructions are those of one release."""
    from cuda_llm.tools.gate.recording import read_recording

    devices = read_recording(path).devices
    if device not in devices:
        among = f"; recorded on: {', '.join(devices)}" if devices else ""
        raise UsageError(f"{path}: nothing is recorded on {device}{among}; first: gate --record")
    found = devices[device]
    if found.nvcc != nvcc:
        raise UsageError(
            f"{path}: recorded with nvcc {found.nvcc}, this is nvcc {nvcc}; record again "
            "(gate --record), or compare with a commit (gate --against REF)"
        )
    return found


def keep_accepted(plan: "GatePlan", now: "Recording", before: "Recording | None") -> "Recording":
    """Return what is recorded: a kernel whose verdict is not accepted stays as it was recorded by
    the same nvcc, if it was."""
    old = before.kernels if before is not None and before.nvcc == now.nvcc else {}
    kernels = {}
    for name, kernel in plan.file.kernel.items():
        if now.kernels[name].verdict == kernel.accept.verdict:
            kernels[name] = now.kernels[name]
        elif name in old:
            kernels[name] = old[name]
    return replace(now, kernels=kernels)


async def judge_texts(
    plan: "GatePlan", device: "Device", texts: Texts, older: Texts, progress: "Progress"
) -> "tuple[dict[str, Judged], dict[str, Judged]]":
    """Judge the kernels as they stand now and, beside them, as they stood; a text that has not
    changed is judged once."""
    from cuda_llm.graph.judge import LoopJudge, options_as_asked

    judged: dict[str, Judged] = {}
    judged_older: dict[str, Judged] = {}
    async with LoopJudge(device, options_as_asked(plan.file.precision)) as judge:
        for task, names in group_by_task(plan):
            changed = [name for name in names if older.get(name, texts[name]) != texts[name]]
            found = await judge.judge_all(
                task,
                [
                    *((name, texts[name]) for name in names),
                    *((f"{name} before", older[name]) for name in changed),
                ],
                on_stage=progress.enter,
            )
            judged |= zip(names, found, strict=False)
            judged_older |= {name: judged[name] for name in names if name in older}
            judged_older |= zip(changed, found[len(names) :], strict=True)
    return judged, judged_older


def group_by_task(plan: "GatePlan") -> "list[tuple[Task, list[str]]]":
    """Return each task at its sizes with the names of its kernels, which share one baseline."""
    from cuda_llm.graph.judge import task_as_asked

    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, kernel in plan.file.kernel.items():
        groups.setdefault((plan.task_of(kernel), kernel.sizes), []).append(name)
    return [(task_as_asked(task, sizes=sizes), names) for (task, sizes), names in groups.items()]
