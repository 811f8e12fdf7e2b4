"""mbarriers, bulk copies, tensor maps and clusters, as nvcc writes them: results and bugs."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import sample
from device_calls import Called, call_once, compiled

from cuda_llm.outcomes import (
    DataRace,
    ExceededLimit,
    IllegalAccess,
    InvalidSync,
    LaunchFailed,
    Misaligned,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.tools.device import CallOptions, CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.verdict_wording import describe

Floats = npt.NDArray[np.float32]
FIXTURES = Path(__file__).parents[3] / "fixtures" / "hopper"
COPIES = (FIXTURES / "copies.cu").read_text()
ROWS, COLS = 40, 52
N = ROWS * COLS
TILE = 256
IN = np.arange(1, N + 1, dtype=np.float32)


def lines_of(source: str, *marks: str) -> set[int]:
    """Lines that carry one of the marks; each mark stands somewhere."""
    found = {
        mark: {n for n, line in enumerate(source.splitlines(), 1) if line.endswith(f"// {mark}")}
        for mark in marks
    }
    assert all(found.values()), found
    return set().union(*found.values())


def call(device: str, code: Compiled, size: int, mode: int, level: Level, seed: int = 0) -> Called:
    values = {"out": np.full(size, np.nan, np.float32), "in": IN[:size]}
    options = CallOptions(level=level, schedule_seed=seed, limit_s=20.0)

    async def once() -> Called:
        async with open_emulated(device).open(code) as session:
            assert isinstance(session, Session), session
            return await call_once(session, values, ["out"], [size, mode], options)

    return asyncio.run(once())


@pytest.fixture(scope="module")
def copies() -> Compiled:
    return asyncio.run(compiled(COPIES, open_emulated("H100 SXM").hardware.target))


BUGS: list[tuple[int, tuple[type[Verdict], ...], set[str]]] = [
    (0, (UninitialisedRead, DataRace), {"read", "loads"}),
    (2, (UninitialisedRead, DataRace), {"read", "loads"}),
    (4, (UninitialisedRead, DataRace), {"read", "loads"}),
    (6, (InvalidSync,), {"asks"}),
    (8, (Misaligned,), {"loads"}),
    (14, (UninitialisedRead, DataRace), {"drain", "loads"}),
    (16, (UninitialisedRead, DataRace), {"drain", "loads"}),
    (22, (IllegalAccess,), {"stores"}),
    (24, (UninitialisedRead, DataRace), {"own", "remote"}),
    (26, (IllegalAccess,), {"remote"}),
    (28, (InvalidSync,), {"asks"}),
    (30, (Misaligned,), {"tiles"}),
    (10, (DataRace,), {"makes", "asks"}),
    (12, (InvalidSync, DataRace), {"asks", "read", "loads"}),
    (18, (DataRace,), {"stores", "fill"}),
    (20, (DataRace,), {"stores", "overwrite"}),
]
"""Mode of `copies.cu`, what may become of it, and at which lines."""


@pytest.mark.parametrize(("mode", "kinds", "marks"), BUGS)
def test_a_planted_bug_is_found_at_its_line(
    copies: Compiled, mode: int, kinds: tuple[type[Verdict], ...], marks: set[str]
) -> None:
    verdict = call("H100 SXM", copies, N, mode, Level.FULL).outcome
    assert isinstance(verdict, kinds), verdict
    places = [getattr(verdict, name, None) for name in ("spot", "other")]
    found = {place.line for place in places if place is not None}
    assert found
    assert found <= lines_of(COPIES, *marks)


def test_misuse_is_told_in_words(copies: Compiled) -> None:
    expected = {
        6: "waits for ever: 64 bytes of the phase never come",
        18: "no fence.proxy.async between the two",
        26: "shared memory of a block that has exited",
        28: "waits for ever: 1 arrival of the phase never come",
    }
    for mode, words in expected.items():
        verdict = call("H100 SXM", copies, N, mode, Level.FULL).outcome
        assert not isinstance(verdict, CallReport)
        assert words in " ".join(describe(verdict)), verdict


def by_tiles(tiles: int) -> Callable[[Floats], Floats]:
    return lambda x: x[: tiles * TILE].reshape(tiles, TILE)[:, ::-1].ravel()


def neighbours(x: Floats) -> Floats:
    blocks = x[: 4 * TILE].reshape(4, TILE)
    return (blocks + np.roll(blocks, -1, axis=0)).ravel()


HONEST: dict[int, Callable[[Floats], Floats]] = {
    1: by_tiles(1),
    15: by_tiles(5),
    19: lambda x: 2 * x[: 2 * TILE],
    25: neighbours,
    29: lambda x: np.repeat(np.array([0, 1], np.float32), 64),
    31: lambda x: x.reshape(ROWS, COLS).T.ravel(),
    33: lambda x: np.concatenate([x[:TILE], x[:TILE] + 1]),
    35: lambda x: x[:TILE] + x[TILE : 2 * TILE],
    37: lambda x: np.tile(np.roll(np.arange(16, dtype=np.float32), 1), 2),
}


@pytest.mark.parametrize("level", [Level.ACCOUNT, Level.FULL])
@pytest.mark.parametrize("mode", HONEST)
def test_an_honest_kernel_agrees_with_numpy(copies: Compiled, mode: int, level: Level) -> None:
    for seed in [0, 1, 5] if level is Level.FULL else [0]:
        called = call("H100 SXM", copies, N, mode, level, seed)
        assert called.report is not None
        expected = HONEST[mode](IN)
        np.testing.assert_array_equal(called.outputs["out"][: expected.size], expected)


@pytest.mark.parametrize(
    ("mode", "stored"), [(19, 2 * TILE), (31, N), (35, 3 * TILE), (25, 4 * TILE)]
)
def test_bytes_that_bulk_copies_store_are_counted(copies: Compiled, mode: int, stored: int) -> None:
    report = call("H100 SXM", copies, N, mode, Level.ACCOUNT).report
    assert report.stored_bytes == 4 * stored


def test_a_large_cluster_has_to_be_allowed(copies: Compiled) -> None:
    verdict = call("H100 SXM", copies, N, 36, Level.CHECK).outcome
    assert isinstance(verdict, LaunchFailed)
    assert verdict.error == "cudaErrorInvalidClusterSize"
    assert verdict.limit == ExceededLimit(name="cluster", asked=16, allowed=8)


THREADS = 128
SMALL = 4 * THREADS
BARRIERS = (FIXTURES / "barriers.cu").read_text()


def joined(x: Floats) -> Floats:
    t = x[:THREADS]
    sums = t + t[::-1]
    first = t[:64] + sums[np.arange(64) ^ 1]
    return np.concatenate([first, np.arange(63, -1, -1, dtype=np.float32)])


LIBRARY: dict[int, Callable[[Floats], Floats]] = {
    0: joined,
    1: lambda x: x[THREADS - 1 :: -1],
    2: lambda x: x[THREADS - 1 :: -1],
    3: lambda x: x[:SMALL].reshape(4, THREADS)[:, ::-1].ravel(),
    4: lambda x: x[:SMALL].reshape(4, THREADS)[:, ::-1].ravel(),
}


COMPILED_FOR = sample(["H100 SXM", "RTX 3090 Ti", "RTX 5090"], every=3)
"""The first and the last have the instructions that count bytes of a phase, which libcu++ uses."""


@pytest.fixture(scope="module", params=COMPILED_FOR)
def barriers(request: pytest.FixtureRequest) -> Iterator[tuple[str, Compiled]]:
    device = str(request.param)
    yield device, asyncio.run(compiled(BARRIERS, open_emulated(device).hardware.target))


@pytest.mark.evidence
@pytest.mark.parametrize("mode", LIBRARY)
def test_what_the_toolkits_libraries_make_of_mbarriers_runs(
    barriers: tuple[str, Compiled], mode: int
) -> None:
    device, code = barriers
    for level, seed in [(Level.ACCOUNT, 0), (Level.FULL, 0), (Level.FULL, 5)]:
        called = call(device, code, SMALL, mode, level, seed)
        assert called.report is not None
        expected = LIBRARY[mode](IN)
        np.testing.assert_array_equal(called.outputs["out"][: expected.size], expected)


@pytest.mark.evidence
def test_a_read_before_the_wait_is_found(barriers: tuple[str, Compiled]) -> None:
    device, code = barriers
    verdict = call(device, code, SMALL, 5, Level.FULL).outcome
    assert isinstance(verdict, UninitialisedRead | DataRace), verdict
    assert verdict.spot is not None
    marked = lines_of(BARRIERS, "unjoined-read")
    other = getattr(verdict, "other", None)
    assert {verdict.spot.line} & marked or (other is not None and other.line in marked)


@pytest.mark.evidence
def test_a_barrier_that_one_thread_never_reaches_is_a_deadlock(
    barriers: tuple[str, Compiled],
) -> None:
    device, code = barriers
    verdict = call(device, code, SMALL, 6, Level.FULL).outcome
    assert isinstance(verdict, InvalidSync), verdict
    assert verdict.reason == "phase-incomplete"
    assert verdict.missing_arrivals == 1
    assert re.match(r"mbarrier\.(try|test)_wait", verdict.opcode or "")
