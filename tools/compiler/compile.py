"""Compiles one source to a candidate, or to the verdict on it."""

import re
import time
from pathlib import Path

from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.facts import BuildFault
from cuda_llm.failures import CompileFailed, LoadFailed, TimedOut
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tasks.signature import prelude
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.audit import audit, exports
from cuda_llm.tools.compiler.build_faults import find_fault
from cuda_llm.tools.compiler.cache import (
    CompiledRecord,
    SourceFailure,
    read_outcome,
    request_key,
    write_outcome,
)
from cuda_llm.tools.compiler.cubin import true_resources
from cuda_llm.tools.compiler.diagnostics import (
    Diagnostics,
    demangle_messages,
    name_kernels,
    parse_diagnostics,
    parse_resources,
)
from cuda_llm.tools.compiler.names import PathNames
from cuda_llm.tools.compiler.nvcc import (
    KEEP_DIR,
    LIBRARY,
    OBJECT,
    PTX,
    Toolkit,
    find_toolkit,
    nvcc_command,
    write_inputs,
)
from cuda_llm.tools.compiler.policy import find_violation, without_comments
from cuda_llm.tools.compiler.workspace import compile_slot, private_folder
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.native import find_gxx
from cuda_llm.tools.native.store import entry_folder, load, store
from cuda_llm.tools.sandbox.jail import Jail, JailResult, run_jailed

KIND = "compiled"
STORED_LIBRARY, STORED_PTX = "candidate.so", "kernel.ptx"

OUT_OF_MEMORY = re.compile(
    r"out of memory|bad_alloc|memory exhausted|cannot allocate|std::length_error"
    r"|catastrophic error: out of|Allocation failed|Could not allocate",
    re.IGNORECASE,
)
DIED_BY_SIGNAL = re.compile(r"'?([\w+]+)'? died due to signal (\d+)")
CRASH_SIGNALS = {4, 6, 7, 8, 11}
SIGXCPU, SIGXFSZ, SIGKILL = 24, 25, 9

_log = Log(__name__)


def compile_request(task: Task, target: str, source: str, name: str) -> CompileRequest:
    """Return the request to compile `source` as a candidate of `task` for `target` (`sm_86`)."""
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
    """Return the request to compile the task's baseline."""
    source = task.baseline.read_text(encoding="utf-8")
    return compile_request(task, target, source, f"{task.name}/{task.baseline.name}")


def find_exceeded_limit(
    result: JailResult, limits: CompileLimits
) -> CompileFailed | TimedOut | InfraFailed | None:
    """Return the limit that ended the compilation, None when it ended by itself.

    A CompileFailed comes out the same the next time; the others need not.
    """
    if result.timed_out:
        return TimedOut(stage="compile", limit_s=limits.wall_s)
    if result.end == "processes":
        return CompileFailed(reason="the compiler started too many processes", fault="too-large")
    if result.ok:
        return None
    output = result.stderr.text
    died = DIED_BY_SIGNAL.search(output)
    signal = int(died[2]) if died else result.signal
    program = died[1] if died else "nvcc"
    if signal == SIGXCPU or "CPU time limit exceeded" in output:
        return TimedOut(stage="compile", limit_s=limits.cpu_s, processor_time=True)
    if signal == SIGXFSZ or "File size limit exceeded" in output or "File too large" in output:
        size = limits.output_bytes >> 20
        return CompileFailed(
            reason=f"the compiler wrote a file larger than {size} MiB", fault="too-large"
        )
    if "No space left on device" in output:
        return InfraFailed(component="compiler", detail="the disk is full")
    if OUT_OF_MEMORY.search(output):
        size = limits.memory_bytes >> 20
        return CompileFailed(
            reason=f"{program} needs more than {size} MiB of memory", fault="too-large"
        )
    if signal == SIGKILL:
        return InfraFailed(component="compiler", detail=f"{program} was killed: memory is short")
    if signal in CRASH_SIGNALS:
        return CompileFailed(reason=f"{program} crashed (signal {signal})")
    return None


async def compile_candidate(request: CompileRequest) -> Compiled | Verdict:
    """Compile `request.source` in a jail and audit the result. Outcomes are cached, failures too.

    Raises MissingError without nvcc, g++ or a writable cache, UsageError on a target that is none.
    """
    toolkit = find_toolkit()
    key = request_key(request, toolkit)
    known = _load(request, key)
    if known is not None:
        return known
    async with compile_slot():
        try:
            return await _compile(request, toolkit, key)
        except InfrastructureError as error:
            return InfraFailed(component="compiler", detail=str(error))


def _load(request: CompileRequest, key: str) -> Compiled | SourceFailure | None:
    record = load(KIND, key)
    if record is None:
        return None
    outcome = read_outcome(record)
    if not isinstance(outcome, CompiledRecord):
        return outcome
    return _compiled(request, key, outcome, cached=True)


async def _compile(request: CompileRequest, toolkit: Toolkit, key: str) -> Compiled | Verdict:
    if not without_comments(request.source).strip():
        return CompileFailed(reason=f"{request.name} is empty: it holds no code", fault="empty")
    with private_folder() as folder:
        write_inputs(folder, request)
        started = time.monotonic()
        result = await run_jailed(nvcc_command(toolkit, request), _jail(request, toolkit, folder))
        compile_s = time.monotonic() - started
        _log.info(
            "nvcc has ended",
            file=request.name,
            target=request.target,
            end=result.end,
            exit_code=result.exit_code,
            seconds=round(compile_s, 3),
        )
        if "Unsupported gpu architecture" in result.stderr.text:
            raise UsageError(f"nvcc {toolkit.version} cannot compile for {request.target}")
        exceeded = find_exceeded_limit(result, request.limits)
        if exceeded is not None:
            if isinstance(exceeded, CompileFailed):
                store(KIND, key, write_outcome(exceeded), {})
            return exceeded
        output = result.stderr.text + "\n" + result.stdout.text
        places = PathNames(request=request, toolkit=toolkit, folder=folder)
        diagnostics = await demangle_messages(parse_diagnostics(output, places), places)
        failure = await _find_failure(result, diagnostics, places)
        if failure is not None:
            store(KIND, key, write_outcome(failure), {})
            return failure
        cubins = sorted((folder / KEEP_DIR).glob("*.cubin"))
        printed = parse_resources(output.splitlines())
        kernels = await name_kernels(true_resources(printed, cubins))
        _name_source(folder / PTX, folder, request.name)
        record = CompiledRecord(kernels=kernels, warnings=diagnostics.warnings, compile_s=compile_s)
        files = {STORED_LIBRARY: folder / LIBRARY, STORED_PTX: folder / PTX}
        store(KIND, key, write_outcome(record), files)
    return _compiled(request, key, record, cached=False)


def _jail(request: CompileRequest, toolkit: Toolkit, folder: Path) -> Jail:
    gxx = Path(find_gxx()).resolve()
    return Jail(
        folder=folder,
        readable=(toolkit.root, gxx.parent.parent, *request.include_dirs),
        path=(toolkit.root / "bin", Path(find_gxx()).parent, Path("/usr/bin"), Path("/bin")),
        wall_s=request.limits.wall_s,
        cpu_s=request.limits.cpu_s,
        memory_bytes=request.limits.memory_bytes,
        file_bytes=request.limits.output_bytes,
    )


async def _find_failure(
    result: JailResult, diagnostics: Diagnostics, places: PathNames
) -> SourceFailure | None:
    """Return what is wrong with the source, None if nothing is."""
    violation = find_violation(diagnostics, places)
    if violation is not None:
        return violation
    if not result.ok:
        return _compile_failed(result, diagnostics, places)
    objection = await audit(places.folder / LIBRARY, places.folder / OBJECT)
    if objection is not None:
        return objection
    if "solve" not in exports(places.folder / LIBRARY):
        return LoadFailed(fault="no-solve", detail=_no_solve(places.request))
    return None


def _compile_failed(
    result: JailResult, diagnostics: Diagnostics, places: PathNames
) -> CompileFailed:
    errors = diagnostics.errors
    fault: BuildFault | None = None
    if any(_is_about_signature(error.message, error.spot) for error in errors):
        fault = "signature"
        reason = f"`solve` has another signature: it must be `{declaration(places.request)}`"
    elif errors:
        place = f"{errors[0].spot}: " if errors[0].spot else ""
        reason = f"{place}{errors[0].message}"
    else:
        last = places.clean(result.stderr.text).strip().splitlines()[-1:]
        reason = last[0][:300] if last else f"nvcc ended with code {result.exit_code}"
        fault, _ = find_fault(reason)
    return CompileFailed(
        reason=reason, diagnostics=diagnostics.messages, omitted=diagnostics.omitted, fault=fault
    )


def declaration(request: CompileRequest) -> str:
    """Return the declaration of `solve` in the prelude on one line; empty where there is none."""
    found = re.search(r"[^;{}#\n]*\bsolve\s*\([^;]*\)", request.prelude)
    return " ".join(found[0].split()) if found else ""


def _is_about_signature(message: str, spot: object) -> bool:
    if '"solve' in message and re.search(r"overloaded|linkage|incompatible", message):
        return True
    clash = "distinguished by return type" in message
    return clash and re.search(r"\bsolve\s*\(", getattr(spot, "text", "")) is not None


def _no_solve(request: CompileRequest) -> str:
    wanted = declaration(request) or 'extern "C" void solve(...)'
    return f"{request.name} defines no such function: `{wanted}`"


def _name_source(ptx: Path, folder: Path, name: str) -> None:
    """Replace paths of the private folder in the PTX by the user's file name."""
    text = ptx.read_bytes().replace(f'"{folder}/kernel.cu"'.encode(), f'"{name}"'.encode())
    ptx.write_bytes(text.replace(f"{folder}/".encode(), b""))


def _compiled(
    request: CompileRequest, key: str, record: CompiledRecord, *, cached: bool
) -> Compiled:
    folder = entry_folder(KIND, key)
    return Compiled(
        key=key,
        name=request.name,
        source=request.source,
        target=request.target,
        library=folder / STORED_LIBRARY,
        ptx=folder / STORED_PTX,
        kernels=record.kernels,
        warnings=record.warnings,
        compile_s=record.compile_s,
        cached=cached,
    )
