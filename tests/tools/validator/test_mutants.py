"""Every mutant of every task is rejected, on arrays, by the whole validation."""

import asyncio

import pytest
from array_kernels import HONEST
from array_mutants import SHORT, mutants, short_inputs
from measured_site import running

from cuda_llm.outcomes import Nondeterministic, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.validator.validate import validate

KINDS = tuple(mutants("reduction"))
NONCES = [bytes([value]) * 16 for value in (1, 2, 3)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", HONEST)
def test_every_applicable_mutant_is_rejected(task: str, kind: str) -> None:
    mutant = mutants(task)[kind]
    for nonce in NONCES:
        verdict = asyncio.run(validate(load_task(task), running(mutant), nonce=nonce))
        # A race may show first in a call that is repeated.
        assert isinstance(verdict, WrongResult | Nondeterministic), (kind, verdict)
        assert isinstance(verdict, Nondeterministic) or verdict.failed_cases >= 1


@pytest.mark.parametrize("precision", SHORT)
@pytest.mark.parametrize(
    "task", ["vector_add", "matrix_multiplication", "matrix_transpose", "reduction", "conv2d"]
)
def test_inputs_rounded_to_a_shorter_format_are_rejected(task: str, precision: str) -> None:
    candidate = short_inputs(task, SHORT[precision])
    for nonce in NONCES:
        verdict = asyncio.run(validate(load_task(task), running(candidate), nonce=nonce))
        assert isinstance(verdict, WrongResult)
