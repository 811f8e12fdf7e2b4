"""Counts are exact: executions times composition, merged by line."""

import pytest

from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.counts import accesses_by_line, count_instructions, ideal_sectors
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)

LINE = SourceSpot(file="mine.cu", line=7)
FP32, INT, FREE = InstructionClass.FP32, InstructionClass.INT, InstructionClass.FREE


def load(bytes_: int = 4, line: SourceSpot = LINE) -> InstructionSite:
    return InstructionSite(
        opcode="ld.global.f32", space="global", kind="load", bytes=bytes_, block=0, spot=line
    )


def account(
    sites: tuple[SiteCounters, ...] = (),
    block_warps: tuple[float, ...] = (),
    block_lanes: tuple[float, ...] = (),
) -> LaunchCounters:
    return LaunchCounters(
        kernel=0,
        grid=(1, 1, 1),
        block=(64, 1, 1),
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=1,
        block_warps=block_warps,
        block_lanes=block_lanes,
        sites=sites,
    )


def test_the_mix_is_executions_times_composition() -> None:
    table = KernelTable(
        symbol="k",
        blocks=(
            BasicBlock(mix={FP32: 2, INT: 3, FREE: 9}, spot=None),
            BasicBlock(mix={FP32: 1}, spot=None),
        ),
    )
    mix = count_instructions(account(block_warps=(10, 4), block_lanes=(320, 32)), table)
    assert mix.warps == {FP32: 24, INT: 30}
    assert mix.issued == 54
    assert mix.simd_efficiency == pytest.approx((5 * 320 + 32) / (54 * 32))


def test_a_kernel_that_does_nothing_has_no_divergence() -> None:
    mix = count_instructions(account(), KernelTable(symbol="k"))
    assert mix.issued == 0
    assert mix.simd_efficiency == 1


@pytest.mark.parametrize(
    ("what", "bytes_", "count", "ideal"),
    [
        ("coalesced", 4, SiteCounters(requests=10, lanes=320, sectors=40), 40),
        ("strided", 4, SiteCounters(requests=10, lanes=320, sectors=320), 40),
        ("broadcast", 4, SiteCounters(requests=10, lanes=320, sectors=10), 10),
        ("float4", 16, SiteCounters(requests=10, lanes=320, sectors=160), 160),
        ("one lane", 4, SiteCounters(requests=10, lanes=10, sectors=10), 10),
        ("misaligned", 4, SiteCounters(requests=10, lanes=320, sectors=50), 40),
        ("predicated off", 4, SiteCounters(), 0),
    ],
)
def test_ideal_sectors(what: str, bytes_: int, count: SiteCounters, ideal: float) -> None:
    assert ideal_sectors(load(bytes_), count) == ideal, what


def test_sites_on_one_line_are_told_together() -> None:
    other = SourceSpot(file="mine.cu", line=9)
    table = KernelTable(symbol="k", sites=(load(), load(), load(line=other), load()))
    lines = accesses_by_line(
        account(
            sites=(
                SiteCounters(requests=1, lanes=32, sectors=4, worst_ways=1),
                SiteCounters(requests=1, lanes=32, sectors=32, worst_ways=3),
                SiteCounters(requests=2, lanes=64, sectors=8),
                SiteCounters(),
            )
        ),
        table,
    )
    assert [line.spot for line in lines] == [LINE, other]
    assert lines[0].sectors_per_request == 18
    assert lines[0].ideal_sectors_per_request == 4
    assert lines[0].useful_byte_share == pytest.approx(8 / 36)
    assert lines[0].worst_ways == 3
    assert lines[1].useful_byte_share == 1
