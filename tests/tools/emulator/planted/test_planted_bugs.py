"""Each planted bug is found with the right line; the honest kernel beside it is left alone."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import sample
from device_calls import Called, call_once, compiled

from cuda_llm.outcomes import (
    DataRace,
    IllegalAccess,
    InvalidSync,
    Misaligned,
    PolicyViolation,
    TimedOut,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.verdict_wording import describe

SOURCE = (Path(__file__).parents[3] / "fixtures" / "planted" / "planted.cu").read_text()
N = 1000
TARGETS = sample(("RTX 3090 Ti", "H100 SXM"), every=2)


def line_of(mark: str) -> int:
    before, found, _ = SOURCE.partition(f"// {mark}\n")
    assert found, mark
    return before.count("\n") + 1


@pytest.fixture(scope="module", params=TARGETS)
def candidate(request: pytest.FixtureRequest) -> Iterator[tuple[str, Compiled]]:
    """The kernels, compiled for one GPU."""
    device = str(request.param)
    yield device, asyncio.run(compiled(SOURCE, open_emulated(device).hardware.target))


def call(
    candidate: tuple[str, Compiled], mode: int, level: Level, seed: int = 0, limit_s: float = 20.0
) -> Called:
    device, code = candidate
    values = {
        "out": np.full(N, np.nan, np.float32),
        "in": np.arange(1, N + 1, dtype=np.float32),
    }
    options = CallOptions(level=level, schedule_seed=seed, limit_s=limit_s)

    async def once() -> Called:
        async with open_emulated(device).open(code) as session:
            assert isinstance(session, Session), session
            return await call_once(session, values, ["out"], [N, mode], options)

    return asyncio.run(once())


@pytest.mark.parametrize("level", [Level.CHECK, Level.FULL])
@pytest.mark.parametrize(
    ("mode", "kind", "marks"),
    [
        (0, IllegalAccess, {"missing-guard"}),
        (2, IllegalAccess, {"read-before-start"}),
        (4, IllegalAccess, {"small-shared"}),
        (6, DataRace, {"missing-barrier-write", "missing-barrier-read"}),
        (10, UninitialisedRead, {"uninitialised-shared"}),
        (12, UninitialisedRead, {"uninitialised-output"}),
        (14, InvalidSync, {"divergent-barrier-even", "divergent-barrier-odd"}),
        (16, InvalidSync, {"partial-mask"}),
        (18, Misaligned, {"misaligned"}),
        (22, UninitialisedRead, {"missing-wait"}),
        (26, UninitialisedRead, {"uninitialised-scratch"}),
    ],
)
def test_a_planted_bug_is_found_at_its_line(
    candidate: tuple[str, Compiled], mode: int, kind: type[Verdict], marks: set[str], level: Level
) -> None:
    verdict = call(candidate, mode, level).outcome
    assert isinstance(verdict, kind), verdict
    spot = getattr(verdict, "spot", None)
    assert spot is not None
    assert spot.line in {line_of(mark) for mark in marks}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_tile_overwritten_too_early_is_a_race(candidate: tuple[str, Compiled], seed: int) -> None:
    verdict = call(candidate, 8, Level.FULL, seed).outcome
    assert isinstance(verdict, DataRace), verdict
    assert verdict.spot is not None
    assert verdict.other is not None
    lines = {verdict.spot.line, verdict.other.line}
    assert lines == {line_of(f"missing-second-barrier-{side}") for side in ("write", "read")}


def test_an_unguarded_write_names_the_first_thread_past_the_end(
    candidate: tuple[str, Compiled],
) -> None:
    verdict = call(candidate, 0, Level.CHECK).outcome
    assert isinstance(verdict, IllegalAccess)
    assert verdict.thread is not None
    assert (verdict.thread.block, verdict.thread.thread) == ((3, 0, 0), (232, 0, 0))
    assert describe(verdict)[0] == "writes 4 bytes at byte 4000 of buffer out (4000 bytes)"


def test_an_endless_loop_is_named(candidate: tuple[str, Compiled]) -> None:
    verdict = call(candidate, 20, Level.CHECK, limit_s=1.0).outcome
    assert isinstance(verdict, TimedOut), verdict
    assert verdict.stage == "kernel"
    assert verdict.spot is not None
    assert verdict.spot.line == line_of("endless-loop")


def test_host_code_on_device_memory_is_named(candidate: tuple[str, Compiled]) -> None:
    verdict = call(candidate, 24, Level.CHECK).outcome
    assert isinstance(verdict, PolicyViolation), verdict
    assert verdict.rule == "host-touches-device-memory"


Floats = npt.NDArray[np.float32]
HONEST: dict[int, Callable[[Floats], Floats] | None] = {
    1: lambda x: x,
    3: lambda x: x + np.concatenate([x[:1], x[:-1]]),
    5: lambda x: x[255::-1],
    7: lambda x: x[255::-1],
    9: None,
    11: lambda x: np.append(x[1:256], np.float32(0)),
    13: lambda x: x,
    15: lambda x: x[199::-1],
    17: None,
    19: lambda x: x[4:260],
    21: None,
    23: lambda x: x[255::-1],
    25: lambda x: x,
    27: lambda x: x,
    28: lambda x: np.array([256], np.float32),
    29: lambda x: x[::-1],
    30: lambda x: np.where(
        np.arange(256) % 32 < 20,
        np.repeat((x[:256].reshape(8, 32)[:, :20] < 100).sum(1), 32),
        x[:256],
    ).astype(np.float32),
}


@pytest.mark.parametrize("seed", [0, 1, 5])
@pytest.mark.parametrize("mode", sorted(HONEST))
def test_the_honest_kernel_beside_it_runs(
    candidate: tuple[str, Compiled], mode: int, seed: int
) -> None:
    called = call(candidate, mode, Level.FULL, seed)
    assert isinstance(called.outcome, CallReport), called.outcome
    expected = HONEST[mode]
    if expected is not None:
        x = np.arange(1, N + 1, dtype=np.float32)
        wanted = expected(x)
        np.testing.assert_array_equal(called.outputs["out"][: len(wanted)], wanted)
