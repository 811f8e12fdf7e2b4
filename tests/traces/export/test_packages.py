"""The exported packages: what they check, what they pass to `solve`, what they need."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from exported_package import StandIn, aligned, import_package, on_device, winner_of

from cuda_llm.errors import UsageError
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.sizes import scalar_value, shape_of
from cuda_llm.tasks.task import ArgumentRole
from cuda_llm.traces.export.carried.call import call
from cuda_llm.traces.export.export import export

RUFF = (
    sys.executable,
    "-m",
    "ruff",
    "check",
    "--isolated",
    "--line-length=100",
    "--select=E,F,I,B,UP",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the exports of this file lie."""
    return tmp_path_factory.mktemp("exports")


@pytest.fixture(scope="module", params=["cupy", "torch"])
def transpose(request: pytest.FixtureRequest, folder: Path) -> ModuleType:
    """The transpose, exported for each framework."""
    return import_package(winner_of("matrix_transpose"), request.param, folder)


@pytest.fixture(scope="module")
def histogram(folder: Path) -> ModuleType:
    """A task with a dim that follows from no input."""
    return import_package(winner_of("histogram"), "cupy", folder)


class OnHost:
    """Arrays of the host in place of a framework's."""

    def look(self, name: str, array: Any) -> tuple[str, tuple[int, ...], bool, int, int]:
        return str(array.dtype), array.shape, array.flags.c_contiguous, array.ctypes.data, 0

    def empty(self, shape: tuple[int, ...], dtype: str, device: int) -> Any:
        return aligned(shape, dtype)

    def target(self, device: int) -> str:
        return "sm_86"

    def in_order(self, device: int) -> AbstractContextManager[None]:
        return nullcontext()


class Solve:
    """Keeps what it is called with."""

    def __init__(self, error: str = "") -> None:
        self.error = error
        self.passed: list[Any] = []
        self.target = ""

    def load(self, target: str) -> "Solve":
        self.target = target
        return self

    def __call__(self, arguments: Sequence[Any]) -> str:
        self.passed = [one.value for one in arguments]
        return self.error


@pytest.mark.parametrize("name", list_tasks())
def test_solve_gets_every_argument_of_every_task_in_order(name: str, folder: Path) -> None:
    task = load_task(name)
    module = import_package(winner_of(name), "cupy", folder / "of_every_task")
    for dims in task.sizes.edge:
        solve = Solve()
        arrays: dict[str, Any] = {
            one.name: None
            if one.role == ArgumentRole.OUT
            else aligned(shape_of(one, dims), one.dtype)
            for one in task.arguments
            if one.role != ArgumentRole.SCALAR
        }
        result = call(module._CONTRACT, OnHost(), solve.load, arrays, dims)
        assert solve.target == "sm_86"
        (output,) = (
            one for one in task.arguments if one.role in (ArgumentRole.OUT, ArgumentRole.INOUT)
        )
        if output.role == ArgumentRole.INOUT:
            assert result is None
            result = arrays[output.name]
        assert (result.shape, str(result.dtype)) == (shape_of(output, dims), output.dtype)
        expected = [
            scalar_value(one, dims)
            if one.role == ArgumentRole.SCALAR
            else (result if one is output else arrays[one.name]).ctypes.data
            for one in task.arguments
        ]
        assert solve.passed == pytest.approx(expected, rel=2**-24)


def test_an_output_that_is_given_is_used_and_returned(histogram: ModuleType) -> None:
    bins = aligned((7,), "int32")
    solve = Solve()
    values = {"input": aligned((100,), "int32"), "histogram": bins}
    given = {"n": None, "num_bins": None}
    assert call(histogram._CONTRACT, OnHost(), solve.load, values, given) is bins
    assert solve.passed[1:] == [bins.ctypes.data, 100, 7]


def test_an_error_of_cuda_is_raised(histogram: ModuleType) -> None:
    values = {"input": aligned((100,), "int32")}
    with pytest.raises(RuntimeError, match="histogram: no device"):
        call(
            histogram._CONTRACT,
            OnHost(),
            Solve("no device").load,
            values,
            {"num_bins": 4},
        )


def test_a_dim_that_follows_from_nothing_must_be_passed(histogram: ModuleType) -> None:
    with pytest.raises(TypeError, match=r"num_bins follows from no array given; pass num_bins="):
        histogram.histogram(on_device((100,), "int32"))


@pytest.mark.parametrize(
    ("arguments", "kind", "complaint"),
    [
        (([1, 2],), TypeError, "input: is a builtins.list; expected a"),
        ((aligned((4, 4)),), TypeError, r"input: is a numpy\.ndarray; expected a"),
        ((on_device((4, 4), "float64"),), TypeError, "dtype float64; expected float32"),
        ((on_device((4,)),), ValueError, r"has 1 dimensions; expected \(rows, cols\)"),
        ((on_device((4, 4), off=1),), ValueError, "no multiple of 256 bytes"),
        ((StandIn(aligned((4, 6)).T),), ValueError, "is not contiguous"),
        ((StandIn(aligned((4, 6))[:, ::2]),), ValueError, "is not contiguous"),
        ((on_device((0, 4)),), ValueError, "rows is 0; expected at least 1"),
        (
            (on_device((4, 6)), on_device((4, 6))),
            ValueError,
            r"output: has shape \(4, 6\); expected \(cols, rows\) with cols = 6 as in input",
        ),
        (
            (on_device((4, 6)), StandIn(aligned((6, 4)), device_id=1)),
            ValueError,
            "output: lies on device 1, the others on 0",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    transpose: ModuleType, arguments: tuple[Any, ...], kind: type[Exception], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint):
        transpose.matrix_transpose(*arguments)


def test_a_dim_that_contradicts_a_shape_is_refused(transpose: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"input: has shape \(4, 6\).* with rows = 5"):
        transpose.matrix_transpose(on_device((4, 6)), rows=5)


def test_an_output_that_overlaps_an_input_is_refused(transpose: ModuleType) -> None:
    both = aligned((256, 64))
    upper, lower = StandIn(both[:64]), StandIn(both[32:96])
    with pytest.raises(ValueError, match="output: shares memory with input"):
        transpose.matrix_transpose(upper, lower)


def test_what_a_task_requires_is_checked(folder: Path) -> None:
    module = import_package(winner_of("conv2d"), "cupy", folder)
    with pytest.raises(ValueError, match="H >= R and W >= S does not hold"):
        module.conv2d(on_device((4, 4)), on_device((5, 3)))


def test_a_size_that_no_int_holds_is_refused(histogram: ModuleType) -> None:
    class Huge(OnHost):
        def look(self, name: str, array: Any) -> tuple[str, tuple[int, ...], bool, int, int]:
            return (
                ("int32", (2**31,), True, 0, 0)
                if name == "input"
                else ("int32", (4,), True, 2**40, 0)
            )

    arrays = {"input": object(), "histogram": object()}
    with pytest.raises(ValueError, match="n: 2147483648 does not fit int32"):
        call(histogram._CONTRACT, Huge(), Solve().load, arrays, {})


def test_tensors_that_need_a_gradient_or_lie_on_the_host_are_refused(folder: Path) -> None:
    module = import_package(winner_of("matrix_transpose"), "torch", folder / "torch_only")
    with pytest.raises(ValueError, match="no backward"):
        module.matrix_transpose(StandIn(aligned((4, 4)), requires_grad=True))
    with pytest.raises(ValueError, match="expected a CUDA device"):
        module.matrix_transpose(StandIn(aligned((4, 4)), is_cuda=False))


WITHOUT = """
import sys
sys.modules["cupy"] = sys.modules["torch"] = sys.modules["cuda_llm"] = None
sys.path[:0] = [{folder!r}, {support!r}]
import numpy
from {package} import matrix_transpose
class Array:
    dtype, shape, requires_grad, is_cuda = "float32", (4, 6), False, True
    flags = type("", (), {{"c_contiguous": True}})
    device = type("", (), {{"id": 0, "index": 0}})
    __cuda_array_interface__ = {{"data": (4096, False)}}
    def is_contiguous(self): return True
    def data_ptr(self): return 4096
try:
    matrix_transpose(Array())
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(("to", "remedy"), [("cupy", "CuPy is missing"), ("torch", "PyTorch is")])
def test_a_package_imports_without_its_framework_and_says_what_it_needs(
    tmp_path: Path, to: Any, remedy: str
) -> None:
    package = tmp_path / f"mine_{to}"
    export(winner_of("matrix_transpose"), to, package)
    code = WITHOUT.format(folder=str(tmp_path), support="", package=package.name)
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(remedy), done.stderr


@pytest.mark.parametrize("to", ["cupy", "torch"])
def test_a_package_is_clean_code(tmp_path: Path, to: Any) -> None:
    for name in list_tasks():
        export(winner_of(name), to, tmp_path / f"{name}_{to}")
    done = subprocess.run([*RUFF, str(tmp_path)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def test_a_scalar_that_cannot_be_passed_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "scaled"
    task = load_task("vector_add").folder
    folder.mkdir()
    for name in ("task.toml", "description.md", "baseline.cu", "reference.py"):
        (folder / name).write_text((task / name).read_text())
    toml = (folder / "task.toml").read_text().replace("[sizes]", HALF + "[sizes]", 1)
    (folder / "task.toml").write_text(toml)
    with pytest.raises(UsageError, match="half: a float16 by value cannot be exported"):
        export(winner_of(folder), "cupy", tmp_path / "out")


HALF = """
[[arguments]]
name = "half"
role = "scalar"
dtype = "float16"
value = "n"

"""
