"""Runners over a fake driver: as they are, and under sanitizers."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_runner import GpuRunner, Parts

from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.cuda import build as cuda_build
from cuda_llm.tools.cuda.build import runner_program, shim_library
from cuda_llm.tools.cuda.protocol import SharedBy
from cuda_llm.tools.native import build

FIXTURES = Path(__file__).parents[3] / "fixtures" / "gpu"
NATIVE = Path(cuda_build.__file__).parent / "native"
PROTOTYPES = NATIVE.parents[1] / "native" / "cudart"
CHECKS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-g1", "-O0")

Start = Callable[..., GpuRunner]


def _library(name: str, sources: list[Path], *extra: str) -> Path:
    flags = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    folders = [FIXTURES, NATIVE, PROTOTYPES.parent]
    includes = [*(f"-I{folder}" for folder in folders), "-isystem"]
    includes.append(str(find_toolkit().root / "include"))
    return build(name, sources, [*flags, *includes, *extra], [FIXTURES, NATIVE, PROTOTYPES])


@pytest.fixture(scope="session")
def candidate() -> Path:
    """Solves one task in many ways."""
    return _library("candidate.so", [FIXTURES / "candidate.cpp"], "-Wl,-z,now")


@pytest.fixture(scope="session")
def asking() -> Path:
    """Asks the runtime what a candidate asks the emulated one."""
    return _library("asking.so", [FIXTURES / "asking.cpp"], "-Wl,-z,now")


@pytest.fixture(scope="session")
def cubin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the fake driver takes for the compiled seal.cu."""
    file = tmp_path_factory.mktemp("cubin") / "seal.cubin"
    file.write_text("seal")
    return file


def _parts(cubin: Path, candidate: Path, *checks: str) -> Parts:
    driver = _library("libcuda.so.1", sorted(FIXTURES.glob("fake_*.cpp")), *checks)
    return Parts(
        program=runner_program(
            *checks, confine=FIXTURES / "confine_nothing.cpp" if checks else None
        ),
        shim=shim_library(*checks),
        cubin=cubin,
        candidate=candidate,
        environment={
            "LD_LIBRARY_PATH": str(driver.parent),
            "ASAN_OPTIONS": "handle_segv=0:detect_leaks=0:use_sigaltstack=0",
        },
    )


@pytest.fixture(scope="session")
def plain(cubin: Path, candidate: Path) -> Parts:
    """A runner as it is used, confined."""
    return _parts(cubin, candidate)


@pytest.fixture(scope="session")
def sanitized(cubin: Path, candidate: Path) -> Parts:
    """Runner, shim and driver under AddressSanitizer and UBSan."""
    return _parts(cubin, candidate, *CHECKS)


@pytest.fixture
def start(sanitized: Parts) -> Start:
    """Starts a sanitized runner and loads the candidate."""

    def go(parts: Parts = sanitized, shared_by: SharedBy = SharedBy.IPC) -> GpuRunner:
        return GpuRunner(parts, shared_by=shared_by)

    return go
