"""The kernels that seal and tag, on the emulated device, against NumPy: bit for bit."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from device_calls import run
from seal_reference import TAG_WORDS, sealed, tag

from cuda_llm.tools.cuda import build

NATIVE = Path(build.__file__).parent / "native"
SOLVE = """
extern "C" void solve(const unsigned char* in, unsigned char* out, unsigned long long* tags,
                      int bytes, int offset, int other, int slot) {
  gpu::SealCall call = {};
  call.count = 2;
  call.slot = slot;
  call.key[0] = 0xfedcba98u;
  call.key[1] = 7;
  call.regions[0] = {(uint64_t)out, (uint64_t)in, (uint64_t)bytes, 3, 0};
  call.regions[1] = {(uint64_t)out + offset, (uint64_t)in + offset, (uint64_t)other, 5, 0};
  open_inputs<<<dim3(3, 2), 128>>>(call);
  cudaMemset(tags, 0, 16);
  for (int i = 0; i < 2; ++i) {
    call.regions[i].from = call.regions[i].to;
    call.regions[i].to = (uint64_t)(tags + i);
  }
  tag_outputs<<<dim3(5, 2), 128>>>(call);
}
"""
ASKING = """
extern "C" void solve(const unsigned char* in, const unsigned long long* given,
                      unsigned char* out, unsigned long long* words, int bytes, int slot) {
  cudaMemcpy(words, given, 56, cudaMemcpyDeviceToDevice);
  // Answered beforehand: nobody is there to answer while a kernel runs.
  ask_for_key<<<1, 64>>>(gpu::KeyQuestion{(uint64_t)words, 3, (uint64_t)(words + 3),
                                          (uint64_t)(words + 5), 2});
  gpu::SealCall call = {};
  call.count = 1;
  call.slot = slot;
  call.handed = 1;
  call.regions[0] = {(uint64_t)out, (uint64_t)in, (uint64_t)bytes, 3, 0};
  open_inputs<<<3, 128>>>(call);
}
"""
KEY = (0xFEDCBA98, 7)


def _source(solve: str = SOLVE) -> str:
    header = (NATIVE / "seal.h").read_text().replace("#pragma once", "")
    return header + (NATIVE / "seal.cu").read_text().replace('#include "seal.h"', "") + solve


@pytest.mark.parametrize(("first", "second"), [(4801, 3), (16, TAG_WORDS * 4 + 6)])
def test_ciphertext_and_tags_are_those_of_the_reference(first: int, second: int) -> None:
    slot, offset = 11, -(-first // 16) * 16 + 16
    content = np.random.default_rng(first).integers(0, 256, offset + second, dtype=np.uint8)
    values: dict[str, npt.NDArray[np.generic]] = {
        "in": content,
        "out": np.full(offset + second, 0xEE, dtype=np.uint8),
        "tags": np.zeros(2, dtype=np.uint64),
    }
    called = run(_source(), values, ["out", "tags"], first, offset, second, slot)
    assert called.report
    expected = np.full(offset + second, 0xEE, dtype=np.uint8)
    expected[:first] = sealed(content[:first], KEY, slot, 3)
    expected[offset:] = sealed(content[offset:], KEY, slot, 5)
    np.testing.assert_array_equal(called.outputs["out"], expected)
    assert [int(one) for one in called.outputs["tags"]] == [
        tag(expected[:first], KEY, slot, 3),
        tag(expected[offset:], KEY, slot, 5),
    ]


def test_a_question_tells_tags_and_what_is_opened_next_has_the_key_that_was_handed_out() -> None:
    content = np.random.default_rng(0).integers(0, 256, 777, dtype=np.uint8)
    words = np.array([0, 3, KEY[0] | KEY[1] << 32, 0, 0, 11, 12], dtype=np.uint64)
    values: dict[str, npt.NDArray[np.generic]] = {
        "in": content,
        "given": words,
        "out": np.zeros(777, dtype=np.uint8),
        "words": np.zeros(7, dtype=np.uint64),
    }
    called = run(_source(ASKING), values, ["out", "words"], 777, 5)
    assert called.report
    np.testing.assert_array_equal(called.outputs["out"], sealed(content, KEY, 5, 3))
    assert called.outputs["words"].tolist() == [3, 3, int(words[2]), 11, 12, 11, 12]


def test_the_reference_is_philox() -> None:
    """Known answers of Philox4x32-7 from the test suite of its authors."""
    from seal_reference import philox

    ones = 0xFFFFFFFF
    assert [int(word) for word in philox((0, 0, 0, 0), (0, 0))] == [
        *(0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)
    ]
    assert [int(word) for word in philox((ones,) * 4, (ones, ones))] == [
        *(0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662)
    ]


def test_a_tag_changes_with_any_word() -> None:
    content = np.random.default_rng(1).integers(0, 256, 4001, dtype=np.uint8)
    seen = {tag(content, KEY, 0, 0)}
    for place in range(0, content.size, 125):
        content[place] ^= 1
        seen.add(tag(content, KEY, 0, 0))
        content[place] ^= 1
    assert len(seen) == 1 + len(range(0, content.size, 125))
