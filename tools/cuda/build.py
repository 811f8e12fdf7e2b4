"""The runner of a GPU, our libcudart for candidates there, and kernels of our own: built at first
use, or given by a machine that has the compilers.
"""

from collections.abc import Sequence
from pathlib import Path

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.native import build, build_once, built_or_given, content_key, find_gxx
from cuda_llm.tools.native.build import run_in_parallel
from cuda_llm.tools.sandbox.jail import enclosing_program, jail_program, sandbox_sources

_NATIVE = Path(__file__).parent / "native"
_TOOLS = Path(__file__).parent.parent
_COMMON = _TOOLS / "device" / "native"
_COMMON_PARTS = ("call", "crash_handler", "replies")
_SANDBOX = _TOOLS / "sandbox" / "native"
_PROTOTYPES = _TOOLS / "native" / "cudart"
JAIL, ENCLOSE, RUNNER, SHIM = "jail", "enclose", "gpu_runner", "gpu_shim"
"""Names under which parts are given."""
_FLAGS = ("-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror")


def gpu_parts(target: str) -> dict[str, Path]:
    """Return all that runners of `target` need, by the names under which it is given.

    Raises MissingError where a part can neither be built nor was given.
    """
    return {
        JAIL: jail_program(),
        ENCLOSE: enclosing_program(),
        RUNNER: runner_program(),
        SHIM: shim_library(),
        _seal(target): seal_cubin(target),
    }


def shim_library(*extra: str) -> Path:
    """Return the path of `libcudart.so.13`. Raises MissingError without g++ or a CUDA toolkit.

    `extra` are further compiler flags, as for sanitizers.
    """
    return built_or_given(" ".join((SHIM, *extra)), lambda: _build_shim(extra))


def _build_shim(extra: Sequence[str]) -> Path:
    name = "libcudart.so.13"
    exports = _NATIVE / "shim" / "libcudart.map"
    link = [f"-Wl,-soname,{name}", f"-Wl,--version-script={exports}", "-Wl,-z,now"]
    # A sanitizer's own functions come with the program.
    link += [] if extra else ["-Wl,-z,defs"]
    flags = [*_FLAGS, "-fPIC", "-shared", *_includes(), *link, *extra]
    sources = [*sorted((_NATIVE / "shim").glob("*.cpp")), *sorted(_PROTOTYPES.glob("*.cpp"))]
    return build(name, sources, flags, [_NATIVE, _COMMON, _PROTOTYPES])


def runner_program(*extra: str, confine: Path | None = None) -> Path:
    """Return the path of the runner. Raises MissingError without g++ or a CUDA toolkit.

    `extra` are further compiler flags; `confine` stands in for `confine_gpu.cpp` where a sanitizer
    needs what a confined process does not get.
    """
    return built_or_given(" ".join((RUNNER, *extra)), lambda: _build_runner(extra, confine))


def _build_runner(extra: Sequence[str], confine: Path | None) -> Path:
    parts = {path.stem: path for path in (_NATIVE / "runner").glob("*.cpp")}
    if confine is not None:
        parts["confine_gpu"] = confine
    common = [_COMMON / f"{part}.cpp" for part in _COMMON_PARTS]
    sources = [*(parts[name] for name in sorted(parts)), *common, *sandbox_sources()]
    # Libraries are loaded before the process is confined: candidates open only their own file.
    libraries = ["-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s", "-ldl", "-Wl,-z,now"]
    flags = [*_FLAGS, *_includes(), *libraries, *extra]
    watch = [_NATIVE, _COMMON, _SANDBOX, *([confine.parent] if confine else [])]
    return build(RUNNER, sources, flags, watch)


def seal_cubin(target: str) -> Path:
    """Return `seal.cu` compiled for `target` (`sm_90a`). Raises MissingError without nvcc."""
    sources = [_NATIVE / "seal.cu", _NATIVE / "seal.h"]
    return built_or_given(
        _seal(target), lambda: compile_own("seal.cubin", target, sources, ["-cubin"])
    )


def _seal(target: str) -> str:
    return f"seal {target}"


def attempts_library(target: str) -> Path:
    """Return `attempts.cu` compiled as candidates are. Raises MissingError without nvcc."""
    options = ["-shared", "--cudart=none", "-Xcompiler=-fPIC", "-Xlinker=-z,now"]
    return compile_own("attempts.so", target, [_NATIVE / "attempts.cu"], options)


def compile_own(product: str, target: str, sources: Sequence[Path], options: list[str]) -> Path:
    """Compile the first of our own `sources`, which includes the others, once for each content.

    Raises MissingError without nvcc, the g++ that it calls, or a writable cache.
    """
    toolkit = find_toolkit()
    find_gxx()
    chip = target.removeprefix("sm_")
    options = [*options, "-O3", "-std=c++17", f"-gencode=arch=compute_{chip},code=sm_{chip}"]
    digest = content_key(str(toolkit.nvcc), [toolkit.version, *options])
    for name in sources:
        digest.update(name.read_bytes())

    def make(scratch: Path) -> Path:
        command = [toolkit.nvcc, *options, sources[0], "-o", scratch / product]
        _run_nvcc([str(word) for word in command], str(scratch))
        return scratch / product

    return build_once(product, digest.hexdigest(), make)


def _run_nvcc(command: list[str], scratch: str) -> None:
    import os

    stderr = run_in_parallel([command], os.environ | {"LC_ALL": "C", "TMPDIR": scratch})
    if stderr is not None:
        first = next((line for line in stderr.splitlines() if "error" in line), stderr[:200])
        raise InfrastructureError("native", f"nvcc does not build our own code: {first}")


def _includes() -> list[str]:
    folders = [_NATIVE, _COMMON, _SANDBOX, _PROTOTYPES.parent]
    # The API's prototypes are the toolkit's own; its warnings are not ours to fix.
    return [
        *(f"-I{folder}" for folder in folders),
        "-isystem",
        str(find_toolkit().root / "include"),
    ]
