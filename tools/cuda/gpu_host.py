"""The host of one GPU: leased, proven by a known answer before each work, replaced when it
breaks, quarantined.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Concatenate, NoReturn

import numpy as np

from cuda_llm.errors import BrokenByWork, DeviceLost, InfrastructureError, MissingError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.cuda.client import HostBroken, HostClient, HostTimeouts, SiteNotOpened
from cuda_llm.tools.cuda.driver_query import GpuAttributes
from cuda_llm.tools.cuda.lease import Lease, find_quarantine, put_in_quarantine, quarantine_mend
from cuda_llm.tools.device import P, Site, T

COUNT = 1 << 14
_MULTIPLIER = 2654435761
"""Knuth's: neighbouring words differ in every byte."""


def check_known_answer(site: Site) -> None:
    """Multiply, mix and add up words on the device. Raises InfrastructureError where it errs.

    On a GPU a poisoned context raises what CuPy raises.
    """
    arrays = site.arrays
    words = mixed(arrays.xp.arange(COUNT, dtype=arrays.xp.uint32))
    right = mixed(np.arange(COUNT, dtype=np.uint32))
    wrong = int(np.count_nonzero(arrays.to_host(words) != right))
    total = int(arrays.to_host(words.sum(dtype=arrays.xp.uint64)))
    if wrong or total != int(right.sum(dtype=np.uint64)):
        raise InfrastructureError("device", f"{wrong:,} of {COUNT:,} known words are wrong")


def mixed(
    words: "np.ndarray[tuple[int], np.dtype[np.uint32]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    """The same words of the same input, by NumPy and by CuPy: unsigned arithmetic wraps."""
    product = words * words.dtype.type(_MULTIPLIER)
    return product ^ (product >> words.dtype.type(15))


@dataclass(frozen=True, kw_only=True)
class GpuHost:
    """Carries work to one GPU, alone on it, and says who is to blame when something breaks."""

    gpu: str
    """UUID: names the GPU in the cache."""
    label: str
    """What a person calls it: `cuda:0`."""
    client: HostClient
    lease: Lease

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out`. A referee that breaks before the work begins is replaced once.

        Work that has begun is not repeated here: whoever asked knows whether that is worth it.
        Raises BrokenByWork where it broke the referee and the GPU is fine without it, DeviceLost
        where the GPU is not fine: it is then in quarantine.
        """
        async with self.lease.held():
            self.refuse_in_quarantine()
            try:
                try:
                    return await self.client.ask(work, *arguments, **named)
                except HostBroken as broken:
                    if broken.proven or isinstance(broken, SiteNotOpened):
                        raise
                    return await self.client.ask(work, *arguments, **named)
            except HostBroken as broken:
                await self._blame(broken)
            except DeviceLost as lost:
                self._put_away(lost.detail)

    def refuse_in_quarantine(self) -> None:
        """Raise DeviceLost where the GPU is in quarantine."""
        found = find_quarantine(self.gpu)
        if found is not None:
            msg = f"{self.label} is in quarantine since {found.since}: {found.reason}"
            raise DeviceLost("device", f"{msg}; {quarantine_mend(self.label)}")

    async def _blame(self, broken: HostBroken) -> NoReturn:
        """Is it the work, or the GPU? Ask for nothing but the known answer."""
        if isinstance(broken, SiteNotOpened):
            raise InfrastructureError("device", f"{self.label} cannot be opened: {broken}")
        if broken.proven:
            try:
                await self.client.ask(no_work)
            except HostBroken as alone:
                self._put_away(f"{broken}; then, without a candidate: {alone}")
            raise BrokenByWork("device", f"{self.label}: {broken}")
        self._put_away(str(broken))

    def _put_away(self, reason: str) -> NoReturn:
        put_in_quarantine(self.gpu, self.label, reason)
        self.refuse_in_quarantine()
        raise DeviceLost("device", f"{self.label}: {reason}")


async def no_work(_site: Site) -> None:
    """Work that needs the known answer alone."""


CUDA_13 = 13000


def open_host(
    gpu: GpuAttributes, hardware: Hardware, name: str, report: Callable[[str], None]
) -> GpuHost:
    """The referee of one GPU, started at its first work. It sees no other GPU.

    `name` is what its results call the device; `report` gets of waiting.
    """
    from cuda_llm.settings import settings

    pass  # RELAYOUT
    from cuda_llm.tools.cuda.messages import OpenSite

    label = f"cuda:{gpu.ordinal}"
    opening = OpenSite(
        site=open_site,
        arguments=(hardware, gpu.uuid, name),
        known_answer=check_known_answer,
        # Whatever it starts (runners, ncu) finds the one GPU as number 0.
        environment={"CUDA_VISIBLE_DEVICES": gpu.uuid},
    )
    patience = HostTimeouts(
        silence_s=settings().referee_silence_s, whole_s=settings().referee_limit_s
    )
    return GpuHost(
        gpu=gpu.uuid,
        label=label,
        client=HostClient(opening, patience),
        lease=Lease(gpu.uuid, label, report),
    )


@asynccontextmanager
async def open_site(hardware: Hardware, uuid: str, name: str) -> AsyncIterator[Site]:
    """In the referee: the GPU, until it is let go."""
    from cuda_llm.tools.cuda.site import GpuSite

    async with GpuSite(hardware, uuid, name) as site:
        yield site


def build_programs(target: str) -> None:
    """Build what runners of `target` need. Raises MissingError without g++ or nvcc."""
    from cuda_llm.tools.cuda.build import runner_program, seal_cubin, shim_library
    from cuda_llm.tools.sandbox.jail import jail_program

    jail_program()
    runner_program()
    shim_library()
    seal_cubin(target)


def require_cupy(gpu: GpuAttributes) -> None:
    """Raise MissingError with the extra that fits the driver where CuPy is not installed."""
    if find_spec("cupy") is None:
        extra = "gpu" if gpu.driver_cuda >= CUDA_13 else "gpu-cuda12"
        raise MissingError("CuPy is missing", f"install it: pip install 'cuda-llm[{extra}]'")


async def tried_isolation(site: Site) -> tuple[str, tuple[str, ...]]:
    """What runners of a GPU are kept from, in one line, and what is missing: found by trying.

    Raises MissingError without nvcc, DeviceLost where a runner cannot be ended.
    """
    from cuda_llm.tools.cuda.site import GpuSite, self_test

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
