"""`cuda-llm doctor`: what is here, what is missing, and the command that fixes it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from cuda_llm.errors import CudaLLMError, InfrastructureError, MissingError, UsageError
from cuda_llm.own_thread import await_here
from cuda_llm.tools.device import Work

if TYPE_CHECKING:
    from cuda_llm.tools.cuda.device import CudaDevice
    from cuda_llm.tools.cuda.driver_query import GpuAttributes
    from cuda_llm.tools.cuda.nvml import MachineUsage

MACHINE_LACKS = 3
KNOWN_ANSWER_LIMIT_S = 180.0
COMPILERS = ("g++", "nvcc")
NOT_ON_WORKERS = "a cluster's worker with a GPU does without"


@dataclass(frozen=True, kw_only=True)
class DoctorCheck:
    """What was looked for, what was found, and how to fix it."""

    what: str
    found: str
    remedy: str = ""
    """Empty when nothing needs fixing."""
    needed: bool = True
    """False: everything works without it, only with less."""


def doctor(
    lift: Annotated[
        str | None,
        typer.Option(metavar="GPU", help="Let a GPU in quarantine be used again, as in cuda:0."),
    ] = None,
) -> int:
    """Report what this machine has, what it lacks, and the command that installs it."""
    if lift is not None:
        return lift_quarantine(lift)
    lacking = False
    for finding in all_checks():
        mark = "ok" if not finding.remedy else "MISSING" if finding.needed else "less"
        typer.echo(f"{mark:8} {finding.what:12} {finding.found}")
        if finding.remedy:
            typer.echo(f"{'':8} {'':12} {finding.remedy}")
        lacking = lacking or bool(finding.remedy and finding.needed)
    return MACHINE_LACKS if lacking else 0


def lift_quarantine(name: str) -> int:
    """Let a GPU be used again. Raises UsageError where it is not in quarantine."""
    from cuda_llm.tools.cuda.quarantine import lift_quarantine, list_quarantined

    lifted = lift_quarantine(name)
    if not lifted:
        there = ", ".join(one.label for one in list_quarantined()) or "no GPU"
        raise UsageError(f"{name} is not in quarantine; {there} is")
    for one in lifted:
        typer.echo(f"{one.label} ({one.gpu}) is used again; it was put away for: {one.reason}")
    return 0


def all_checks() -> Iterator[DoctorCheck]:
    """Make one check after the other."""
    for what, check in CHECKS.items():
        yield run_check(what, check)
    yield from gpu_checks()


def run_check(what: str, check: Callable[[], DoctorCheck]) -> DoctorCheck:
    """Make one check; what it raises is what is missing."""
    try:
        return check()
    except MissingError as error:
        remedy = f"{error.remedy}; {NOT_ON_WORKERS}" if what in COMPILERS else error.remedy
        return DoctorCheck(what=what, found=error.what, remedy=remedy)
    except CudaLLMError as error:
        return DoctorCheck(what=what, found="broken", remedy=str(error))
    except OSError as error:
        return DoctorCheck(what=what, found="broken", remedy=f"{error.filename}: {error.strerror}")


def python() -> DoctorCheck:
    """Find the interpreter that runs us."""
    import platform

    return DoctorCheck(what="python", found=platform.python_version())


def gxx() -> DoctorCheck:
    """Find g++, which builds the native parts and the translated kernels."""
    import subprocess

    from cuda_llm.tools.native import find_gxx

    path = find_gxx()
    shown = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True, check=False)
    return DoctorCheck(what="g++", found=f"{shown.stdout.strip()}  {path}")


def nvcc() -> DoctorCheck:
    """Find nvcc, which compiles the candidates."""
    from cuda_llm.tools.compiler.nvcc import find_toolkit

    toolkit = find_toolkit()
    return DoctorCheck(what="nvcc", found=f"{toolkit.version}  {toolkit.nvcc}")


def cache() -> DoctorCheck:
    """Check that the cache can be written."""
    import tempfile

    from cuda_llm.settings import settings
    from cuda_llm.tools.native import cache_dir

    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    limit_mb = settings().cache_limit_mb
    limit = f"of at most {limit_mb:,} MB" if limit_mb else "without a limit"
    return DoctorCheck(what="cache", found=f"{folder}  ({size / 1e6:,.0f} MB {limit})")


def isolation() -> DoctorCheck:
    """Find out how well candidates are confined here, by trying."""

    from cuda_llm.tools.sandbox.isolation import find_isolation_level

    level = await_here(find_isolation_level())
    if level.full:
        return DoctorCheck(what="isolation", found=f"full (Landlock ABI {level.landlock_abi})")
    remedy = "run on Linux 6.2 or newer with Landlock, seccomp and user namespaces"
    return DoctorCheck(
        what="isolation", found="; ".join(level.missing), remedy=remedy, needed=False
    )


def emulated() -> DoctorCheck:
    """Check a known answer on the emulated device: compile, translate, run, compare."""
    import time

    from cuda_llm.graph.judge import judge
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tools.open_device import open_device, prepare_device

    task, device = load_task("vector_add"), open_device("emulated")
    prepare_device(device)
    started = time.monotonic()
    judged = judge(task, task.baseline, device=device)
    if not judged.passed:
        raise InfrastructureError("emulated device", f"known answer is {judged.verdict.code}")
    found = f"{device.name}: vector_add is right, in {time.monotonic() - started:.1f} s"
    return DoctorCheck(what="emulated", found=found)


CHECKS: dict[str, Callable[[], DoctorCheck]] = {
    "python": python,
    "g++": gxx,
    "nvcc": nvcc,
    "cache": cache,
    "isolation": isolation,
    "emulated": emulated,
}


def gpu_checks(library: str | None = None) -> list[DoctorCheck]:
    """Check driver, CuPy and NVML, then each GPU. `library` stands in for the driver's."""
    from cuda_llm.tools.cuda.discovery import DRIVER, detect_gpus
    from cuda_llm.tools.cuda.open_cuda import ask_usage, has_nodes

    if library is None and not has_nodes():
        return [DoctorCheck(what="gpu", found="none; kernels run on the emulated device")]
    try:
        gpus = detect_gpus(library or DRIVER)
    except CudaLLMError as error:
        return [*quarantine_checks(), failed_check("gpu", error)]
    usage = ask_usage()
    newest = gpus[0].driver_cuda
    cuda = f"CUDA {newest // 1000}.{newest % 1000 // 10}"
    driver = DoctorCheck(what="driver", found=" ".join(filter(None, (usage.driver, f"({cuda})"))))
    return [
        driver,
        *_cupy(gpus[0]),
        *_nvml(usage),
        *quarantine_checks(),
        *(finding for gpu in gpus for finding in _gpu(gpu, usage)),
    ]


def quarantine_checks() -> Iterator[DoctorCheck]:
    """Yield the GPUs that nobody uses until somebody has looked, driver or no driver."""
    from cuda_llm.tools.cuda.quarantine import list_quarantined, quarantine_remedy

    for one in list_quarantined():
        found = f"in quarantine since {one.since}: {one.reason}"
        yield DoctorCheck(
            what=one.label, found=found, remedy=quarantine_remedy(one.label), needed=False
        )


def failed_check(what: str, error: CudaLLMError) -> DoctorCheck:
    """Return an error as a finding: less than there could be."""
    if isinstance(error, MissingError):
        return DoctorCheck(what=what, found=error.what, remedy=error.remedy, needed=False)
    remedy = "see nvidia-smi; the emulated device works without it"
    return DoctorCheck(what=what, found=str(error), remedy=remedy, needed=False)


def _cupy(gpu: "GpuAttributes") -> Iterator[DoctorCheck]:
    from cuda_llm.tools.cuda.device import require_cupy

    try:
        require_cupy(gpu)
    except CudaLLMError as error:
        yield failed_check("cupy", error)
    else:
        yield DoctorCheck(what="cupy", found="installed")


def _nvml(usage: "MachineUsage") -> Iterator[DoctorCheck]:
    if usage.unknown:
        remedy = "to know what else a GPU does: pip install nvidia-ml-py"
        yield DoctorCheck(what="nvml", found=usage.unknown, remedy=remedy, needed=False)


def _gpu(gpu: "GpuAttributes", usage: "MachineUsage") -> Iterator[DoctorCheck]:
    """Check one GPU: what it is, who else uses it, whether it compiles and computes."""
    from cuda_llm.tools.cuda.open_cuda import open_gpu, usage_of
    from cuda_llm.tools.cuda.quarantine import find_quarantine

    label = f"cuda:{gpu.ordinal}"
    for disturbance in usage_of(gpu, usage).disturbances:
        remedy = "times suffer: end that, or name another GPU"
        yield DoctorCheck(
            what=label, found=f"{gpu.name}: {disturbance}", remedy=remedy, needed=False
        )
    if find_quarantine(gpu.uuid) is not None:
        return
    try:
        device = open_gpu(gpu, usage, report=lambda _line: None)
        yield _target(label, device)
        holder = device.lease.holder()
        if holder is not None:
            found = f"{gpu.name}: in use by process {holder or 'unknown'}; not asked"
            yield DoctorCheck(what=label, found=found)
        else:
            yield from _known_answer(label, device)
    except CudaLLMError as error:
        yield failed_check(label, error)


def _target(label: str, device: "CudaDevice") -> DoctorCheck:
    """Check that this nvcc compiles for the GPU."""
    import subprocess

    from cuda_llm.tools.compiler.nvcc import find_toolkit

    toolkit = find_toolkit()
    command = [str(toolkit.nvcc), "--list-gpu-code"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    # nvcc lists no variants; it knows the one of every architecture that it lists.
    if device.hardware.target.rstrip("af") in listed:
        return DoctorCheck(
            what=label, found=f"{device.hardware.name}: nvcc compiles {device.hardware.target}"
        )
    remedy = "install a newer CUDA toolkit, and point CUDA_LLM_NVCC at its nvcc"
    found = f"nvcc {toolkit.version} knows no {device.hardware.target}"
    return DoctorCheck(what=label, found=found, remedy=remedy, needed=False)


def _known_answer(label: str, device: "CudaDevice") -> Iterator[DoctorCheck]:
    """Check the known answer of a GPU, and what isolates its runners."""
    import asyncio
    import time

    from cuda_llm.tools.cuda.device import try_isolation

    async def ask() -> tuple[str, tuple[str, ...]]:
        try:
            async with asyncio.timeout(KNOWN_ANSWER_LIMIT_S):
                return await device.carry_out(Work.of(try_isolation))
        except TimeoutError:
            msg = f"{device.name} gives no answer within {KNOWN_ANSWER_LIMIT_S:g} s"
            raise InfrastructureError("device", msg) from None

    started = time.monotonic()
    try:
        summary, missing = await_here(ask())
    finally:
        device.client.close()
    took_s = time.monotonic() - started
    yield DoctorCheck(
        what=label, found=f"{device.name}: the known answer is right, in {took_s:.1f} s"
    )
    remedy = "; ".join(missing)
    yield DoctorCheck(what=label, found=f"isolation: {summary}", remedy=remedy, needed=False)
