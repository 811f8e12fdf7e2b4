"""Occupancy agrees with NVIDIA's calculator.

`occupancy_cases.json` holds [profile, threads, registers, shared bytes, blocks per SM] as printed
by a program around `cudaOccMaxActiveBlocksPerMultiprocessor` of CUDA 13.0's `cuda_occupancy.h`.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.hardware_profiles.occupancy import occupancy

CASES = json.loads((Path(__file__).parent / "occupancy_cases.json").read_text())
PROFILES = {profile.slug: profile for profile in list_hardware()}

threads = st.integers(1, 1024)
registers = st.integers(1, 255)
shared = st.integers(0, 300_000)


def test_blocks_per_sm_are_those_of_nvidias_calculator() -> None:
    assert len(CASES) > 500
    for slug, block, per_thread, bytes_, expected in CASES:
        got = occupancy(
            PROFILES[slug],
            threads_per_block=block,
            registers_per_thread=per_thread,
            shared_bytes=bytes_,
        )
        assert got.blocks_per_sm == expected, (slug, block, per_thread, bytes_)


@pytest.mark.parametrize(
    ("block", "per_thread", "bytes_", "resource"),
    [
        (256, 32, 0, "threads"),
        (256, 128, 0, "registers"),
        (64, 16, 48_000, "shared"),
        (32, 16, 0, "blocks"),
    ],
)
def test_the_limiting_resource_is_named(
    block: int, per_thread: int, bytes_: int, resource: str
) -> None:
    got = occupancy(
        find_hardware("RTX 3090 Ti"),
        threads_per_block=block,
        registers_per_thread=per_thread,
        shared_bytes=bytes_,
    )
    assert got.limited_by == (resource,)


def test_a_block_that_fits_nowhere_has_no_occupancy() -> None:
    hardware = find_hardware("RTX 3090 Ti")
    for block, per_thread, bytes_ in ((1025, 16, 0), (1024, 72, 0), (32, 16, 200_000), (0, 1, 0)):
        got = occupancy(
            hardware,
            threads_per_block=block,
            registers_per_thread=per_thread,
            shared_bytes=bytes_,
        )
        assert got.blocks_per_sm == 0
        assert got.fraction == 0


@given(
    slug=st.sampled_from(sorted(PROFILES)),
    block=threads,
    per_thread=registers,
    bytes_=shared,
    more=st.integers(0, 4096),
)
def test_needing_more_never_raises_occupancy(
    slug: str, block: int, per_thread: int, bytes_: int, more: int
) -> None:
    def blocks(per_thread: int, bytes_: int) -> int:
        return occupancy(
            PROFILES[slug],
            threads_per_block=block,
            registers_per_thread=per_thread,
            shared_bytes=bytes_,
        ).blocks_per_sm

    base = blocks(per_thread, bytes_)
    assert blocks(per_thread, bytes_ + more) <= base
    assert blocks(min(255, per_thread + more), bytes_) <= base


@given(slug=st.sampled_from(sorted(PROFILES)), block=threads, per_thread=registers, bytes_=shared)
def test_resident_blocks_fit_the_limits(
    slug: str, block: int, per_thread: int, bytes_: int
) -> None:
    hardware = PROFILES[slug]
    got = occupancy(
        hardware, threads_per_block=block, registers_per_thread=per_thread, shared_bytes=bytes_
    )
    assert 0 <= got.fraction <= 1
    assert got.blocks_per_sm * block <= hardware.limits.threads_per_sm
    assert got.blocks_per_sm * block * per_thread <= hardware.limits.registers_per_sm
    assert got.blocks_per_sm * bytes_ <= hardware.limits.shared_bytes_per_sm
