"""The gate fails a kernel that is wrong, slower or dearer, and no kernel that is not."""

from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.gate.comparison import (
    GrownCount,
    LostSpeed,
    NotRecorded,
    WrongVerdict,
    compare,
)
from cuda_llm.tools.gate.plan import Accepted
from cuda_llm.tools.gate.recording import RecordedKernel, RecordedSize


def kernel(
    speedup: float = 2.0, error: float = 0.02, verdict: str = "PASSED", **counts: float
) -> RecordedKernel:
    size = RecordedSize(dims={"n": 4096}, speedup=speedup, error=error, counts=counts)
    return RecordedKernel(
        source_sha256="0",
        verdict=verdict,
        sizes=(size,) if verdict == "PASSED" else (),
        resources={"registers": counts.get("registers", 32.0)},
    )


@given(st.floats(0.01, 1000), st.floats(0, 0.5), st.floats(0, 1e12))
def test_a_kernel_beside_itself_passes_as_a_tie(speedup: float, error: float, n: float) -> None:
    same = kernel(speedup, error, warp_instructions=n)
    found = compare("k", same, same, Accepted(slower=0, counts=0))
    assert (found.failures, found.change) == ((), "tie")


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.floats(0, 0.3), st.floats(0, 0.3))
def test_who_is_slower_forth_is_faster_back(a: float, b: float, e: float, f: float) -> None:
    opposite = {"faster": "slower", "slower": "faster", "tie": "tie"}
    one, other = kernel(a, e), kernel(b, f)
    forth = compare("k", one, other, Accepted()).change
    back = compare("k", other, one, Accepted()).change
    assert forth is not None and back == opposite[forth]


def test_slower_beyond_the_interval_fails_and_within_it_does_not() -> None:
    (failure,) = compare("k", kernel(2.0), kernel(1.9), Accepted()).failures
    assert isinstance(failure, LostSpeed)
    assert compare("k", kernel(2.0), kernel(1.96), Accepted()).failures == ()
    assert compare("k", kernel(2.0, 0.1), kernel(1.9), Accepted()).failures == ()
    assert compare("k", kernel(2.0), kernel(1.9), Accepted(slower=0.05)).failures == ()


def test_a_faster_kernel_passes() -> None:
    found = compare("k", kernel(2.0), kernel(3.0), Accepted())
    assert (found.failures, found.change) == ((), "faster")


def test_a_grown_count_fails_though_the_time_is_the_same() -> None:
    before, now = kernel(l2_bytes=1000.0), kernel(l2_bytes=1011.0)
    (failure,) = compare("k", before, now, Accepted()).failures
    assert failure == GrownCount(
        name="l2_bytes", before=1000.0, now=1011.0, accepted=0.01, size="n=4096"
    )
    assert compare("k", before, now, Accepted(counts=0.02)).failures == ()
    assert compare("k", now, before, Accepted()).failures == ()


def test_a_count_that_was_zero_may_not_appear() -> None:
    spilling = RecordedKernel(
        source_sha256="0", verdict="PASSED", resources={"spill_load_bytes": 4.0}
    )
    clean = RecordedKernel(source_sha256="0", verdict="PASSED", resources={"spill_load_bytes": 0.0})
    (failure,) = compare("k", clean, spilling, Accepted()).failures
    assert isinstance(failure, GrownCount)


def test_another_verdict_than_the_accepted_fails_alone() -> None:
    racy = kernel(verdict="DATA_RACE", registers=99.0)
    assert compare("k", kernel(), racy, Accepted(), ("a race",)).failures == (
        WrongVerdict(found="DATA_RACE", accepted="PASSED", lines=("a race",)),
    )
    assert compare("k", racy, racy, Accepted(verdict="DATA_RACE")).failures == ()
    (failure,) = compare("k", racy, kernel(), Accepted(verdict="DATA_RACE")).failures
    assert failure == WrongVerdict(found="PASSED", accepted="DATA_RACE")


def test_what_was_not_recorded_fails() -> None:
    assert compare("k", None, kernel(), Accepted()).failures == (NotRecorded(what="kernel"),)
    other = RecordedKernel(
        source_sha256="0",
        verdict="PASSED",
        sizes=(RecordedSize(dims={"n": 1}, speedup=2.0, error=0.0),),
    )
    resized = compare("k", other, kernel(), Accepted())
    assert resized.failures == (NotRecorded(what="n=4096"),)
    assert resized.change is None, "speed-ups of other sizes are not compared"


def test_a_kernel_that_a_commit_does_not_have_has_to_be_right_only() -> None:
    assert compare("k", None, kernel(), Accepted(), may_be_new=True).failures == ()
    wrong = compare("k", None, kernel(verdict="DATA_RACE"), Accepted(), may_be_new=True)
    assert wrong.failures
