"""Kernel cases compiled by nvcc and called on the emulated device."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from kernel_cases import Array, KernelCase

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import CallOptions, CallReport, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.emulator.codegen.libraries import translate
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.profiler.tables import Translated

PATIENT = CompileLimits(wall_s=900)
"""Of a busy machine."""
FOLDER = Path(__file__).parents[1] / "fixtures" / "kernels"


async def compiled(file: str, target: str) -> Compiled:
    """A fixture file for a target."""
    source = (FOLDER / f"{file}.cu").read_text()
    request = CompileRequest(source=source, name=f"{file}.cu", target=target, limits=PATIENT)
    made = await compile_candidate(request)
    assert isinstance(made, Compiled), made
    return made


async def translated(candidate: Compiled) -> Translated:
    """Its PTX as a library of the emulated device."""
    made = await translate(
        candidate.ptx,
        kernels=candidate.kernels,
        source_name=candidate.name,
        source=candidate.source,
    )
    assert isinstance(made, Translated), made
    return made


async def results(
    case: KernelCase, candidate: Compiled, calls: Sequence[CallOptions]
) -> list[Array]:
    """What a case puts out in each call."""
    device = EmulatedDevice(find_hardware("RTX 3090 Ti"))
    async with device.open(candidate) as session:
        assert isinstance(session, Session), session
        return [await _call(session, case, options) for options in calls]


def wrong(case: KernelCase, found: Array) -> bool:
    """Is a result further from NumPy's than the case allows?"""
    expected = case.expected.astype("float64")
    error = np.abs(found.astype("float64") - expected).max()
    return not error <= case.tolerance * np.abs(expected).max()


async def _call(session: Session, case: KernelCase, options: CallOptions) -> Array:
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
