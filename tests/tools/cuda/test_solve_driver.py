"""The driver hands `solve` its arguments, and says where the profiler is to look."""

import asyncio
import struct
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from cuda_llm.errors import MissingError
from cuda_llm.tasks.element_types import ELEMENT_TYPES, ElementType
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import ArgumentRole, TaskArgument
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.nvcc import Toolkit, find_toolkit
from cuda_llm.tools.cuda import solve_driver
from cuda_llm.tools.cuda.solve_driver import (
    argument_word,
    driver_command,
    driver_program,
    runtime_library,
    view_words,
)
from cuda_llm.tools.device.candidate import Compiled, CompileRequest
from cuda_llm.tools.sandbox.isolation import landlock_abi

FIXTURES = Path(__file__).parents[2] / "fixtures/counters"
SPARSE = Path(__file__).parents[2] / "fixtures/tasks/sparse_rows"
WORDS = [
    "in:float32:1000:-1.0:1.0",
    "int:1000",
    "double:2.5",
    "out:4000",
    "float:0.25",
    "in:float16:1000:1.0:1.0",
    "int:-5",
    "in:int32:1000:3.0:7.0",
    "int:18446744073709551615",
]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("libraries")
    built = {}
    for name in ("runtime", "candidate"):
        built[name] = str(folder / f"{name}.so")
        source = str(FIXTURES / f"{name}.c")
        flags = ["-x", "c", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["g++", *flags, source, "-o", built[name]], check=True)
    return built


def drive(
    libraries: dict[str, str], warm_ups: int, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    view = view_words(find_toolkit(), Path(libraries["candidate"]))
    command = [str(driver_program()), *view, libraries["runtime"], libraries["candidate"], "7"]
    return subprocess.run(
        [*command, str(warm_ups), *words],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def test_solve_gets_every_kind_of_argument(libraries: dict[str, str]) -> None:
    done = drive(libraries, 0, *WORDS)
    assert done.returncode == 0, done.stderr
    assert "solve n=1000 wide=2.5 narrow=0.25 below=-5 most=18446744073709551615" in done.stdout
    assert "floats 1 1 bins 3 6" in done.stdout
    assert "half 3c00 3c00" in done.stdout


def test_memory_is_as_large_as_the_argument_and_outputs_are_never_written(
    libraries: dict[str, str],
) -> None:
    lines = drive(libraries, 0, *WORDS).stdout.splitlines()
    assert [line for line in lines if line.startswith("malloc")] == [
        "malloc 4000",
        "malloc 4000",
        "malloc 2000",
        "malloc 4000",
    ]
    assert [line for line in lines if line.startswith("memcpy")] == [
        "memcpy 4000 1",
        "memcpy 2000 1",
        "memcpy 4000 1",
    ]


def test_the_profiler_sees_one_call_with_fresh_inputs(libraries: dict[str, str]) -> None:
    lines = drive(libraries, 2, *WORDS).stdout.splitlines()
    kinds = [line.split()[0] for line in lines if line.split()[0] not in {"floats", "half"}]
    refilled = ["memcpy"] * 3
    assert kinds == [
        *["malloc"] * 4,
        *refilled,
        "solve",
        *refilled,
        "solve",
        *refilled,
        "start",
        "solve",
        "stop",
    ]


def test_contents_longer_than_their_period_fill_the_whole_input(libraries: dict[str, str]) -> None:
    words = [*WORDS]
    words[0] = "in:float32:2500000:-1.0:1.0"
    lines = drive(libraries, 0, *words).stdout.splitlines()
    copied = [int(line.split()[1]) for line in lines if line.startswith("memcpy")]
    assert sum(copied) - 6000 == 10_000_000


@pytest.mark.parametrize(
    ("failing", "code", "what"), [("cudaMalloc", 3, "cudaMalloc"), ("cudaGetLastError", 4, "solve")]
)
def test_a_failure_of_ours_and_one_of_solve_are_told_apart(
    libraries: dict[str, str], failing: str, code: int, what: str
) -> None:
    done = drive(libraries, 0, *WORDS, FAILING=failing)
    assert done.returncode == code
    assert done.stderr == f"driver: {what}: cudaErrorIllegalAddress\n"


def tried(libraries: dict[str, str], file: Path, scratch: Path) -> list[str]:
    done = drive(libraries, 0, *WORDS, FILE_TO_TRY=str(file), TMPDIR=str(scratch))
    assert done.returncode == 0, done.stderr
    return [line.split()[1] for line in done.stdout.splitlines() if line.startswith("try")]


def test_a_candidate_finds_its_scratch_folder_and_the_system_alone(
    libraries: dict[str, str], tmp_path: Path
) -> None:
    secret, scratch = tmp_path / "secret", tmp_path / "scratch"
    scratch.mkdir()
    for file in (secret, scratch / "own"):
        file.write_text("x")
    kept = "refused" if landlock_abi() else "opened"
    assert tried(libraries, secret, scratch) == [kept, kept]
    assert tried(libraries, Path(libraries["candidate"]), scratch) == ["opened", kept]
    assert tried(libraries, scratch / "own", scratch) == ["opened", "opened"]


@pytest.mark.parametrize(
    "word", ["in:float32:10", "int", "float:1:2", "in:complex32:4:0:1", "nonsense:1"]
)
def test_a_word_it_does_not_know_is_refused(libraries: dict[str, str], word: str) -> None:
    done = drive(libraries, 0, word)
    assert done.returncode == 3
    assert done.stderr.startswith("driver: arguments: ")


@pytest.mark.parametrize(("kind", "most"), [("int:1", 24), ("float:1", 8)])
def test_more_arguments_than_a_call_has_are_refused(
    libraries: dict[str, str], kind: str, most: int
) -> None:
    done = drive(libraries, 0, *[kind] * (most + 1))
    assert (done.returncode, "too many" in done.stderr) == (3, True)


def test_what_a_task_makes_is_read_from_a_file(libraries: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "x:1.bin"
    file.write_bytes(struct.pack("<1000f", *[-0.95] * 500, *[0.95] * 500))
    done = drive(libraries, 1, f"file:{file}", *WORDS[1:])
    assert done.returncode == 0, done.stderr
    assert "floats 1 1 bins 3 6" in done.stdout
    file.write_bytes(bytes(4000))
    assert "floats 0 0" in drive(libraries, 1, f"file:{file}", *WORDS[1:]).stdout
    assert drive(libraries, 0, f"file:{file}2", *WORDS[1:]).returncode == 3


def test_a_command_brings_the_inputs_that_a_task_makes(tmp_path: Path) -> None:
    task, dims = load_task(SPARSE), {"rows": 5, "nonzeros": 9}
    built = asyncio.run(compile_candidate(CompileRequest(source=task.baseline.read_text())))
    assert isinstance(built, Compiled)
    words = driver_command(find_toolkit(), task, built, dims, tmp_path, seed=3, confined=True)
    offsets = Path(words[-5].removeprefix("file:"))
    assert struct.unpack("<6i", offsets.read_bytes()) == (0, 1, 3, 5, 7, 9)
    assert words[-4] == "in:float32:9:-1.0:1.0"


@pytest.mark.parametrize("name", list_tasks())
def test_every_task_has_a_word_for_each_argument(name: str) -> None:
    task = load_task(name)
    dims = task.sizes.edge[-1]
    words = [argument_word(argument, dims).split(":") for argument in task.arguments]
    kinds = {"in": "in", "inout": "in", "out": "out"}
    scalars = {"int32": "int", "float32": "float"}
    assert [word[0] for word in words] == [
        kinds.get(argument.role.value) or scalars[argument.dtype] for argument in task.arguments
    ]


def test_whole_numbers_come_from_the_range_of_the_task() -> None:
    task = load_task("histogram")
    word = argument_word(task.arguments[0], {"n": 100, "num_bins": 17})
    assert word == "in:int32:100:0.0:17.0"


@pytest.mark.parametrize(
    ("dtype", "word"),
    [
        ("uint8", "in:uint8:6:0.0:256.0"),
        ("bool", "in:bool:6:0.0:2.0"),
        ("int64", "in:int64:6:0.0:2147483648.0"),
        ("float16", "in:float16:6:-1.0:1.0"),
    ],
)
def test_a_range_fits_its_type(dtype: str, word: str) -> None:
    argument = TaskArgument(
        name="x",
        role=ArgumentRole.INOUT,
        dtype=dtype,
        shape=("n", "2"),
        distributions=("ints_full_range",),
    )
    assert argument_word(argument, {"n": 3}) == word


DRAW = """
#include "contents.h"
#include <cstdio>
int main(int, char** arguments)
{
    const auto bytes = driver::draw(arguments[1], 4096, -1, 1, 5);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
}
"""


def test_contents_are_the_same_numbers_in_every_float_type(tmp_path: Path) -> None:
    native = Path(solve_driver.__file__).parent / "native/driver"
    main, program = tmp_path / "draw.cpp", tmp_path / "draw"
    main.write_text(DRAW)
    sources = [str(main), str(native / "contents.cpp")]
    subprocess.run(["g++", "-std=c++20", f"-I{native}", *sources, "-o", program], check=True)

    def drawn(element: ElementType) -> npt.NDArray[np.float64]:
        done = subprocess.run([program, element.name], capture_output=True, check=True)
        stored = np.frombuffer(done.stdout, element.stored_as)
        return np.asarray(element.decode(stored, np)).real.astype(np.float64)

    exact = drawn(ELEMENT_TYPES["float64"])
    for element in ELEMENT_TYPES.values():
        if element.is_float:
            step = max(2 * element.floating.rounding_unit, 2.0**-23)
            least = element.floating.smallest_normal
            assert (abs(drawn(element) - exact) <= np.maximum(step * abs(exact), least)).all()


def test_the_runtime_is_the_toolkits_own(tmp_path: Path) -> None:
    found = runtime_library(find_toolkit())
    assert found.name.startswith("libcudart.so.")
    bare = Toolkit(nvcc=tmp_path / "nvcc", root=tmp_path, version="13.0")
    with pytest.raises(MissingError, match="libcudart is missing"):
        runtime_library(bare)
