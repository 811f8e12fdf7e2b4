"""Real nvcc output of both PTX dialects, run on the emulated device, against NumPy."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from kernel_cases import Array, KernelCase, kernel_cases

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.compiler.candidate import Compiled, CompileRequest
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.devices.device import (
    BufferSpec,
    CallOptions,
    CallReport,
    Level,
    Role,
    Scalar,
    Session,
)
from cuda_llm.tools.devices.emulated import EmulatedDevice
from cuda_llm.tools.emulator.translate import translate

FOLDER = Path(__file__).parents[3] / "fixtures" / "kernels"
TARGETS = ("sm_86", "sm_120")
CASES = kernel_cases()
CALLS = (
    CallOptions(level=Level.FULL),
    CallOptions(schedule_seed=1),
    CallOptions(schedule_seed=2),
)

Candidates = dict[tuple[str, str], Compiled]


@pytest.fixture(scope="module")
def candidates() -> Candidates:
    """Every fixture file for every target, compiled and translated side by side."""

    async def build(file: str, target: str) -> Compiled:
        source = (FOLDER / f"{file}.cu").read_text()
        request = CompileRequest(source=source, name=f"{file}.cu", target=target)
        made = await compile_candidate(request)
        assert isinstance(made, Compiled), made
        await translate(made.ptx, kernels=made.kernels, source_name=made.name, source=made.source)
        return made

    async def build_all() -> Candidates:
        keys = [(file, t) for file in sorted({case.file for case in CASES}) for t in TARGETS]
        return dict(zip(keys, await asyncio.gather(*(build(*key) for key in keys)), strict=True))

    return asyncio.run(build_all())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_kernel_agrees_with_numpy(case: KernelCase, target: str, candidates: Candidates) -> None:
    for number, found in enumerate(asyncio.run(results(case, candidates[case.file, target]))):
        scale = np.abs(case.expected.astype("float64")).max()
        error = np.abs(found.astype("float64") - case.expected.astype("float64")).max()
        assert error <= case.tolerance * scale, f"{case.label} on {target}, call {number}"


async def results(case: KernelCase, candidate: Compiled) -> list[Array]:
    """The output of a case in every kind of call."""
    device = EmulatedDevice(find_hardware("RTX 3090 Ti"))
    async with device.open(candidate) as session:
        assert isinstance(session, Session), session
        return [await call(session, case, options) for options in CALLS]


async def call(session: Session, case: KernelCase, options: CallOptions) -> Array:
    """Run a case once."""
    roles = {"a": Role.IN, "b": Role.IN, "out": Role.INOUT}
    arrays = {"a": case.a, "b": case.b, "out": case.out}
    placed = session.place(
        [
            BufferSpec(name=name, role=roles[name], dtype=str(array.dtype), shape=array.shape)
            for name, array in arrays.items()
        ]
    )
    for name, array in arrays.items():
        placed[name].data[...] = array
    which, n = Scalar(value=case.which, ctype="int"), Scalar(value=case.n, ctype="int")
    report = await session.call([which, "a", "b", "out", n], options)
    assert isinstance(report, CallReport), f"{case.label}: {report}"
    return np.array(placed["out"].data)
