"""A value that nobody has written is reported where it decides something, and nowhere else."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from device_calls import Called, call_once, compiled

from cuda_llm.outcomes import IllegalAccess, UninitialisedRead
from cuda_llm.tools.device import CallOptions, Level
from cuda_llm.tools.emulator.session import EmulatedSession
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.verdict_wording import describe

SOURCE = (Path(__file__).parents[2] / "fixtures" / "undefined_values.cu").read_text()
X = np.arange(32, dtype=np.float32)
LANES = np.arange(32)


@dataclass(frozen=True)
class Judged:
    """What a call gave, and whether the session went on tracking undefined values."""

    called: Called
    tracked: bool


def judge(which: int, options: CallOptions | None = None) -> Judged:
    async def call() -> Judged:
        device = open_emulated()
        async with device.open(await compiled(SOURCE, device.hardware.target)) as session:
            assert isinstance(session, EmulatedSession)
            values = {"x": X, "y": np.full(32, np.nan, dtype=np.float32)}
            chosen = options or CallOptions()
            called = await call_once(session, values, ["y"], [which], chosen)
            return Judged(called, session.tracks)

    return asyncio.run(call())


def line(mark: str, which: int) -> int:
    """The line that a comment of the source says."""
    marked = re.compile(rf"//.*\b{mark} {which}\b")
    found = [number for number, text in enumerate(SOURCE.splitlines(), 1) if marked.search(text)]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL, Level.ACCOUNT])
@pytest.mark.parametrize(
    ("which", "wanted"),
    [
        (0, X),
        (5, X[LANES & 15]),
        (7, X),
        (9, X[LANES & 15]),
        (11, X),
        (14, np.full(32, 12)),
    ],
)
def test_a_value_that_decides_nothing_is_no_fault(
    which: int, wanted: np.ndarray[tuple[int], np.dtype[np.float32]], level: Level
) -> None:
    judged = judge(which, CallOptions(level=level))
    assert judged.called.report.kernels == 1
    assert judged.tracked
    np.testing.assert_array_equal(judged.called.outputs["y"], wanted)


@pytest.mark.parametrize(
    ("which", "decides", "space"),
    [
        (1, "output", "shared"),
        (2, "branch", "shared"),
        (3, "address", "shared"),
        (4, "atomic", "shared"),
        (6, "output", "shared"),
        (8, "output", "shared"),
        (10, "output", "global"),
        (12, "output", "global"),
        (13, "output", "shared"),
        (15, "output", "shared"),
    ],
)
def test_both_places_of_a_value_that_matters_are_told(which: int, decides: str, space: str) -> None:
    verdict = judge(which).called.outcome
    assert isinstance(verdict, UninitialisedRead), verdict
    assert verdict.decides == decides
    assert verdict.access is not None and verdict.access.space == space
    assert verdict.spot is not None and verdict.spot.line == line("read", which)
    assert verdict.used_at is not None and verdict.used_at.line == line("use", which)
    words = "\n".join(describe(verdict))
    assert "which nothing has written; the value " in words
    assert f":{line('use', which)}" in words


def test_a_tracked_kernel_that_leaves_its_array_is_stopped_there() -> None:
    verdict = judge(19).called.outcome
    assert isinstance(verdict, IllegalAccess), verdict
    assert verdict.spot is not None and verdict.spot.line == line("read", 19)


def test_a_kernel_that_reads_what_is_written_is_not_translated_twice() -> None:
    judged = judge(99)
    assert not judged.tracked
    np.testing.assert_array_equal(judged.called.outputs["y"], X)


def test_a_wrong_sum_of_an_unset_array_is_traced_on_demand() -> None:
    assert not isinstance(judge(17).called.outcome, UninitialisedRead)
    verdict = judge(17, CallOptions(tracks=True)).called.outcome
    assert isinstance(verdict, UninitialisedRead), verdict
    assert verdict.decides == "output"
    assert verdict.access is not None and verdict.access.space == "local"
    assert judge(16, CallOptions(tracks=True)).called.report.kernels == 1


def test_what_a_shuffle_takes_from_outside_its_mask_is_traced_on_demand() -> None:
    verdict = judge(18, CallOptions(tracks=True)).called.outcome
    assert isinstance(verdict, UninitialisedRead), verdict
    assert verdict.access is None
    assert verdict.spot is not None and verdict.spot.line == line("read", 18)
    assert "a value that nothing has set; the value is stored as a result" in describe(verdict)[0]
