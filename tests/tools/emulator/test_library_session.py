"""The modelled time of eager PyTorch operators."""

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.hardware_profiles.roofline import peak_tflops
from cuda_llm.tasks.torch_trace import Operator
from cuda_llm.tools.emulator.library_session import operator_us


@pytest.mark.parametrize(
    ("dtype", "peak"),
    [("bfloat16", "tensor:bf16"), ("float16", "tensor:fp16"), ("float32", "fp32")],
)
def test_a_long_product_runs_at_the_peak_of_its_type(dtype: str, peak: str) -> None:
    hardware = find_hardware("H200")
    flops = 2 * 8192**3
    product = Operator(name="mm", bytes_moved=1, flops=flops, terms=8192, dtype=dtype)
    expected_us = flops / (peak_tflops(hardware, peak) * 1e6) + hardware.model.launch_us
    assert operator_us(product, hardware) == pytest.approx(expected_us)
