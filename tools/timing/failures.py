"""Failures that end a measurement: a refused baseline, noise, one case on a GPU, and impossible
times."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy.typing as npt

from cuda_llm.errors import InfrastructureError, TaskError, machinery_error
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import roof
from cuda_llm.outcomes import (
    BaselineDoubt,
    ImpossibleTime,
    InfraFailed,
    OutOfMemory,
    Verdict,
    infrastructure_error,
    lacks_place,
)
from cuda_llm.profile import LaunchProfile
from cuda_llm.tasks.loader import spell_task
from cuda_llm.tasks.sizes import core_precision, fastest_precision, least_time
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Site
from cuda_llm.tools.device.buffers import Array, Random
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.verdict_wording import describe, phrase

NOISE = "noise"
"""Component of an InfraFailed where other work on the machine hides what is measured."""
MOST_REPLAY_BYTES = 64 << 20
"""Largest bytes of all buffers of a case that is replayed: its inputs travel between processes."""
T = TypeVar("T")
ROOFLINE_SLACK = 0.5
"""Results may still lie in L2 when the clock stops, and a roofline is written by hand."""


def baseline_refused(task: Task, verdict: Verdict) -> TaskError | InfrastructureError:
    """Return the error of a baseline with this verdict: without it no kernel can be judged."""
    if isinstance(verdict, InfraFailed):
        return infrastructure_error(verdict)
    if isinstance(verdict, OutOfMemory):
        # A candidate beside it, or another program, may hold what it needs.
        detail = f"the baseline found no memory: {describe(verdict)[0]}"
        lacked = verdict.bound == "device"
        return machinery_error("device memory", detail, lacked_memory=lacked)
    return TaskError(
        f"{task.baseline}: the baseline itself is {verdict.code}; "
        f"see why: cuda-llm tasks check {spell_task(task)}"
    )


def fault_of_trusted(task: Task, verdict: Verdict) -> OutOfMemory:
    """Return the verdict on the one kernel beside which a trusted session finds no memory.

    The memory that runners share is planned, and their own is small; but the driver may allocate
    much for a kernel, for its stacks above all, which no quota limits. Raises TaskError or
    InfrastructureError where the trusted session failed otherwise.
    """
    if isinstance(verdict, OutOfMemory):
        return replace(verdict, beside_baseline=True)
    raise baseline_refused(task, verdict)


def hidden_by_noise(detail: str) -> InfraFailed:
    """Return the verdict where noise decides nothing about the kernel; another try may."""
    return InfraFailed(component=NOISE, detail=f"{detail}; judge it again when that has ended")


def hidden_by_doubt(doubt: BaselineDoubt) -> InfraFailed:
    """Return the same where the processes of a baseline do not agree on what it takes."""
    taken = {
        "beside_us": doubt.beside_us,
        "reference_us": doubt.reference_us,
        "again_us": doubt.again_us,
        "alone_us": doubt.alone_us,
    }
    figures = {name: value for name, value in taken.items() if value is not None}
    return replace(hidden_by_noise(phrase(doubt)), figures=figures)


HostInputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class FailedCase:
    """A case that a GPU failed with no more than an error code, and its inputs."""

    verdict: Verdict
    case: Case
    inputs: HostInputs | None
    """On the host: what the kernel got, or for a timed call others of the same distributions. None
    where the buffers take more than `MOST_REPLAY_BYTES`."""
    buffer_bytes: int


def without_case(outcome: T | FailedCase) -> T | Verdict:
    """Return what a step came to, with the verdict alone of a case that a GPU failed."""
    return outcome.verdict if isinstance(outcome, FailedCase) else outcome


def find_failed_case(
    site: Site,
    task: Task,
    verdict: Verdict,
    case: Case,
    rng: Random,
    called_on: Mapping[str, Array] | None = None,
) -> FailedCase | Verdict:
    """Return the case where replaying it may find a place, else the verdict alone.

    A site that watches every access itself has found all it can.

    `called_on` are the inputs. Without them `rng` draws them as it did for the call: a GPU's
    numbers are its own, so that only its site can draw them again.
    """
    if site.capabilities.sees_races or not lacks_place(verdict):
        return verdict
    size = sum(spec.nbytes for spec in buffer_specs(task, case.dims))
    inputs = None
    if size <= MOST_REPLAY_BYTES:
        drawn = called_on or draw_inputs(task, case, rng, site.arrays)
        inputs = {name: site.arrays.to_host(array) for name, array in drawn.items()}
    return FailedCase(verdict=verdict, case=case, inputs=inputs, buffer_bytes=size)


@dataclass(frozen=True, kw_only=True)
class ModelledCall:
    """Counts of one call that the emulated device executed."""

    dims: Mapping[str, int]
    launches: Sequence[LaunchProfile]


def find_impossible(
    task: Task,
    hardware: Hardware,
    times: Iterable[tuple[Mapping[str, int], float]],
    *,
    l2_warm: bool = False,
) -> ImpossibleTime | None:
    """Find the first size below half of its roofline's time, at the chip's best peaks.

    With `l2_warm`, what fits into L2 need not be moved at all.
    """
    floors = (
        (time_us, ROOFLINE_SLACK * least_size_us(task, hardware, dims, l2_warm=l2_warm))
        for dims, time_us in times
    )
    return _first_below(floors)


def find_impossible_model(
    task: Task,
    hardware: Hardware,
    times: Sequence[tuple[Mapping[str, int], float]],
    calls: Mapping[int, ModelledCall] | None = None,
) -> ImpossibleTime | None:
    """Find the first modelled size below its roofline's time on the units that are modelled.

    Nothing is slack: every byte and operation of a call is counted, in a cold L2, so less than the
    task's own work means that some was hidden. `calls` says what was counted, by index of the size
    (one below zero for a size that is not among `times`). A size that was not executed is held
    against the call that leaves the least to CUDA cores: one size's path is not another's.
    """
    known = calls or {}
    any_call = tuple(known.values())

    def floor_us(number: int, dims: Mapping[str, int]) -> float:
        told = (known[number],) if number in known else any_call
        return modelled_floor_us(task, hardware, dims, told)

    return _first_below(
        (time_us, floor_us(number, dims)) for number, (dims, time_us) in enumerate(times)
    )


def modelled_floor_us(
    task: Task, hardware: Hardware, dims: Mapping[str, int], calls: Sequence[ModelledCall]
) -> float:
    """Return the least microseconds of a size whose work is done as one of `calls` did it.

    CUDA cores need not do what the call did on tensor cores; tensor cores have their own peak.
    Without a call, CUDA cores do all of it.
    """
    precision = core_precision(task, hardware)
    least = least_time(task, hardware, dims, precision=precision)

    def on_units_us(call: ModelledCall) -> float:
        done = sum(one.figures.get("tensor_operations", 0.0) for one in call.launches)
        tensor_us = sum(one.figures.get("least_tensor_us", 0.0) for one in call.launches)
        wanted = least_time(task, hardware, call.dims).flops
        if not wanted or not done:
            return roof(hardware, flops=least.flops, bytes_moved=0, precision=precision).time_us
        left = max(0.0, 1 - done / wanted) * least.flops
        cores_us = roof(hardware, flops=left, bytes_moved=0, precision=precision).time_us
        # Tiles that reach beyond a small matrix do more than is wanted there, and not elsewhere.
        return max(cores_us, tensor_us * least.flops / max(wanted, done))

    if not calls:
        return least.time_us
    moving_us = least.bytes_moved / (hardware.peaks.dram_gb_s * 1e3)
    return max(moving_us, min(map(on_units_us, calls)))


def _first_below(floors: Iterable[tuple[float, float]]) -> ImpossibleTime | None:
    for time_us, floor_us in floors:
        if time_us < floor_us:
            return ImpossibleTime(time_us=time_us, floor_us=floor_us)
    return None


def least_size_us(
    task: Task, hardware: Hardware, dims: Mapping[str, int], *, l2_warm: bool
) -> float:
    """Return the microseconds of the size at the chip's best peaks."""
    least = least_time(task, hardware, dims, precision=fastest_precision(hardware))
    if not l2_warm:
        return least.time_us
    moved = max(0.0, least.bytes_moved - hardware.l2_bytes)
    return roof(hardware, flops=least.flops, bytes_moved=moved, precision=least.precision).time_us
