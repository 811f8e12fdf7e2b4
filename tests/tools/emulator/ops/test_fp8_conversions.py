"""Conversions of 8-bit floats as nvcc compiles C++, against numbers computed from the definition of
the formats: every pattern, every tie, both neighbours of each tie."""

import asyncio
import math
from bisect import bisect
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from typed_tasks import Buffer, typed_task

from cuda_llm.tools.device import CallOptions, CallReport, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.open_device import open_emulated

SHAPES = {"e4m3": (4, 3, 0x7E), "e5m2": (5, 2, 0x7B)}
"""Bits of exponent and fraction, and the pattern of the largest number."""
KERNEL = """
#include <cuda_fp8.h>
typedef __nv_fp8_FORMAT fp8;
typedef __nv_fp8x2_FORMAT pair;
typedef __nv_fp8x4_FORMAT quad;
__global__ void convert(const unsigned char* patterns, const float* values, float* alone,
                        unsigned short* halves, unsigned char* from_float, unsigned char* in_pairs,
                        unsigned char* from_half, unsigned char* in_quads,
                        unsigned char* from_double, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 256) {
        alone[i] = (float)((const fp8*)patterns)[i];
        __half2 two = (__half2)((const pair*)patterns)[i / 2];
        ((__half2*)halves)[i / 2] = two;
    }
    if (i < n) {
        ((fp8*)from_float)[i] = fp8(values[i]);
        ((fp8*)from_double)[i] = fp8((double)values[i]);
    }
    if (2 * i < n) {
        float2 two = ((const float2*)values)[i];
        ((pair*)in_pairs)[i] = pair(two);
        ((pair*)from_half)[i] = pair(__float22half2_rn(two));
    }
    if (4 * i < n) ((quad*)in_quads)[i] = quad(((const float4*)values)[i]);
}
extern "C" void solve(const unsigned char* patterns, const float* values, float* alone,
                      unsigned short* halves, unsigned char* from_float, unsigned char* in_pairs,
                      unsigned char* from_half, unsigned char* in_quads,
                      unsigned char* from_double, int n) {
    convert<<<(n + 127) / 128, 128>>>(patterns, values, alone, halves, from_float, in_pairs,
                                      from_half, in_quads, from_double, n);
}
"""
RESULTS = ("from_float", "in_pairs", "from_half", "in_quads", "from_double")
Words = npt.NDArray[Any]


def positive(format: str) -> list[Fraction]:
    """The finite numbers of patterns 0 upward."""
    exponent_bits, fraction_bits, largest = SHAPES[format]
    bias = (1 << exponent_bits - 1) - 1
    found = []
    for pattern in range(largest + 1):
        exponent, fraction = divmod(pattern, 1 << fraction_bits)
        whole = fraction + ((1 << fraction_bits) if exponent else 0)
        found.append(whole * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits))
    return found


def pattern_of(value: float, format: str) -> int:
    """The pattern of the nearest number, of two the one with an even pattern; beyond the largest
    number its own."""
    if math.isnan(value):
        return 0x7F
    numbers, sign = positive(format), 0x80 if math.copysign(1, value) < 0 else 0
    if math.isinf(value) or abs(value) >= numbers[-1]:
        return sign | len(numbers) - 1
    exact = abs(Fraction(value))
    lower = bisect(numbers, exact) - 1
    below, above = exact - numbers[lower], numbers[lower + 1] - exact
    return sign | lower + (above < below or (above == below and lower % 2))


def ties_and_neighbours(format: str) -> Words:
    """Every number, every middle of two, and what lies just beside; of either sign, all halves."""
    numbers = np.array([float(one) for one in positive(format)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    around = [numbers, middles, *(middles * (1 + step) for step in (2.0**-10, -(2.0**-10)))]
    beyond = [464.0, 465.0, 480.0, 61440.0, 61439.0, 65504.0, math.inf, math.nan, 2.0**-24]
    values = np.concatenate([*around, beyond]).astype(np.float16).astype(np.float32)
    fine = np.concatenate([np.nextafter(middles.astype(np.float32), end) for end in (0, np.inf)])
    both = np.concatenate([values, -values, fine.astype(np.float32)])
    return np.resize(both, both.size + -both.size % 4)


def converted(
    parent: Path, format: str, device: str, given: Mapping[str, Words]
) -> dict[str, Words]:
    task = typed_task(
        parent,
        [
            Buffer("patterns", "uint8", ("256",), ("ints_full_range",)),
            Buffer("values", "float32", distributions=("normal",)),
            Buffer("alone", "float32", ("256",)),
            Buffer("halves", "uint16", ("256",)),
            *(Buffer(name, "uint8") for name in RESULTS),
        ],
        "def reference(xp):\n    return {}\n",
        KERNEL.replace("FORMAT", format),
        tolerance='kind = "exact"',
    )

    async def run() -> dict[str, Words]:
        chosen = open_emulated(device)
        built = await compile_source(task, chosen, task.baseline.read_text(), "kernel.cu")
        assert isinstance(built, Compiled), built
        count = given["values"].size
        sizes = {"patterns": 256, "alone": 256, "halves": 256}
        specs = [
            BufferSpec(
                name=one.name,
                role=Role(one.role.value),
                dtype=one.dtype,
                shape=(sizes.get(one.name, count),),
            )
            for one in task.arguments
            if one.is_buffer
        ]
        async with chosen.open(built) as session:
            assert isinstance(session, Session), session
            placed = session.place(specs)
            for name, values in given.items():
                placed[name].data[...] = values
            arguments: list[str | Scalar] = [one.name for one in specs]
            arguments.append(Scalar(value=count, ctype="int"))
            report = await session.call(arguments, CallOptions())
            assert isinstance(report, CallReport), report
            return {name: one.data.copy() for name, one in placed.items()}

    return asyncio.run(run())


@pytest.mark.parametrize("device", ["RTX 3090 Ti", "H200"])
@pytest.mark.parametrize("format", SHAPES)
def test_every_pattern_and_every_tie(tmp_path: Path, format: str, device: str) -> None:
    """An RTX 3090 Ti computes them by integers, an H200 has instructions for them."""
    values = ties_and_neighbours(format)
    found = converted(
        tmp_path, format, device, {"patterns": np.arange(256, dtype=np.uint8), "values": values}
    )
    numbers = np.array([float(one) for one in positive(format)])
    for sign in (0, 0x80):
        finite = slice(sign, sign + numbers.size)
        for decoded in (found["alone"], found["halves"].view(np.float16)):
            assert np.array_equal(np.abs(decoded[finite]), numbers)
            assert np.array_equal(np.signbit(decoded[finite]), np.full(numbers.size, sign > 0))
            rest = decoded[finite.stop : sign + 128]
            if format == "e5m2":
                assert np.isinf(rest[0]) and np.signbit(rest[0]) == (sign > 0)
                rest = rest[1:]
            assert np.isnan(rest).all()
    for name in RESULTS:
        rounded = values
        if name == "from_half":
            with np.errstate(over="ignore"):
                rounded = values.astype(np.float16).astype(np.float32)
        wanted = [pattern_of(one, format) for one in rounded.tolist()]
        # Signs of NaNs differ between instructions and their replacement.
        is_nan = np.isnan(rounded)
        assert (found[name][is_nan] & 0x7F > SHAPES[format][2] + (format == "e5m2")).all()
        wrong = [
            (float(value), hex(got), hex(should))
            for value, got, should in zip(rounded, found[name].tolist(), wanted, strict=True)
            if got != should and not np.isnan(value)
        ]
        assert not wrong, (name, wrong[:9])
