"""A real GPU as a device: the GPU is leased, its host process is checked before each work, and a
GPU that stays broken is quarantined.

The host process alone makes a CUDA context.
"""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import numpy as np

from cuda_llm.errors import (
    BrokenByWork,
    DeviceLost,
    InfrastructureError,
    MissingError,
    machinery_error,
)
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.cuda.build import gpu_parts
from cuda_llm.tools.cuda.client import HostBroken, HostClient, SiteNotOpened
from cuda_llm.tools.cuda.driver_query import GpuAttributes
from cuda_llm.tools.cuda.isolation import self_test
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.quarantine import find_quarantine, put_in_quarantine, quarantine_remedy
from cuda_llm.tools.cuda.site import GpuSite
from cuda_llm.tools.device import DescribedDevice, Site, T, Work
from cuda_llm.tools.device.device import do_no_work
from cuda_llm.tools.native import add_files

_TIMING_CODE = ("cuda", "timing")

KNOWN_WORDS = 1 << 14
_MULTIPLIER = 2654435761
"""Knuth's: neighbouring words differ in every byte."""
CUDA_13 = 13000


@dataclass(frozen=True, kw_only=True)
class CudaDevice(DescribedDevice):
    """One GPU of this machine, held alone by its GPU host process, to which works are sent. The
    device finds out whether the work or the GPU is to blame where the process breaks."""

    uuid: str
    """Names the GPU in the cache."""
    label: str
    """Name of the GPU in messages: `cuda:0`."""
    client: HostClient
    lease: Lease
    driver: str = ""
    """Version of the driver, e.g. `580.159.03`; empty where NVML does not report a version."""

    @property
    def spec(self) -> str:
        """Text after `--device` that opens the device again."""
        return self.label

    def prepare(self) -> None:
        """Start the GPU host process, which opens its site while the first candidate compiles, and
        build the runner's parts.

        Raises DeviceLost where the GPU is in quarantine, MissingError where a part can neither be
        built nor was supplied.
        """
        self.require_no_quarantine()
        self.client.start()
        gpu_parts(self.hardware.target)

    async def carry_out(self, work: Work[T]) -> T:
        """Do `work` in the GPU host process under the GPU's lease, and return its result.

        Where the host process breaks and the GPU still computes its known answer, raises
        BrokenByWork if the work had begun, and InfrastructureError if it had not. Raises DeviceLost
        where the GPU does not compute its known answer: the GPU is then in quarantine.
        """
        async with self.lease.held():
            self.require_no_quarantine()
            try:
                return await self.client.ask(work)
            except HostBroken as broken:
                await self._blame(broken)
            except DeviceLost as lost:
                self._quarantine(lost.detail)

    def require_no_quarantine(self) -> None:
        """Raise DeviceLost where the GPU is in quarantine."""
        found = find_quarantine(self.uuid)
        if found is not None:
            msg = f"{self.label} is in quarantine since {found.since}: {found.reason}"
            raise DeviceLost("device", f"{msg}; {quarantine_remedy(self.label)}")

    async def _blame(self, broken: HostBroken) -> NoReturn:
        """Raise DeviceLost where the GPU does not compute its known answer without a candidate, and
        BrokenByWork or InfrastructureError for the work otherwise."""
        if isinstance(broken, SiteNotOpened):
            raise self._not_opened(broken)
        try:
            await self.client.ask(Work.of(do_no_work))
        except HostBroken as alone:
            if isinstance(alone, SiteNotOpened) and not broken.was_healthy:
                raise self._not_opened(alone) from broken
            self._quarantine(f"{broken}; then, without a candidate: {alone}")
        if broken.was_healthy:
            raise BrokenByWork("device", f"{self.label}: {broken}")
        raise InfrastructureError("device", f"{self.label}: {broken}")

    def _not_opened(self, error: SiteNotOpened) -> InfrastructureError:
        what = f"{self.label} cannot be opened: {error}"
        return machinery_error("device", what, lacked_memory=error.lacked_memory)

    def _quarantine(self, reason: str) -> NoReturn:
        put_in_quarantine(self.uuid, self.label, reason)
        self.require_no_quarantine()
        raise DeviceLost("device", f"{self.label}: {reason}")


def version_of(gpu: GpuAttributes, driver: str) -> str:
    """Return a hash of GPU, driver version and all code that times on a GPU."""
    parts = repr((gpu.name, gpu.memory_bytes, gpu.driver_cuda, driver))
    return hashlib.blake2b(parts.encode() + _timing_code(), digest_size=16).hexdigest()


@lru_cache
def _timing_code() -> bytes:
    """Return a hash of all code that times on a GPU, read once for all GPUs of this process."""
    digest = hashlib.blake2b(digest_size=16)
    folders = [Path(__file__).parent.parent / folder for folder in _TIMING_CODE]
    add_files(digest, folders, {".py", ".h", ".cpp", ".cu"})
    return digest.digest()


def check_known_answer(site: Site) -> None:
    """Multiply, mix and add up words on the device. Raises InfrastructureError where it errs.

    On a GPU a poisoned context raises what CuPy raises.
    """
    arrays = site.arrays
    words = mix_words(arrays.xp.arange(KNOWN_WORDS, dtype=arrays.xp.uint32))
    right = mix_words(np.arange(KNOWN_WORDS, dtype=np.uint32))
    wrong = int(np.count_nonzero(arrays.to_host(words) != right))
    total = int(arrays.to_host(words.sum(dtype=arrays.xp.uint64)))
    if wrong or total != int(right.sum(dtype=np.uint64)):
        raise InfrastructureError("device", f"{wrong:,} of {KNOWN_WORDS:,} known words are wrong")


def mix_words(
    words: "np.ndarray[tuple[int], np.dtype[np.uint32]]",
) -> "np.ndarray[tuple[int], np.dtype[np.uint32]]":
    """Return the same words of the same input by NumPy and by CuPy: unsigned arithmetic wraps."""
    product = words * words.dtype.type(_MULTIPLIER)
    return product ^ (product >> words.dtype.type(15))


@asynccontextmanager
async def open_site(hardware: Hardware, uuid: str, name: str) -> AsyncIterator[Site]:
    """Hold the GPU while the context is open. Runs in the GPU host process."""
    async with GpuSite(hardware, uuid, name) as site:
        yield site


def require_cupy(gpu: GpuAttributes) -> None:
    """Raise MissingError with the extra that fits the driver where CuPy is not installed."""
    if find_spec("cupy") is None:
        extra = "gpu" if gpu.driver_cuda >= CUDA_13 else "gpu-cuda12"
        raise MissingError("CuPy is missing", f"install it: pip install 'cuda-llm[{extra}]'")


async def try_isolation(site: Site) -> tuple[str, tuple[str, ...]]:
    """Return in one line what isolates the runners of a GPU, and the protections that are missing,
    found by trying.

    Raises MissingError without nvcc, DeviceLost where a runner cannot be ended.
    """
    assert isinstance(site, GpuSite), "only a GPU's runners are tried"
    assert site.isolation is not None, "it is known once the site is open"
    try:
        found = await self_test(site.sessions, site.arrays, site.isolation)
    except DeviceLost:
        raise
    except InfrastructureError as error:
        untried = f"its self-test did not finish: {error}"
        return site.isolation.summary, (*site.isolation.missing, untried)
    return found.summary, found.missing
