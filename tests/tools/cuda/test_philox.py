"""The cipher of timed inputs and the tags of timed outputs, in NumPy."""

import numpy as np
import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tools.cuda.sealing import philox, sealed_bytes, tag_of

KEY = (0x01234567, 0x89ABCDEF)


def test_philox_gives_its_known_answers() -> None:
    """Of Random123's kat_vectors, philox4x32 with 7 rounds."""
    zeros = philox(np.zeros(1, np.uint64), 0, 0, (0, 0))
    assert [hex(word) for word in zeros[0]] == [
        "0x5f6fb709",
        "0xd893f64",
        "0x4f121f81",
        "0x4f730a48",
    ]


@settings(max_examples=examples(40))
@given(st.binary(min_size=1, max_size=200), st.integers(0, 255), st.integers(0, 23))
def test_sealing_twice_gives_the_contents_back(contents: bytes, slot: int, index: int) -> None:
    plain = np.frombuffer(contents, np.uint8)
    once = sealed_bytes(plain, slot, index, KEY)

    assert (sealed_bytes(once, slot, index, KEY) == plain).all()


@pytest.mark.parametrize("other", [(1, 0, KEY), (0, 1, KEY), (0, 0, (KEY[1], KEY[0]))])
def test_slot_buffer_and_key_each_give_another_stream(
    other: tuple[int, int, tuple[int, int]],
) -> None:
    zeros = np.zeros(4096, np.uint8)
    assert (sealed_bytes(zeros, 0, 0, KEY) != sealed_bytes(zeros, *other)).mean() > 0.98


@settings(max_examples=examples(40))
@given(st.binary(min_size=1, max_size=200), st.integers(0, 199))
def test_a_tag_tells_of_any_change(contents: bytes, place: int) -> None:
    plain = np.frombuffer(contents, np.uint8)
    changed = plain.copy()
    changed[place % plain.size] ^= 1

    assert tag_of(plain, 0, 0, KEY) == tag_of(plain.copy(), 0, 0, KEY)
    assert tag_of(plain, 0, 0, KEY) != tag_of(changed, 0, 0, KEY)


def test_the_tag_of_a_large_output_samples_all_of_it() -> None:
    plain = np.zeros(1 << 20, np.uint8)
    original = tag_of(plain, 0, 0, KEY)
    for begin in range(0, plain.size, plain.size // 8):
        changed = plain.copy()
        changed[begin : begin + plain.size // 8] = 1
        assert tag_of(changed, 0, 0, KEY) != original
