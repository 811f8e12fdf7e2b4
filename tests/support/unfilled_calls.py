"""One call of a source whose large inputs are filled where they are touched."""

from cuda_llm.outcomes import DependentLaunch, Verdict
from cuda_llm.tasks.reference import Dims
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, SamplingSession
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.modelled_times import call_unfilled

NONCE = b"sampled"


async def call_source(
    task: Task, device: EmulatedDevice, source: str, dims: Dims, level: Level
) -> CallReport | DependentLaunch | Verdict:
    """Compile `source` and call it once, in a fresh runner; outputs are not looked at."""
    compiled = await compile_source(task, device, source, "solve.cu")
    assert isinstance(compiled, Compiled), compiled
    async with device.open(compiled) as session:
        assert isinstance(session, SamplingSession), session
        return await call_unfilled(task, session, dims, nonce=NONCE, level=level)
