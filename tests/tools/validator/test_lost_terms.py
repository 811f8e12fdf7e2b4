"""One lost or doubled term of a sum shows, however long the sum, and honest orders still pass."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from task_fixtures import ArraySession

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.validator.cases import LONG_PROBE, PROBE_TERMS, plan, probe_rows
from cuda_llm.tools.validator.check_case import draw_inputs
from cuda_llm.tools.validator.validate import Validated, validate

Array = npt.NDArray[Any]
NONCES = [bytes([k]) * 16 for k in range(3)]


def terms_of_task(name: str, b: Any) -> tuple[str, Array, float]:
    """Return the output of a task, the terms that it adds, and what their sum is divided by."""
    match name:
        case "reduction":
            return "output", b["input"], 1.0
        case "dot_product":
            return "result", b["a"] * b["b"], 1.0
        case "mean_squared_error":
            return "mse", np.square(b["predictions"] - b["targets"]), b["n"]
        case "monte_carlo_integration":
            return "result", b["y_samples"], b["n"] / (b["b"] - b["a"])
        case _:
            logits = b["logits"].astype(np.float64)
            largest = logits.max(axis=-1)
            spread = np.log(np.exp(logits - largest[:, None]).sum(axis=-1))
            chosen = np.take_along_axis(logits, b["labels"][:, None], axis=-1)[:, 0]
            return "loss", largest + spread - chosen, b["N"]


def kernel(name: str, change: Callable[[Array], Array]) -> Callable[[Any], None]:
    def write(buffers: Any) -> None:
        output, terms, count = terms_of_task(name, buffers)
        buffers[output][0] = change(terms.astype(np.float64)).sum() / count

    return write


def is_long(terms: Array) -> bool:
    return terms.size >= 4096


def lost_tail(terms: Array) -> Array:
    return terms[: terms.size // 4 * 4] if is_long(terms) else terms


def doubled_first(terms: Array) -> Array:
    return np.append(terms, terms[0]) if is_long(terms) else terms


def lost_at_block_borders(terms: Array) -> Array:
    kept = terms.copy()
    if is_long(terms):
        kept[1023::1024] = 0
    return kept


NAMES = (
    *("reduction", "dot_product", "mean_squared_error", "monte_carlo_integration"),
    "cross_entropy",
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("change", [lost_tail, doubled_first, lost_at_block_borders])
@pytest.mark.parametrize("nonce", NONCES)
def test_a_wrong_term_of_a_long_sum_shows(
    name: str, change: Callable[[Array], Array], nonce: bytes
) -> None:
    task = load_task(name)
    verdict = asyncio.run(validate(task, ArraySession(task, kernel(name, change)), nonce=nonce))
    assert not isinstance(verdict, Validated)


@pytest.mark.parametrize("name", NAMES)
def test_all_terms_in_double_precision_pass(name: str) -> None:
    task = load_task(name)
    session = ArraySession(task, kernel(name, lambda terms: terms))
    verdict = asyncio.run(validate(task, session, nonce=NONCES[0]))
    assert isinstance(verdict, Validated), verdict


@pytest.mark.parametrize("name", ["reduction", "dot_product", "prefix_sum"])
def test_long_sums_are_probed_without_zeros(name: str) -> None:
    task = load_task(name)
    cases = [case for case in plan(task, np.random.default_rng(0)) if case.probe]
    dense = [case for case in cases if LONG_PROBE not in case.distributions.values()]
    assert dense
    for case in dense:
        assert len(probe_rows(task, case.dims)) == 2
        inputs = draw_inputs(task, case, np.random.default_rng(0)).values()
        sizes = [np.abs(array).astype(np.float64) for array in inputs]
        assert all((one >= 1).all() for one in sizes)
        assert np.prod(sizes, axis=0).sum() < 2**24
    assert max(case.dims["n"] for case in dense) > PROBE_TERMS
