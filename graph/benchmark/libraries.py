"""What a vendor's library takes for a task, timed on the device as kernels are."""

from collections.abc import Sequence

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.graph.benchmark.row import LibraryTime, TimedLibraries
from cuda_llm.graph.request import RunRequest
from cuda_llm.profile import LibraryTimes
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device

NO_LIBRARY = "the task names none"


async def time_libraries(task: Task, device: Device, request: RunRequest) -> TimedLibraries:
    """Time the task's libraries and the copy.

    What goes wrong is told, for a kernel's own result does not hang on it.
    """
    from cuda_llm.tools.judge.device_bench import open_bench
    from cuda_llm.tools.measure.options import L2, MeasureOptions

    if not device.capabilities.duels:
        return TimedLibraries(note="not timed: libraries run on a GPU only")
    bench = open_bench(task, device, options=MeasureOptions(l2=L2(request.l2)))
    try:
        found = await bench.time_libraries()
    except CudaLLMError as error:
        return TimedLibraries(note=f"not timed: {describe_error(error)}")
    return assemble(found, len(task.sizes.bench))


def assemble(found: Sequence[LibraryTimes], sizes: int) -> TimedLibraries:
    """Return the fastest of each size; the last of `found` is the copy."""
    *libraries, copy = found
    fastest = tuple(
        _fastest([(one.name, time_at(one, place)) for one in libraries]) for place in range(sizes)
    )
    faults = "; ".join(f"{one.name}: {one.fault}" for one in libraries if one.fault)
    note = "" if any(fastest) else f"not timed: {faults}" if faults else NO_LIBRARY
    copies = tuple(time_at(copy, place) for place in range(sizes))
    return TimedLibraries(fastest=fastest, copies_us=copies, note=note)


def time_at(one: LibraryTimes, place: int) -> float | None:
    """Return the time at a size; None where it was not timed."""
    return one.times[place] if place < len(one.times) else None


def _fastest(times: Sequence[tuple[str, float | None]]) -> LibraryTime | None:
    known = [LibraryTime(name=name, time_us=time) for name, time in times if time]
    return min(known, key=lambda one: one.time_us, default=None)
