"""Our libcudart: the emulated device behind the CUDA runtime API, built at first use."""

from pathlib import Path

from cuda_llm.tools.compiler.toolkit import find_toolkit
from cuda_llm.tools.native import build

_RUNTIME = Path(__file__).parent / "runtime"
_FLAGS = (
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
    sources = sorted([*(_RUNTIME / "device").glob("*.cpp"), *(_RUNTIME / "cudart").glob("*.cpp")])
    # The API's prototypes are the toolkit's own; its warnings are not ours to mend.
    includes = [f"-I{_RUNTIME}", "-isystem", str(find_toolkit().root / "include")]
    link = [
        "-Wl,-soname,libcudart.so.13",
        f"-Wl,--version-script={_RUNTIME / 'libcudart.map'}",
        "-Wl,-z,now",
    ]
    return build("libcudart.so.13", sources, [*_FLAGS, *includes, *link], _RUNTIME)
