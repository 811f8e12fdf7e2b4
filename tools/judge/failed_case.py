"""A case in which a GPU said no more than an error code, with all that it takes to do it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from cuda_llm.outcomes import Verdict, lacks_place
from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import Random
from cuda_llm.tools.device import Site
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.layout import buffer_specs

MOST_BYTES = 64 << 20
"""Of all buffers of a case that is done again: its inputs travel between processes."""

Inputs = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class FailedCase:
    """What a GPU said, of which case, on which inputs."""

    verdict: Verdict
    case: Case
    inputs: Inputs | None
    """On the host: what the kernel got, or for a timed call others of the same distributions. None
    where the buffers take more than `MOST_BYTES`."""
    buffer_bytes: int


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
    if size <= MOST_BYTES:
        drawn = draw_inputs(task, case, rng, site.arrays)
        inputs = {name: site.arrays.to_host(array) for name, array in drawn.items()}
    return FailedCase(verdict=verdict, case=case, inputs=inputs, buffer_bytes=size)
