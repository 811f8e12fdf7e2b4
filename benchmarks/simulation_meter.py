"""What an orchestrator has spent and done in a simulation: time, works, verdicts."""

import asyncio
import gc
import hashlib
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from simulated_workers import SimulatedCluster

TICK_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What has been spent and done so far."""

    now_s: float
    cpu_s: float
    worker_cpu_s: float
    collector_cpu_s: float
    busy_s: float
    present_s: float
    judged: int

    def since(self, earlier: "Reading") -> "Reading":
        """Return the difference."""
        return Reading(**{name: vars(self)[name] - vars(earlier)[name] for name in vars(self)})


class Collector:
    """Python's garbage collector, and the processor time it has taken."""

    def __init__(self) -> None:
        self.cpu_s = self._began_s = 0.0

    def __call__(self, phase: str, _told: Mapping[str, int]) -> None:
        """Be told that a collection begins or ends."""
        now_s = time.thread_time()
        if phase == "start":
            self._began_s = now_s
        else:
            self.cpu_s += now_s - self._began_s


@dataclass
class Meter:
    """Who was judged when, and what that took."""

    cluster: SimulatedCluster
    verdicts: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By candidate: code and time of each verdict."""
    expected: dict[str, str] = field(default_factory=dict)
    """By candidate: the code that was recorded of its kernel."""
    collector: Collector = field(default_factory=Collector)
    most_cores: float = 0.0

    def read(self) -> Reading:
        """Read everything now."""
        for level in (self.cluster.at_work, self.cluster.present):
            level.add(0)
        return Reading(
            now_s=asyncio.get_running_loop().time(),
            cpu_s=time.process_time(),
            worker_cpu_s=self.cluster.worker_cpu_s,
            collector_cpu_s=self.collector.cpu_s,
            busy_s=self.cluster.at_work.area,
            present_s=self.cluster.present.area,
            judged=len(self.verdicts),
        )

    def add(self, name: str, code: str) -> None:
        """Add a verdict."""
        now_s = round(asyncio.get_running_loop().time(), 6)
        self.verdicts.setdefault(name, []).append((code, now_s))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Meanwhile find the ten simulated seconds that take most, and watch the collector."""

        async def watch() -> None:
            before = self.read()
            while True:
                await asyncio.sleep(TICK_S)
                now = self.read()
                self.most_cores = max(self.most_cores, now.since(before).cpu_s / TICK_S)
                before = now

        task = asyncio.create_task(watch())
        gc.callbacks.append(self.collector)
        try:
            yield
        finally:
            gc.callbacks.remove(self.collector)
            task.cancel()

    def figures(self, begin: Reading, end: Reading) -> dict[str, Any]:
        """Return the figures of the time between two readings, and the counts of all."""
        spent = end.since(begin)
        told = sorted((name, *one) for name, every in self.verdicts.items() for one in every)
        odd = [name for name, code, _ in told if code != self.expected[name]]
        return {
            "candidates": len(self.expected),
            "verdicts_lost": len(self.expected.keys() - self.verdicts.keys()),
            "verdicts_doubled": len(told) - len(self.verdicts),
            "verdicts_unlike_the_recorded": len(odd),
            "workers_lost": self.cluster.lost,
            "simulated_s": round(spent.now_s, 1),
            "candidates_per_s": round(spent.judged / spent.now_s, 3),
            "cores": round(spent.cpu_s / spent.now_s, 4),
            "cores_in_the_busiest_10_s": round(self.most_cores, 3),
            "cpu_ms_a_candidate": round(1e3 * spent.cpu_s / spent.judged, 2),
            "of_it_simulated_workers_ms": round(1e3 * spent.worker_cpu_s / spent.judged, 2),
            "of_it_garbage_collector_ms": round(1e3 * spent.collector_cpu_s / spent.judged, 2),
            "device_s_a_candidate": round(spent.busy_s / spent.judged, 3),
            "idle_share_of_devices": round(max(0.0, 1 - spent.busy_s / spent.present_s), 4),
            "most_waiting_for_compilers": self.cluster.compilers.most_waiting,
            "most_waiting_for_devices": self.cluster.devices.most_waiting,
            "fingerprint": hashlib.blake2b(repr(told).encode(), digest_size=8).hexdigest(),
        }
