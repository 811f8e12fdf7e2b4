"""Transposes counted by hand: which is faster, why, and on which line."""

from dataclasses import dataclass, replace

import pytest

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.bottlenecks import Explained, list_bottlenecks
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.explain_modelled import explain_call
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)

INT, MEMORY = InstructionClass.INT, InstructionClass.LOAD_STORE


def at(line: int) -> SourceSpot:
    """A line of the user's file."""
    return SourceSpot(file="mine.cu", line=line, text=f"text of line {line}")


def access(opcode: str, space: str, *, block: int, line: int) -> InstructionSite:
    """A load (`ld`) or store (`st`) of one float a lane."""
    return InstructionSite(
        opcode=f"{opcode}.{space}.f32",
        space=space,
        kind={"ld": "load", "st": "store"}[opcode],
        bytes=4,
        block=block,
        spot=at(line),
    )


@dataclass(frozen=True)
class Counted:
    """One launch and the kernel it is of."""

    account: LaunchCounters
    table: KernelTable

    def on(self, hardware: Hardware, launches: int = 1) -> Explained:
        """Explain a call that makes this launch so many times."""
        resources = KernelResources(
            kernel=self.table.symbol, symbol=self.table.symbol, registers=32, shared_bytes=0
        )
        explained = explain_call([self.account] * launches, [self.table], [resources], hardware)
        return replace(explained, bottlenecks=list_bottlenecks(explained.bottlenecks))


def tiled_transpose(n: int, *, ways: int) -> Counted:
    """n x n floats through 32 x 32 tiles, blocks of 32 x 8; loads of the tile conflict `ways`."""
    blocks = (n // 32) ** 2
    warps = blocks * 8
    requests = warps * 4
    sectors = requests * 4
    lanes = requests * 32
    table = KernelTable(
        symbol="tiled",
        blocks=(
            BasicBlock(mix={INT: 14, MEMORY: 8}, spot=at(10), memory_batches=1, global_loads=4),
            BasicBlock(mix={INT: 8, MEMORY: 8}, spot=at(13)),
        ),
        sites=(
            access("ld", "global", block=0, line=10),
            access("st", "shared", block=0, line=10),
            access("ld", "shared", block=1, line=14),
            access("st", "global", block=1, line=14),
        ),
    )
    moved = SiteCounters(
        requests=requests, lanes=lanes, sectors=sectors, l2_sectors=sectors, dram_sectors=sectors
    )

    def on_tile(ways: int) -> SiteCounters:
        return SiteCounters(
            requests=requests,
            lanes=lanes,
            wavefronts=requests * ways,
            ideal_wavefronts=requests,
            worst_ways=ways,
        )

    account = LaunchCounters(
        kernel=0,
        grid=(n // 32, n // 32, 1),
        block=(32, 8, 1),
        static_shared_bytes=4224,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=blocks,
        block_warps=(warps, warps),
        block_lanes=(warps * 32, warps * 32),
        sites=(moved, on_tile(1), on_tile(ways), moved),
        footprint_bytes=n * n * 8,
        barriers=warps,
    )
    return Counted(account, table)


def naive_transpose(n: int) -> Counted:
    """n x n floats, one a thread, blocks of 32 x 8; the stores of a warp stride a row each."""
    blocks = (n // 32) * (n // 8)
    warps = blocks * 8
    unique = n * n / 8
    table = KernelTable(
        symbol="naive",
        blocks=(
            BasicBlock(mix={INT: 12, MEMORY: 2}, spot=at(5), memory_batches=1, global_loads=1),
        ),
        sites=(
            access("ld", "global", block=0, line=6),
            access("st", "global", block=0, line=6),
        ),
    )
    account = LaunchCounters(
        kernel=0,
        grid=(n // 32, n // 8, 1),
        block=(32, 8, 1),
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=blocks,
        block_warps=(warps,),
        block_lanes=(warps * 32,),
        sites=(
            SiteCounters(
                requests=warps,
                lanes=warps * 32,
                sectors=warps * 4,
                l2_sectors=unique,
                dram_sectors=unique,
            ),
            SiteCounters(
                requests=warps,
                lanes=warps * 32,
                sectors=warps * 32,
                l2_sectors=unique,
                dram_sectors=unique,
            ),
        ),
        footprint_bytes=n * n * 8,
    )
    return Counted(account, table)


RTX_3090_TI = find_hardware("RTX 3090 Ti")
H200 = find_hardware("H200")


@pytest.mark.parametrize("n", [1024, 1536, 2048])
def test_padded_beats_unpadded_beats_naive_on_a_3090_ti(n: int) -> None:
    padded = tiled_transpose(n, ways=1).on(RTX_3090_TI)
    unpadded = tiled_transpose(n, ways=32).on(RTX_3090_TI)
    naive = naive_transpose(n).on(RTX_3090_TI)
    assert padded.time_us * 1.05 < unpadded.time_us
    assert unpadded.time_us * 1.05 < naive.time_us


def test_the_cause_to_remove_in_the_unpadded_one_is_bank_conflicts_on_its_line() -> None:
    limit, first = tiled_transpose(2048, ways=32).on(RTX_3090_TI).bottlenecks
    assert limit.code == "dram_bandwidth", "its conflicts take less than its bytes"
    assert first.code == "bank_conflicts"
    assert first.explanation == "shared-memory bank conflicts: 32-way"
    assert str(first.spot) == "mine.cu:14"
    assert "33" in first.advice


def test_the_reason_of_the_naive_one_is_uncoalesced_stores_on_its_line() -> None:
    first = naive_transpose(2048).on(RTX_3090_TI).bottlenecks[0]
    assert first.code == "uncoalesced_global"
    assert "stores: 32.0 sectors a request where 4.0 would do" in first.explanation
    assert str(first.spot) == "mine.cu:6"
    assert first.share > 0.2


def test_the_padded_one_is_limited_by_dram_and_nothing_else() -> None:
    explained = tiled_transpose(2048, ways=1).on(RTX_3090_TI)
    assert [bottleneck.code for bottleneck in explained.bottlenecks] == ["dram_bandwidth"]
    assert "33.6 MB" in explained.bottlenecks[0].explanation


def test_no_transpose_is_faster_than_its_bytes_over_the_bandwidth() -> None:
    for n in (256, 1024, 2048, 4096):
        least_us = 8 * n * n / (RTX_3090_TI.peaks.dram_gb_s * 1e3)
        assert tiled_transpose(n, ways=1).on(RTX_3090_TI).time_us > least_us


def test_times_are_of_the_order_measured_on_an_h200() -> None:
    """Measured: 150 us tiled and 507 us naive for 8192 x 8192, 2.4 us tiled for 1024 x 1024."""
    assert 100 < tiled_transpose(8192, ways=1).on(H200).time_us < 225
    assert 338 < naive_transpose(8192).on(H200).time_us < 760
    assert 1.6 < tiled_transpose(1024, ways=1).on(H200).time_us < 3.6


def test_a_small_transpose_is_launch_and_latency() -> None:
    explained = tiled_transpose(64, ways=1).on(H200)
    assert explained.time_us < 3
    codes = {bottleneck.code for bottleneck in explained.bottlenecks}
    assert codes & {"latency", "launch_overhead", "tail"}
    assert "dram_bandwidth" not in codes


def test_a_call_is_the_sum_of_its_launches() -> None:
    once = tiled_transpose(512, ways=1).on(RTX_3090_TI)
    thrice = tiled_transpose(512, ways=1).on(RTX_3090_TI, launches=3)
    assert thrice.time_us == pytest.approx(3 * once.time_us)
    assert len(thrice.launches) == 3
    assert len(thrice.bottlenecks) == len(once.bottlenecks)


def test_figures_behind_the_time_are_given() -> None:
    launch = naive_transpose(1024).on(RTX_3090_TI).launches[0]
    assert launch.figures["sectors_per_request"] == 18
    assert launch.figures["ideal_sectors_per_request"] == 4
    assert launch.figures["dram_bytes"] == 8 * 1024 * 1024
    assert launch.figures["simd_efficiency"] == 1
    assert launch.occupancy == 1
    assert launch.terms_us["l2"] > launch.terms_us["dram"]


def test_an_unknown_kernel_still_has_a_time() -> None:
    naive = naive_transpose(1024)
    known = naive.on(RTX_3090_TI)
    unknown = explain_call([naive.account], [naive.table], [], RTX_3090_TI)
    assert unknown.time_us == known.time_us
    assert unknown.launches[0].kernel == "naive"


def test_a_call_without_launches_takes_no_time() -> None:
    explained = explain_call([], [], [], RTX_3090_TI)
    assert explained.time_us == 0
    assert explained.bottlenecks == ()


def test_a_launch_does_not_move_what_it_finds_in_l2() -> None:
    small = tiled_transpose(512, ways=1)
    warm = replace(small.account, reused_bytes=small.account.footprint_bytes)
    cold_again, warm_again = (
        explain_call([small.account, second], [small.table], [], RTX_3090_TI).launches[1]
        for second in (small.account, warm)
    )
    assert cold_again.figures["dram_bytes"] == small.account.footprint_bytes
    assert warm_again.figures["dram_bytes"] == 0
    assert warm_again.time_us < cold_again.time_us
