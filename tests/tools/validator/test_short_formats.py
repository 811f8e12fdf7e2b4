"""Kernels that compute in a shorter format than the task asks for are rejected, on arrays."""

import asyncio

import pytest
from array_mutants import SHORT, short_inputs
from measured_site import running

from cuda_llm.outcomes import WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.validator.validate import validate

NONCE = bytes([1]) * 16


@pytest.mark.parametrize("precision", SHORT)
@pytest.mark.parametrize(
    "task", ["vector_add", "matrix_multiplication", "matrix_transpose", "reduction", "conv2d"]
)
def test_inputs_rounded_to_a_shorter_format_are_rejected(task: str, precision: str) -> None:
    candidate = short_inputs(task, SHORT[precision])
    verdict = asyncio.run(validate(load_task(task), running(candidate), nonce=NONCE))
    assert isinstance(verdict, WrongResult)
