"""The GPU of the probing process: our kernels on it, timed as the slope between few and many
runs.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 9

WANTED_S = 0.004
"""Approximate seconds of the longer of two runs."""
MOST_STEPS = 512
GpuStep = Callable[[], object]
"""Function that enqueues one step on the current stream."""


def slope_s(seconds_of: Callable[[int], float], few: int, many: int) -> float:
    """Return the seconds of a step; `seconds_of(count)` runs `count` steps and returns their
    seconds.

    The result is the median of several slopes, each between neighbours in time. Raises ValueError
    unless `few` is less than `many`.
    """
    if not 0 < few < many:
        raise ValueError(f"no slope between {few} and {many} steps")
    seconds_of(few)
    slopes = [(seconds_of(many) - seconds_of(few)) / (many - few) for _ in range(REPEATS)]
    return statistics.median(slopes)


def steps_for(rough_s: float, wanted_s: float, most: int) -> tuple[int, int]:
    """Return two counts of steps, the longer run about `wanted_s` and `most` steps at most."""
    many = max(8, min(most, int(wanted_s / max(rough_s, 1e-9))))
    return max(1, many // 8), many


class ProbedGpu:
    """One GPU, which no other process uses while the probe runs. Needs CuPy."""

    def __init__(self, ordinal: int, cubin: Path) -> None:
        import cupy

        self.cupy: Any = cupy
        self.device = cupy.cuda.Device(ordinal)
        self.device.use()
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.cubin = str(cubin)
        self.module = cupy.RawModule(path=self.cubin)
        self.l2_bytes = int(self.device.attributes["L2CacheSize"])
        self.sm_count = int(self.device.attributes["MultiProcessorCount"])

    def kernel(self, name: str) -> Any:
        """Return a kernel of `native/probe.cu`."""
        return self.module.get_function(name)

    def cooperative(self, name: str) -> Any:
        """Return a kernel that is launched so that all its blocks are resident."""
        module = self.cupy.RawModule(path=self.cubin, enable_cooperative_groups=True)
        return module.get_function(name)

    def step_s(self, step: GpuStep) -> float:
        """Return the seconds of a step in a captured graph: a slope by the host's clock."""
        rough_s = min(self._run(self._graph(step, 1)) for _ in range(3))
        few, many = steps_for(rough_s, WANTED_S, MOST_STEPS)
        graphs = {count: self._graph(step, count) for count in (few, many)}
        return slope_s(lambda count: self._run(graphs[count]), few, many)

    def queued_s(self, step: GpuStep) -> float:
        """Return the seconds of a step that cannot be captured, from runs long enough to hide
        launches."""
        few, many = steps_for(self._queue(step, 1), 5 * WANTED_S, MOST_STEPS)
        return slope_s(lambda count: self._queue(step, count), few, many)

    def alone_s(self, step: GpuStep) -> float:
        """Return the seconds from the call of a step to its end: the minimum of 200 repetitions."""
        with self.stream:
            return min(self._once(step) for _ in range(200))

    def _once(self, step: GpuStep) -> float:
        self.stream.synchronize()
        began = time.perf_counter()
        step()
        self.stream.synchronize()
        return time.perf_counter() - began

    def _queue(self, step: GpuStep, count: int) -> float:
        def all_of_them() -> None:
            for _ in range(count):
                step()

        with self.stream:
            return self._once(all_of_them)

    def _graph(self, step: GpuStep, count: int) -> Any:
        with self.stream:
            self.stream.begin_capture()
            try:
                for _ in range(count):
                    step()
            finally:
                # A stream that still captures would break the next operation.
                graph = self.stream.end_capture()
            return graph

    def _run(self, graph: Any) -> float:
        return self._once(lambda: graph.launch(self.stream))
