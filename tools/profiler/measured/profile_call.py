"""The launches and bottlenecks of one measured call, in the shape the time model gives."""

from collections.abc import Mapping, Sequence

from cuda_llm.hardware_profiles.ceilings import find_ceilings
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import LaunchProfile
from cuda_llm.tasks.task import Task
from cuda_llm.tools.profiler.explain import Explained
from cuda_llm.tools.profiler.measured.achieved import achieve
from cuda_llm.tools.profiler.measured.counters import KernelCounters
from cuda_llm.tools.profiler.measured.explain import explain_measured, with_counters


def profile_call(
    task: Task,
    dims: Mapping[str, int],
    time_us: float,
    launches: Sequence[LaunchProfile],
    hardware: Hardware,
    counters: Sequence[KernelCounters] = (),
) -> Explained:
    """Explain a call at one size that took `time_us`, from its launch log and what was counted.

    Ceilings are those of a probe of this card where there was one. Raises HardwareError where a
    probe left a file that cannot be read.
    """
    ceilings = find_ceilings(hardware)
    achieved = achieve(task, dims, time_us, hardware, ceilings)
    shown = with_counters(launches, counters, time_us)
    return Explained(
        time_us=time_us,
        launches=shown,
        bottlenecks=explain_measured(achieved, shown, hardware, ceilings, counters),
    )
