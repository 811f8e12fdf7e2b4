"""What the products of tests/fixtures/wgmma/gemm.cu are given, and what they give."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
GEMM = (Path(__file__).parents[1] / "fixtures" / "wgmma" / "gemm.cu").read_text()
M, N, K = 192, 128, 256
GEMMS = ("by stages", "without TMA", "from registers", "chained")
"""By mode."""


def gemm_operands(mode: int) -> Array:
    """A, then B as the mode wants it: whole numbers, so that every sum is exact."""
    rng = np.random.default_rng([mode, 77])
    a = rng.integers(-5, 6, (M, K)).astype(np.float16)
    b = rng.integers(-5, 6, (K, N)).astype(np.float16)
    return np.concatenate([a.ravel(), (b if mode == 1 else b.T).ravel()])


def gemm_expected(mode: int) -> Array:
    """The product; mode 2 doubles A and negates B."""
    given = gemm_operands(mode).astype(np.float32)
    a, b = given[: M * K].reshape(M, K), given[M * K :]
    if mode == 3:
        return _chained(a[:, :64], b.reshape(N, K)[:, :64])
    product = a @ (b.reshape(K, N) if mode == 1 else b.reshape(N, K).T)
    return np.asarray(product * (-2 if mode == 2 else 1))


def _chained(a: Array, b: Array) -> Array:
    total = np.zeros((M, 64), np.float32)
    for keys in np.split(b, 4):
        total = 2 * total + (a @ keys.T) @ keys
    return np.concatenate([total, np.zeros_like(total)], axis=1)
