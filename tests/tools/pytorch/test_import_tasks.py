"""Problems written here, imported with PyTorch and judged on the emulated device."""

import asyncio
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from corpus_sample import sample

from cuda_llm import judge_many
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.signature import signature
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.judge.compile import compile_baseline
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.pytorch.import_tasks import Imported, import_problems
from cuda_llm.tools.pytorch.kernelbench import task_name

Import = Callable[[str], Imported]
PROBLEMS = Path(__file__).parents[2] / "fixtures/kernelbench"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Import:
    """Imports a problem by the name of its task, once: each import loads PyTorch."""
    tasks = tmp_path_factory.mktemp("tasks")

    @cache
    def by_name(name: str) -> Imported:
        (problem,) = PROBLEMS.glob(f"{name.rpartition('_')[2]}_*.py")
        (found,) = import_problems(problem, tasks)
        assert task_name(found.problem) == name
        return found

    return by_name


def task_of(imported: Import, name: str) -> Task:
    folder = imported(name).folder
    assert folder is not None, imported(name).reason
    return load_task(folder)


TAKEN = (
    "scaled_relu_1",
    "linear_2",
    "strided_conv_3",
    "softmax_4",
    "argmax_5",
    "cross_entropy_6",
)


@pytest.mark.parametrize("name", sample(TAKEN, every=6))
def test_a_module_is_right_by_its_own_task_and_what_computes_nothing_is_not(
    imported: Import, name: str
) -> None:
    admission = asyncio.run(check_task(task_of(imported, name), open_device("emulated")))
    assert admission.problems == ()
    assert admission.checked["cases"] > 5


@pytest.mark.parametrize(
    ("name", "why"),
    sample(
        [
            ("dropout_7", "random"),
            ("constant_8", "the same whatever the inputs"),
            ("no_model_9", "has no Model"),
        ],
        every=3,
    ),
)
def test_what_is_no_task_is_refused_with_its_reason(imported: Import, name: str, why: str) -> None:
    assert imported(name).folder is None
    assert why in imported(name).reason


@pytest.mark.evidence
def test_extents_are_expressions_in_the_files_whole_numbers(imported: Import) -> None:
    conv = task_of(imported, "strided_conv_3")
    shapes = {one.name: one.shape for one in conv.arguments}
    assert shapes["x"] == ("batch", "channels", "height", "width")
    assert shapes["conv_weight"] == ("4", "channels", "3", "3")
    assert shapes["out"] == ("batch", "4", "(height + 1) // 2", "(width + 1) // 2")
    softmax = task_of(imported, "softmax_4")
    assert softmax.arguments[0].shape == ("shape_0", "shape_1")
    assert dict(softmax.sizes.bench[0]) == {"shape_0": 64, "shape_1": 300}


@pytest.mark.evidence
def test_solve_takes_inputs_parameters_outputs_and_dims(imported: Import) -> None:
    assert signature(task_of(imported, "linear_2")).endswith(
        "solve(const float* x, const float* linear_weight, const float* linear_bias, "
        "float* out, int batch, int inner)"
    )
    labels = task_of(imported, "cross_entropy_6").arguments[1]
    assert (labels.dtype, labels.distributions) == ("int64", ("ints(0, classes)",))


RIGHT = """
__global__ void scale(const float* x, float* out, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] > 0.0f ? 0.5f * x[i] : 0.0f;
}

extern "C" void solve(const float* x, float* out, int rows, int columns)
{
    scale<<<(rows * columns + 255) / 256, 256>>>(x, out, rows * columns);
}
"""


def test_a_kernel_is_judged_against_the_module_and_beside_it(imported: Import) -> None:
    planted = RIGHT.replace("x[i] > 0.0f", "x[i] > 0.01f")
    task = task_of(imported, "scaled_relu_1")
    passed, wrong = judge_many(task, [RIGHT, planted], device="emulated")
    assert passed.verdict.code == "PASSED", passed.verdict
    # Two eager operators move twice the bytes of one kernel, and are launched twice.
    assert 1.5 < (passed.sizes[0].speedup or 0.0) < 3.0
    assert wrong.verdict.code == "WRONG_RESULT"


def test_the_baseline_depends_on_the_module_beside_it(imported: Import, tmp_path: Path) -> None:
    folder = shutil.copytree(task_of(imported, "scaled_relu_1").folder, tmp_path / "task")
    before = asyncio.run(compile_baseline(load_task(folder), "sm_86"))
    module = folder / "module.py"
    module.write_text(module.read_text().replace("0.5", "0.25"))
    after = asyncio.run(compile_baseline(load_task(folder), "sm_86"))
    assert before.key != after.key
    assert not isinstance(after, Compiled)
    assert after.idle is not None


def test_a_problem_is_not_imported_over_a_folder_that_is_there(tmp_path: Path) -> None:
    problem = PROBLEMS / "5_Argmax.py"
    assert next(import_problems(problem, tmp_path)).folder is not None
    assert "exists already" in next(import_problems(problem, tmp_path)).reason
