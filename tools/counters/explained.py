"""A profile, explained again with what hardware counters said."""

from dataclasses import replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import Profile
from cuda_llm.tasks.task import Task
from cuda_llm.tools.counters.inspect import Inspection
from cuda_llm.tools.profiler.measured.profile_call import profile_call


def explained(task: Task, hardware: Hardware, profile: Profile, found: Inspection) -> Profile:
    """Launches and bottlenecks of the largest timed size, counted where counters could be had.

    The counters must be those of that size. Raises HardwareError as `profile_call` does.
    """
    if not found.counters or not profile.sizes:
        return profile
    largest = profile.sizes[-1]
    call = profile_call(
        task, largest.dims, largest.time_us, profile.launches, hardware, found.counters
    )
    return replace(profile, launches=call.launches, bottlenecks=call.bottlenecks)
