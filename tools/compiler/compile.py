"""Compiles a source to a candidate, or to a verdict on the source; both are cached."""

import time
from dataclasses import replace
from pathlib import Path

from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.log import Log
from cuda_llm.outcomes import CompileFailed, CompilerStop, InfraFailed, LoadFailed, Verdict
from cuda_llm.settings import settings
from cuda_llm.source_tokens import blank_comments
from cuda_llm.tasks.signature import prelude
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.audit import audit, exports, find_outside_read
from cuda_llm.tools.compiler.build_faults import find_exceeded_limit
from cuda_llm.tools.compiler.cubin import true_resources
from cuda_llm.tools.compiler.diagnostics import (
    Diagnostics,
    compile_failed,
    declaration,
    demangle_messages,
    name_kernels,
    parse_diagnostics,
    parse_resources,
)
from cuda_llm.tools.compiler.known_outcomes import (
    KIND,
    STORED_LIBRARY,
    STORED_PTX,
    UNNAMED,
    CompiledRecord,
    SourceFailure,
    depends_on_load,
    load_from_another_name,
    load_outcome,
    name_source,
    open_entry,
    request_key,
    unnamed_key,
    write_outcome,
)
from cuda_llm.tools.compiler.names import PathNames
from cuda_llm.tools.compiler.nvcc import (
    EXPORTS,
    KEEP_DIR,
    LIBRARY,
    OBJECT,
    PRELUDE,
    PTX,
    SOURCE,
    Toolkit,
    find_toolkit,
    nvcc_command,
)
from cuda_llm.tools.compiler.policy import find_violation, without_line_directives
from cuda_llm.tools.compiler.workspace import (
    compile_slot,
    front_end_limits,
    lock_of,
    private_folder,
)
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.native import find_gxx
from cuda_llm.tools.native.cache import require_room
from cuda_llm.tools.native.store import store
from cuda_llm.tools.sandbox.jail import Jail, JailResult, run_jailed

_log = Log(__name__)

ONLY_SOLVE = "{ global: solve; local: *; };\n"


def compile_request(task: Task, target: str, source: str, name: str) -> CompileRequest:
    """Return the request to compile `source` as a candidate of `task` for `target` (`sm_86`)."""
    chosen = settings()
    wall_s = chosen.compile_wall_s
    return CompileRequest(
        source=source,
        name=name,
        target=target,
        prelude=prelude(task),
        flags=task.capabilities.flags,
        defines=task.capabilities.defines,
        include_dirs=task.capabilities.include_dirs,
        limits=CompileLimits(
            wall_s=wall_s,
            cpu_s=wall_s / 2,
            front_end_cpu_s=wall_s / 6,
            memory_bytes=chosen.compile_memory_mib << 20,
        ),
    )


def baseline_request(task: Task, target: str) -> CompileRequest:
    """Return the request to compile the task's baseline."""
    source = task.baseline.read_text(encoding="utf-8")
    return compile_request(task, target, source, f"{task.name}/{task.baseline.name}")


async def compile_candidate(request: CompileRequest) -> Compiled | Verdict:
    """Compile `request.source` in a jail and audit the result. Outcomes are cached, failures too.

    Of simultaneous requests for the same source on this event loop, one compiles and the others
    wait, whatever each calls the source. Half of a surrogate pair, as a model may send, is compiled
    as `?`: no outcome that quotes it could be read back. Raises MissingError without nvcc, g++ or a
    writable cache, UsageError on a target that is not valid.
    """
    request = replace(request, source=request.source.encode(errors="replace").decode())
    toolkit = find_toolkit()
    key = request_key(request, toolkit)
    known = load_outcome(request, key)
    if known is not None:
        return known
    async with lock_of(unnamed_key(request, toolkit)), compile_slot():
        if (made_meanwhile := load_outcome(request, key)) is not None:
            return made_meanwhile
        if (other := load_from_another_name(request, key, toolkit)) is not None:
            return other
        try:
            return await _compile(request, toolkit, key)
        except InfrastructureError as error:
            return InfraFailed(component="compiler", detail=str(error))


async def _compile(request: CompileRequest, toolkit: Toolkit, key: str) -> Compiled | Verdict:
    if not blank_comments(request.source).strip():
        return CompileFailed(
            stop=CompilerStop(kind="empty-source", file=request.name), fault="empty"
        )
    with private_folder() as folder:
        write_inputs(folder, replace(request, source=without_line_directives(request.source)))
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
        if not (result.ok or result.timed_out):
            require_room(folder)
        exceeded = find_exceeded_limit(result, request.limits, folder)
        if exceeded is not None:
            if isinstance(exceeded, CompileFailed) and not depends_on_load(exceeded):
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
        record = CompiledRecord(kernels=kernels, warnings=diagnostics.warnings, compile_s=compile_s)
        files = {STORED_LIBRARY: folder / LIBRARY, STORED_PTX: folder / PTX}
        ptx = _without_folder((folder / PTX).read_bytes(), folder)
        # Warnings name the source.
        names = {UNNAMED: unnamed_key(request, toolkit)} if not record.warnings else {}
        for name, of_name in {**names, request.name: key}.items():
            (folder / PTX).write_bytes(name_source(ptx, SOURCE, name))
            store(KIND, of_name, write_outcome(record), files)
    return open_entry(request, key, record, cached=False)


def write_inputs(folder: Path, request: CompileRequest) -> None:
    """Write what nvcc reads into its private folder."""
    (folder / KEEP_DIR).mkdir()
    (folder / SOURCE).write_text(request.source, encoding="utf-8")
    (folder / PRELUDE).write_text(request.prelude)
    (folder / EXPORTS).write_text(ONLY_SOLVE)


def _jail(request: CompileRequest, toolkit: Toolkit, folder: Path) -> Jail:
    gxx = Path(find_gxx()).resolve()
    return Jail(
        folder=folder,
        readable=(toolkit.root, gxx.parent.parent, *request.include_dirs),
        path=(toolkit.root / "bin", Path(find_gxx()).parent, Path("/usr/bin"), Path("/bin")),
        wall_s=request.limits.wall_s,
        cpu_s=request.limits.cpu_s,
        programs=front_end_limits(request.limits, folder),
        memory_bytes=request.limits.memory_bytes,
        file_bytes=request.limits.output_bytes,
    )


async def _find_failure(
    result: JailResult, diagnostics: Diagnostics, places: PathNames
) -> SourceFailure | None:
    """Return the failure that the source causes; None without a failure."""
    violation = find_violation(diagnostics, places)
    if violation is not None:
        return violation
    if not result.ok:
        return compile_failed(result, diagnostics, places)
    objection = await audit(places.folder / LIBRARY, places.folder / OBJECT)
    if objection is not None:
        return objection
    outside = find_outside_read((places.folder / PTX).read_text(errors="replace"))
    if outside is not None:
        return outside
    if "solve" not in exports(places.folder / LIBRARY):
        return LoadFailed(fault="no-solve", detail=_no_solve(places.request))
    return None


def _no_solve(request: CompileRequest) -> str:
    wanted = declaration(request) or 'extern "C" void solve(...)'
    return f"{request.name} defines no such function: `{wanted}`"


def _without_folder(ptx: bytes, folder: Path) -> bytes:
    """Return PTX without the path of the private folder."""
    return ptx.replace(f"{folder}/".encode(), b"")
