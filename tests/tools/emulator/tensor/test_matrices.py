"""ldmatrix, stmatrix, movmatrix, and whole products, against NumPy."""

import asyncio
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from corpus_sample import sample
from device_calls import Array, call_once, compiled, run

from cuda_llm.tools.device import CallOptions, Level, Session
from cuda_llm.tools.open_device import open_emulated

FIXTURES = Path(__file__).parents[3] / "fixtures" / "tensor"
Words = npt.NDArray[np.uint32]
DEVICES = sample(["H200", "RTX 3090 Ti"], every=2)
"""The first has them all, and stmatrix."""


def fragment(rows: npt.NDArray[np.uint16], matrix: int, *, turned: bool = False) -> Words:
    """What each lane holds of a matrix whose rows lane 8i + j has named."""
    lanes = np.arange(32)
    named = rows[(lanes * 5 + 3) % 32]
    values = named[8 * matrix : 8 * matrix + 8]
    values = values.T if turned else values
    low, high = (values[lanes >> 2, (lanes & 3) * 2 + i].astype(np.uint32) for i in (0, 1))
    return np.asarray(low | high << 16, np.uint32)


@pytest.mark.parametrize("device", DEVICES)
def test_matrices_move_as_documented(device: str) -> None:
    rows = np.random.default_rng(5).integers(0, 2**16, (32, 8), dtype=np.uint16)
    buffers: dict[str, Array] = {"in": rows, "out": np.zeros((8, 4, 32), np.uint32)}
    source = (FIXTURES / "matrices.cu").read_text()
    called = run(source, buffers, ["out"], 32, device=device, options=CallOptions(level=Level.FULL))
    assert called.report
    out = called.outputs["out"]
    plain = [fragment(rows, i) for i in range(4)]
    turned = [fragment(rows, i, turned=True) for i in range(4)]
    np.testing.assert_array_equal(out[0, 0], plain[0])
    assert (out[0, 1:] == np.array([[2], [3], [4]])).all()
    np.testing.assert_array_equal(out[1, :2], plain[:2])
    np.testing.assert_array_equal(out[2], plain)
    np.testing.assert_array_equal(out[3], turned)
    np.testing.assert_array_equal(out[4], [turned[0], *turned[1:]])
    np.testing.assert_array_equal(out[5, 0], plain[3])
    if device == "H200":
        kept = [turned_back(rows, i) for i in range(4)]
        stored = np.zeros((32, 8), np.uint16)
        named = (np.arange(32) * 5 + 3) % 32
        stored[named] = np.concatenate(kept)
        np.testing.assert_array_equal(out[6], stored.view(np.uint32).reshape(4, 32))
        stored[named[:8]] = kept[2].T
        stored[named[8:16]] = kept[1].T
        np.testing.assert_array_equal(out[7], stored.view(np.uint32).reshape(4, 32))


def turned_back(rows: npt.NDArray[np.uint16], matrix: int) -> npt.NDArray[np.uint16]:
    """The matrix as it lies after a transposing load: what stmatrix writes row by row."""
    named = rows[(np.arange(32) * 5 + 3) % 32]
    return named[8 * matrix : 8 * matrix + 8].T


@pytest.mark.parametrize("device", DEVICES)
def test_products_on_tensor_cores_are_right(device: str) -> None:
    n = 256
    rng = np.random.default_rng(11)
    a, b = (rng.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    exact = a.astype(float) @ b.astype(float)
    source = (FIXTURES / "gemm.cu").read_text()

    async def calls() -> None:
        emulated = open_emulated(device)
        async with emulated.open(await compiled(source, emulated.hardware.target)) as session:
            assert isinstance(session, Session), session
            for which in range(3):
                for level in (Level.ACCOUNT, Level.FULL):
                    values: dict[str, Array] = {"a": a, "b": b, "c": np.zeros((n, n), np.float32)}
                    options = CallOptions(level=level, schedule_seed=which)
                    called = await call_once(session, values, ["c"], [n, which], options)
                    apart = np.abs(called.outputs["c"] - exact).max()
                    assert apart < 2e-4, (which, level, apart)
                    if level is Level.ACCOUNT and which:
                        # Rows 64 bytes apart meet on the same banks, unless they are swizzled.
                        ways = called.report.launches[0].figures["bank_ways"]
                        assert (ways < 1.2) is (which == 1), (which, ways)

    asyncio.run(calls())
