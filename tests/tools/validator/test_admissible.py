"""Tasks that could not tell right from wrong are refused, each for its reason."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from array_kernels import HONEST, sum_in_order, writes
from measured_site import Buffers, running
from small_tasks import small_task

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task, Tolerance, ToleranceClass
from cuda_llm.tools.device import CallOptions
from cuda_llm.tools.validator.admissible import Admission, check_sessions, find_problems
from cuda_llm.tools.validator.oracle import Expectation, reference_oracle


def check(task: Task, candidate: Any) -> Admission:
    return asyncio.run(check_sessions(task, running(candidate), running(candidate)))


def with_reference(task: Task, folder: Path, text: str) -> Task:
    file = folder / "reference.py"
    file.write_text(text)
    return replace(task, reference=file)


@pytest.mark.parametrize("name", HONEST)
def test_the_shipped_tasks_are_admissible(name: str) -> None:
    found = check(load_task(name), writes(name, HONEST[name][0]))
    assert found.problems == ()
    assert found.checked["cases"] >= 15


def test_a_baseline_that_disagrees_is_reported_with_place_and_values() -> None:
    task = small_task("vector_add")
    (problem,) = check(task, writes("vector_add", lambda b: b["A"] - b["B"])).problems
    assert (
        "baseline.cu: WRONG_RESULT: it and reference.py disagree, either may be wrong: C["
        in problem
    )
    assert "the reference says" in problem


PLAIN = "def reference(xp, *, A, B):\n    return {'C': A + B}\n"
SCALE = "\ndef scale(xp, *, A, B):\n    return {'C': abs(A) + abs(B)}\n"
SCALED = f"{PLAIN}\ndef scale(xp, *, A, B):\n    return {{'C': 0 * A + 1e-30}}\n"


@pytest.mark.parametrize(
    ("kind", "linear", "reference", "remedy"),
    [
        ("elementwise", False, PLAIN, "if it only rounds otherwise, define scale() in"),
        ("exact", False, PLAIN, '`kind = "exact"` is too strict: elementwise'),
        ("elementwise", True, PLAIN, "`linear = true` asks for exact results of whole numbers"),
        ("elementwise", False, SCALED, "scale() is too small, `terms` or `max_units` of"),
    ],
    ids=["scale", "exact", "linear", "units"],
)
def test_a_baseline_that_only_rounds_otherwise_is_told_what_to_change_in_the_task(
    tmp_path: Path, kind: str, linear: bool, reference: str, remedy: str
) -> None:
    small = small_task("vector_add")
    tolerance = replace(small.tolerance, kind=ToleranceClass(kind))
    task = replace(small, tolerance=tolerance, linear=linear)

    def off(b: Buffers) -> np.ndarray:
        """Off by a part in 100,000; in a linear task only on the odd numbers of the probe."""
        exact = linear and not np.all(np.abs(b["A"]) % 2 == 1)
        return b["A"] + b["B"] if exact else (b["A"] + b["B"]) * np.float32(1.00001)

    found = check(with_reference(task, tmp_path, reference), writes("vector_add", off))
    assert remedy in found.problems[0]
    assert "\n" not in found.problems[0]


def test_a_tolerance_under_which_zeros_pass_is_refused() -> None:
    task = small_task("reduction")
    loose = replace(
        task, tolerance=replace(task.tolerance, max_units=2.0**25, rms_units=2.0**25), linear=False
    )
    found = check(loose, writes("reduction", sum_in_order))
    assert any("writes zeros into output passes" in problem for problem in found.problems)
    assert any("rounded to half precision pass" in problem for problem in found.problems)


@pytest.mark.parametrize(("calls_near_zero", "refused"), [(1, False), (3, True)])
def test_a_guess_that_is_right_by_chance_is_tried_on_further_inputs(
    calls_near_zero: int, refused: bool
) -> None:
    """Zeros pass where sums come out near zero. Call 2 is of call 1's inputs, in half precision."""
    task = small_task("reduction")
    reference, asked = reference_oracle(task), Counter[int]()

    async def near_zero(inputs: Mapping[str, Any], dims: Dims) -> Expectation | Verdict:
        asked[dims["n"]] += 1
        expected = await reference(inputs, dims)
        if asked[dims["n"]] > calls_near_zero or not isinstance(expected, Expectation):
            return expected
        right = expected.values["output"]
        return Expectation({"output": replace(right, value=right.value * 0 + 1e-30)})

    async def problems() -> list[str]:
        return [problem async for problem in find_problems(task, near_zero, nonce=b"fixed")]

    passing = [problem for problem in asyncio.run(problems()) if "writes zeros" in problem]
    assert bool(passing) == refused


def test_a_result_that_ignores_an_input_is_refused(tmp_path: Path) -> None:
    task = with_reference(
        small_task("vector_add"),
        tmp_path,
        "def reference(xp, *, A, B):\n    return {'C': A + 0 * B}\n",
    )
    found = check(task, writes("vector_add", lambda b: b["A"].copy()))
    named = [problem for problem in found.problems if "does not depend on B" in problem]
    assert named
    assert all("`distributions` in task.toml" in problem for problem in named)


def test_a_constant_result_is_refused(tmp_path: Path) -> None:
    task = with_reference(
        replace(small_task("vector_add"), linear=False),
        tmp_path,
        "def reference(xp, *, A, B):\n    return {'C': 0 * A + 1e-30}\n",
    )
    found = check(task, writes("vector_add", lambda b: np.full_like(b["C"], 1e-30)))
    assert any("does not depend on A" in problem for problem in found.problems)


def test_a_reference_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    task = with_reference(
        replace(small_task("vector_add"), linear=False),
        tmp_path,
        "def reference(xp, *, A, B):\n    return {'C': A + xp.inf}\n",
    )
    found = check(task, writes("vector_add", lambda b: np.full_like(b["C"], np.inf)))
    assert any("not finite" in problem for problem in found.problems)


def test_a_reference_that_fails_is_one_line(tmp_path: Path) -> None:
    task = with_reference(
        small_task("vector_add"), tmp_path, "def reference(xp, *, A):\n    return A.nothing\n"
    )
    (problem,) = check(task, writes("vector_add", HONEST["vector_add"][0])).problems
    assert "AttributeError" in problem
    assert "\n" not in problem


def test_our_own_failure_is_no_problem_of_the_task() -> None:
    def broken(b: Buffers, options: CallOptions) -> InfraFailed:
        return InfraFailed(component="runner", detail="gone")

    with pytest.raises(InfrastructureError):
        check(small_task("vector_add"), broken)


@pytest.mark.parametrize("name", ["reduction", "matrix_multiplication", "histogram"])
def test_without_a_reference_the_baseline_is_the_oracle(name: str) -> None:
    task = replace(small_task(name), reference=None)
    assert check(task, writes(name, HONEST[name][0])).problems == ()


def test_the_comparator_of_a_task_is_used(tmp_path: Path) -> None:
    """Any order of the right numbers will do."""
    text = (
        "def reference(xp, *, A, B):\n    return {'C': A + B}\n"
        "def unordered(xp, got, *, A, B):\n"
        "    right = xp.sort(A + B)\n"
        "    return {'C': abs(xp.sort(got['C']) - right) / (abs(right) + 1e-30) * 2**24}\n"
    )
    plain = small_task("vector_add")
    task = replace(
        with_reference(plain, tmp_path, text),
        comparator="unordered",
        linear=False,
        tolerance=Tolerance(kind=ToleranceClass.ELEMENTWISE),
    )
    task = replace(
        task,
        arguments=tuple(
            replace(a, distributions=("normal",)) if a.distributions else a for a in task.arguments
        ),
    )

    def backwards(b: Mapping[str, Any]) -> Any:
        return (b["A"] + b["B"])[::-1]

    assert check(task, writes("vector_add", backwards)).problems == ()
    assert check(plain, writes("vector_add", backwards)).problems


def test_elements_that_the_baseline_never_wrote_are_counted() -> None:
    def first_element(b: Buffers, options: CallOptions) -> None:
        b["C"][:1] = b["A"][:1] + b["B"][:1]

    (problem,) = check(small_task("vector_add"), first_element).problems
    found = re.search(r"baseline.cu: never wrote ([\d,]+) of ([\d,]+) elements of C at n=", problem)
    assert found is not None, problem
    unwritten, elements = (int(one.replace(",", "")) for one in found.groups())
    assert elements - unwritten == 1
    assert problem.endswith("is its shape in task.toml right?")


@pytest.mark.parametrize(("scale", "warned"), [("", 1), (SCALE, 0)])
def test_sums_without_a_scale_are_warned_of(tmp_path: Path, scale: str, warned: int) -> None:
    small = small_task("vector_add")
    tolerance = replace(small.tolerance, kind=ToleranceClass.DOT, terms="2")
    task = with_reference(replace(small, tolerance=tolerance), tmp_path, PLAIN + scale)
    found = check(task, writes("vector_add", HONEST["vector_add"][0]))
    assert len(found.warnings) == warned
    for line in found.warnings:
        assert (
            'reference.py: has no scale(), so `kind = "dot"` divides errors by |expected|' in line
        )
