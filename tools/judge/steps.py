"""The three steps between a source file and its verdict. Each stands alone and may end it early.

Each opens a fresh runner of its own: nothing a candidate leaves behind in one step reaches the
next, and a step can be repeated, or made days later, without the others.
"""

from cuda_llm.log import Log
from cuda_llm.outcomes import Passed, Verdict
from cuda_llm.profile import Profile
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.request import compile_request
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.baseline import compile_baseline
from cuda_llm.tools.judge.failed_case import FailedCase
from cuda_llm.tools.judge.floor import find_impossible
from cuda_llm.tools.judge.measured.options import MeasureOptions
from cuda_llm.tools.judge.on_site import time_there, validate_there
from cuda_llm.tools.judge.timing import Timing, compare, mean_speedup, weights_of
from cuda_llm.tools.validator.validate import Validated

_log = Log(__name__)


async def compile_source(task: Task, device: Device, source: str, name: str) -> Compiled | Verdict:
    """nvcc and the audit. `name` is the file as spots and diagnostics call it.

    Raises MissingError without nvcc, g++ or a writable cache.
    """
    return await compile_candidate(compile_request(task, device.target, source, name))


async def validate_compiled(
    task: Task, device: Device, compiled: Compiled, *, nonce: bytes | None = None
) -> Validated | Verdict:
    """Every element of every case against the reference.

    The inputs follow from `nonce`, fresh ones from none. Raises TaskError where the task's
    reference is broken.
    """
    outcome = await run_cases(task, device, compiled, nonce=nonce)
    return outcome.verdict if isinstance(outcome, FailedCase) else outcome


async def run_cases(
    task: Task, device: Device, compiled: Compiled, *, nonce: bytes | None = None
) -> Validated | Verdict | FailedCase:
    """The same; with the case, where a GPU says no more of it than an error code."""
    baseline = await compile_baseline(task, device.target)
    with _log.timed("validated", file=compiled.name):
        return await device.carry_out(validate_there, task, compiled, baseline, nonce)


async def time_compiled(
    task: Task,
    device: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    options: MeasureOptions | None = None,
    fresh: bool = False,
) -> Timing | Verdict:
    """Time every size, outputs verified, and find what limits the kernel.

    Inputs as above where times are modelled; fresh ones where they are measured, as `options` say.
    `fresh`: the baseline beside it runs in a new process, too.
    """
    outcome = await run_sizes(task, device, compiled, nonce=nonce, options=options, fresh=fresh)
    return outcome.verdict if isinstance(outcome, FailedCase) else outcome


async def run_sizes(
    task: Task,
    device: Device,
    compiled: Compiled,
    *,
    nonce: bytes | None = None,
    options: MeasureOptions | None = None,
    fresh: bool = False,
) -> Timing | Verdict | FailedCase:
    """The same; with the case, where a GPU says no more of it than an error code."""
    baseline = await compile_baseline(task, device.target)
    with _log.timed("profiled", file=compiled.name):
        timing = await device.carry_out(time_there, task, compiled, baseline, nonce, options, fresh)
    if not isinstance(timing, Timing) or device.capabilities.duels:
        return timing
    return find_impossible(task, device.hardware, timing.times) or timing


def passed(
    task: Task,
    device: Device,
    compiled: Compiled,
    validated: Validated,
    timing: Timing,
    baseline: Timing,
) -> Passed:
    """Put what was checked and what was timed into one verdict."""
    sizes = compare(timing, baseline, device.capabilities.time_source)
    profile = Profile(
        device=timing.device or device.name,
        hardware=device.hardware.name,
        source=device.capabilities.time_source,
        sizes=sizes,
        launches=timing.launches,
        bottlenecks=timing.bottlenecks,
        resources=compiled.kernels,
        speedup=mean_speedup(sizes, weights_of(task, [size.dims for size in sizes])),
        checked=validated.checked,
        isolation=timing.isolation,
    )
    left_out = tuple(f"not timed: {line}" for line in timing.left_out)
    return Passed(
        profile=profile,
        differential=task.reference is None,
        notes=(*validated.notes, *timing.notes, *left_out),
    )
