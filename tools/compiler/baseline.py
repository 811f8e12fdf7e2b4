"""Makes a task's baseline ready to be opened: compiled, or as a call of PyTorch."""

import hashlib
from dataclasses import replace

from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.signature import prelude, signature
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tools.compiler.compile import baseline_request, compile_candidate, compile_request
from cuda_llm.tools.device.candidate import Baseline, Compiled, LibraryCall


async def build_baseline(task: Task, target: str) -> Baseline | Verdict:
    """Compile the task's baseline for `target`, or return its library's call."""
    if task.baseline.suffix == ".py":
        source = f"{prelude(task)}{signature(task)} {{}}\n"
        idle = await compile_candidate(compile_request(task, target, source, "idle.cu"))
        return replace(baseline_call(task), idle=idle) if isinstance(idle, Compiled) else idle
    return await compile_candidate(baseline_request(task, target))


def baseline_call(task: Task) -> LibraryCall:
    """Return the call that is the task's baseline; it depends on the Python files beside it."""
    texts = [one.read_bytes() for one in sorted(task.folder.glob("*.py"))]
    return LibraryCall(
        file=task.baseline,
        arguments=tuple(one.name for one in task.arguments if one.role is not ArgumentRole.STREAM),
        outputs=tuple(one.name for one in task.arguments if one.is_output),
        source=task.baseline.read_text(encoding="utf-8"),
        key=hashlib.blake2b(b"\0".join(texts), digest_size=16).hexdigest(),
    )
