"""What a referee needs to hold a real GPU."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec

from cuda_llm.errors import DeviceLost, InfrastructureError, MissingError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.detector.attributes import GpuAttributes
from cuda_llm.tools.device import Site
from cuda_llm.tools.referee.client import Client, Patience
from cuda_llm.tools.referee.lease import Lease
from cuda_llm.tools.referee.referee import Referee

CUDA_13 = 13000


def open_referee(
    gpu: GpuAttributes, hardware: Hardware, name: str, report: Callable[[str], None]
) -> Referee:
    """The referee of one GPU, started at its first work. It sees no other GPU.

    `name` is what its results call the device; `report` gets of waiting.
    """
    from cuda_llm.settings import settings
    from cuda_llm.tools.referee.known_answer import known_answer
    from cuda_llm.tools.referee.messages import Opening

    label = f"cuda:{gpu.ordinal}"
    opening = Opening(
        site=open_site,
        arguments=(hardware, gpu.uuid, name),
        known_answer=known_answer,
        # Whatever it starts (runners, ncu) finds the one GPU as number 0.
        environment={"CUDA_VISIBLE_DEVICES": gpu.uuid},
    )
    patience = Patience(silence_s=settings().referee_silence_s, whole_s=settings().referee_limit_s)
    return Referee(
        gpu=gpu.uuid,
        label=label,
        client=Client(opening, patience),
        lease=Lease(gpu.uuid, label, report),
    )


@asynccontextmanager
async def open_site(hardware: Hardware, uuid: str, name: str) -> AsyncIterator[Site]:
    """In the referee: the GPU, until it is let go."""
    from cuda_llm.tools.gpu.site import GpuSite

    async with GpuSite(hardware, uuid, name) as site:
        yield site


def build_programs(target: str) -> None:
    """Build what runners of `target` need. Raises MissingError without g++ or nvcc."""
    from cuda_llm.tools.gpu.program import runner_program, seal_cubin, shim_library
    from cuda_llm.tools.sandbox.programs import jail_program

    jail_program()
    runner_program()
    shim_library()
    seal_cubin(target)


def require_cupy(gpu: GpuAttributes) -> None:
    """Raise MissingError with the extra that fits the driver where CuPy is not installed."""
    if find_spec("cupy") is None:
        extra = "gpu" if gpu.driver_cuda >= CUDA_13 else "gpu-cuda12"
        raise MissingError("CuPy is missing", f"install it: pip install 'cuda-llm[{extra}]'")


async def isolation_there(site: Site) -> tuple[str, tuple[str, ...]]:
    """What runners of a GPU are kept from, in one line, and what is missing: found by trying.

    Raises MissingError without nvcc, DeviceLost where a runner cannot be ended.
    """
    from cuda_llm.tools.gpu.selftest import self_test
    from cuda_llm.tools.gpu.site import GpuSite

    assert isinstance(site, GpuSite), "only a GPU's runners are asked"
    assert site.isolation is not None, "it is known once the site is open"
    try:
        found = await self_test(site)
    except DeviceLost:
        raise
    except InfrastructureError as error:
        untried = f"its self-test came to no end: {error}"
        return site.isolation.summary, (*site.isolation.missing, untried)
    return found.summary, found.missing
