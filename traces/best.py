"""`best/`: the fastest kernel so far, its proof, and the command that repeats it.

solve.cu     the source exactly as it was judged
report.md    how fast it is, than what, on what, who wrote it, what was checked
verify.sh    judges solve.cu anew, with the cuda-llm of the PATH or the one that wrote it
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cuda_llm.figure_wording import (
    describe_attempt_speed,
    describe_compared,
    describe_no_gain,
    describe_over,
    describe_share,
)
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Profile, SizeTime, limiter
from cuda_llm.search import Attempt, Kind
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import (
    Event,
    IncumbentChosen,
    KernelInspected,
    RunFinished,
    WinnerRemeasured,
)
from cuda_llm.traces.files import write_file
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import describe_circumstances
from cuda_llm.verdict_wording import phrase

SOLUTION = "solve.cu"
"""Name of the kernel in `best/` and in an export."""


def verify_command(run: Mapping[str, Any]) -> str:
    """Return the command that judges `solve.cu` as the run did; `run` is what run.json holds."""
    request, device = run["request"], run["device_spec"]
    warm = ["--l2", "warm"] if request.get("l2") == "warm" else []
    objective = request.get("objective") or "geomean"
    score = ["--objective", objective] if objective != "geomean" else []
    for size in request.get("sizes") or ():
        score += ["--size", size]
    for weight in request.get("weights") or ():
        score += ["--weight", f"{weight:g}"]
    whole = ["cuda-llm", "evaluate", request["task"], SOLUTION, "--device", device, *warm, *score]
    return shlex.join(whole)


class BestKeeper:
    """An observer that updates `best/` after every round."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def __call__(self, event: Event) -> None:
        """Write what changed."""
        match event:
            case IncumbentChosen(incumbent=str() as name):
                write_best(self.folder, name)
            case WinnerRemeasured(attempt=name) if event.stands:
                write_best(self.folder, name, event)
            case RunFinished(best=None):
                remove_best(self.folder)
            case _:
                pass


def remove_best(folder: RunFolder) -> None:
    """Remove `best/`, because no kernel stood. The source goes first."""
    for name in (SOLUTION, "verify.sh", "report.md"):
        (folder.best / name).unlink(missing_ok=True)


def write_best(folder: RunFolder, name: str, remeasured: WinnerRemeasured | None = None) -> None:
    """Write `best/` for the attempt of that id, which has passed. The source comes last."""
    run, attempt, verdict = folder.read_run(), folder.attempt(name), folder.verdict(name)
    assert attempt is not None and isinstance(verdict, Passed), name
    command = verify_command(run)
    inspected = find_inspection(folder, name)
    report = "\n".join(_report(run, attempt, verdict, command, remeasured, inspected))
    write_file(folder.best / "report.md", report + "\n")
    write_file(folder.best / "verify.sh", _script(command))
    write_file(folder.best / SOLUTION, folder.source(name))


def find_inspection(folder: RunFolder, name: str) -> KernelInspected | None:
    """Return what the last inspection of that attempt found; None where there was none."""
    events = [one.event for one in read_events(folder.events)] if folder.events.exists() else []
    found = [one for one in events if isinstance(one, KernelInspected) and one.attempt == name]
    return found[-1] if found else None


def _script(command: str) -> str:
    """Return a script that runs the command beside it, also where no environment is activated."""
    own = f"{shlex.quote(sys.executable)} -P -m cuda_llm {command.removeprefix('cuda-llm ')}"
    return (
        '#!/bin/sh\ncd "$(dirname "$0")" || exit\n'
        f"command -v cuda-llm >/dev/null || exec {own}\nexec {command}\n"
    )


def _report(
    run: Mapping[str, Any],
    attempt: Attempt,
    verdict: Passed,
    command: str,
    remeasured: WinnerRemeasured | None,
    inspected: KernelInspected | None,
) -> Iterator[str]:
    profile = verdict.profile
    faster = describe_attempt_speed(attempt, " the baseline's speed")
    yield f"# {run['task']}: {faster}"
    yield ""
    yield f"- Kernel `{attempt.id}`, written by: {attempt.written_by}" + _author(run, attempt)
    yield f"- On: {run['device']}" + _worth(profile)
    if stands := _no_gain(attempt, remeasured):
        yield f"- {stands[0].upper()}{stands[1:]}"
    if attempt.idea or attempt.direction:
        yield f"- Idea: {attempt.idea or attempt.direction}"
    if attempt.tunables:
        chosen = ", ".join(f"{key} = {value}" for key, value in attempt.tunables.items())
        yield f"- Tunables: {chosen}"
    if profile is not None:
        yield from _profile_lines(profile)
    if inspected is not None:
        yield from _inspection_lines(inspected)
    if verdict.differential:
        yield "- The oracle was the task's own baseline, not an independent reference."
    yield from (f"- {note}" for note in verdict.notes)
    if remeasured is not None:
        over = describe_over(attempt.objective, len(attempt.times_us))
        yield f"- Judged once more at the end: {_again(remeasured, over)}"
    if profile is not None:
        yield from ("", *_table(profile.sizes))
    yield from ("", "Judge it again:", "", f"    {command}")


def _inspection_lines(inspected: KernelInspected) -> Iterator[str]:
    if why := inspected.not_inspected:
        yield f"- **Not inspected: {why}.** Sanitizers and large sizes have not looked at it"
    yield from (f"- Inspected: {note}" for note in inspected.notes)


def _worth(profile: Profile | None) -> str:
    """Return whether the times are modelled or measured, in words."""
    if profile is None:
        return ""
    if profile.source == "modelled":
        return ", whose times are modelled, not measured"
    l2 = next((size.l2 for size in profile.sizes), "")
    return ", times measured" + (f", L2 {l2}" if l2 else "")


def _no_gain(attempt: Attempt, remeasured: WinnerRemeasured | None) -> str:
    """Return in words that the baseline is not slower, by the newest figure there is."""
    again = None if remeasured is None else remeasured.speedup
    return describe_no_gain(attempt.speedup if again is None else again, attempt.spread)


def describe_changes(attempt: Attempt) -> str:
    """Return what was done without a model to the kernels of its author; empty for nothing."""
    match attempt.kind:
        case Kind.COMPOSE:
            return f", put together from `{attempt.parent}` and `{attempt.second}` without a model"
        case Kind.TUNE:
            return f", tuned or rewritten from `{attempt.parent}` without a model"
        case _:
            return ""


def _author(run: Mapping[str, Any], attempt: Attempt) -> str:
    model = run.get("model") if attempt.written_by == "model" else ""
    return (f" ({model})" if model else "") + describe_changes(attempt)


def _profile_lines(profile: Profile) -> Iterator[str]:
    checked = profile.checked
    yield (
        f"- Correct in {checked.get('sizes', 0)} sizes, {checked.get('hidden', 0)} hidden ones, "
        f"{checked.get('distributions', 0)} distributions of inputs, every element"
    )
    if text := describe_compared(profile.sizes):
        yield f"- Of the timed sizes {text}"
    if circumstances := describe_circumstances(profile.sizes):
        yield f"- The GPU meanwhile: {circumstances}"
    if profile.isolation:
        yield f"- Isolated by {profile.isolation}"
    if limit := limiter(profile.bottlenecks):
        spot = limit.spot and replace(limit.spot, file=SOLUTION)
        where = f", at {phrase(spot)}" if spot else ""
        yield f"- Limited by {limit.explanation}{where} ({describe_share(limit)})"


def _again(remeasured: WinnerRemeasured, over: str) -> str:
    faster = f", {remeasured.speedup:.2f}x{over}" if remeasured.speedup else ""
    detail = f" ({remeasured.detail})" if remeasured.detail else ""
    return f"{remeasured.code}{faster}{detail}"


def _table(sizes: Sequence[SizeTime]) -> Iterator[str]:
    yield "| size | time | baseline | speedup |"
    yield "|---|---:|---:|---:|"
    for size in sizes:
        dims = ", ".join(f"{name} = {value:,}" for name, value in size.dims.items())
        own = f"{size.time_us:.1f} us{_doubt(size.spread)}{_noted(size)}"
        baseline = (
            ""
            if size.baseline_us is None
            else f"{size.baseline_us:.1f} us{_doubt(size.baseline_spread)}"
        )
        yield f"| {dims} | {own} | {baseline} | {_factor(size)} |"


def _noted(size: SizeTime) -> str:
    """Return the note on a time, for example that it includes the host's part."""
    return f" ({size.note})" if size.note else ""


def _doubt(spread: float) -> str:
    return f" ±{spread:.1%}" if spread else ""


def _factor(size: SizeTime) -> str:
    if size.speedup is None:
        return ""
    if size.speedup_low is None or size.speedup_high is None:
        return f"{size.speedup:.2f}x"
    text = f"{size.speedup:.2f}x ({size.speedup_low:.2f} to {size.speedup_high:.2f})"
    return f"{text}, a tie" if size.outcome == "tie" else text
