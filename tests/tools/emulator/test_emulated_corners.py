"""What CUDA allows at its edges runs; what it does not is named."""

import re
from pathlib import Path

import numpy as np
from device_calls import Called, run

from cuda_llm.outcomes import IllegalAccess, InvalidSync

SOURCE = (Path(__file__).parents[2] / "fixtures" / "devices" / "corners.cu").read_text()
MODES = re.findall(r'"([^"]+)"', SOURCE.partition("modes[] = {")[2].partition("}")[0])
X = np.arange(101, dtype=np.float32)


def call(mode: str, outputs: int) -> Called:
    values = {"x": X, "y": np.zeros(outputs, np.float32)}
    return run(SOURCE, values, ["y"], MODES.index(mode))


def result(mode: str, outputs: int) -> list[float]:
    called = call(mode, outputs)
    assert called.report.wall_s > 0
    return [float(value) for value in called.outputs["y"]]


def line_of(comment: str) -> int:
    return SOURCE[: SOURCE.index(f"// {comment}\n")].count("\n") + 1


def test_an_async_copy_needs_only_the_bytes_it_takes() -> None:
    assert result("copies-up-to-the-end", 128) == [*range(101), *[0] * 27]


def test_parameters_can_be_indexed() -> None:
    assert result("parameter-by-index", 32) == [i * i for i in range(32)]


def test_an_index_outside_the_parameters_is_an_illegal_access() -> None:
    verdict = call("parameter-outside", 32).outcome
    assert isinstance(verdict, IllegalAccess)
    assert verdict.access is not None
    assert (verdict.access.space, verdict.access.kind) == ("param", "read")
    assert verdict.thread is not None and verdict.thread.thread == (1, 0, 0)
    assert verdict.spot is not None and verdict.spot.line == line_of("parameter")


def test_lanes_left_out_of_a_reduction_do_no_harm() -> None:
    assert result("eight-lanes-add-up", 1) == [28]


def test_reading_a_member_that_has_left_is_a_fault() -> None:
    verdict = call("reads-a-lane-that-left", 32).outcome
    assert isinstance(verdict, InvalidSync)
    assert verdict.thread is not None and verdict.thread.thread == (19, 0, 0)
    assert verdict.spot is not None and verdict.spot.line == line_of("absent")


def test_what_a_lane_left_out_holds_spoils_the_result() -> None:
    found = result("uses-a-lane-left-out", 24)
    assert [*found[:7], *found[16:23]] == [*range(1, 8), *range(2, 9)]
    assert not (found[7] == 0 and found[15] == 0)
    assert not abs(found[23]) < 1e30


def test_a_barrier_may_count_the_threads_it_waits_for_anyway() -> None:
    assert result("counted-barrier", 64) == [63 - t for t in range(64)]


def test_a_guard_may_be_overwritten_by_what_it_guards() -> None:
    assert result("guard-is-target", 32) == [0 if v <= 3 else 1 if v < 10 else 2 for v in range(32)]


def test_the_last_warp_of_an_odd_block_is_partly_empty() -> None:
    block = [15 + 100 + (32 if t < 32 else 13) for t in range(45)]
    assert result("warps-of-odd-blocks", 540) == block * 12
