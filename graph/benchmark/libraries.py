"""What a vendor's library takes for a task, timed on the device as kernels are."""

from typing import Any

from cuda_llm.errors import CudaLLMError, describe_error
from cuda_llm.graph.benchmark.row import LibraryTime
from cuda_llm.graph.request import RunRequest
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device

FastestOfEach = tuple[LibraryTime | None, ...]
"""The fastest library of each timed size, in the order of the task."""


async def time_libraries(
    task: Task, device: Device, request: RunRequest
) -> tuple[FastestOfEach, str]:
    """Return the fastest library of each size, and why there is none where there is none.

    What goes wrong is told, for a kernel's own result does not hang on it.
    """
    from cuda_llm.tools.judge.device_bench import open_bench
    from cuda_llm.tools.measure.options import L2, MeasureOptions

    if not task.libraries:
        return (), "the task names no library"
    if not device.capabilities.measures_time:
        return (), "not timed: libraries run on a GPU only"
    bench: Any = open_bench(task, device, options=MeasureOptions(l2=L2(request.l2)))
    if not hasattr(bench, "time_libraries"):
        return (), "not timed: this bench cannot"
    try:
        found = await bench.time_libraries()
    except CudaLLMError as error:
        return (), f"not timed: {describe_error(error)}"
    fastest = tuple(
        _fastest([(one.name, one.times[place]) for one in found if place < len(one.times)])
        for place in range(len(task.sizes.bench))
    )
    return fastest, "" if any(fastest) else "not timed: no library could be called"


def _fastest(times: list[tuple[str, float | None]]) -> LibraryTime | None:
    known = [LibraryTime(name=name, time_us=time) for name, time in times if time]
    return min(known, key=lambda one: one.time_us, default=None)
