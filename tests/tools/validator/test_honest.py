"""Honest arithmetic in any order is never refused."""

import asyncio
import random

import pytest
from array_kernels import HONEST, Compute, writes
from corpus_sample import is_whole
from measured_site import running
from small_tasks import small_task

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.validator.validate import Validated, validate

EVALUATIONS = 200 if is_whole() else 6


@pytest.mark.parametrize("name", HONEST)
def test_random_evaluations_raise_no_false_alarm(name: str) -> None:
    task = small_task(name)
    nonces = random.Random(name)
    for number in range(EVALUATIONS):
        compute = HONEST[name][number % len(HONEST[name])]
        nonce = nonces.randbytes(16)
        result = asyncio.run(validate(task, running(writes(name, compute)), nonce=nonce))
        assert isinstance(result, Validated), (compute.__name__, nonce, result)


@pytest.mark.parametrize(
    ("name", "compute"), [(name, compute) for name in HONEST for compute in HONEST[name]]
)
def test_every_honest_way_passes_at_the_real_sizes(name: str, compute: Compute) -> None:
    task = load_task(name)
    result = asyncio.run(validate(task, running(writes(name, compute))))
    assert isinstance(result, Validated), result
    assert result.checked["hidden"] >= 2
    assert result.checked["sizes"] == len(task.sizes.edge) + 1
