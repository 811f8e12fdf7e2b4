"""The task's ceiling on the run's GPU, for the roofline plot."""

from collections.abc import Mapping, Sequence

from cuda_llm.errors import CudaLLMError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.hardware_profiles.roofline import peak_tflops
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.sizes import least_time
from cuda_llm.traces.report.view import Ceiling, RooflinePlot


def find_roofline(
    task_name: str, hardware_name: str, sizes: Sequence[Mapping[str, int]], labels: Sequence[str]
) -> tuple[RooflinePlot | None, str]:
    """Return peaks and least times, or None and why there are none.

    Task and GPU are looked up as they are today: a task of the user's may be gone.
    """
    try:
        task, hardware = load_task(task_name), find_hardware(hardware_name)
        least = [least_time(task, hardware, dims) for dims in sizes]
        precision = least[0].precision if least else "fp32"
        gflops = peak_tflops(hardware, precision) * 1e3
    except (CudaLLMError, KeyError, ValueError, ArithmeticError) as error:
        return None, " ".join(str(error).split())
    ceilings = tuple(
        Ceiling(
            label=label,
            flops=one.flops,
            bytes=one.bytes_moved,
            time_us=one.time_us,
            attainable_us=one.attainable_us,
            bound=one.bound,
        )
        for label, one in zip(labels, least, strict=True)
    )
    if not ceilings:
        return None, "no size was timed"
    return (
        RooflinePlot(
            hardware=hardware.name,
            gflops=gflops,
            gb_s=hardware.peaks.dram_gb_s,
            precision=precision,
            ceilings=ceilings,
        ),
        "",
    )
