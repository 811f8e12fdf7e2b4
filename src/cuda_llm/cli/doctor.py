"""`cuda-llm doctor`: what is here, what is missing, and the command that mends it."""

from collections.abc import Callable
from typing import Annotated

import typer

from cuda_llm.cli.doctor_gpu import DoctorCheck
from cuda_llm.errors import CudaLLMError, InfrastructureError, MissingError, UsageError

MACHINE_LACKS = 3


def doctor(
    lift: Annotated[
        str | None,
        typer.Option(metavar="GPU", help="Let a GPU in quarantine be used again, as in cuda:0."),
    ] = None,
) -> int:
    """Say what is here, what is missing, and the command that mends it."""
    if lift is not None:
        return lift_quarantine(lift)
    findings = [run_check(what, check) for what, check in CHECKS.items()]
    findings += check_gpus()
    for finding in findings:
        mark = "ok" if not finding.mend else "MISSING" if finding.needed else "less"
        typer.echo(f"{mark:8} {finding.what:12} {finding.found}")
        if finding.mend:
            typer.echo(f"{'':8} {'':12} {finding.mend}")
    lacking = any(finding.mend and finding.needed for finding in findings)
    return MACHINE_LACKS if lacking else 0


def lift_quarantine(name: str) -> int:
    """Let a GPU be used again. Raises UsageError where it is not in quarantine."""
    from cuda_llm.tools.cuda.lease import lift_quarantine, list_quarantined

    lifted = lift_quarantine(name)
    if not lifted:
        there = ", ".join(one.label for one in list_quarantined()) or "none is"
        raise UsageError(f"{name} is not in quarantine; there are: {there}")
    for one in lifted:
        typer.echo(f"{one.label} ({one.gpu}) is used again; it was put away for: {one.reason}")
    return 0


def run_check(what: str, check: Callable[[], DoctorCheck]) -> DoctorCheck:
    """Make one check; what it raises is what is missing."""
    try:
        return check()
    except MissingError as error:
        return DoctorCheck(what=what, found=error.what, mend=error.mend)
    except CudaLLMError as error:
        return DoctorCheck(what=what, found="broken", mend=str(error))
    except OSError as error:
        return DoctorCheck(what=what, found="broken", mend=f"{error.filename}: {error.strerror}")


def python() -> DoctorCheck:
    """The interpreter that runs us."""
    import platform

    return DoctorCheck(what="python", found=platform.python_version())


def gxx() -> DoctorCheck:
    """g++ builds the native parts and the translated kernels."""
    import subprocess

    from cuda_llm.tools.native import find_gxx

    path = find_gxx()
    shown = subprocess.run([path, "-dumpfullversion"], capture_output=True, text=True, check=False)
    return DoctorCheck(what="g++", found=f"{shown.stdout.strip()}  {path}")


def nvcc() -> DoctorCheck:
    """nvcc compiles the candidates."""
    from cuda_llm.tools.compiler.nvcc import find_toolkit

    toolkit = find_toolkit()
    return DoctorCheck(what="nvcc", found=f"{toolkit.version}  {toolkit.nvcc}")


def cache() -> DoctorCheck:
    """The cache must be writable."""
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
    """How well candidates are confined here, by trying."""
    import asyncio

    from cuda_llm.tools.sandbox.isolation import find_isolation_level

    level = asyncio.run(find_isolation_level())
    if level.full:
        return DoctorCheck(what="isolation", found=f"full (Landlock ABI {level.landlock_abi})")
    mend = "run on Linux 6.2 or newer with Landlock, seccomp and user namespaces"
    return DoctorCheck(what="isolation", found="; ".join(level.missing), mend=mend, needed=False)


def emulated() -> DoctorCheck:
    """A known answer on the emulated device: compile, translate, run, compare."""
    import asyncio
    import time

    from cuda_llm.source_file import read_source
    from cuda_llm.tasks.loader import load_task
    from cuda_llm.tools.judge.device_bench import open_bench
    from cuda_llm.tools.judge.judge import Judged, judge
    from cuda_llm.tools.open_device import open_device

    task, device = load_task("vector_add"), open_device("emulated")

    async def known_answer() -> Judged:
        bench = open_bench(task, device)
        baseline = asyncio.ensure_future(bench.time_baseline())
        source = read_source(task.baseline)
        judged = await judge(bench, source, task.baseline.name, baseline=baseline)
        await baseline
        return judged

    started = time.monotonic()
    judged = asyncio.run(known_answer())
    if judged.verdict.code != "PASSED":
        raise InfrastructureError("emulated device", f"known answer is {judged.verdict.code}")
    found = f"{device.name}: vector_add is right, in {time.monotonic() - started:.1f} s"
    return DoctorCheck(what="emulated", found=found)


def check_gpus() -> "list[DoctorCheck]":
    """Everything about GPUs."""
    from cuda_llm.cli.doctor_gpu import gpu_checks

    return gpu_checks()


CHECKS: dict[str, Callable[[], DoctorCheck]] = {
    "python": python,
    "g++": gxx,
    "nvcc": nvcc,
    "cache": cache,
    "isolation": isolation,
    "emulated": emulated,
}
