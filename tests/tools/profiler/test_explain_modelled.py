"""Each kind of waste and each roof is named, with evidence, where it dominates."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import Bottleneck, KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.bottlenecks import Explained, list_bottlenecks
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.explain_modelled import copies_profile, explain_call
from cuda_llm.tools.profiler.phases import find_phases
from cuda_llm.tools.profiler.relief import elected_blocks
from cuda_llm.tools.profiler.roofs import find_roofs
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)
from cuda_llm.tools.profiler.time_model import ModelledLaunch, place_launch
from cuda_llm.tools.profiler.wastes import find_wastes

HARDWARE = find_hardware("RTX 3090 Ti")
WARPS = 84 * 6 * 8 * 10
"""Ten full waves of blocks of 256 threads."""


def explain(
    *,
    mix: Mapping[InstructionClass, int] | None = None,
    sites: Mapping[InstructionSite, SiteCounters] | None = None,
    runs: float = 1.0,
    active: float = 1.0,
    batches: int = 0,
    blocks: int = WARPS // 8,
    threads: int = 256,
    registers: int = 32,
    shared_bytes: int = 0,
    launches: int = 1,
) -> Explained:
    """A kernel of one basic block that every warp executes `runs` times."""
    sites = sites or {}
    warps = blocks * -(-threads // 32)
    block = BasicBlock(
        mix=mix or {}, spot=SourceSpot(file="mine.cu", line=3), memory_batches=batches
    )
    account = LaunchCounters(
        kernel=0,
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        static_shared_bytes=shared_bytes,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=blocks,
        block_warps=(warps * runs,),
        block_lanes=(warps * runs * 32 * active,),
        sites=tuple(sites.values()),
    )
    table = KernelTable(symbol="k", blocks=(block,), sites=tuple(sites))
    resources = KernelResources(
        kernel="k", symbol="k", registers=registers, shared_bytes=shared_bytes
    )
    explained = explain_call([account] * launches, [table], [resources], HARDWARE)
    return replace(explained, bottlenecks=list_bottlenecks(explained.bottlenecks))


def site(opcode: str, kind: str, line: int = 7) -> InstructionSite:
    return InstructionSite(
        opcode=opcode,
        space=opcode.split(".")[1],
        kind=kind,
        bytes=4,
        block=0,
        spot=SourceSpot(file="mine.cu", line=line),
    )


def first(explained: Explained) -> Bottleneck:
    return explained.bottlenecks[0]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (InstructionClass.FP32, "fp32"),
        (InstructionClass.FP64, "fp64"),
        (InstructionClass.SFU, "sfu"),
        (InstructionClass.INT, "int"),
        (InstructionClass.CONVERT, "convert"),
        (InstructionClass.CONTROL, "issue"),
    ],
)
def test_a_kernel_of_one_kind_of_instruction_is_limited_by_its_pipe(
    kind: InstructionClass, code: str
) -> None:
    codes = {bottleneck.code for bottleneck in explain(mix={kind: 1000}).bottlenecks}
    assert code in codes
    assert not codes & {"dram_bandwidth", "l2_bandwidth", "launch_overhead"}


def test_half_idle_warps_are_divergence() -> None:
    bottleneck = first(explain(mix={InstructionClass.INT: 1000}, active=0.25))
    assert bottleneck.code == "divergence"
    assert bottleneck.explanation == "8.0 of 32 lanes work on average"
    assert str(bottleneck.spot) == "mine.cu:3"


def test_one_counter_for_all_threads_is_contention() -> None:
    counter = SiteCounters(
        requests=WARPS,
        lanes=WARPS * 32,
        sectors=WARPS,
        l2_sectors=WARPS / 8,
        dram_sectors=1,
        serial=WARPS * 32,
    )
    bottleneck = first(explain(sites={site("atom.global.add.u32", "atomic"): counter}))
    assert bottleneck.code == "atomic_contention"
    assert "32.0 lanes of a warp at one address" in bottleneck.explanation
    assert str(bottleneck.spot) == "mine.cu:7"
    assert "block" in bottleneck.advice


def test_a_shared_histogram_of_one_bin_is_contention() -> None:
    bins = SiteCounters(
        requests=WARPS * 10,
        lanes=WARPS * 320,
        wavefronts=WARPS * 10,
        ideal_wavefronts=WARPS * 10,
        worst_ways=1,
        serial=WARPS * 320,
    )
    bottleneck = first(explain(sites={site("atom.shared.add.u32", "atomic"): bins}))
    assert bottleneck.code == "atomic_contention"
    assert "shared memory" in bottleneck.explanation
    assert "copy" in bottleneck.advice


def test_a_chain_of_loads_with_few_warps_is_low_occupancy_and_its_resource() -> None:
    requests = WARPS * 100.0
    chain = SiteCounters(requests=requests, lanes=requests, sectors=requests, l2_sectors=requests)
    found = explain(
        sites={site("ld.global.f32", "load"): chain},
        runs=100,
        batches=1,
        shared_bytes=50_000,
    )
    overlap, occupancy = found.bottlenecks[:2]
    assert (overlap.code, occupancy.code) == ("latency", "low_occupancy")
    assert "33% occupancy, bounded by shared" in occupancy.explanation
    assert overlap.saved_us == pytest.approx(0.75 * found.time_us, rel=0.05), "four loads for one"
    assert occupancy.saved_us == pytest.approx(2 / 3 * found.time_us, rel=0.05), "all warps"


def test_a_chain_of_loads_at_full_occupancy_is_latency() -> None:
    requests = 84 * 6 * 8 * 100.0
    chain = SiteCounters(requests=requests, lanes=requests, sectors=requests, l2_sectors=requests)
    bottleneck = first(
        explain(sites={site("ld.global.f32", "load"): chain}, runs=100, batches=1, blocks=84 * 6)
    )
    assert bottleneck.code == "latency"
    assert str(bottleneck.spot) == "mine.cu:7"


def test_one_block_leaves_the_other_sms_idle() -> None:
    bottleneck = first(explain(mix={InstructionClass.FP32: 100_000}, blocks=1))
    assert bottleneck.code == "tail"
    assert bottleneck.explanation == "1 blocks leave 83 of 84 SMs without work"


def test_what_saves_most_alone_comes_first_and_roofs_without_a_mend_last() -> None:
    tile = SiteCounters(
        requests=WARPS * 40,
        lanes=WARPS * 40 * 32,
        wavefronts=WARPS * 80,
        ideal_wavefronts=WARPS * 40,
        worst_ways=2,
    )
    found = explain(
        sites={site("ld.shared.f32", "load"): tile},
        mix={InstructionClass.FP32: 400},
        active=0.5,
    )
    savings = [one.saved_us for one in found.bottlenecks]
    assert savings == sorted(savings, reverse=True)
    assert found.bottlenecks[0].code == "divergence"
    assert found.bottlenecks[-1].saved_us == 0
    for one in found.bottlenecks:
        assert one.time_us == found.time_us
        if one.saved_us:
            assert one.share == pytest.approx(one.saved_us / found.time_us)


def test_an_array_in_local_memory_is_named_with_its_line() -> None:
    array = SiteCounters(requests=WARPS * 64, lanes=WARPS * 64 * 32, sectors=WARPS * 64 * 4)
    bottleneck = first(explain(sites={site("ld.local.f32", "load", line=9): array}, runs=64))
    assert bottleneck.code == "local_memory"
    assert str(bottleneck.spot) == "mine.cu:9"


def test_many_short_launches_would_be_one() -> None:
    found = explain(mix={InstructionClass.FP32: 10}, blocks=8, launches=20)
    bottleneck = first(found)
    assert bottleneck.code == "launch_overhead"
    assert bottleneck.saved_us >= 19 * HARDWARE.model.launch_us


def test_an_empty_kernel_is_its_launch() -> None:
    explained = explain(blocks=1, threads=1)
    assert [bottleneck.code for bottleneck in explained.bottlenecks] == ["launch_overhead"]
    assert explained.time_us == HARDWARE.model.launch_us


def test_launches_of_one_kernel_are_one_bottleneck() -> None:
    explained = explain(mix={InstructionClass.FP64: 1000}, launches=5)
    codes = [bottleneck.code for bottleneck in explained.bottlenecks]
    assert codes[0] == "fp64"
    assert len(codes) == len(set(codes))


def test_reading_what_fits_in_l2_many_times_is_l2_bandwidth() -> None:
    load = site("ld.global.f32", "load")
    requests = WARPS * 100.0
    count = SiteCounters(
        requests=requests,
        lanes=requests * 32,
        sectors=requests * 4,
        l2_sectors=requests * 4,
        dram_sectors=1000,
    )
    bottleneck = first(explain(sites={load: count}, runs=100, batches=1))
    assert bottleneck.code == "l2_bandwidth"
    assert str(bottleneck.spot) == "mine.cu:7"


def test_a_call_without_copies_has_no_entry() -> None:
    assert copies_profile(0, 0, 0, HARDWARE) == ()


def test_each_copy_costs_a_launch_and_all_bytes_their_time() -> None:
    (few,) = copies_profile(1, 1 << 20, 0, HARDWARE)
    (many,) = copies_profile(10, 1 << 20, 0, HARDWARE)
    (large,) = copies_profile(1, 1 << 30, 0, HARDWARE)
    assert many.time_us - few.time_us == pytest.approx(9 * HARDWARE.model.launch_us)
    assert large.time_us > (1 << 30) / (HARDWARE.peaks.dram_gb_s * 1e3)


def test_the_bus_is_slower_than_device_memory() -> None:
    (across,) = copies_profile(1, 1 << 20, 1 << 20, HARDWARE)
    (within,) = copies_profile(1, 1 << 20, 0, HARDWARE)
    assert across.time_us > 5 * within.time_us


def row_sums(blocks: int = 8, *, runs: float = 1.0, barriers: float = 0.0) -> ModelledLaunch:
    """Warps that load, exchange values, and store a value each by one lane; blocks of 256."""
    warps = blocks * 8
    table = KernelTable(
        symbol="k",
        blocks=(
            BasicBlock(
                mix={InstructionClass.INT: 40, InstructionClass.SHUFFLE: 5},
                spot=SourceSpot(file="mine.cu", line=3),
                memory_batches=1,
                global_loads=1,
                dependent_chain=60,
            ),
            BasicBlock(mix={InstructionClass.INT: 4}, spot=SourceSpot(file="mine.cu", line=9)),
        ),
        sites=(site("ld.global.f32", "load"), replace(site("st.global.f32", "store", 9), block=1)),
    )
    load = SiteCounters(
        requests=warps * runs,
        lanes=32 * warps * runs,
        sectors=4 * warps * runs,
        l2_sectors=4 * warps * runs,
        path_clk=700.0,
    )
    store = SiteCounters(requests=warps, lanes=warps, sectors=warps, l2_sectors=warps, path_clk=1.0)
    account = LaunchCounters(
        kernel=0,
        grid=(blocks, 1, 1),
        block=(256, 1, 1),
        static_shared_bytes=0,
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=blocks,
        block_warps=(warps * runs, warps),
        block_lanes=(32.0 * warps * runs, warps),
        sites=(load, store),
        path_clk=1000.0,
        longest_clk=1000.0,
        barriers=barriers,
    )
    return place_launch(account, table, None, HARDWARE)


def test_a_lane_that_stores_for_its_warp_is_no_divergence() -> None:
    launch = row_sums()
    assert elected_blocks(launch.account, launch.table) == {1}
    assert "divergence" not in {one.code for one in find_wastes(launch)}


def test_a_lane_that_only_loads_for_its_warp_is_divergence() -> None:
    launch = row_sums()
    loads = tuple(
        replace(one, kind="load", opcode="ld.global.f32") if one.block else one
        for one in launch.table.sites
    )
    alone = place_launch(launch.account, replace(launch.table, sites=loads), None, HARDWARE)
    found = {one.code: one for one in find_wastes(alone)}
    assert str(found["divergence"].spot) == "mine.cu:9"


def test_more_blocks_are_promised_after_what_joining_their_results_costs() -> None:
    """Blocks of warps that never meet are cut smaller for nothing; a block that makes one result is
    not: the last to arrive takes four latencies of L2, 240 clocks at 1,860 MHz."""
    (free,) = (one for one in find_wastes(row_sums(runs=20)) if one.code == "tail")
    assert free.explanation == "8 blocks leave 76 of 84 SMs without work"
    (joined,) = (one for one in find_wastes(row_sums(runs=20, barriers=64)) if one.code == "tail")
    assert joined.saved_us == pytest.approx(free.saved_us - 4 * 240 / 1860)
    assert joined.explanation.endswith("to join the results of more blocks costs 0.5 us")
    assert "tail" not in {one.code for one in find_wastes(row_sums(barriers=64))}


def test_the_longest_path_is_divided_into_waits_and_instructions() -> None:
    launch = row_sums()
    load, reduce = find_phases(launch)[:2]
    assert (load.kind, load.clk, str(load.spot)) == ("load", 700.0, "mine.cu:7")
    assert (reduce.kind, str(reduce.spot)) == ("reduce", "mine.cu:3")
    # 299 clocks of instructions: 60 dependent ones of 4 clocks, and 4 of the store's block.
    assert reduce.clk == pytest.approx(299 * 240 / (240 + 8))
    assert sum(one.clk for one in find_phases(launch)) <= 1000.0


def test_where_waits_limit_the_line_is_where_the_longest_path_waits() -> None:
    launch = row_sums()
    (waits,) = (one for one in find_roofs(launch) if one.code == "latency")
    assert str(waits.spot) == "mine.cu:7"
    assert not find_phases(
        replace(launch, account=replace(launch.account, path_clk=0.0, longest_clk=0.0))
    )
