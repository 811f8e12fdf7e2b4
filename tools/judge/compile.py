"""Compiles a candidate, and a task's baseline, for the device that is to run them."""

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.baseline import build_baseline
from cuda_llm.tools.compiler.compile import compile_candidate, compile_request
from cuda_llm.tools.device import CompilingDevice, Device
from cuda_llm.tools.device.candidate import Baseline, Compiled, LibraryCall
from cuda_llm.tools.timing.failures import baseline_refused


async def compile_source(task: Task, device: Device, source: str, name: str) -> Compiled | Verdict:
    """Compile a source with nvcc and audit the result; spots and diagnostics call the file `name`.

    Raises MissingError without nvcc, g++ or a writable cache.
    """
    request = compile_request(task, device.hardware.target, source, name)
    if isinstance(device, CompilingDevice) and device.compile_slots:
        return await device.compile(request)
    return await compile_candidate(request)


async def compile_baseline(task: Task, target: str) -> Baseline:
    """Compile the task's baseline for `target`. Raises TaskError where it is refused."""
    built = await build_baseline(task, target)
    if not isinstance(built, Compiled | LibraryCall):
        raise baseline_refused(task, built)
    return built
