"""What ends a measurement without times: a baseline refused, a noisy machine, a case that a GPU
gave an error code for.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy.typing as npt

from cuda_llm.errors import InfrastructureError, TaskError
from cuda_llm.failures import lacks_place
from cuda_llm.outcomes import InfraFailed, OutOfMemory, Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Site
from cuda_llm.tools.device.buffers import Random
from cuda_llm.tools.validator.buffers import buffer_specs
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.wording import describe


def infrastructure_error(verdict: InfraFailed) -> InfrastructureError:
    """The same as an error, where there is nobody to have the verdict."""
    return InfrastructureError(verdict.component, verdict.detail)


def baseline_refused(task: Task, verdict: Verdict) -> TaskError | InfrastructureError:
    """Without its baseline no kernel of the task can be judged; say whose fault it is."""
    if isinstance(verdict, InfraFailed):
        return infrastructure_error(verdict)
    if isinstance(verdict, OutOfMemory):
        # A candidate beside it, or another program, may hold what it needs.
        detail = f"the baseline found no memory: {describe(verdict)[0]}"
        return InfrastructureError("device memory", detail)
    return TaskError(
        f"{task.baseline}: the baseline itself is {verdict.code}; "
        f"run `cuda-llm tasks check {task.folder}`"
    )


NOISE = "noise"
"""Component of an InfraFailed that says: other work on the machine hides what is measured."""


def hidden_by_noise(said: str) -> InfraFailed:
    """The kernel is neither accused nor believed; whoever asks again may be told."""
    return InfraFailed(component=NOISE, detail=f"{said}; judge it again when that has ended")


MOST_REPLAY_BYTES = 64 << 20
"""Of all buffers of a case that is done again: its inputs travel between processes."""

HostInputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class FailedCase:
    """What a GPU said, of which case, on which inputs."""

    verdict: Verdict
    case: Case
    inputs: HostInputs | None
    """On the host: what the kernel got, or for a timed call others of the same distributions. None
    where the buffers take more than `MOST_BYTES`."""
    buffer_bytes: int


T = TypeVar("T")


def without_case(outcome: T | FailedCase) -> T | Verdict:
    """Return what a step came to, with the verdict alone of a case that a GPU failed."""
    return outcome.verdict if isinstance(outcome, FailedCase) else outcome


def find_failed_case(
    site: Site, task: Task, verdict: Verdict, case: Case, rng: Random
) -> FailedCase | Verdict:
    """The case where it may tell more when it is done again, else the verdict alone.

    A site that watches every access itself has told all it can.

    `rng` draws the inputs as it did for the call: a GPU's numbers are its own, so that only its
    site can draw them again.
    """
    if site.capabilities.sees_races or not lacks_place(verdict):
        return verdict
    size = sum(spec.nbytes for spec in buffer_specs(task, case.dims))
    inputs = None
    if size <= MOST_REPLAY_BYTES:
        drawn = draw_inputs(task, case, rng, site.arrays)
        inputs = {name: site.arrays.to_host(array) for name, array in drawn.items()}
    return FailedCase(verdict=verdict, case=case, inputs=inputs, buffer_bytes=size)
