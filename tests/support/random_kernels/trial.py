"""One program on the emulated device, beside its oracle."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from random_kernels.oracle import Buffers, Words, draw_buffers, expected
from random_kernels.program import ACC_WORDS, OUT_WORDS, THREADS, Program

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import CallOptions, CallReport, Level, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.emulator.device import EmulatedDevice

CALLS = (
    CallOptions(level=Level.CHECK),
    CallOptions(level=Level.FULL, schedule_seed=1),
    CallOptions(level=Level.ACCOUNT, schedule_seed=2),
    CallOptions(level=Level.FULL, schedule_seed=12345),
)
FLAGS = ("-std=c++20", "-fmad=false")
"""The oracle fuses no multiplication with an addition, so nvcc must not either."""


@dataclass(frozen=True)
class Difference:
    """A kernel, or a whole program, that did not do what C++ says."""

    kernel: int | None
    call: CallOptions
    detail: str


async def _differences(
    text: str,
    kernels: Sequence[int],
    buffers: Buffers,
    right: tuple[Words, Words],
    *,
    target: str,
    flags: tuple[str, ...] = FLAGS,
    calls: Sequence[CallOptions] = CALLS,
) -> list[Difference]:
    """What the emulated device does differently in these calls of a program."""
    patient = CompileLimits(wall_s=900)
    request = CompileRequest(
        source=text, name="random.cu", target=target, flags=flags, limits=patient
    )
    made = await compile_candidate(request)
    assert isinstance(made, Compiled), made
    found: list[Difference] = []
    async with EmulatedDevice(find_hardware("RTX 3090 Ti")).open(made) as session:
        assert isinstance(session, Session), session
        for options in calls:
            ended = await _call(session, buffers, options)
            if isinstance(ended, Verdict):
                return [*found, Difference(None, options, str(ended))]
            found += [
                Difference(kernel, options, detail)
                for kernel in kernels
                for detail in compare(kernel, ended, right)
            ]
    return found


async def try_program(
    plain: Program,
    seed: int,
    folder: Path,
    *,
    target: str,
    on_device: Program | None = None,
    flags: tuple[str, ...] = FLAGS,
    calls: Sequence[CallOptions] = CALLS,
) -> list[Difference]:
    """What the device does differently with inputs of a seed. It runs `on_device`, where given."""
    indices = [kernel.index for kernel in plain.kernels]
    buffers = draw_buffers(seed, 1 + max(indices))
    right = expected(plain.text(), 1 + max(indices), buffers, folder)
    text = (on_device or plain).text()
    return await _differences(
        text, indices, buffers, right, target=target, flags=flags, calls=calls
    )


async def _call(
    session: Session, buffers: Buffers, options: CallOptions
) -> tuple[Words, Words] | Verdict:
    roles = {"given": Role.IN, "out": Role.OUT, "acc": Role.INOUT, "own": Role.OUT}
    arrays = {name: getattr(buffers, name) for name in roles}
    specs = [
        BufferSpec(name=name, role=role, dtype="uint32", shape=arrays[name].shape)
        for name, role in roles.items()
    ]
    placed = session.place(specs)
    for name, array in arrays.items():
        placed[name].data[...] = array
    ended = await session.call([*roles, Scalar(value=len(buffers.given), ctype="int")], options)
    if not isinstance(ended, CallReport):
        return ended
    return tuple(np.array(placed[name].data) for name in ("out", "acc"))  # type: ignore[return-value]


_SIZES = {"out": THREADS * OUT_WORDS, "acc": ACC_WORDS}


def compare(kernel: int, found: tuple[Words, Words], right: tuple[Words, Words]) -> list[str]:
    """How the results of a kernel differ, if they do."""
    for name, mine, true in zip(("out", "acc"), found, right, strict=True):
        size = _SIZES[name]
        part = slice(kernel * size, (kernel + 1) * size)
        wrong = np.flatnonzero(mine[part] != true[part])
        if wrong.size:
            return [f"{name}: {wrong.size} words, first {wrong[0]}"]
    return []
