"""Each check fires with the right place, and stays silent on the nearest honest kernel."""

import pytest
from runtime_driver import FAULT_EXIT, Run

from cuda_llm.outcomes import (
    IllegalAccess,
    Location,
    Misaligned,
    OutOfMemory,
    PolicyViolation,
    ThreadSpot,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.verdict_wording import describe


def line_of(verdict: Verdict | None) -> int:
    spot = getattr(verdict, "spot", None)
    assert isinstance(spot, SourceSpot)
    return spot.line


def thread_of(verdict: Verdict | None) -> tuple[int, int]:
    thread = getattr(verdict, "thread", None)
    assert isinstance(thread, ThreadSpot)
    return thread.block[0], thread.thread[0]


@pytest.mark.parametrize(
    ("scenario", "kind", "line", "thread", "words"),
    [
        (
            "vector_add_without_guard",
            IllegalAccess,
            20,
            (3, 232),
            "writes 4 bytes at byte 4000 of buffer A (4000 bytes)",
        ),
        (
            "read_before_the_start",
            IllegalAccess,
            10,
            (0, 0),
            "reads 4 bytes 4 bytes before the start of buffer A (128 bytes)",
        ),
        (
            "read_of_freed_scratch",
            IllegalAccess,
            10,
            (0, 0),
            "reads 4 bytes at byte 0 of cudaMalloc allocation 0 (256 bytes, freed)",
        ),
        (
            "shared_out_of_bounds",
            IllegalAccess,
            30,
            (0, 15),
            "reads 4 bytes at byte 540 of 512 bytes of shared memory",
        ),
        (
            "local_out_of_bounds",
            IllegalAccess,
            40,
            (0, 0),
            "writes 4 bytes at byte 32 of 32 bytes of local memory",
        ),
        (
            "store_to_constant",
            IllegalAccess,
            20,
            (0, 0),
            "writes 4 bytes at byte 0 of a __constant__ variable (8 bytes)",
        ),
        (
            "strided_write_misaligned",
            Misaligned,
            20,
            (0, 0),
            "writes 4 bytes at byte 2 of buffer A (4096 bytes): not a multiple of 4",
        ),
        (
            "pair_misaligned",
            Misaligned,
            10,
            (0, 0),
            "reads 8 bytes at byte 4 of buffer A (512 bytes): not a multiple of 8",
        ),
        (
            "shared_misaligned",
            Misaligned,
            30,
            (0, 1),
            "reads 4 bytes at byte 2 of 512 bytes of shared memory: not a multiple of 4",
        ),
        (
            "read_of_unwritten_output",
            UninitialisedRead,
            10,
            (0, 16),
            "reads 4 bytes at byte 64 of buffer A (256 bytes), which nothing has written",
        ),
        (
            "read_of_unwritten_scratch",
            UninitialisedRead,
            10,
            (0, 16),
            "reads 4 bytes at byte 64 of cudaMalloc allocation 0 (256 bytes), which nothing "
            "has written",
        ),
        (
            "shared_never_written",
            UninitialisedRead,
            30,
            (0, 31),
            "reads 4 bytes at byte 128 of 512 bytes of shared memory, which nothing has written",
        ),
        (
            "shared_other_byte",
            UninitialisedRead,
            30,
            (0, 0),
            "reads 1 byte at byte 2 of 4096 bytes of shared memory, which nothing has written",
        ),
        (
            "copy_async_without_wait",
            UninitialisedRead,
            30,
            (0, 0),
            "reads 4 bytes at byte 0 of 4096 bytes of shared memory, which nothing has written yet",
        ),
        (
            "copy_async_waits_for_too_few",
            UninitialisedRead,
            30,
            (0, 0),
            "reads 4 bytes at byte 0 of 4096 bytes of shared memory, which nothing has written yet",
        ),
    ],
)
@pytest.mark.parametrize("level", [0, 2])
def test_a_bad_access_ends_the_call_with_its_place(
    run: Run,
    scenario: str,
    kind: type[Verdict],
    line: int,
    thread: tuple[int, int],
    words: str,
    level: int,
) -> None:
    ran = run(scenario, level=level)
    assert ran.status == FAULT_EXIT
    assert isinstance(ran.record.fault, kind)
    assert describe(ran.record.fault)[0] == words
    assert line_of(ran.record.fault) == line
    assert thread_of(ran.record.fault) == thread


@pytest.mark.parametrize(
    "scenario",
    [
        "vector_add_with_guard",
        "strided_write",
        "read_of_written_output",
        "read_of_cleared_scratch",
        "pair_aligned",
        "shared_at_the_end",
        "shared_own_word",
        "shared_same_byte",
        "local_private",
        "copy_async_with_wait",
        "generic_addresses",
        "relocated_pointer",
    ],
)
@pytest.mark.parametrize("level", [0, 2])
def test_an_honest_access_passes(run: Run, scenario: str, level: int) -> None:
    ran = run(scenario, level=level)
    assert ran.status == 0, ran.errors
    assert ran.record.fault is None


def test_lanes_of_local_memory_are_private(run: Run) -> None:
    assert run("local_private").words(0, 32) == [100 + t for t in range(32)]


def test_generic_addresses_reach_all_three_spaces(run: Run) -> None:
    assert run("generic_addresses").words(0, 32) == [3 * t for t in range(32)]


def test_an_asynchronous_copy_lands_at_its_wait(run: Run) -> None:
    assert run("copy_async_with_wait").words(0, 32) == [7] * 32


def test_variables_hold_their_initial_values_and_relocated_addresses(run: Run) -> None:
    assert run("relocated_pointer").words(0, 32) == [2] * 32


def test_an_allocation_beyond_the_quota_is_refused_and_reported(run: Run) -> None:
    ran = run("quota")
    assert ran.status == 0
    assert ran.record.out_of_memory == OutOfMemory(
        request="cudaMalloc", bytes=1 << 20, allowed_bytes=1 << 20, bound="quota"
    )


def test_host_code_that_dereferences_a_device_pointer_is_caught(run: Run) -> None:
    ran = run("host_reads_device_memory")
    assert ran.status == FAULT_EXIT
    assert ran.record.fault == PolicyViolation(
        rule="host-touches-device-memory",
        location=Location(
            relation="inside", owner="buffer", name="A", offset_bytes=12, size_bytes=128
        ),
    )


def test_any_other_host_crash_is_reported_as_a_crash(run: Run) -> None:
    ran = run("host_reads_nothing")
    assert ran.status == -11
    assert ran.record.fault is None
