"""What `evaluate` prints: verdicts for a person, or JSON (docs/schemas/evaluate.schema.json)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from pathlib import PurePath
from types import MappingProxyType
from typing import Any

import typer

from cuda_llm.cli.json_text import json_text
from cuda_llm.cli.printing import open_console
from cuda_llm.figure_wording import (
    describe_compared,
    describe_dims,
    describe_over,
    describe_share,
    name_bottleneck,
)
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import KernelResources, Profile, SizeTime, limiter
from cuda_llm.redaction import printable
from cuda_llm.source_file import short_kernel_name
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.device.inspection import Inspection
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.judge.sanitize import Sanitized, SanitizedFault, all_findings
from cuda_llm.tools.validator.call_plans import SURE, share_that_shows
from cuda_llm.traces.text import describe_circumstances, describe_time_source
from cuda_llm.verdict_wording import describe, phrase

EVALUATE_SCHEMA = 1
CERTAINTY = (
    *("spread", "baseline_spread", "speedup_low", "speedup_high", "outcome", "floor"),
    *("time_class", "l2", "blocks", "clocks", "stepwise_us", "peak_bytes", "note"),
)
"""Fields of a SizeTime that say how sure a time is and how it was obtained."""

LABEL = 12
"""Least width of the left column."""
TIE = 0.10
"""A modelled difference below this is no difference."""
HOST_INCLUSIVE = "host-inclusive"
"""Class of a time in which the host's part of `solve` counts."""


def evaluate_document(
    task: Task,
    device: Device,
    judged: Sequence[Judged],
    looked: Mapping[int, Inspection] = MappingProxyType({}),
    precision: str = "normal",
    sanitized: Mapping[int, Sanitized | Verdict] = MappingProxyType({}),
) -> str:
    """Spell all results as one JSON text. Numbers that are not finite become null."""
    whole = {
        "schema": EVALUATE_SCHEMA,
        "task": task.name,
        "device": device.name,
        "hardware": device.hardware.name,
        "time_source": device.capabilities.time_source,
        "notes": list(device.notes),
        "precision": precision,
        "objective": task.objective,
        "results": [
            judged_fields(one, looked.get(number), sanitized.get(number))
            for number, one in enumerate(judged)
        ],
    }
    return json_text(whole)


def judged_fields(
    judged: Judged, found: Inspection | None, sanitized: Sanitized | Verdict | None = None
) -> dict[str, Any]:
    """Return the fields of one candidate."""
    profile, compiled = judged.profile, judged.compiled
    return {
        "file": judged.name,
        "verdict": verdict_fields(judged.verdict),
        "findings": list(map(fault_fields, all_findings(judged.verdict, sanitized))),
        "speedup": judged.speedup,
        "speedup_half_width": judged.speedup_half_width,
        "written_by": "human",
        "sizes": [size_fields(size) for size in judged.sizes],
        "profile": None if profile is None else profile_fields(profile),
        "resources": [] if compiled is None else [asdict(kernel) for kernel in compiled.kernels],
        "seconds": dict(judged.seconds),
        "advice": judged.advice,
        "isolation": judged.isolation,
        "published_check": None if judged.published is None else asdict(judged.published),
        "inspection": None if found is None else inspection_fields(found),
    }


def inspection_fields(found: Inspection) -> dict[str, Any]:
    """Return what counters, sanitizers and the emulated device found."""
    return {
        "fault": None if found.fault is None else found.fault.code,
        "counters": [asdict(kernel) for kernel in found.counters],
        "not_inspected": found.not_inspected or None,
        "notes": list(found.notes),
        "artefacts": {name: str(path) for name, path in found.artefacts.items()},
    }


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """Return code and fields, without what stands beside it: the profile of a pass, and further
    faults of the same call."""
    beside = {"profile", "further"}
    fields = {name: value for name, value in asdict(verdict).items() if name not in beside}
    return {"code": verdict.code, **fields}


def fault_fields(fault: SanitizedFault) -> dict[str, Any]:
    """Return the fields of one finding."""
    return {
        "verdict": verdict_fields(fault.verdict),
        "dims": dict(fault.dims),
        "calls": fault.calls,
    }


def size_fields(size: SizeTime) -> dict[str, Any]:
    """Return the fields of one timed size."""
    return {
        "dims": dict(size.dims),
        "time_us": size.time_us,
        "baseline_us": size.baseline_us,
        "speedup": size.speedup,
        "source": size.source,
        **{name: getattr(size, name) for name in CERTAINTY},
        "compared": None if size.compared is None else asdict(size.compared),
    }


def profile_fields(profile: Profile) -> dict[str, Any]:
    """Return why it is as fast as it is."""
    fields = asdict(profile)
    return {key: fields[key] for key in ("device", "source", "launches", "bottlenecks", "checked")}


Row = tuple[str, str]
"""Label on the left, text on the right."""


def print_evaluation(
    task: Task,
    device: Device,
    judged: Sequence[Judged],
    looked: Mapping[int, Inspection],
    precision: str = "normal",
    sanitized: Mapping[int, Sanitized | Verdict] = MappingProxyType({}),
) -> None:
    """Print every candidate, and a table when there are several."""
    for number, one in enumerate(judged):
        typer.echo(printable(headline(task, device, one)))
        rows = [*report(one), *finding_rows(one, sanitized.get(number))]
        rows += precision_rows(one, precision)
        rows += [*isolation_rows(one), *inspected_rows(looked.get(number))]
        width = max(LABEL, *(len(label) for label, _ in rows))
        for label, text in rows:
            typer.echo(f"  {label:<{width}} {printable(text)}")
        typer.echo()
    if len(judged) > 1:
        print_table(task, judged)


def headline(task: Task, device: Device, judged: Judged) -> str:
    """Name who was judged on what, and what its times are worth."""
    worth = describe_time_source(device.capabilities.time_source, l2_of(judged))
    return f"{judged.name} · {task.name} · {device.name} ({worth})"


def l2_of(judged: Judged) -> str:
    """Return what L2 held when its timed calls began; empty where nothing was measured."""
    return next((size.l2 for size in judged.sizes), "")


def report(judged: Judged) -> Iterator[Row]:
    """Yield the rows of one candidate."""
    if judged.compiled is not None:
        first, *others = judged.compiled.kernels or (None,)
        spent = "cached" if judged.compiled.cached else f"{judged.compiled.compile_s:.1f} s"
        yield "compiled", f"{spent:<7} {resources(first) if first else 'no kernel'}"
        for kernel in others:
            yield "", f"{'':<7} {resources(kernel)}"
    verdict = judged.verdict
    if isinstance(verdict, Passed) and verdict.profile is not None:
        yield from profile_rows(verdict.profile)
        yield from (("note", line) for line in describe(verdict))
        return
    yield from labelled(verdict.code, describe(verdict))


def finding_rows(judged: Judged, sanitized: Sanitized | Verdict | None) -> Iterator[Row]:
    """Yield the faults beside the verdict; where calls were made to look for more, all of them."""
    faults = all_findings(judged.verdict, sanitized)
    others = faults if judged.passed else faults[1:]
    if not isinstance(sanitized, Sanitized):
        if others:
            many = f"{len(others)} further fault{'s' * (len(others) != 1)}"
            yield "", f"{many} in the same call: --all shows them"
        return
    for fault in others:
        yield from fault_rows(fault, sanitized.calls)
    yield (
        "all",
        f"{len(faults)} distinct; {sanitized.calls} more calls at {len(sanitized.sizes)} small "
        "sizes, every access watched",
    )


def fault_rows(fault: SanitizedFault, calls: int) -> list[Row]:
    """Return the rows of one finding of `calls` calls."""
    seen = "in the call that the verdict is about"
    if fault.calls:
        seen = f"first at {describe_dims(fault.dims)}; in {fault.calls} of {calls} calls"
    return labelled(fault.verdict.code, (*describe(fault.verdict), seen))


def labelled(label: str, lines: Sequence[str]) -> list[Row]:
    """Return a row for each line, the label beside the first."""
    return [(label if number == 0 else "", line) for number, line in enumerate(lines)]


def precision_rows(judged: Judged, asked: str) -> Iterator[Row]:
    """Yield how sure the speed-ups were to be, and are; nothing where they are modelled."""
    given = judged.speedup_half_width
    if given is not None:
        yield "precision", f"{asked}: each speed-up is known within {given:.1%} or less"


def isolation_rows(judged: Judged) -> Iterator[Row]:
    """Yield what kept its runner in, and that a published check alone accepts it, where known."""
    if judged.isolation:
        yield "isolation", judged.isolation
    if judged.published and judged.published.accepts and judged.verdict.code != Passed.code:
        yield "published", "the check that is published with the task accepts this kernel"


def inspected_rows(found: Inspection | None) -> Iterator[Row]:
    """Yield what counters, sanitizers and the emulated device found, and where their files lie."""
    if found is None:
        return
    label = "NOT INSPECTED" if found.not_inspected else "inspected"
    files = (f"{name}: {path}" for name, path in found.artefacts.items())
    lines = [line for line in (found.not_inspected, *found.notes, *files) if line]
    yield from labelled(label, lines)


def profile_rows(profile: Profile) -> Iterator[Row]:
    """Yield what was checked, how fast it is, and why."""
    checked = profile.checked
    yield (
        "correct",
        f"{checked.get('sizes', 0)} sizes, {checked.get('hidden', 0)} hidden, "
        f"{checked.get('distributions', 0)} distributions, every element",
    )
    if calls := checked.get("calls", 0):
        share = share_that_shows(calls)
        yield (
            "",
            f"{calls} calls: wrong in {share:.1%} of them or more would show ({SURE:.0%} sure)",
        )
    if text := describe_compared(profile.sizes):
        yield "timed sizes", text
    for size in profile.sizes:
        yield " x ".join(f"{value:,}" for value in size.dims.values()), time_text(size)
    if circumstances := describe_circumstances(profile.sizes):
        yield "gpu", f"{profile.device}: {circumstances}"
    if profile.bottlenecks:
        yield from bottleneck_rows(profile)


def time_text(size: SizeTime) -> str:
    """Describe the time of one size beside the baseline's, with spreads and what they decide."""
    own = us(size.time_us) + spread_text(size.spread)
    if size.time_class == HOST_INCLUSIVE:
        own += f" ({HOST_INCLUSIVE})"
    if size.baseline_us is not None and size.speedup is not None:
        baseline = us(size.baseline_us) + spread_text(size.baseline_spread)
        own = f"{own}   baseline {baseline}   {baseline_text(size, size.speedup)}"
    return "; ".join(filter(None, (own, size.note)))


def baseline_text(size: SizeTime, speedup: float) -> str:
    """Return `2.82x faster`, `1.20x slower`, `a tie`: beyond what equal kernels may differ by."""
    if (size.outcome or ("tie" if abs(speedup - 1) <= TIE else "")) == "tie":
        return f"a tie{interval(size, 1)}"
    if speedup > 1:
        return f"{speedup:.2f}x faster{interval(size, 1)}"
    return f"{1 / speedup:.2f}x slower{interval(size, -1)}"


def interval(size: SizeTime, power: int) -> str:
    """Return 95 % of the factor, where both were timed side by side."""
    if size.speedup_low is None or size.speedup_high is None:
        return ""
    low, high = sorted((size.speedup_low**power, size.speedup_high**power))
    return f" ({low:.2f} to {high:.2f})"


def spread_text(spread: float) -> str:
    """Return ` ±0.4 %`: half the width of the interval of a measured time."""
    return f" ±{spread:.1%}" if spread else ""


def bottleneck_rows(profile: Profile) -> Iterator[Row]:
    """Yield what limits the call with its place and remedy, and the other bottlenecks."""
    first, *others = profile.bottlenecks
    where = f" at {phrase(first.spot)}" if first.spot else ""
    yield "limited by", f"{first.explanation}{where}; {describe_share(first)}"
    if first.advice:
        yield "", first.advice
    for other in others:
        where = f" at {other.spot}" if other.spot else ""
        yield "also", f"{other.explanation}{where}; {describe_share(other)}"
    if sum(1 for one in profile.bottlenecks if one.saved_us) > 1:
        yield (
            "",
            "each saving removes its cause alone; savings that overlap do not add up",
        )


def resources(kernel: KernelResources) -> str:
    """Describe registers, shared memory and spills of one kernel."""
    spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
    spills = f"{spilled:,} B spilled" if spilled else "no spills"
    shared = f"{kernel.shared_bytes:,} B shared, " if kernel.shared_bytes else ""
    return f"{short_kernel_name(kernel.kernel)}: {kernel.registers} registers, {shared}{spills}"


def us(time_us: float) -> str:
    """Return a time with three significant digits."""
    return f"{time_us:.1f} us" if time_us < 1000 else f"{time_us / 1000:.3g} ms"


def print_table(task: Task, judged: Sequence[Judged]) -> None:
    """Print the candidates beside each other, fastest first."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    names = without_common_folder([one.name for one in judged])
    table = Table(box=box.SIMPLE_HEAD)
    speedup = f"speedup{describe_over(task.objective)}"
    for title in ("file", "verdict", "largest size", speedup, "limited by"):
        numbers = title in {"largest size", speedup}
        table.add_column(title, justify="right" if numbers else "left", overflow="fold")
    for one, name in sorted(zip(judged, names, strict=True), key=lambda row: rank(row[0])):
        profile = one.profile
        limit = limiter(profile.bottlenecks) if profile else None
        table.add_row(
            Text(printable(name)),
            one.verdict.code,
            us(profile.sizes[-1].time_us) if profile and profile.sizes else "",
            f"{profile.speedup:.2f}x" if profile and profile.speedup else "",
            name_bottleneck(limit.code) if limit else "",
        )
    open_console().print(table)


def without_common_folder(names: Sequence[str]) -> list[str]:
    """Drop the folder that all names lie in: a narrow terminal has no room for it."""
    folders = [PurePath(name).parts[:-1] for name in names]
    levels = zip(*folders, strict=False)
    shared = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))
    return [str(PurePath(*PurePath(name).parts[shared:])) for name in names]


def rank(judged: Judged) -> tuple[bool, float]:
    """Return a sort key: passed ones first, fastest first."""
    return (judged.profile is None, -(judged.speedup or 0.0))
