"""What `cuda-llm doctor` says of GPUs. Everything works without one, on the emulated device."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from cuda_llm.cli.finding import Finding
from cuda_llm.errors import CudaLLMError, InfrastructureError, MissingError

if TYPE_CHECKING:
    from cuda_llm.tools.detector.attributes import GpuAttributes
    from cuda_llm.tools.detector.busy import Companies
    from cuda_llm.tools.devices.cuda import CudaDevice

KNOWN_ANSWER_LIMIT_S = 180.0


def gpu_findings(library: str | None = None) -> list[Finding]:
    """Driver, CuPy and what NVML says, then each GPU. `library` stands in for the driver's."""
    from cuda_llm.tools.detector.detect import DRIVER, detect_gpus
    from cuda_llm.tools.devices.find_cuda import ask_company, has_nodes

    if library is None and not has_nodes():
        return [Finding(what="gpu", found="none; kernels run on the emulated device")]
    try:
        gpus = detect_gpus(library or DRIVER)
    except CudaLLMError as error:
        return [*in_quarantine(), lacking("gpu", error)]
    company = ask_company()
    newest = gpus[0].driver_cuda
    cuda = f"CUDA {newest // 1000}.{newest % 1000 // 10}"
    driver = Finding(what="driver", found=" ".join(filter(None, (company.driver, f"({cuda})"))))
    return [
        driver,
        *_cupy(gpus[0]),
        *_nvml(company),
        *in_quarantine(),
        *(finding for gpu in gpus for finding in _gpu(gpu, company)),
    ]


def in_quarantine() -> Iterator[Finding]:
    """GPUs that nobody uses until somebody has looked, driver or no driver."""
    from cuda_llm.tools.referee.quarantine import list_quarantined, quarantine_mend

    for one in list_quarantined():
        found = f"in quarantine since {one.since}: {one.reason}"
        yield Finding(what=one.label, found=found, mend=quarantine_mend(one.label), needed=False)


def lacking(what: str, error: CudaLLMError) -> Finding:
    """An error as a finding: less than there could be."""
    if isinstance(error, MissingError):
        return Finding(what=what, found=error.what, mend=error.mend, needed=False)
    mend = "see nvidia-smi; the emulated device works without it"
    return Finding(what=what, found=str(error), mend=mend, needed=False)


def _cupy(gpu: "GpuAttributes") -> Iterator[Finding]:
    from cuda_llm.tools.referee.gpu import require_cupy

    try:
        require_cupy(gpu)
    except CudaLLMError as error:
        yield lacking("cupy", error)
    else:
        yield Finding(what="cupy", found="installed")


def _nvml(companies: "Companies") -> Iterator[Finding]:
    if companies.unknown:
        mend = "pip install nvidia-ml-py: without it, nobody knows what else a GPU does"
        yield Finding(what="nvml", found=companies.unknown, mend=mend, needed=False)


def _gpu(gpu: "GpuAttributes", companies: "Companies") -> Iterator[Finding]:
    """One GPU: what it is, who else uses it, whether it compiles and computes."""
    from cuda_llm.tools.devices.find_cuda import company_of, open_one
    from cuda_llm.tools.referee.quarantine import find_quarantine

    label = f"cuda:{gpu.ordinal}"
    for told in company_of(gpu, companies).disturbances:
        mend = "times suffer: end that, or name another GPU"
        yield Finding(what=label, found=f"{gpu.name}: {told}", mend=mend, needed=False)
    if find_quarantine(gpu.uuid) is not None:
        return
    try:
        device = open_one(gpu, companies, report=lambda _line: None)
        yield _target(label, device)
        holder = device.referee.lease.holder()
        if holder is not None:
            found = f"{gpu.name}: in use by process {holder or 'unknown'}; not asked"
            yield Finding(what=label, found=found)
        else:
            yield from _known_answer(label, device)
    except CudaLLMError as error:
        yield lacking(label, error)


def _target(label: str, device: "CudaDevice") -> Finding:
    """Can this nvcc compile for the GPU?"""
    import subprocess

    from cuda_llm.tools.compiler.toolkit import find_toolkit

    toolkit = find_toolkit()
    command = [str(toolkit.nvcc), "--list-gpu-code"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    # nvcc lists no variants; it knows the one of every architecture that it lists.
    if device.target.rstrip("af") in listed:
        return Finding(what=label, found=f"{device.hardware.name}: nvcc compiles {device.target}")
    mend = "install a newer CUDA toolkit, and point CUDA_LLM_NVCC at its nvcc"
    found = f"nvcc {toolkit.version} knows no {device.target}"
    return Finding(what=label, found=found, mend=mend, needed=False)


def _known_answer(label: str, device: "CudaDevice") -> Iterator[Finding]:
    """A known answer by a referee, and how well its runners are confined."""
    import asyncio
    import time

    from cuda_llm.tools.referee.gpu import isolation_there

    async def ask() -> tuple[str, tuple[str, ...]]:
        try:
            async with asyncio.timeout(KNOWN_ANSWER_LIMIT_S):
                return await device.carry_out(isolation_there)
        except TimeoutError:
            msg = f"{device.name} gives no answer within {KNOWN_ANSWER_LIMIT_S:g} s"
            raise InfrastructureError("device", msg) from None

    started = time.monotonic()
    try:
        summary, missing = asyncio.run(ask())
    finally:
        device.referee.client.close()
    took_s = time.monotonic() - started
    yield Finding(what=label, found=f"{device.name}: the known answer is right, in {took_s:.1f} s")
    mend = "; ".join(missing)
    yield Finding(what=label, found=f"isolation: {summary}", mend=mend, needed=False)
