"""The kernels for many slots at once, on the emulated device, against NumPy: bit for bit."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from device_calls import run
from seal_reference import TAG_WORDS, sealed, tag

from cuda_llm.tools.cuda import build

NATIVE = Path(build.__file__).parent / "native"
SOLVE = """
extern "C" void solve(const unsigned char* rows, const unsigned char* scattered,
                      unsigned char* column, unsigned long long* tags, int bytes, int stride,
                      int count, int slots, int step) {
  gpu::SlotsCall call = {};
  call.column = (uint64_t)column;
  call.column_stride = stride;
  call.rows = (uint64_t)rows;
  call.row_stride = call.bytes = bytes;
  call.index = 3;
  call.count = count;
  for (int row = 0; row < count; ++row) {
    call.slots[row] = (row * step + 5) % slots;
    call.keys[row][0] = 0xfedcba98u;
    call.keys[row][1] = 7 + row;
  }
  seal_slots<<<dim3(2, count), 64>>>(call);
  cudaMemset(tags, 0, count * 16);
  call.column = (uint64_t)scattered;
  call.rows = (uint64_t)tags + 8;
  call.row_stride = 16;
  call.index = 4;
  tag_slots<<<dim3(2, count), 64>>>(call);
}
"""
FIRST_WORD = 0xFEDCBA98
"""Of the key of each row, whose second word is 7 and the row's number."""


def _source() -> str:
    header = (NATIVE / "seal.h").read_text().replace("#pragma once", "")
    return header + (NATIVE / "seal.cu").read_text().replace('#include "seal.h"', "") + SOLVE


@pytest.mark.parametrize(
    ("size", "count", "slots"),
    [(1, 1, 1), (32, 3, 7), (100, 256, 256), (77, 5, 16), (TAG_WORDS * 4 + 6, 2, 3)],
)
def test_every_slot_gets_its_own_ciphertext_and_tag(size: int, count: int, slots: int) -> None:
    step, stride = 5, -(-size // 256) * 256
    order = [(row * step + 5) % slots for row in range(count)]
    assert len(set(order)) == count
    rng = np.random.default_rng(size)
    rows = rng.integers(0, 256, (count, size), dtype=np.uint8)
    scattered = rng.integers(0, 256, (slots, stride), dtype=np.uint8)
    expected = np.full((slots, stride), 0xEE, dtype=np.uint8)
    values: dict[str, npt.NDArray[np.generic]] = {
        "rows": rows,
        "scattered": scattered,
        "column": expected.copy(),
        "tags": np.zeros((count, 2), dtype=np.uint64),
    }
    called = run(_source(), values, ["column", "tags"], size, stride, count, slots, step)
    assert called.report
    for row, slot in enumerate(order):
        expected[slot, :size] = sealed(rows[row], (FIRST_WORD, 7 + row), slot, 3)
    np.testing.assert_array_equal(called.outputs["column"], expected)
    assert called.outputs["tags"].tolist() == [
        [0, tag(scattered[slot, :size], (FIRST_WORD, 7 + row), slot, 4)]
        for row, slot in enumerate(order)
    ]
