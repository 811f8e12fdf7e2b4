"""The emulated device and our libcudart, which asks it over a link; built at first use."""

from pathlib import Path

from cuda_llm.tools.compiler.toolkit import find_toolkit
from cuda_llm.tools.native import build

_NATIVE = Path(__file__).parent / "runtime"
_PROTOTYPES = Path(__file__).parent.parent / "native" / "cudart"
_LIBRARY_FLAGS = (
    "-std=c++20",
    "-O3",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fPIC",
    "-shared",
    "-Wall",
    "-Wextra",
    "-Werror",
)


def runtime_library() -> Path:
    """Path of `libcudart.so.13`. Raises MissingError without g++ or a CUDA toolkit."""
    sources = [*sorted((_NATIVE / "cudart").glob("*.cpp")), _NATIVE / "link" / "client.cpp"]
    # The API's prototypes are the toolkit's own; its warnings are not ours to mend.
    includes = [f"-I{_PROTOTYPES.parent}", "-isystem", str(find_toolkit().root / "include")]
    watch = [*(_NATIVE / folder for folder in ("cudart", "link", "emu")), _PROTOTYPES]
    return _build("libcudart.so.13", "cudart/libcudart.map", sources, includes, watch)


def emulator_library() -> Path:
    """Path of `libemulator.so`. Raises MissingError without g++."""
    sources = [*sorted((_NATIVE / "device").glob("*.cpp")), _NATIVE / "link" / "server.cpp"]
    watch = [_NATIVE / folder for folder in ("device", "link", "emu")]
    return _build("libemulator.so", "device/libemulator.map", sources, [], watch)


def _build(
    name: str, exports: str, sources: list[Path], includes: list[str], watch: list[Path]
) -> Path:
    link = [f"-Wl,-soname,{name}", f"-Wl,--version-script={_NATIVE / exports}", "-Wl,-z,now"]
    return build(name, sources, [*_LIBRARY_FLAGS, f"-I{_NATIVE}", *includes, *link], watch)
