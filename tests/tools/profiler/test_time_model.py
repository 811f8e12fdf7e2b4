"""Properties the model keeps for any account."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import list_hardware
from cuda_llm.profile import KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.time_terms import SHARPNESS, combine
from cuda_llm.tools.profiler.bottlenecks import Explained
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.explain_modelled import explain_call
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)
from cuda_llm.tools.profiler.time_model import Term

PROFILES = list_hardware()
counts = st.just(0.0) | st.floats(1, 1e9)
hardware = st.sampled_from(PROFILES)


@st.composite
def sites(draw: st.DrawFn, blocks: int) -> tuple[InstructionSite, SiteCounters]:
    space, kind = draw(
        st.sampled_from(
            [
                ("global", "load"),
                ("global", "store"),
                ("global", "atomic"),
                ("global", "async_copy"),
                ("shared", "load"),
                ("shared", "store"),
                ("shared", "atomic"),
                ("local", "load"),
                ("const", "load"),
                ("generic", "load"),
                ("", "barrier"),
            ]
        )
    )
    site = InstructionSite(
        opcode=f"op.{space}.{draw(st.sampled_from(['f32', 'u32', 'cg.f32']))}",
        space=space,
        kind=kind,
        bytes=draw(st.sampled_from([1, 2, 4, 8, 16])),
        block=draw(st.integers(0, blocks - 1)),
        spot=SourceSpot(file="mine.cu", line=draw(st.integers(1, 5))),
    )
    values = [draw(counts) for _ in range(8)]
    ways = draw(st.integers(0, 32))
    count = SiteCounters(
        requests=values[0],
        lanes=values[1],
        sectors=values[2],
        wavefronts=values[3],
        ideal_wavefronts=values[4],
        worst_ways=ways,
        l2_sectors=values[5],
        dram_sectors=values[6],
        serial=values[7],
    )
    return site, count


@st.composite
def launches(draw: st.DrawFn) -> tuple[LaunchCounters, KernelTable]:
    """Any counts at all, consistent or not."""
    blocks = draw(st.integers(1, 3))
    pairs = draw(st.lists(sites(blocks), max_size=4))
    mixes = st.dictionaries(st.sampled_from(list(InstructionClass)), st.integers(0, 50))
    table = KernelTable(
        symbol="k",
        sites=tuple(site for site, _ in pairs),
        blocks=tuple(
            BasicBlock(mix=draw(mixes), spot=None, memory_batches=draw(st.integers(0, 4)))
            for _ in range(blocks)
        ),
    )
    grid = draw(st.integers(1, 10**6))
    account = LaunchCounters(
        kernel=0,
        grid=(grid, 1, 1),
        block=(draw(st.integers(1, 1024)), 1, 1),
        static_shared_bytes=draw(st.integers(0, 50_000)),
        dynamic_shared_bytes=0,
        cooperative=False,
        blocks_total=grid,
        block_warps=tuple(draw(counts) for _ in range(blocks)),
        block_lanes=tuple(draw(counts) for _ in range(blocks)),
        sites=tuple(count for _, count in pairs),
        footprint_bytes=draw(st.integers(0, 10**10)),
        barriers=draw(counts),
    )
    return account, table


def explain(
    launch: tuple[LaunchCounters, KernelTable], hardware: Hardware, registers: int = 32
) -> Explained:
    account, table = launch
    resources = KernelResources(kernel="k", symbol="k", registers=registers, shared_bytes=0)
    return explain_call([account], [table], [resources], hardware)


@given(launch=launches(), hardware=hardware, registers=st.integers(1, 255))
def test_any_account_has_a_finite_time_of_finite_parts(
    launch: tuple[LaunchCounters, KernelTable], hardware: Hardware, registers: int
) -> None:
    explained = explain(launch, hardware, registers)
    terms = explained.launches[0].terms_us
    assert all(math.isfinite(us) and us > 0 for us in terms.values())
    assert max(terms.values()) <= explained.time_us <= sum(terms.values()) * (1 + 1e-9)
    assert all(math.isfinite(figure) for figure in explained.launches[0].figures.values())
    assert explained.bottlenecks
    for bottleneck in explained.bottlenecks:
        assert 0 < bottleneck.share <= 1
        assert bottleneck.explanation
        assert bottleneck.advice


@given(launch=launches(), hardware=hardware, data=st.data(), factor=st.floats(1, 100))
def test_more_of_any_count_never_makes_it_faster(
    launch: tuple[LaunchCounters, KernelTable],
    hardware: Hardware,
    data: st.DataObject,
    factor: float,
) -> None:
    account, table = launch
    if not account.sites:
        return
    index = data.draw(st.integers(0, len(account.sites) - 1))
    name = data.draw(st.sampled_from(["sectors", "wavefronts", "serial"]))
    count = account.sites[index]
    more = replace(count, **{name: getattr(count, name) * factor})
    changed = replace(account, sites=(*account.sites[:index], more, *account.sites[index + 1 :]))
    before, after = explain(launch, hardware), explain((changed, table), hardware)
    assert after.time_us >= before.time_us * (1 - 1e-12)


@given(launch=launches(), hardware=hardware, more=st.integers(0, 200))
def test_more_sms_are_never_slower(
    launch: tuple[LaunchCounters, KernelTable], hardware: Hardware, more: int
) -> None:
    larger = replace(hardware, sm_count=hardware.sm_count + more)
    before, after = explain(launch, hardware), explain(launch, larger)
    assert after.time_us <= before.time_us * (1 + 1e-12)


@given(launch=launches(), hardware=hardware, factor=st.floats(1, 10))
def test_a_faster_clock_or_memory_is_never_slower(
    launch: tuple[LaunchCounters, KernelTable], hardware: Hardware, factor: float
) -> None:
    before = explain(launch, hardware).time_us
    clocked = replace(hardware, boost_clock_mhz=hardware.boost_clock_mhz * factor)
    peaks = replace(hardware.peaks, dram_gb_s=hardware.peaks.dram_gb_s * factor)
    assert explain(launch, clocked).time_us <= before * (1 + 1e-12)
    assert explain(launch, replace(hardware, peaks=peaks)).time_us <= before * (1 + 1e-12)


@given(several=st.lists(launches(), min_size=1, max_size=4), hardware=hardware, data=st.data())
def test_the_order_of_launches_does_not_change_their_sum(
    several: list[tuple[LaunchCounters, KernelTable]], hardware: Hardware, data: st.DataObject
) -> None:
    tables = [table for _, table in several]
    accounts = [replace(account, kernel=i) for i, (account, _) in enumerate(several)]
    shuffled = data.draw(st.permutations(accounts))
    before = explain_call(accounts, tables, [], hardware)
    after = explain_call(shuffled, tables, [], hardware)
    assert after.time_us == pytest.approx(before.time_us)


positive = st.floats(0, 1e6, allow_nan=False)


@given(terms=st.dictionaries(st.sampled_from(list(Term)), positive), more=positive)
def test_the_soft_maximum_lies_between_the_largest_and_the_sum(
    terms: dict[Term, float], more: float
) -> None:
    together = combine(terms)
    assert together >= max(terms.values(), default=0) * (1 - 1e-12)
    assert together <= sum(terms.values()) * (1 + 1e-12)
    for term in terms:
        assert combine({**terms, term: terms[term] + more}) >= together * (1 - 1e-12)


def test_two_equal_terms_cost_as_documented() -> None:
    assert SHARPNESS == 4
    assert combine({Term.DRAM: 10, Term.L2: 10}) == pytest.approx(10 * 2**0.25)
    assert combine({Term.SHARED: 10, Term.L1: 10}) == 20
    assert combine({Term.DRAM: 10, Term.LAUNCH: 1}) == 11
    assert combine({}) == 0
