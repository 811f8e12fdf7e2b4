"""One meaning of `limited by`, and no saving that leads below what is said to be possible."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.codec import decode
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import Bottleneck, limiter
from cuda_llm.source_file import SourceSpot
from cuda_llm.time_terms import combine, unit_of
from cuda_llm.tools.profiler.bottlenecks import (
    LEAST_WASTE,
    UNITS,
    find_bottlenecks,
    list_bottlenecks,
)
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.explain_modelled import copies_profile
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)
from cuda_llm.tools.profiler.time_model import ModelledLaunch, place_launch

ROOT = Path(__file__).parents[3]
REPORTS = sorted(ROOT.glob("traces/examples/*/candidates/*/profile.json"))
HARDWARE = find_hardware("NVIDIA H200")
ROUNDING = 1e-6


def recorded_bottlenecks(path: Path) -> list[tuple[Bottleneck, ...]]:
    found: list[tuple[Bottleneck, ...]] = []

    def visit(node: object) -> None:
        if isinstance(node, dict):
            if listed := node.get("bottlenecks"):
                found.append(tuple(decode(Bottleneck, one) for one in listed))
            for child in node.values():
                visit(child)
        elif isinstance(node, list):
            for child in node:
                visit(child)

    visit(json.loads(path.read_text()))
    return found


def require_above(listed: Sequence[Bottleneck], least_us: float) -> None:
    """Fail where a saving is negative, leads below `least_us`, or is not what its share says."""
    for one in listed:
        after_us = one.time_us - one.saved_us
        assert 0 <= one.saved_us <= one.time_us
        assert after_us >= min(least_us, one.time_us) * (1 - ROUNDING)
        assert 0 <= one.share <= 1
        if one.saved_us:
            assert one.share == pytest.approx(one.saved_us / one.time_us)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.parent.name)
@pytest.mark.parametrize("part", [0.5, 0.9, 0.99, 1.1])
def test_no_recorded_saving_leads_below_a_floor(path: Path, part: float) -> None:
    for found in recorded_bottlenecks(path):
        require_above(list_bottlenecks(found, part * found[0].time_us), part * found[0].time_us)


counts = st.floats(0, 1e7)


@st.composite
def launches(draw: st.DrawFn) -> ModelledLaunch:
    """A launch of any shape, of one or two kernels with a block of instructions and accesses."""
    blocks, threads = draw(st.integers(1, 100_000)), draw(st.sampled_from([32, 128, 1024]))
    warps = blocks * threads / 32
    runs = draw(st.floats(0, 1000))
    kinds = draw(st.lists(st.sampled_from(list(InstructionClass)), max_size=4, unique=True))
    spots = [SourceSpot(file="mine.cu", line=line) for line in (3, 7, 9, 11)]
    block = BasicBlock(
        mix={kind: draw(st.integers(0, 200)) for kind in kinds},
        spot=spots[0],
        memory_batches=draw(st.integers(0, 4)),
        global_loads=draw(st.integers(0, 8)),
        dependent_chain=draw(st.integers(0, 200)),
    )
    sites, accesses = [], []
    for opcode, kind, spot in (
        ("ld.global.f32", "load", spots[1]),
        ("atom.global.add.u32", "atomic", spots[2]),
        ("ld.shared.f32", "load", spots[3]),
    ):
        requests = warps * runs * draw(st.floats(0, 1))
        each = draw(st.integers(1, 32))
        is_global = "global" in opcode
        sectors = requests * each if is_global else 0.0
        sites.append(
            InstructionSite(
                opcode=opcode, space=opcode.split(".")[1], kind=kind, bytes=4, block=0, spot=spot
            )
        )
        accesses.append(
            SiteCounters(
                requests=requests,
                lanes=32 * requests,
                sectors=sectors,
                lines=sectors * draw(st.floats(0.25, 1)),
                wavefronts=0.0 if is_global else requests * each,
                ideal_wavefronts=0.0 if is_global else requests,
                worst_ways=each,
                l2_sectors=sectors * draw(st.floats(0, 1)),
                dram_sectors=sectors * draw(st.floats(0, 1)),
                serial=requests * each if kind == "atomic" else 0.0,
            )
        )
    account = LaunchCounters(
        kernel=draw(st.integers(0, 1)),
        grid=(blocks, 1, 1),
        block=(threads, 1, 1),
        static_shared_bytes=draw(st.sampled_from([0, 16_384, 48_000])),
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=blocks,
        block_warps=(warps * runs,),
        block_lanes=(warps * runs * 32 * draw(st.floats(0.03, 1)),),
        sites=tuple(accesses),
        footprint_bytes=draw(st.integers(0, 10**9)),
    )
    table = KernelTable(symbol=f"k{account.kernel}", blocks=(block,), sites=tuple(sites))
    return place_launch(account, table, None, HARDWARE)


calls = st.lists(launches(), min_size=1, max_size=3)


def unit_savings(call: Sequence[ModelledLaunch], copies_us: float) -> dict[str, float]:
    """What each unit would save if it took no time, by the formula of the model."""
    saved = {"copies": copies_us}
    for launch in call:
        for unit in set(map(unit_of, launch.time.terms_us)):
            left = {term: us for term, us in launch.time.terms_us.items() if unit_of(term) != unit}
            saved[unit] = saved.get(unit, 0.0) + launch.time.time_us - combine(left)
    return saved


@given(call=calls, copied=st.integers(0, 3), part=st.floats(0, 1.2))
def test_a_call_is_limited_by_what_saves_most_and_no_saving_leads_below_a_floor(
    call: list[ModelledLaunch], copied: int, part: float
) -> None:
    copies = copies_profile(copied, copied << 20, 0, HARDWARE)
    found = find_bottlenecks(call, copies)
    time_us = sum(one.time.time_us for one in call) + sum(one.time_us for one in copies)
    listed = list_bottlenecks(found, part * time_us)
    require_above(listed, part * time_us)
    own_least_us = max(one.least_us for one in call)
    fused = {one.explanation for one in listed if "from one launch to the next" in one.explanation}
    require_above([one for one in listed if one.explanation not in fused], own_least_us)
    limit = limiter(listed)
    assert limit is not None
    assert limit.time_us == pytest.approx(time_us)
    units = unit_savings(call, sum(one.time_us for one in copies))
    most = max(units.values())
    if limit.saved_us:
        causes = [one for one in listed if one.saved_us and not (one.code in UNITS and one.kernel)]
        beats = [one for one in causes if one.saved_us > limit.saved_us * (1 + ROUNDING)]
        assert all(one.saved_us <= most * (1 + ROUNDING) for one in beats), "it saves less than it"
        assert limit.share >= LEAST_WASTE
        if limit.code in UNITS and limit.kernel:
            assert units[UNITS[limit.code]] == pytest.approx(most), "only its own unit's words"
    else:
        assert units[UNITS[limit.code]] == pytest.approx(most)


def cause(code: str, saved: float, *, dominates: bool = False) -> Bottleneck:
    return Bottleneck(
        code=code,
        share=saved,
        explanation=code,
        saved_us=100 * saved,
        time_us=100.0,
        dominates=dominates,
    )


def test_what_a_floor_leaves_no_room_for_is_not_named_before_what_limits() -> None:
    dram = replace(cause("dram_bandwidth", 0.0, dominates=True), share=0.98)
    l1 = cause("l1_bandwidth", 0.09)
    assert [one.code for one in list_bottlenecks([l1, dram])] == ["dram_bandwidth", "l1_bandwidth"]
    assert [one.code for one in list_bottlenecks([l1, dram], 98.5)] == ["dram_bandwidth"]


def test_a_unit_is_named_by_the_cause_that_relieves_it() -> None:
    latency = replace(cause("latency", 0.0, dominates=True), share=0.6)
    tail = cause("tail", 0.3, dominates=True)
    other = cause("issue", 0.4)
    assert [one.code for one in list_bottlenecks([latency, tail, other])][:2] == ["tail", "issue"]
