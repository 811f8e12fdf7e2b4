"""From a task and a source file to what the compiler is asked."""

from cuda_llm.tasks.signature import prelude
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import CompileLimits, CompileRequest
from cuda_llm.tools.devices.device import Device


def compile_request(task: Task, device: Device, source: str, name: str) -> CompileRequest:
    """Ask for `source` as a candidate of `task` on `device`."""
    from cuda_llm.settings import settings

    wall_s = settings().compile_wall_s
    return CompileRequest(
        source=source,
        name=name,
        target=device.target,
        prelude=prelude(task),
        flags=task.capabilities.flags,
        defines=task.capabilities.defines,
        include_dirs=task.capabilities.include_dirs,
        limits=CompileLimits(wall_s=wall_s, cpu_s=wall_s),
    )
