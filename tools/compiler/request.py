"""From a task and a source file to what the compiler is asked."""

from cuda_llm.tasks.signature import prelude
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.candidate import CompileLimits, CompileRequest


def compile_request(task: Task, target: str, source: str, name: str) -> CompileRequest:
    """Ask for `source` as a candidate of `task`, built for `target` (`sm_86`)."""
    from cuda_llm.settings import settings

    wall_s = settings().compile_wall_s
    return CompileRequest(
        source=source,
        name=name,
        target=target,
        prelude=prelude(task),
        flags=task.capabilities.flags,
        defines=task.capabilities.defines,
        include_dirs=task.capabilities.include_dirs,
        limits=CompileLimits(wall_s=wall_s, cpu_s=wall_s),
    )


def baseline_request(task: Task, target: str) -> CompileRequest:
    """Ask for the task's baseline."""
    source = task.baseline.read_text(encoding="utf-8")
    return compile_request(task, target, source, f"{task.name}/{task.baseline.name}")
