"""Failures that end a measurement: a refused baseline, noise, one case on a GPU."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy.typing as npt

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.facts import BaselineDoubt
from cuda_llm.failures import lacks_place
from cuda_llm.outcomes import InfraFailed, OutOfMemory, Verdict
from cuda_llm.tasks.loader import spell_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Site
from cuda_llm.tools.device.buffers import Array, Random
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.wording import describe, describe_doubt


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """Return the same as an error, where no candidate has the verdict."""
    return InfrastructureError(verdict.component, verdict.detail)


def baseline_refused(task: Task, verdict: Verdict) -> TaskError | InfrastructureError:
    """Return the error of a baseline with this verdict: without it no kernel can be judged."""
    if isinstance(verdict, InfraFailed):
        return infrastructure_error(verdict)
    if isinstance(verdict, OutOfMemory):
        # A candidate beside it, or another program, may hold what it needs.
        detail = f"the baseline found no memory: {describe(verdict)[0]}"
        return InfrastructureError("device memory", detail)
    return TaskError(
        f"{task.baseline}: the baseline itself is {verdict.code}; "
        f"see why: cuda-llm tasks check {spell_task(task)}"
    )


NOISE = "noise"
"""Component of an InfraFailed where other work on the machine hides what is measured."""


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
    return replace(hidden_by_noise(describe_doubt(doubt)), figures=figures)


MOST_REPLAY_BYTES = 64 << 20
"""Of all buffers of a case that is replayed: its inputs travel between processes."""

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


T = TypeVar("T")


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
