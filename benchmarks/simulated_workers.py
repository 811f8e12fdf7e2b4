"""A cluster of simulated workers: each answers as was recorded, after the recorded time.

What the orchestrator does for a work is done: arguments and results are serialised both ways, and
the key of a compilation is made. What a worker does is not: it waits on the loop's clock, and the
processor time of answering is counted apart, in `worker_cpu_s`. Nothing stands for the network, nor
for the bytes of libraries that travel to a worker elsewhere.
"""

import asyncio
import hashlib
import pickle
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Concatenate

from recorded_works import Answer, RecordedKernel, RecordedWorks

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import DeviceLost
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.task import Task
from cuda_llm.tools.compiler.compile import compile_request
from cuda_llm.tools.compiler.known_outcomes import request_key
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.device import P, Site, T
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.judge.bench_slots import open_slots
from cuda_llm.tools.judge.device_bench import DeviceBench
from cuda_llm.tools.judge.duel import Contest, ContestOrder, modelled_duel
from cuda_llm.tools.judge.judge import StepTry
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

PROTOCOL = pickle.HIGHEST_PROTOCOL
BASELINE_S = 1.0
"""Each task's is timed once, then cached."""


@dataclass(frozen=True, kw_only=True)
class Losses:
    """How often workers die, and how soon another stands in the place of each."""

    share: float = 0.0
    """Of works, during which the worker is lost."""
    away_s: float = 60.0


@dataclass
class Level:
    """A number that goes up and down, and its area over time."""

    value: float = 0.0
    area: float = 0.0
    since_s: float = 0.0

    def add(self, step: float) -> None:
        """Change the number now."""
        now_s = asyncio.get_running_loop().time()
        self.area += self.value * (now_s - self.since_s)
        self.since_s = now_s
        self.value += step


class CountingSemaphore(asyncio.Semaphore):
    """A semaphore that knows how many wait for it, and how many ever did at once."""

    waiting = 0
    most_waiting = 0

    async def acquire(self) -> bool:  # type: ignore[override]
        """Count who has to wait."""
        if not self.locked():
            return await super().acquire()
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            return await super().acquire()
        finally:
            self.waiting -= 1


@dataclass(eq=False)
class SimulatedDevice:
    """One worker, seen from the orchestrator."""

    cluster: "SimulatedCluster"
    place: str
    name: str
    hardware: Hardware
    target: str
    capabilities: Capabilities
    version: str
    notes: tuple[str, ...] = ()
    works: int = 0

    def pinned(self) -> "SimulatedDevice":
        """See `Device.pinned`."""
        return self

    def prepare(self) -> None:
        """See `Device.prepare`: nothing is built."""

    async def carry_out(
        self,
        work: Callable[Concatenate[Site, P], Awaitable[T]],
        /,
        *arguments: P.args,
        **named: P.kwargs,
    ) -> T:
        """See `Device.carry_out`. Raises DeviceLost where the worker dies meanwhile."""
        sent = pickle.dumps((work, arguments, named), PROTOCOL)
        answer: T = pickle.loads(await self.cluster.carry_out(self, sent))
        return answer


@dataclass(kw_only=True)
class SimulatedCluster:
    """All workers, the group that the orchestrator has of them, and what they have done."""

    count: int
    works: RecordedWorks
    seed: int = 0
    losses: Losses = field(default_factory=Losses)
    at_work: Level = field(default_factory=Level)
    present: Level = field(default_factory=Level)
    done: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Works that were answered, by kind and candidate."""
    lost: int = 0
    """Workers so far."""
    worker_cpu_s: float = 0.0

    def __post_init__(self) -> None:
        """Make the workers, a slot for each, and a core for a compiler beside each."""
        emulated = open_emulated()
        version = hashlib.blake2b(self.works.text.encode(), digest_size=16).hexdigest()
        self._model = SimulatedDevice(
            cluster=self,
            place="",
            name=f"simulated {emulated.hardware.short_name}",
            hardware=emulated.hardware,
            target=emulated.target,
            capabilities=replace(emulated.capabilities, at_once=1),
            version=version,
        )
        self.present.value = self.count
        self.group = DeviceGroup([self._worker(f"{place}") for place in range(self.count)])
        self.compilers = CountingSemaphore(self.count)
        self.devices = CountingSemaphore(self.count)

    def bench(self, task: Task, seed: int) -> "SimulatedBench":
        """Return a bench of a task; the slots are those of all benches."""
        slots = replace(open_slots(self.group), compilers=self.compilers, devices=self.devices)
        return SimulatedBench(task=task, device=self.group, slots=slots, seed=seed, cluster=self)

    async def carry_out(self, device: SimulatedDevice, sent: bytes) -> bytes:
        """Do what a worker does with one work. Raises DeviceLost."""
        began_s = time.thread_time()
        work, arguments, _ = pickle.loads(sent)
        seconds, key, answer = self._answer(work.__name__, arguments)
        back = pickle.dumps(answer, PROTOCOL)
        lost_after = self._loss(device)
        self.worker_cpu_s += time.thread_time() - began_s
        self.at_work.add(1)
        try:
            await asyncio.sleep(seconds * (1.0 if lost_after is None else lost_after))
        finally:
            self.at_work.add(-1)
        if lost_after is not None:
            self._lose(device)
            raise DeviceLost("device", f"{device.name} {device.place} does not answer any more")
        self.done[work.__name__, key] += 1
        return back

    async def compile(self, task: Task, source: str, name: str) -> Compiled | Verdict:
        """Do what nvcc does with one source on a core of a worker, after the key is made."""
        request = compile_request(task, self._model.target, source, name)
        key = request_key(request, find_toolkit())
        sent = pickle.dumps((task.name, source, name), PROTOCOL)
        began_s = time.thread_time()
        kernel = self.works.find(*pickle.loads(sent)[:2])
        built = replace(kernel.answers["compile"], key=key, name=name, source=source)
        seconds = kernel.draw_s("compile", self._chance("compile", source))
        back = pickle.dumps(built, PROTOCOL)
        self.worker_cpu_s += time.thread_time() - began_s
        await asyncio.sleep(seconds)
        compiled: Compiled = pickle.loads(back)
        return compiled

    def _answer(
        self, work: str, arguments: tuple[Any, ...]
    ) -> tuple[float, str, Answer | Contest | None]:
        """Return the seconds that a work takes, the candidate's key, and the answer."""
        task: Task = arguments[0]
        match work:
            case "validate_there":
                compiled, nonce = arguments[1], arguments[3]
                seconds, answer = self._step("validate", task, compiled)
                if isinstance(answer, Validated):
                    answer = replace(answer, nonce=nonce or b"")
                return seconds, compiled.key, answer
            case "time_calls_there" | "measure_candidate":
                compiled, baseline = arguments[1], arguments[2]
                if compiled.key == baseline.key:
                    return BASELINE_S, compiled.key, self.works.baselines[task.name]
                seconds, answer = self._step("time", task, compiled)
                return seconds, compiled.key, answer
            case "make_published_check":
                seconds, answer = self._step("publish", task, arguments[1])
                return seconds, arguments[1].key, answer
            case "contest_there":
                return self._contest(task, arguments[1])
        raise ValueError(f"no worker was recorded at {work}")

    def _step(self, step: str, task: Task, compiled: Compiled) -> tuple[float, Answer]:
        kernel: RecordedKernel = self.works.find(task.name, compiled.source)
        seconds = kernel.draw_s(step, self._chance(step, compiled.source))
        return seconds, kernel.answers[step]

    def _contest(self, task: Task, order: ContestOrder) -> tuple[float, str, Contest]:
        """Hold a contest as a worker that models times does: one kernel after the other."""
        timed = [self._step("time", task, one) for one in (*order.contenders, order.incumbent)]
        times = [one for _, one in timed if isinstance(one, KernelTimes)]
        duels = tuple(modelled_duel(task, one, times[-1]) for one in times[:-1])
        faster = [(one.ratio, k) for k, one in enumerate(duels) if one.outcome == "faster"]
        fastest = min(faster)[1] if faster else None
        seconds = sum(seconds for seconds, _ in timed)
        return seconds, order.incumbent.key, Contest(duels=duels, fastest=fastest)

    def _loss(self, device: SimulatedDevice) -> float | None:
        """Return after which part of its work the worker dies; None where it lives."""
        device.works += 1
        chance = self._chance(device.place, str(device.works))
        return chance.random() if chance.random() < self.losses.share else None

    def _lose(self, device: SimulatedDevice) -> None:
        self.lost += 1
        self.present.add(-1)
        back = self._worker(f"{device.place}'")
        asyncio.get_running_loop().call_later(self.losses.away_s, self._come_back, back)

    def _come_back(self, device: SimulatedDevice) -> None:
        self.present.add(1)
        self.group.join(device)

    def _worker(self, place: str) -> SimulatedDevice:
        return replace(self._model, place=place)

    def _chance(self, *about: str) -> random.Random:
        """Return what decides by chance, whatever else was decided before."""
        return random.Random("/".join((str(self.seed), *about)))


@dataclass(frozen=True, kw_only=True)
class SimulatedBench(DeviceBench):
    """The bench that ships, but nvcc: its slot and its tries are those of the bench."""

    cluster: SimulatedCluster

    async def compile(self, source: str, name: str) -> Compiled | Verdict:
        """See `Bench.compile`."""

        async def step(_trial: StepTry) -> Compiled | Verdict:
            async with self.slots.compilers:
                return await self.cluster.compile(self.task, source, name)

        return await self.retry.settle("compiler", step)
