"""Pure parts of the runtime against plain Python."""

import ctypes
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from access_patterns import ABSENT, WORDS, patterns
from corpus_sample import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from runtime_driver import FLAGS, WATCH

from cuda_llm.tools.emulator.codegen.libraries import emulator_library
from cuda_llm.tools.native import build

RECORDED = Path(__file__).parents[3] / "fixtures" / "recorded"
PARTS = WATCH[0].parent / "parts"
checked = settings(
    max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
masks = st.integers(1, 0xFFFFFFFF) | st.just(0xFFFFFFFF)


@pytest.fixture(scope="session")
def parts() -> ctypes.CDLL:
    library = emulator_library()
    link = ["-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{library.parent}"]
    made = build(
        "parts.so", [PARTS / "parts.cpp"], [*FLAGS, "-shared", "-fPIC", *link], [PARTS, *WATCH]
    )
    loaded = ctypes.CDLL(str(made))
    loaded.position.restype = ctypes.c_uint64
    loaded.position.argtypes = [ctypes.c_uint64] * 3
    loaded.change_bits.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int]
    loaded.all_bits.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.c_uint64]
    return loaded


def lanes_of(mask: int) -> list[int]:
    return [lane for lane in range(32) if mask >> lane & 1]


@st.composite
def warps(draw: st.DrawFn, step: int, limit: int) -> list[int]:
    """Addresses of 32 lanes: strided, few different ones, or anything."""
    count = limit // step
    start = draw(st.integers(0, count - 1))
    stride = draw(st.sampled_from([0, 1, 2, 3, 4, 8, 16, 31, 32, 33]))
    match draw(st.sampled_from(["strided", "few", "any"])):
        case "strided":
            indices = [(start + stride * lane) % count for lane in range(32)]
        case "few":
            few = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))
            indices = [draw(st.sampled_from(few)) for _ in range(32)]
        case _:
            indices = draw(st.lists(st.integers(0, count - 1), min_size=32, max_size=32))
    return [step * index for index in indices]


@given(data=st.data(), mask=masks, bytes=st.sampled_from([1, 2, 4, 8, 16, 32]))
@checked
def test_sectors_are_the_distinct_aligned_32_bytes(
    parts: ctypes.CDLL, data: st.DataObject, mask: int, bytes: int
) -> None:
    addresses = data.draw(warps(bytes, 1 << 16))
    expected = {addresses[lane] // 32 for lane in lanes_of(mask)}
    assert parts.sectors((ctypes.c_uint64 * 32)(*addresses), mask) == len(expected)


def passes_of(
    parts: ctypes.CDLL, addresses: list[int], mask: int, bytes: int, *, load: bool
) -> tuple[int, int]:
    """Passes taken and passes without conflicts."""
    pair = (ctypes.c_uint32 * 2)()
    parts.passes((ctypes.c_uint32 * 32)(*addresses), mask, bytes, load, pair)
    return pair[0], pair[1]


@given(data=st.data(), mask=masks, bytes=st.sampled_from([1, 2, 4, 8, 16]))
@checked
def test_stores_pass_once_for_the_most_distinct_words_of_a_bank_in_each_part_of_the_warp(
    parts: ctypes.CDLL, data: st.DataObject, mask: int, bytes: int
) -> None:
    addresses = data.draw(warps(bytes, 1 << 15))
    width = {8: 16, 16: 8}.get(bytes, 32)
    taken = []
    for first in range(0, 32, width):
        lanes = [lane for lane in lanes_of(mask) if first <= lane < first + width]
        words = {(addresses[lane] + byte) // 4 for lane in lanes for byte in range(0, bytes, 4)}
        if words:
            taken.append(max(Counter(word % 32 for word in words).values()))
    found = passes_of(parts, addresses, mask, bytes, load=False)
    assert found == (sum(taken), len(taken))


@pytest.mark.parametrize("pattern", range(len(patterns())))
@pytest.mark.parametrize("kind", ["load", "store"])
def test_passes_are_those_an_h200_counted(parts: ctypes.CDLL, pattern: int, kind: str) -> None:
    offsets = patterns()[pattern].tolist()
    mask = sum(1 << lane for lane, offset in enumerate(offsets) if offset != ABSENT)
    counted = json.loads((RECORDED / "shared_passes_h200.json").read_text())["patterns"][pattern]
    for words, expected in zip(WORDS, counted[kind], strict=True):
        addresses = [0 if o == ABSENT else 4 * words * o for o in offsets]
        found = passes_of(parts, addresses, mask, 4 * words, load=kind == "load")
        assert list(found) == expected


@given(addresses=warps(4, 256), mask=masks)
@checked
def test_serial_is_the_largest_group_of_lanes_on_one_address(
    parts: ctypes.CDLL, addresses: list[int], mask: int
) -> None:
    expected = max(Counter(addresses[lane] for lane in lanes_of(mask)).values())
    assert parts.serial((ctypes.c_uint64 * 32)(*addresses), mask) == expected


@given(
    changes=st.lists(
        st.tuples(st.integers(0, 500), st.integers(0, 500), st.booleans()), max_size=12
    ),
    asked=st.tuples(st.integers(0, 500), st.integers(0, 500)),
)
@checked
def test_shadow_bits_change_exactly_in_their_range(
    parts: ctypes.CDLL, changes: list[tuple[int, int, bool]], asked: tuple[int, int]
) -> None:
    memory = ctypes.create_string_buffer(160)
    model = np.zeros(1280, bool)
    for first, count, value in changes:
        parts.change_bits(memory, first, count, int(value))
        model[first : first + count] = value
    bits = np.unpackbits(np.frombuffer(memory.raw, np.uint8), bitorder="little").astype(bool)
    assert np.array_equal(bits, model)
    first, count = asked
    assert bool(parts.all_bits(memory, first, count)) == bool(model[first : first + count].all())


@given(seed=st.integers(0, 1 << 63), n=st.integers(1, 400))
@checked
def test_every_seed_is_a_permutation(parts: ctypes.CDLL, seed: int, n: int) -> None:
    order = [parts.position(seed, n, i) for i in range(n)]
    assert sorted(order) == list(range(n))
