"""Try, from where a candidate runs, what no candidate may do."""

import os
from dataclasses import replace

from cuda_llm.errors import InfrastructureError
from cuda_llm.outcomes import PolicyViolation, Verdict
from cuda_llm.tools.arrays import Arrays
from cuda_llm.tools.buffers import BufferSpec, Role
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.device import CallOptions, CallReport, Scalar
from cuda_llm.tools.gpu.isolation import GpuIsolation
from cuda_llm.tools.gpu.program import attempts_library
from cuda_llm.tools.gpu.sessions import Sessions
from cuda_llm.tools.gpu.site import GpuSite
from cuda_llm.tools.gpu.timed import GpuTimedSession

ATTEMPTS = (
    *("nothing", "reading a file", "opening a device that is no GPU", "making a file"),
    *("making a socket", "forking", "signalling its referee", "running a program", "tracing"),
)
"""By their numbers in `native/attempts.cu`."""
_COULD, _COULD_NOT = 1, 2
_OUT = BufferSpec(name="out", role=Role.OUT, dtype="int32", shape=(1,))


async def self_test(site: GpuSite) -> GpuIsolation:
    """What runners of an entered site are kept from, tried by the path that candidates take.

    Raises InfrastructureError where not even a kernel runs, MissingError without nvcc.
    """
    if site.isolation is None:
        raise ValueError("the site has not been entered")
    library = attempts_library(site.hardware.target)
    prober = Compiled(
        key=str(library.parent.name),
        name="attempts.cu",
        source="",
        target=site.hardware.target,
        library=library,
        ptx=library,
        kernels=(),
    )
    through = []
    for number, name in enumerate(ATTEMPTS):
        outcome = await _attempt(site.sessions, site.arrays, prober, number)
        if number == 0 and outcome != _COULD:
            raise InfrastructureError("sandbox", f"no kernel runs in it: {outcome}")
        if number > 0 and outcome == _COULD:
            through.append(name)
    return replace(site.isolation, attempts=tuple(through))


async def _attempt(
    sessions: Sessions, arrays: Arrays, prober: Compiled, number: int
) -> int | Verdict:
    """What the GPU wrote down, or the verdict. Raises InfrastructureError at one that is none."""
    async with sessions.open(prober) as session:
        if not isinstance(session, GpuTimedSession):
            raise InfrastructureError("sandbox", f"its self-test does not load: {session}")
        out = session.place([_OUT])["out"].data
        out.fill(0)
        scalars = [Scalar(value=value, ctype="int") for value in (number, os.getpid())]
        report = await session.call(["out", *scalars], CallOptions())
        if isinstance(report, CallReport):
            return int(arrays.number(out[0]))
        if number > 0 and not isinstance(report, PolicyViolation):
            raise InfrastructureError("sandbox", f"{ATTEMPTS[number]} ended otherwise: {report}")
        return report
