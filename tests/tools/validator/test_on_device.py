"""Validation on arrays with the limits of a GPU's, and how often it synchronises with them."""

import asyncio
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from array_kernels import HONEST, writes
from array_mutants import mutants
from launch_on_host import launch_on_host
from measured_site import Buffers, running, untimed
from small_tasks import small_task
from strict_arrays import strict_arrays

from cuda_llm.outcomes import (
    ElementKind,
    ElementPattern,
    GuardOverwritten,
    InputMutated,
    Nondeterministic,
    WrongResult,
)
from cuda_llm.tasks.element_types import element_type
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Tolerance, ToleranceClass
from cuda_llm.tasks.tolerances import Terms, limits
from cuda_llm.tools.device import CallOptions
from cuda_llm.tools.device.buffers import LaunchKernel
from cuda_llm.tools.validator.admissible import check_sessions
from cuda_llm.tools.validator.cases import Case
from cuda_llm.tools.validator.compare import Expected, compare
from cuda_llm.tools.validator.distributions import draw
from cuda_llm.tools.validator.oracle import baseline_oracle
from cuda_llm.tools.validator.validate import Validated, validate

MOST_WAITS = 4
"""A case waits for damage, for each output, and for late writes; a probe for its largest sum."""
AT_REAL_SIZES = ("histogram",)
"""Small ones have no count that a float16 does not hold."""


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("launch", [launch_on_host, None])
def test_honest_kernels_pass_on_a_device(name: str, launch: LaunchKernel | None) -> None:
    arrays, _xp = strict_arrays(launch)
    session = running(writes(name, HONEST[name][0]), arrays=arrays)
    result = asyncio.run(validate(small_task(name), session, arrays=arrays))
    assert isinstance(result, Validated), result


@pytest.mark.parametrize("name", HONEST)
def test_a_case_needs_few_synchronisations_with_the_device(name: str) -> None:
    arrays, xp = strict_arrays()
    seen: list[tuple[Case, int, int]] = []
    session = running(writes(name, HONEST[name][0]), arrays=arrays)

    def on_case(case: Case, number: int, total: int) -> None:
        seen.append((case, xp.waits, len(session.calls)))

    asyncio.run(validate(small_task(name), session, arrays=arrays, on_case=on_case))
    for (case, before, first), (_, after, end) in pairwise(seen):
        drawn = sum("mixed" in text for text in case.distributions.values())
        most = MOST_WAITS + drawn if end - first == 1 else (MOST_WAITS + 2) * (end - first) + 16
        assert after - before <= most, case


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("kind", tuple(mutants("reduction")))
def test_mutants_are_rejected_on_a_device(name: str, kind: str) -> None:
    arrays, _xp = strict_arrays()
    session = running(mutants(name)[kind], arrays=arrays)
    task = load_task(name) if name in AT_REAL_SIZES else small_task(name)
    verdict = asyncio.run(validate(task, session, arrays=arrays))
    # A race may show first in a call that is repeated.
    assert isinstance(verdict, WrongResult | Nondeterministic), verdict
    if kind == "zero" and name == "conv2d":
        assert isinstance(verdict, WrongResult)
        assert verdict.looks_like == ElementPattern(kind=ElementKind.ZEROS)


def test_the_baseline_may_stand_in_for_the_reference_on_a_device() -> None:
    arrays, _xp = strict_arrays()
    for name in ("vector_add", "histogram"):
        right = writes(name, HONEST[name][0])
        oracle = baseline_oracle(small_task(name), running(right, arrays=arrays), arrays)
        result = asyncio.run(
            validate(small_task(name), running(right, arrays=arrays), arrays=arrays, oracle=oracle)
        )
        assert isinstance(result, Validated), result


@pytest.mark.parametrize("name", HONEST)
def test_a_task_is_admissible_on_a_device(name: str) -> None:
    arrays, _xp = strict_arrays()
    first, second = (running(writes(name, HONEST[name][0]), arrays=arrays) for _ in range(2))
    admission = asyncio.run(check_sessions(small_task(name), first, second, arrays))
    assert admission.checked, admission.problems


def test_kinds_of_damage_are_distinguished_on_a_device() -> None:
    arrays, _xp = strict_arrays()
    task = small_task("vector_add")
    session = running(lambda b, options: None, arrays=arrays)

    def beside(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        session.placed["C"].guard_before.hidden[-3] ^= 1

    def mutating(b: Buffers, options: CallOptions) -> None:
        b["C"][...] = b["A"] + b["B"]
        b["B"].view(np.uint8)[-1] ^= 1

    session.script = untimed(beside)
    verdict = asyncio.run(validate(task, session, arrays=arrays))
    assert verdict == GuardOverwritten(buffer="C", side="before", offset_bytes=2)
    session.script = untimed(mutating)
    assert asyncio.run(validate(task, session, arrays=arrays)) == InputMutated(buffer="B")


def test_the_fake_device_refuses_what_a_gpu_refuses() -> None:
    _, xp = strict_arrays()
    device, host = xp.zeros(3), np.zeros(3)
    for refused in (
        lambda: device + host,
        lambda: host + device,
        lambda: np.abs(device),
        lambda: float(device[0]),
        lambda: bool(device.any()),
        lambda: device.__setitem__(slice(None), host),
        lambda: xp.where(device > 0, host, 0),
        lambda: device.tolist(),
        lambda: xp.unravel_index(1, (3,)),
        lambda: device[host > 0],
    ):
        with pytest.raises((TypeError, AttributeError)):
            refused()


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"]
)
def test_elements_of_every_type_are_drawn_and_compared_on_a_device(dtype: str) -> None:
    arrays, xp = strict_arrays()
    element = element_type(dtype)
    for spelling in (
        "bit_patterns",
        "mixed",
        "infinities",
        "lowest of normal",
        "few_heavy of large",
    ):
        drawn = draw(spelling, arrays.generator(5), (40, 30), dtype, {}, arrays=arrays)
        stored = arrays.to_host(drawn)
        assert stored.dtype.name == element.stored_as
        numbers = element.decode(stored, np)
        decoded = arrays.to_host(element.decode(drawn, xp))
        assert decoded.tobytes() == numbers.tobytes()
        wide = numbers.astype(element.wide)
        encoded = element.encode(xp.asarray(wide), xp)
        assert arrays.to_host(encoded).tobytes() == element.encode(wide, np).tobytes()
        own = limits(Tolerance(kind=ToleranceClass.ELEMENTWISE), Terms())
        with np.errstate(invalid="ignore"):
            wrong = np.where(numbers == 0, 1.0, wide / 3)
        for expected, right in ((wide, True), (wrong, False)):
            value = Expected(xp.asarray(expected), element=element)
            found = compare(drawn, value, own, arrays)
            assert found.ok is right, spelling
            # A NaN is not equal to itself.
            assert repr(found) == repr(compare(stored, replace(value, value=expected), own))
