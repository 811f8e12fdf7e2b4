"""Candidates really compiled by nvcc, and the device that runs them."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Scalar, Session
from cuda_llm.tools.device.buffers import BufferSpec, Role
from cuda_llm.tools.device.candidate import Compiled, CompileLimits, CompileRequest
from cuda_llm.tools.open_device import DEFAULT_GPU, open_emulated

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Called:
    """What one call of `solve` gave."""

    outcome: CallReport | Verdict
    outputs: Mapping[str, Array] = field(default_factory=dict)

    @property
    def report(self) -> CallReport:
        """The report; fails the test on a verdict."""
        assert isinstance(self.outcome, CallReport), self.outcome
        return self.outcome


def run(
    source: str,
    values: Mapping[str, Array],
    outputs: Sequence[str],
    *scalars: int,
    options: CallOptions | None = None,
    device: str = DEFAULT_GPU,
) -> Called:
    """Compile a source and call it once in a fresh runner."""

    async def session_of_one() -> Called:
        chosen = open_emulated(device)
        async with chosen.open(await compiled(source, chosen.hardware.target)) as session:
            if not isinstance(session, Session):
                return Called(session)
            return await call_once(session, values, outputs, scalars, options or CallOptions())

    return asyncio.run(session_of_one())


async def compiled(source: str, target: str) -> Compiled:
    """A source that must compile, compiled."""
    request = CompileRequest(source=source, target=target, limits=CompileLimits(wall_s=900))
    made = await compile_candidate(request)
    assert isinstance(made, Compiled), made
    return made


async def call_once(
    session: Session,
    values: Mapping[str, Array],
    outputs: Sequence[str],
    scalars: Sequence[int],
    options: CallOptions,
) -> Called:
    """Place the buffers, call `solve(buffers..., scalars...)`, copy the outputs."""
    specs = [
        BufferSpec(
            name=name,
            role=Role.OUT if name in outputs else Role.IN,
            dtype=value.dtype.name,
            shape=value.shape,
        )
        for name, value in values.items()
    ]
    placed = session.place(specs)
    for name, value in values.items():
        placed[name].data[...] = value
    arguments: list[Argument] = [*values, *(Scalar(value=s, ctype="int") for s in scalars)]
    outcome = await session.call(arguments, options)
    return Called(outcome, {name: placed[name].data.copy() for name in outputs})
