"""The fastest kernels of a run judged again on other devices and by other compilers.

Each judging is a file in `elsewhere/` of the run's folder, named by device, compiler and a hash of
what was judged. A judging that is there already is read and not made again.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cuda_llm.agents.strategies.acceptance import passed_by_speed, tie_margin
from cuda_llm.codec import decode, encode
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.record import changed_files, recorded_config, task_digests
from cuda_llm.graph.runs.result import Result, read_result
from cuda_llm.outcomes import Passed
from cuda_llm.profile import TimeSource
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.objective import with_objective
from cuda_llm.tasks.own_sizes import with_sizes
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.traces.files import read_json, write_json
from cuda_llm.traces.run_folder import UNFIT, RunFolder

FOLDER = "elsewhere"
MOST_KERNELS = 3
"""Number of kernels of a run that are judged: the winner, and the fastest others."""

Standing = Literal["fastest", "tie", "slower", "wrong"]
"""Of the winner beside the other kernels: `wrong` where the winner does not pass."""


@dataclass(frozen=True, kw_only=True)
class Contender:
    """One kernel of a run, as the run judged it."""

    id: str
    source: str
    speedup: float | None
    """Speed-up over the baseline on the device of the run."""


@dataclass(frozen=True, kw_only=True)
class Contenders:
    """The kernels of one run that are judged again."""

    folder: RunFolder
    task: Task
    device: str
    """Device of the run."""
    time_source: str
    l2: str
    """State of L2 when a measured call begins, as the run was asked for."""
    kernels: tuple[Contender, ...]
    """The winner first, then the fastest others; empty where nothing passed."""
    note: str = ""
    """Files of the task that changed since the run; empty where none did."""

    @property
    def key(self) -> str:
        """Hash of the task and of the kernels: what a judging depends on beside device and
        compiler."""
        parts = [*(one.source for one in self.kernels), *sorted(task_digests(self.task).values())]
        parts += [str(self.task.sizes.bench), self.task.objective, str(self.task.weights)]
        return hashlib.sha256("\0".join(parts).encode(errors="replace")).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class KernelElsewhere:
    """The verdict on one kernel of a run, on one device and by one compiler."""

    id: str
    code: str
    """Code of the verdict."""
    speedup: float | None = None
    """Speed-up over the baseline there; None unless the kernel passed."""
    times_us: tuple[float, ...] = ()
    """Time at each timed size."""
    spread: float = 0.0
    """Largest relative half-width of an interval around a time."""
    before: float | None = None
    """Speed-up in the run."""


@dataclass(frozen=True, kw_only=True)
class JudgedElsewhere:
    """The kernels of one run on one device and by one compiler."""

    task: str
    run: str
    """Name of the run."""
    device: str
    hardware: str
    time_source: TimeSource
    nvcc: str
    """Version of nvcc."""
    kernels: tuple[KernelElsewhere, ...] = ()
    """The run's winner first; empty where nothing had passed."""
    note: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def standing(self) -> Standing:
        """Whether the winner is the fastest of the kernels here, too."""
        if not self.kernels or self.kernels[0].speedup is None:
            return "wrong"
        rival = self.rival
        if rival is None or rival.speedup is None:
            return "fastest"
        winner = self.kernels[0]
        gain = self.kernels[0].speedup / rival.speedup - 1
        if abs(gain) <= tie_margin(winner.spread, rival.spread):
            return "tie"
        return "fastest" if gain > 0 else "slower"

    @property
    def rival(self) -> KernelElsewhere | None:
        """The fastest of the other kernels that pass here; None where none does."""
        passed = [one for one in self.kernels[1:] if one.speedup is not None]
        return max(passed, key=lambda one: one.speedup or 0.0, default=None)


def find_contenders(folder: RunFolder) -> Contenders:
    """Return the winner and the fastest other kernels of a run, finished or not.

    Equal sources count once. Raises UsageError where the folder is no run, or its task is gone.
    """
    run, result = folder.read_run(), read_result(folder)
    config = recorded_config(folder, run)
    task = with_sizes(load_task(config.task), config.sizes)
    task = with_objective(task, config.objective, config.weights)
    changed = changed_files(task, run["task_files"])
    note = f"{', '.join(changed)} changed since the run" if changed else ""
    return Contenders(
        folder=folder,
        task=task,
        device=result.device,
        time_source=result.time_source,
        l2=config.l2,
        kernels=tuple(_fastest(folder, result)),
        note=note,
    )


def _fastest(folder: RunFolder, result: Result) -> Iterator[Contender]:
    """Yield the winner and the fastest others of different text."""
    if result.best is None:
        return
    seen: set[str] = set()
    for one in (result.best, *passed_by_speed(result.attempts)):
        if one.normal_sha not in seen and len(seen) < MOST_KERNELS:
            seen.add(one.normal_sha)
            yield Contender(id=one.id, source=folder.source(one.id), speedup=one.speedup)


def keep_judged(
    of: Contenders,
    device: Device,
    nvcc: str,
    judged: Sequence[Judged],
    versions: Mapping[str, str],
) -> JudgedElsewhere:
    """Write the verdicts on the kernels of a run, in their order, into its folder; return them."""
    kernels = (_verdict(*pair) for pair in zip(of.kernels, judged, strict=True))
    found = JudgedElsewhere(
        task=of.task.name,
        run=of.folder.name,
        device=device.name,
        hardware=device.hardware.name,
        time_source="measured" if device.capabilities.time_source == "measured" else "modelled",
        nvcc=nvcc,
        kernels=tuple(kernels),
        note=of.note,
        versions=versions,
    )
    write_json(_place(of, device, nvcc), encode(found))
    return found


def _verdict(before: Contender, judged: Judged) -> KernelElsewhere:
    """Return what became of one kernel."""
    verdict = judged.verdict
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if profile is None:
        return KernelElsewhere(id=before.id, code=verdict.code, before=before.speedup)
    return KernelElsewhere(
        id=before.id,
        code=verdict.code,
        speedup=profile.speedup,
        times_us=tuple(one.time_us for one in profile.sizes),
        spread=profile.spread,
        before=before.speedup,
    )


def read_judged(of: Contenders, device: Device, nvcc: str) -> JudgedElsewhere | None:
    """Return the judging that the run's folder has; None without one that can be read."""
    try:
        found = read_json(_place(of, device, nvcc))
        return None if found is None else decode(JudgedElsewhere, found)
    except (UsageError, *UNFIT):
        return None


def _place(of: Contenders, device: Device, nvcc: str) -> Path:
    """Return the file of one judging."""
    source = device.capabilities.time_source
    name = f"{device.hardware.slug}-{source}-nvcc-{nvcc}-{of.key}.json"
    return of.folder.path / FOLDER / name
