"""What `cuda-llm doctor` reports of GPUs. Everything works without one, on the emulated device."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda_llm.errors import CudaLLMError, InfrastructureError, MissingError

if TYPE_CHECKING:
    from cuda_llm.tools.cuda.device import CudaDevice
    from cuda_llm.tools.cuda.driver_query import GpuAttributes
    from cuda_llm.tools.cuda.nvml import MachineUsage


@dataclass(frozen=True, kw_only=True)
class DoctorCheck:
    """What was looked for, what was found, and how to mend it."""

    what: str
    found: str
    mend: str = ""
    """Empty when nothing needs mending."""
    needed: bool = True
    """False: everything works without it, only with less."""


KNOWN_ANSWER_LIMIT_S = 180.0


def gpu_checks(library: str | None = None) -> list[DoctorCheck]:
    """Driver, CuPy and what NVML says, then each GPU. `library` stands in for the driver's."""
    from cuda_llm.tools.cuda.device import ask_usage, has_nodes
    from cuda_llm.tools.cuda.discovery import DRIVER, detect_gpus

    if library is None and not has_nodes():
        return [DoctorCheck(what="gpu", found="none; kernels run on the emulated device")]
    try:
        gpus = detect_gpus(library or DRIVER)
    except CudaLLMError as error:
        return [*quarantine_checks(), failed_check("gpu", error)]
    company = ask_usage()
    newest = gpus[0].driver_cuda
    cuda = f"CUDA {newest // 1000}.{newest % 1000 // 10}"
    driver = DoctorCheck(what="driver", found=" ".join(filter(None, (company.driver, f"({cuda})"))))
    return [
        driver,
        *_cupy(gpus[0]),
        *_nvml(company),
        *quarantine_checks(),
        *(finding for gpu in gpus for finding in _gpu(gpu, company)),
    ]


def quarantine_checks() -> Iterator[DoctorCheck]:
    """GPUs that nobody uses until somebody has looked, driver or no driver."""
    from cuda_llm.tools.cuda.lease import list_quarantined, quarantine_mend

    for one in list_quarantined():
        found = f"in quarantine since {one.since}: {one.reason}"
        yield DoctorCheck(
            what=one.label, found=found, mend=quarantine_mend(one.label), needed=False
        )


def failed_check(what: str, error: CudaLLMError) -> DoctorCheck:
    """An error as a finding: less than there could be."""
    if isinstance(error, MissingError):
        return DoctorCheck(what=what, found=error.what, mend=error.mend, needed=False)
    mend = "see nvidia-smi; the emulated device works without it"
    return DoctorCheck(what=what, found=str(error), mend=mend, needed=False)


def _cupy(gpu: "GpuAttributes") -> Iterator[DoctorCheck]:
    from cuda_llm.tools.cuda.gpu_host import require_cupy

    try:
        require_cupy(gpu)
    except CudaLLMError as error:
        yield failed_check("cupy", error)
    else:
        yield DoctorCheck(what="cupy", found="installed")


def _nvml(companies: "MachineUsage") -> Iterator[DoctorCheck]:
    if companies.unknown:
        mend = "pip install nvidia-ml-py: without it, nobody knows what else a GPU does"
        yield DoctorCheck(what="nvml", found=companies.unknown, mend=mend, needed=False)


def _gpu(gpu: "GpuAttributes", companies: "MachineUsage") -> Iterator[DoctorCheck]:
    """One GPU: what it is, who else uses it, whether it compiles and computes."""
    from cuda_llm.tools.cuda.device import open_gpu, usage_of
    from cuda_llm.tools.cuda.lease import find_quarantine

    label = f"cuda:{gpu.ordinal}"
    for told in usage_of(gpu, companies).disturbances:
        mend = "times suffer: end that, or name another GPU"
        yield DoctorCheck(what=label, found=f"{gpu.name}: {told}", mend=mend, needed=False)
    if find_quarantine(gpu.uuid) is not None:
        return
    try:
        device = open_gpu(gpu, companies, report=lambda _line: None)
        yield _target(label, device)
        holder = device.host.lease.holder()
        if holder is not None:
            found = f"{gpu.name}: in use by process {holder or 'unknown'}; not asked"
            yield DoctorCheck(what=label, found=found)
        else:
            yield from _known_answer(label, device)
    except CudaLLMError as error:
        yield failed_check(label, error)


def _target(label: str, device: "CudaDevice") -> DoctorCheck:
    """Can this nvcc compile for the GPU?"""
    import subprocess

    from cuda_llm.tools.compiler.nvcc import find_toolkit

    toolkit = find_toolkit()
    command = [str(toolkit.nvcc), "--list-gpu-code"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    # nvcc lists no variants; it knows the one of every architecture that it lists.
    if device.target.rstrip("af") in listed:
        return DoctorCheck(
            what=label, found=f"{device.hardware.name}: nvcc compiles {device.target}"
        )
    mend = "install a newer CUDA toolkit, and point CUDA_LLM_NVCC at its nvcc"
    found = f"nvcc {toolkit.version} knows no {device.target}"
    return DoctorCheck(what=label, found=found, mend=mend, needed=False)


def _known_answer(label: str, device: "CudaDevice") -> Iterator[DoctorCheck]:
    """Check the known answer of a GPU, and what isolates its runners."""
    import asyncio
    import time

    from cuda_llm.tools.cuda.gpu_host import try_isolation

    async def ask() -> tuple[str, tuple[str, ...]]:
        try:
            async with asyncio.timeout(KNOWN_ANSWER_LIMIT_S):
                return await device.carry_out(try_isolation)
        except TimeoutError:
            msg = f"{device.name} gives no answer within {KNOWN_ANSWER_LIMIT_S:g} s"
            raise InfrastructureError("device", msg) from None

    started = time.monotonic()
    try:
        summary, missing = asyncio.run(ask())
    finally:
        device.host.client.close()
    took_s = time.monotonic() - started
    yield DoctorCheck(
        what=label, found=f"{device.name}: the known answer is right, in {took_s:.1f} s"
    )
    mend = "; ".join(missing)
    yield DoctorCheck(what=label, found=f"isolation: {summary}", mend=mend, needed=False)
