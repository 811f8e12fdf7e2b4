"""Generated C++ to a .so: g++ in the same jail, because what it was generated from is not ours."""

import re
from collections.abc import Sequence
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import CompileFailed, InfraFailed, TimedOut
from cuda_llm.tools.compiler.cache import entry_folder, load, store
from cuda_llm.tools.compiler.candidate import CompileLimits
from cuda_llm.tools.compiler.exhaustion import exhausted
from cuda_llm.tools.compiler.workspace import compile_slot, private_folder
from cuda_llm.tools.native import content_key, find_gxx
from cuda_llm.tools.sandbox.jail import Jail, JailResult, run_jailed

KIND = "cpp"
SOURCE, LIBRARY = "generated.cpp", "generated.so"


async def compile_cpp(
    source: str,
    *,
    include_dirs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    limits: CompileLimits = CompileLimits(),  # noqa: B008 - frozen
) -> Path | CompileFailed | TimedOut | InfraFailed:
    """Path of the shared library made from `source`, in the cache.

    Keyed by the source, the flags, the contents of `include_dirs`, g++ and, with `-march=native`,
    the CPU. A limit exceeded is TimedOut or CompileFailed; source that does not compile is our
    generator's fault: InfraFailed. Raises MissingError without g++ or a writable cache.
    """
    command = [find_gxx(), "-shared", "-fPIC", "-fmax-errors=5", *flags]
    command += [f"-I{folder}" for folder in include_dirs]
    key = _key(source, command, include_dirs)
    if load(KIND, key) is not None:
        return entry_folder(KIND, key) / LIBRARY
    try:
        async with compile_slot():
            with private_folder() as folder:
                (folder / SOURCE).write_text(source)
                result = await run_jailed(
                    [*command, "-o", LIBRARY, SOURCE], _jail(folder, include_dirs, limits)
                )
                failure = exhausted(result, limits) or _refused(result)
                if failure is not None:
                    return failure
                return store(KIND, key, {}, {LIBRARY: folder / LIBRARY}) / LIBRARY
    except InfrastructureError as error:
        return InfraFailed(component="compiler", detail=str(error))


def _key(source: str, command: Sequence[str], include_dirs: Sequence[Path]) -> str:
    digest = content_key(command[0], command)
    digest.update(source.encode())
    for folder in include_dirs:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _jail(folder: Path, include_dirs: Sequence[Path], limits: CompileLimits) -> Jail:
    gxx = Path(find_gxx())
    return Jail(
        folder=folder,
        readable=(gxx.resolve().parent.parent, *include_dirs),
        path=(gxx.parent, Path("/usr/bin"), Path("/bin")),
        wall_s=limits.wall_s,
        cpu_s=limits.cpu_s,
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.output_bytes,
    )


def _refused(result: JailResult) -> InfraFailed | None:
    if result.ok:
        return None
    lines = result.stderr.text.splitlines()
    first = next(
        (line for line in lines if re.search(r"error", line)), (lines or ["no message"])[0]
    )
    return InfraFailed(component="emulator", detail=f"generated code does not build: {first[:300]}")
