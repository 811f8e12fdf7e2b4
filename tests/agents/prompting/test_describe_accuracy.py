"""What prompts say of roundings holds where kernels are judged, and for what a GPU computed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_situations import recorded_rounds
from small_tasks import small_task

from cuda_llm import judge
from cuda_llm.agents.prompting.describe_accuracy import (
    APPROXIMATIONS,
    describe_timed_inputs,
    describe_tolerance,
    functions_of,
)
from cuda_llm.agents.researcher.facts import describe_hardware
from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Passed, Verdict, WrongResult
from cuda_llm.tasks.loader import load_task

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDED = FIXTURES / "recorded/special_functions_h200.npz"


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("vector_add", "off by 8 roundings in fp32 (2^-24 each), 4 in the mean square, relative"),
        ("reduction", "(2 sqrt(t) and sqrt(t), if more, for t terms of one sign), relative to"),
        ("gemm_fp16", "off by the rounding of the result to fp16 (2^-11 each) after sums in fp32"),
        ("softmax", "off by 48 roundings in fp32 (2^-24 each), 24 in the mean square, relative"),
        ("sigmoid", "ex2.approx 2.8 (as `__expf(x)` 1.3 |x| more); tanh.approx 8,192, too many."),
        ("layer_norm", "In roundings are off: rsqrt.approx 2.1."),
        ("attention_fp16", "ex2.approx.f16x2 2.1, too many; tanh.approx 1."),
    ],
)
def test_the_limits_are_those_of_the_judge(task: str, words: str) -> None:
    assert words in describe_tolerance(load_task(task))


@pytest.mark.parametrize("task", ["histogram", "matrix_multiplication", "reduction"])
def test_no_approximation_is_named_where_no_function_is_computed(task: str) -> None:
    assert "approx" not in describe_tolerance(load_task(task))


def test_functions_of_a_task_are_those_of_its_reference_alone() -> None:
    # `scale` of cross_entropy takes a logarithm, too, and that of matrix_multiplication a root.
    assert {"exp", "log"} <= functions_of(load_task("cross_entropy"))
    assert "sqrt" not in functions_of(load_task("matrix_multiplication"))


@pytest.mark.parametrize(
    ("name", "spelling", "exact"),
    [
        ("ex2", "ex2.approx", np.exp2),
        ("rsqrt", "rsqrt.approx", lambda x: 1 / np.sqrt(x)),
        ("tanh", "tanh.approx", np.tanh),
    ],
)
def test_what_an_h200_computed_is_off_by_no_more(name: str, spelling: str, exact: Any) -> None:
    with np.load(RECORDED) as file:
        x, y = (bits.view(np.float32).astype(np.longdouble) for bits in file[name])
    with np.errstate(all="ignore"):
        true = exact(x)
        normal = (abs(true) > 2.0**-120) & (abs(true) < 2.0**127) & (abs(x) > 2.0**-120)
        error = (abs(y - true) / abs(true))[normal]
    (stated,) = (one.error for one in APPROXIMATIONS if one.name == spelling)
    assert 2.0**-24 < error.max() <= stated


def judged(task: str, source: str) -> Verdict:
    """The verdict of an emulated H200 at few sizes."""
    return judge(small_task(task), source, device="emulated:H200").verdict


SIGMOID = """
__device__ float approximate(float x) {{ {} }}
__global__ void each(const float* x, float* y, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = approximate(x[i]);
}}
extern "C" void solve(const float* x, float* y, int n)
{{
    each<<<(n + 255) / 256, 256>>>(x, y, n);
}}
"""


def test_an_exponential_that_prompts_call_exact_enough_passes_and_another_does_not() -> None:
    assert isinstance(judged("sigmoid", SIGMOID.format("return 1 / (1 + __expf(-x));")), Passed)
    halved = 'asm("tanh.approx.f32 %0, %1;" : "=f"(x) : "f"(x * 0.5f)); return fmaf(x, 0.5f, 0.5f);'
    assert isinstance(judged("sigmoid", SIGMOID.format(halved)), WrongResult)


def test_products_of_two_tf32_parts_pass_and_those_of_one_do_not() -> None:
    source = (FIXTURES / "honest_extra/splits_tf32_in_two.cu").read_text()
    assert isinstance(judged("matrix_multiplication", source), Passed)
    one_part = source.replace("kParts = 2", "kParts = 1")
    assert isinstance(judged("matrix_multiplication", one_part), WrongResult)


@pytest.mark.parametrize(
    ("gpu", "task", "shown"),
    [
        ("NVIDIA H200", "matrix_multiplication", True),
        ("NVIDIA H200", "conv2d", True),
        ("NVIDIA GeForce GTX 1660 SUPER", "matrix_multiplication", False),
        ("NVIDIA H200", "reduction", False),
        ("NVIDIA H200", "gemm_fp16", False),
    ],
)
def test_parts_of_numbers_are_spoken_of_where_tensor_cores_could_multiply_them(
    gpu: str, task: str, shown: bool
) -> None:
    situation = replace(
        recorded_rounds("reduction")[0], task=load_task(task), hardware=find_hardware(gpu)
    )
    text = "\n".join(describe_hardware(situation))
    assert ("three of two tf32 parts 12;" in text) is shown
    assert ("one of tf32 16,384, too many" in text) is shown


def test_timed_calls_are_described_with_inputs_and_caches() -> None:
    situation = recorded_rounds("reduction")[0]

    def words(task: str, **fields: Any) -> str:
        return describe_timed_inputs(replace(situation, task=load_task(task), **fields))

    assert words("reduction") == "cold caches; input uniform in [-5, 5)"
    assert words("multi_head_attention") == "cold caches; Q, K, V normal, mean 0, variance 1"
    assert words("histogram").endswith("input uniform whole numbers in [0, num_bins)")
    warm = situation.config.changed(l2="warm")
    on_gpu = Capabilities(measures_time=True, sets_l2=True)
    assert words("reduction", config=warm).startswith("cold caches; ")
    left = "caches as the arrival of inputs left them; "
    assert words("reduction", config=warm, capabilities=on_gpu).startswith(left)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("float8_e4m3fn", "Beyond the range of e4m3 a result is the largest number, 448; there"),
        ("float8_e5m2", "Beyond the range of e5m2 a result is the largest number, 57344, or inf"),
        ("complex64", "each part of a complex one, relative to the same"),
    ],
)
def test_what_a_type_of_the_outputs_changes_is_said(dtype: str, words: str) -> None:
    task = load_task("vector_add")
    assert words not in describe_tolerance(task)
    typed = replace(task, arguments=tuple(replace(one, dtype=dtype) for one in task.arguments))
    assert words in describe_tolerance(typed)


def test_the_limits_of_bfloat16_name_its_rounding() -> None:
    task = load_task("gemm_fp16")
    bf16 = replace(task, tolerance=replace(task.tolerance, precision="bf16"))
    assert "the rounding of the result to bf16 (2^-8 each) after sums in fp32" in (
        describe_tolerance(bf16)
    )
