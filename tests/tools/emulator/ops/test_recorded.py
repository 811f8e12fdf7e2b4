"""Every operation against what an H200 gave for the same operands."""

import numpy as np
import numpy.typing as npt
import pytest
from lane_library import LaneLibrary
from recorded_results import Recording, recorded_types, recording, stored_bytes
from recorded_rows import FLOATS, Column, bits_of, operands

from cuda_llm.tools.emulator.ops.table import operations

ULP = {"f32": 2.0**-23, "f64": 2.0**-52}
RELATIVE = {
    "ex2.f32": 2 * ULP["f32"],
    "lg2.f32": 2.0**-22,
    "rsqrt.f32": 2.0**-22,
    "rcp.f32": 2 * ULP["f32"],
    "sqrt.f32": 2 * ULP["f32"],
    "div.f32": 3 * ULP["f32"],
    "tanh.f32": 2.0**-10.9,
    "ex2.f16": 2.0**-9,
    "ex2.bf16": 2.0**-6,
    "rcp.f64": 2.0**-19,
    "rsqrt.f64": 2.0**-19,
}
"""PTX's bound on the hardware's error, and half a unit of ours."""
ABSOLUTE = {
    "sin.f32": 2.0**-20.4,
    "cos.f32": 2.0**-20.4,
    "lg2.f32": 2.0**-21.9,
    "ex2.f16": 2.0**-24,
    "tanh.f16": 2.0**-10,
    "tanh.bf16": 2.0**-7,
}


@pytest.fixture(scope="session")
def recorded() -> Recording:
    return recording(tuple(operations().items()))


def real(bits: Column, t: str) -> npt.NDArray[np.float64]:
    """Values of floating-point encodings."""
    if t == "bf16":
        return real(bits << np.uint64(16), "f32")
    width = FLOATS[t][2]
    with np.errstate(invalid="ignore"):
        return bits.astype(f"u{width // 8}").view(f"f{width // 8}").astype(np.float64)


def is_near(spelling: str, t: str, ours: Column, theirs: Column) -> npt.NDArray[np.bool_]:
    """Approximations: both within the documented bound of the true value."""
    if t.endswith("x2"):
        low = is_near(spelling, t[:-2], ours & np.uint64(0xFFFF), theirs & np.uint64(0xFFFF))
        shift = np.uint64(16)
        return low & is_near(spelling, t[:-2], ours >> shift, theirs >> shift)
    a, b = real(ours, t), real(theirs, t)
    kind = f"{spelling.split('.')[0]}.{t}"
    with np.errstate(invalid="ignore"):
        apart = np.abs(a - b)
        allowed = RELATIVE.get(kind, 0.0) * np.abs(b) + ABSOLUTE.get(kind, 0.0) + 2.0**-149
    near: npt.NDArray[np.bool_] = (apart <= allowed) | (np.isnan(a) & np.isnan(b))
    return near | np.equal(ours, theirs)


def agreement(spelling: str, t: str, ours: Column, theirs: Column) -> npt.NDArray[np.bool_]:
    """Where results are the same as far as PTX tells: not the payload of an f64 NaN."""
    if "approx" in spelling or "full" in spelling:
        return is_near(spelling, t, ours, theirs)
    same: npt.NDArray[np.bool_] = np.equal(ours, theirs)
    if t == "f64":
        same |= np.isnan(real(ours, t)) & np.isnan(real(theirs, t))
    return same


def defined(spelling: str, columns: tuple[Column, ...]) -> npt.NDArray[np.bool_]:
    """Rows on which a result may be relied on."""
    everywhere = np.ones(len(columns[0]), dtype=bool)
    if spelling == "fns.b32":
        return columns[1] < 32
    if spelling == "cvt.rna.satfinite.tf32.f32":
        return ~np.isnan(real(columns[0], "f32"))
    return everywhere


def extended(spelling: str, t: str, column: Column) -> Column:
    """A narrow result as it lies in a 32-bit register."""
    if t[0] == "s" and stored_bytes(spelling, t) * 8 > bits_of(t):
        narrow = column.astype(f"u{bits_of(t) // 8}").view(f"i{bits_of(t) // 8}")
        return narrow.astype(np.int32).view(np.uint32).astype(np.uint64)
    return column


def test_recording_covers_the_table(recorded: Recording) -> None:
    assert set(recorded.results) | recorded.refused == set(operations())
    assert len(recorded.results) > 2800
    assert recorded.gpu == "NVIDIA H200"


def disagreements(library: LaneLibrary, recorded: Recording, spelling: str) -> list[str]:
    """Rows on which an operation differs from the hardware."""
    op = operations()[spelling]
    columns = operands(spelling, op.arguments)
    found = []
    ours = library.columns(spelling, columns)
    for i, t in enumerate(recorded_types(op)):
        mine, theirs = extended(spelling, t, ours[i]), recorded.results[spelling][i]
        wrong = ~agreement(spelling, t, mine, theirs) & defined(spelling, columns)
        for row in np.flatnonzero(wrong):
            given = ", ".join(hex(c[row]) for c in columns)
            found.append(f"{spelling} of {given} gave {mine[row]:#x}, the H200 {theirs[row]:#x}")
    return found


FAMILIES = sorted({spelling.split(".")[0] for spelling in operations()})


@pytest.mark.parametrize("family", FAMILIES)
def test_operations_give_what_the_hardware_gave(
    library: LaneLibrary, recorded: Recording, family: str
) -> None:
    spellings = [
        s for s in recorded.results if s.split(".")[0] == family and s in library.operations
    ]
    assert [d for s in spellings for d in disagreements(library, recorded, s)] == []


def test_another_operation_disagrees_with_the_recording(recorded: Recording) -> None:
    ftz, plain = recorded.results["mul.rn.ftz.f32"][0], recorded.results["mul.rn.f32"][0]
    assert not agreement("mul.rn.f32", "f32", ftz, plain).all()
    near, far = recorded.results["ex2.approx.f32"][0], recorded.results["lg2.approx.f32"][0]
    assert not agreement("ex2.approx.f32", "f32", near, far).all()
