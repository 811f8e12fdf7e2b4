"""Proves a task fit to judge kernels: its baseline passes all that an honest candidate has to."""

from dataclasses import replace

from cuda_llm.outcomes import ImpossibleTime
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.baseline import build_baseline
from cuda_llm.tools.device import Device, Work
from cuda_llm.tools.device.candidate import Compiled, LibraryCall
from cuda_llm.tools.judge.judge import time_compiled
from cuda_llm.tools.timing.failures import FailedCase
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.admissible import Admission, check_at_site, not_admitted
from cuda_llm.tools.validator.budget import format_dims

WITHOUT_FMA = "-fmad=false"
"""Flag of nvcc by which a product and a sum are rounded one after the other."""


async def check_task(task: Task, device: Device) -> Admission:
    """Check that a task is admissible, and list why it is not.

    The baseline must pass all that a candidate has to, also compiled without FMA contraction and by
    its time at the largest size; outputs that need no computation must be rejected; the result must
    depend on every input. Raises InfrastructureError.
    """
    compiled = await build_baseline(task, device.hardware.target)
    if not isinstance(compiled, Compiled | LibraryCall):
        return not_admitted(task, compiled)
    uncontracted = None
    if isinstance(compiled, Compiled):
        uncontracted = await _build_without_fma(task, device, compiled)
    admission = await device.carry_out(Work.of(check_at_site, task, compiled, uncontracted))
    if not admission.ok or not isinstance(compiled, Compiled):
        return admission
    refused = await _time(task, device, compiled)
    return admission if refused is None else replace(refused, warnings=admission.warnings)


async def _build_without_fma(task: Task, device: Device, compiled: Compiled) -> Compiled | None:
    """Compile the baseline without FMA contraction; None where its code is the same."""
    flags = (*task.capabilities.flags, WITHOUT_FMA)
    other = replace(task, capabilities=replace(task.capabilities, flags=flags))
    built = await build_baseline(other, device.hardware.target)
    if not isinstance(built, Compiled) or built.ptx.read_bytes() == compiled.ptx.read_bytes():
        return None
    return built


async def _time(task: Task, device: Device, compiled: Compiled) -> Admission | None:
    """Time the baseline as a candidate at the largest size; return why it is refused, or None."""
    sizes = replace(task.sizes, bench=task.sizes.bench[-1:], emulated=task.sizes.emulated[-1:])
    one_size = replace(task, sizes=sizes, weights=())
    timing = await time_compiled(one_size, device, compiled, baseline=compiled)
    if isinstance(timing, KernelTimes):
        return None
    verdict = timing.verdict if isinstance(timing, FailedCase) else timing
    if not isinstance(verdict, ImpossibleTime):
        return not_admitted(task, verdict)
    (dims,) = sizes.bench if device.capabilities.bench_sizes else sizes.emulated
    problem = (
        f"{task.folder / 'task.toml'}: [roofline] asks too much: at {format_dims(dims)} the "
        f"baseline takes {verdict.time_us:.3g} us, its `flops` and `bytes` {verdict.floor_us:.3g} "
        "us: every kernel would be IMPOSSIBLE_TIME; state the least work of any correct kernel"
    )
    return Admission(problems=(problem,), checked={})
