"""Plain PyTorch functions as tasks, judged on the emulated device."""

import ast
import asyncio
from pathlib import Path

import numpy as np
import pytest
from corpus_sample import sample

from cuda_llm import judge_many
from cuda_llm.errors import TaskError, UsageError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.made_inputs import make_inputs
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.pytorch.import_tasks import import_function

FUNCTIONS = Path(__file__).parents[2] / "fixtures/torch_functions"
REAL = [
    (file, one.name)
    for file in sorted(FUNCTIONS.glob("*.py"))
    for one in ast.parse(file.read_text()).body
    if isinstance(one, ast.FunctionDef) and not one.name.endswith("_example")
]
"""Functions as model code has them; beside each is an example at a size that models use."""


def imported(tmp_path: Path, source: str, example: str, name: str = "f") -> Task:
    """Import the function `f` of a file."""
    file = tmp_path / "mine.py"
    file.write_text(f"import torch\nimport torch.nn.functional as F\n\n\n{source}")
    return load_task(import_function(f"{file}:{name}", example, tmp_path / "tasks"))


def test_an_extent_is_shared_where_the_function_needs_it_and_not_where_numbers_are_equal(
    tmp_path: Path,
) -> None:
    task = imported(
        tmp_path,
        "def f(x, w, pairs, eps=1e-6):\n"
        "    a, b = pairs.chunk(2, -1)\n"
        "    return x @ w.t() + eps, a * b\n",
        "randn(6, 6), randn(6, 6), randn(6, 6), 1e-3",
    )
    shapes = {one.name: one.shape for one in task.arguments if one.shape}
    assert shapes == {
        "x": ("x_0", "x_1"),
        "w": ("w_0", "x_1"),
        "pairs": ("pairs_0", "pairs_1"),
        "out0": ("x_0", "w_0"),
        "out1": ("pairs_0", "pairs_1 // 2"),
    }
    assert task.requires == "pairs_1 % 2 == 0"
    assert {one.name: one.value for one in task.arguments if one.value}["eps"] == "0.001"


def test_an_index_stays_below_the_extent_that_it_indexes(tmp_path: Path) -> None:
    task = imported(
        tmp_path,
        "def f(table, places, codes, labels):\n"
        "    return table[places] * codes, F.cross_entropy(table, labels, ignore_index=-1)\n",
        "randn(9, 5), randint(3, (4,)), randint(-7, 8, (4, 5), dtype=int8), "
        "tensor([0, 1, 2, -1, 4, 0, 1, -1, 2])",
    )
    drawn = {one.name: one.distributions for one in task.arguments}
    assert drawn["places"] == ("ints(0, table_0)",)
    assert drawn["codes"] == ("ints(-7, 8)",)
    assert drawn["labels"] == ("inputs.as_example",)
    assert task.inputs is not None
    assert "rng.integers(0, table_1" in task.inputs.read_text()


def test_values_with_a_meaning_of_their_own_are_mixed_among_the_others(tmp_path: Path) -> None:
    task = imported(
        tmp_path,
        "def f(scores, mask, kept):\n"
        "    masked = scores.masked_fill(~kept, -torch.inf)\n"
        "    return torch.softmax(scores + mask, -1), torch.softmax(masked, -1)\n",
        "randn(9, 7), full((9, 7), -inf).triu(1), ones(9, 7, dtype=torch.bool).tril()",
    )
    drawn = {one.name: one.distributions for one in task.arguments}
    assert drawn["mask"] == drawn["kept"] == ("inputs.as_example",)
    made = make_inputs(task, "as_example", 1, {"scores_0": 50, "scores_1": 40})
    assert made["kept"].dtype == bool
    assert 0.2 < made["kept"].mean() < 0.9
    assert set(np.unique(made["mask"])) == {-np.inf, 0.0}
    assert made["kept"][:, 0].all()
    assert (made["mask"][:, 0] == 0.0).all()


def test_extents_that_only_work_together_are_one_dim(tmp_path: Path) -> None:
    """`meta` accepts groups that do not fit the weights; a real call refuses them."""
    task = imported(
        tmp_path,
        "def f(x, weight):\n    return F.conv1d(x, weight.unsqueeze(1), groups=x.shape[1])\n",
        "randn(2, 32, 40), randn(32, 4)",
    )
    shapes = {one.name: one.shape for one in task.arguments if one.shape}
    assert shapes["x"][1] == shapes["weight"][0] == shapes["out"][1]


def test_parameters_of_a_module_are_arguments(tmp_path: Path) -> None:
    source = (
        "class Norm(torch.nn.Module):\n"
        "    def __init__(self, n):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.ones(n))\n\n"
        "    def forward(self, x):\n"
        "        return F.rms_norm(x, self.weight.shape) * self.weight\n"
    )
    task = imported(tmp_path, source, "randn(64, 128, dtype=float16)", "Norm(128).half()")
    assert [(one.name, one.dtype, one.shape) for one in task.arguments if one.shape] == [
        ("x", "float16", ("x_0", "x_1")),
        ("weight", "float16", ("x_1",)),
        ("out", "float16", ("x_0", "x_1")),
    ]
    assert task.tolerance.precision == "fp16"


@pytest.mark.parametrize(
    ("source", "example", "why"),
    sample(
        [
            (
                "def f(x):\n    return x[x > 0]\n",
                "randn(8)",
                "shape of its result depends on the val",
            ),
            (
                "def f(x):\n    return x * 2 if x.sum() > 0 else x\n",
                "randn(8)",
                "depends on the values",
            ),
            ("def f(x):\n    x += 1\n    return x * 2\n", "randn(8)", "writes to its argument x"),
            (
                "def f(x):\n    return x + torch.rand_like(x)\n",
                "randn(8)",
                "its results are random",
            ),
            ("def f(x):\n    return {'y': x + 1}\n", "randn(8)", "returns a"),
            ("def f(x):\n    return x + 1\n", "rand(8), 3", "the example does not fit: too many"),
            (
                "def f(x):\n    return x + 1\n",
                "rnd(8)",
                "name 'rnd' is not defined; expected its arg",
            ),
            ("def f(x):\n    return x[0] + 1\n", "([rand(8)],)", "x is a list; expected a tensor"),
            (
                "import absent_module\n\ndef f(x):\n    return x\n",
                "rand(8)",
                "No module named 'absent",
            ),
            ("def f(x)\n    return x\n", "rand(8)", "mine.py:5: expected ':'"),
            ("def g(x):\n    return x + 1\n", "rand(8)", "mine.py:f: not found"),
        ],
        every=3,
    ),
)
def test_what_is_no_task_is_refused_in_one_line(
    tmp_path: Path, source: str, example: str, why: str
) -> None:
    with pytest.raises(TaskError) as refused:
        imported(tmp_path, source, example)
    assert why in str(refused.value)
    assert "mine.py" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_not_there_and_a_name_without_function_are_bad_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.py: not found"):
        import_function(f"{tmp_path}/absent.py:f", "randn(8)", tmp_path)
    with pytest.raises(UsageError, match=r"expected FILE\.py:function"):
        import_function(f"{tmp_path}/mine.py", "randn(8)", tmp_path)


RMS_NORM = """
#include <cuda_bf16.h>

__global__ void norm(const __nv_bfloat16* x, const __nv_bfloat16* r, const __nv_bfloat16* w,
                     float eps, __nv_bfloat16* out, __nv_bfloat16* hidden, int n)
{
    __shared__ float partial[32];
    const long long row = (long long)blockIdx.x * n;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float h = __bfloat162float(x[row + i]) + __bfloat162float(r[row + i]);
        const __nv_bfloat16 kept = __float2bfloat16(h);
        hidden[row + i] = kept;
        const float rounded = __bfloat162float(kept);
        sum += rounded * rounded;
    }
    for (int step = 16; step > 0; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int warp = 0; warp < blockDim.x / 32; ++warp)
        sum += partial[warp];
    const float scale = rsqrtf(sum / n + eps);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        const float h = __bfloat162float(hidden[row + i]);
        out[row + i] = __float2bfloat16(h * scale * __bfloat162float(w[i]));
    }
}

extern "C" void solve(const __nv_bfloat16* x, const __nv_bfloat16* residual,
                      const __nv_bfloat16* weight, float eps, __nv_bfloat16* out0,
                      __nv_bfloat16* out1, int x_0, int x_1)
{
    norm<<<x_0, 128>>>(x, residual, weight, eps, out0, out1, x_1);
}
"""

SWIGLU = """
__global__ void swiglu(const float* x, const float* w, const float* v, float* out, int rows,
                       int inner, int columns)
{
    const int column = blockIdx.x * blockDim.x + threadIdx.x;
    const int row = blockIdx.y;
    if (column >= columns)
        return;
    float gate = 0.0f, value = 0.0f;
    for (int k = 0; k < inner; ++k) {
        gate += x[(long long)row * inner + k] * w[(long long)column * inner + k];
        value += x[(long long)row * inner + k] * v[(long long)column * inner + k];
    }
    out[(long long)row * columns + column] = gate / (1.0f + expf(-gate)) * value;
}

extern "C" void solve(const float* x, const float* w, const float* v, float* out, int x_0,
                      int x_1, int w_0)
{
    swiglu<<<dim3((w_0 + 63) / 64, x_0), 64>>>(x, w, v, out, x_0, x_1, w_0);
}
"""


@pytest.mark.parametrize(
    ("file", "name", "example", "right", "wrong"),
    [
        (
            "norms.py",
            "rms_norm_residual",
            "[one[:256, :512] for one in rms_norm_residual_example(bfloat16)[:2]]"
            " + [rand(512, dtype=bfloat16) + 0.5, 1e-6]",
            RMS_NORM,
            # Sums in bfloat16, as a careless kernel does.
            RMS_NORM.replace(
                "sum += rounded * rounded;",
                "sum = __bfloat162float(__float2bfloat16(sum + rounded * rounded));",
            ).replace("rsqrtf(sum / n + eps)", "rsqrtf(sum / n + 1e-2f)"),
        ),
        pytest.param(
            "feed_forward.py",
            "swiglu",
            "[one[:64, :96] for one in swiglu_example(float32)]",
            SWIGLU,
            SWIGLU.replace("k < inner", "k < inner - inner / 64"),
            marks=pytest.mark.evidence,
        ),
    ],
)
def test_a_right_kernel_passes_and_a_wrong_kernel_is_refused(
    tmp_path: Path, file: str, name: str, example: str, right: str, wrong: str
) -> None:
    task = load_task(import_function(f"{FUNCTIONS / file}:{name}", example, tmp_path))
    passed, refused = judge_many(task, [right, wrong], device="emulated")
    assert passed.verdict.code == "PASSED", passed.verdict
    assert refused.verdict.code == "WRONG_RESULT", refused.verdict


@pytest.mark.evidence
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("file", "name"), REAL)
def test_a_function_of_model_code_is_an_admissible_task(
    tmp_path: Path, file: Path, name: str, dtype: str
) -> None:
    folder = import_function(f"{file}:{name}", f"{name}_example({dtype})", tmp_path)
    admission = asyncio.run(check_task(load_task(folder), open_device("emulated")))
    assert admission.problems == ()
