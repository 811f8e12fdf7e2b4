"""What the check that is published with a task accepts, beside our verdict."""

import asyncio

import numpy as np
import pytest
from tiny_tasks import tiny_task

from cuda_llm.codec import decode, encode
from cuda_llm.outcomes import (
    CompileFailed,
    Duplicate,
    InfraFailed,
    PublishedCheck,
    TimedOut,
    Verdict,
)
from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.judge.judged import Judged
from cuda_llm.tools.judge.published_check import beyond, known_answer, needs_a_call
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.timing.times import KernelTimes

NO_TIMES = KernelTimes(times=(), launches=(), bottlenecks=())
KERNEL = """\
__global__ void add(const float* A, const float* B, float* C, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    STATEMENT
}
extern "C" void solve(const float* A, const float* B, float* C, int n) {
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
    cudaDeviceSynchronize();
}
"""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(tiny_task(tmp_path_factory.mktemp("tasks"), "tiny"))


def judged(task: Task, statement: str) -> Judged:
    source = KERNEL.replace("STATEMENT", statement)

    async def verdict() -> Judged:
        bench = open_bench(task, open_device("emulated"), seed=0)
        return await judge(bench, source, baseline=NO_TIMES)

    return asyncio.run(verdict())


@pytest.mark.parametrize(
    ("statement", "code", "accepts"),
    [
        ("if (i < n) C[i] = A[i] + B[i] + 2e-6f;", "WRONG_RESULT", True),
        ("if (i < n) C[i] = A[i] + B[i] + 2e-4f;", "WRONG_RESULT", False),
        ("if (i <= n) C[i] = A[i % n] + B[i % n];", "ILLEGAL_ACCESS", True),
    ],
    ids=["within the tolerance", "beyond it", "one beyond at odd sizes"],
)
def test_what_ours_refuses_theirs_may_accept(
    task: Task, statement: str, code: str, accepts: bool
) -> None:
    found = judged(task, statement)
    assert found.verdict.code == code
    published = found.published
    assert published is not None
    assert (published.accepts, published.basis) == (accepts, "executed")
    assert (published.sizes, published.absolute_tolerance) == ("emulated", 1e-5)
    assert bool(published.detail) != accepts


@pytest.mark.parametrize(
    ("verdict", "accepts"),
    [
        (TimedOut(stage="call", limit_s=10), False),
        (Duplicate(of="r1-c1"), None),
        (InfraFailed(component="runner", detail="died"), None),
    ],
)
def test_some_answers_need_no_call(task: Task, verdict: Verdict, accepts: bool | None) -> None:
    known = known_answer(task, verdict)
    assert not needs_a_call(task, verdict)
    assert (known.accepts if known else None) == accepts


def test_a_task_without_a_published_check_asks_nobody() -> None:
    plain = load_task("reduction")
    if plain.published is None:
        assert not needs_a_call(plain, CompileFailed())
        assert known_answer(plain, TimedOut(stage="call", limit_s=10)) is None


def test_a_nan_is_not_beyond_a_tolerance_and_an_infinity_is() -> None:
    expected = np.array([1.0, 2.0])
    assert not beyond(np.array([np.nan, 2.0], np.float32), expected, 1e-5)
    assert beyond(np.array([np.inf, 2.0], np.float32), expected, 1e-5)
    assert beyond(np.array([1, 3], np.int32), expected, 0.5)


def test_an_attempt_keeps_it_and_an_older_one_has_none() -> None:
    check = PublishedCheck(
        accepts=True, basis="executed", sizes="emulated", absolute_tolerance=1e-2
    )
    attempt = Attempt(
        id="r1-c1",
        round=1,
        index=1,
        kind=Kind.FIRST,
        written_by="model",
        code="WRONG_RESULT",
        published_check=check,
    )
    data = encode(attempt)
    assert decode(Attempt, data) == attempt
    del data["published_check"]
    assert decode(Attempt, data).published_check is None
