"""A simulated measured site: sealing, tagging and late writes are real, time is not.

A script stands for a candidate: a function of one call that writes its outputs and says how long
that took. It sees all that a hostile one could: the memory of every slot, and what it remembers.
`running(candidate)` is a session that is not timed. With `strict_arrays` its arrays refuse what
CuPy's refuse.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from slot_memory import (
    Array,
    lay_out_slots,
    open_inputs,
    placed,
    seal_inputs,
    tag_outputs,
    views,
    wrapped,
)

from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import InfraFailed, Verdict
from cuda_llm.profile import LaunchProfile
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.device import SCRATCH_BYTES, Argument, Batch, CallOptions, CallReport, TimeClass
from cuda_llm.tools.device.buffers import HOST, Arrays, BufferSpec, PlacedBuffer, Slot, Slots
from cuda_llm.tools.device.candidate import Baseline, Compiled

Buffers = Mapping[str, Array]
Candidate = Callable[[Buffers, CallOptions], Verdict | None]
"""Writes its outputs into the buffers; what it returns ends the call with that verdict."""

LAUNCH = LaunchProfile(
    kernel="k", grid=(1, 1, 1), block=(32, 1, 1), shared_bytes=0, occupancy=1.0, time_us=1.0
)
START_US = 20.0
OVERHEAD_US = 40.0


@dataclass
class Call:
    """One call of `solve`, with everything it could get at."""

    buffers: Buffers
    """Its own."""
    slots: Sequence[Buffers]
    """Those of all calls."""
    slot: int
    step: int
    """Of its batch."""
    warm_up: bool
    batches: int
    """Begun so far."""
    calls: int
    """Of this batch, which a candidate does not know but might guess."""
    stepwise: bool
    """Whether nothing is known yet of later calls, as it might find out."""
    memory: dict[Any, Any]
    """What it remembers."""
    guards: Mapping[str, tuple[Array, Array]]
    later: list[Callable[[], None]]
    """Done after the tags of the batch are taken."""
    options: CallOptions
    """Of the call that is not timed, or of the capture."""


Script = Callable[[Call], float | Verdict]
"""Microseconds the call took, or what ended it."""


class MeasuredSession:
    """Runs a script. `jitter_us` disturbs a batch; `launches` is what the call claims to do."""

    def __init__(
        self,
        script: Script,
        *,
        arrays: Arrays = HOST,
        launches: tuple[LaunchProfile, ...] = (LAUNCH,),
        time_class: TimeClass = TimeClass.DEVICE,
        jitter_us: float = 1.0,
        seed: int = 0,
        lasting: bool = False,
    ) -> None:
        """`lasting`: a batch takes its time by the clock of the event loop."""
        self.lasting = lasting
        self.script = script
        self.wrap = getattr(arrays.xp, "wrap", as_it_is)
        self.launches = launches
        self.calls: list[CallOptions] = []
        self.options = CallOptions()
        self.time_class = time_class
        self.jitter_us = jitter_us
        self.rng = np.random.Generator(np.random.PCG64(seed))
        self.memory: dict[Any, Any] = {}
        self.placed: dict[str, PlacedBuffer] = {}
        """As the judge gets them."""
        self.plain: dict[str, PlacedBuffer] = {}
        """The same memory as scripts see it."""
        self.slots = Slots(buffers={}, sealed={}, count=0)
        self.each: list[Slot] = []
        """Its members."""
        self.everyone: list[Buffers] = []
        self.batches = 0
        self.armed: Batch | None = None
        self.tags: dict[int, dict[str, bytes]] = {}
        self.captures = 0
        self.orders: list[Batch] = []
        self.rooms: list[int] = []
        self.not_stepwise = ""

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out buffers between guards."""
        self.plain = {spec.name: placed(spec) for spec in buffers}
        self.placed = {name: wrapped(one, self.wrap) for name, one in self.plain.items()}
        return self.placed

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Make one call that is not timed."""
        self.calls.append(options)
        self.options = options
        took = self.one_call(self.plain, 0, 0, 1, [], warm_up=True)
        return CallReport(wall_s=0.0, launches=self.launches) if isinstance(took, float) else took

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out slots with memory of their own, and note how much room was asked for."""
        self.rooms.append(scratch_bytes)
        self.slots = lay_out_slots(buffers, count)
        self.each = list(self.slots)
        self.everyone = [views(one.buffers) for one in self.each]
        return Slots(
            buffers={name: wrapped(one, self.wrap) for name, one in self.slots.buffers.items()},
            sealed={name: self.wrap(one) for name, one in self.slots.sealed.items()},
            count=count,
        )

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """Warm up on slot 0."""
        self.captures += 1
        self.options = options
        own = self.each[0].buffers
        took = self.one_call(own, 0, 0, 1, [], warm_up=True)
        return self.time_class if isinstance(took, float) else took

    def seal(
        self, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Any]
    ) -> None:
        """Encrypt the contents into the slots' sealed arrays."""
        seal_inputs(self.slots, slots, keys, contents)

    async def arm(self, batch: Batch) -> Verdict | None:
        """Remember the batch; nothing of the script runs."""
        assert len(set(batch.order)) == len(batch.order)
        assert len(batch.keys) in {0, len(batch.order)}
        by_host = self.time_class is TimeClass.HOST_INCLUSIVE
        assert not (batch.keys and batch.solve and by_host)
        if batch.keys and self.not_stepwise:
            return InfraFailed(component="device", detail=self.not_stepwise)
        self.armed = batch
        return None

    async def go(self, limit_s: float) -> float | Verdict:
        """Open, call and tag, step by step; seconds are made up."""
        assert self.armed is not None
        batch, self.armed = self.armed, None
        self.orders.append(batch)
        self.batches += 1
        self.tags = {}
        spent_us = START_US + float(self.rng.gamma(2.0, self.jitter_us / 2))
        later: list[Callable[[], None]] = []
        for step, slot in enumerate(batch.order):
            open_inputs(self.each[slot], slot, batch.keys[step] if batch.keys else batch.key)
            spent_us += OVERHEAD_US
            if batch.solve:
                own = self.each[slot].buffers
                took = self.one_call(own, slot, step, len(batch.order), later, warm_up=False)
                if not isinstance(took, float):
                    return took
                spent_us += took
            self.tags[slot] = tag_outputs(self.each[slot])
        if self.lasting:
            await asyncio.sleep(spent_us / 1e6)
        for act in later:
            act()
        return spent_us / 1e6

    def find_late_write(self) -> str | None:
        """Compare the tags of the outputs with those of the batch."""
        for slot, tags in self.tags.items():
            for name, tag in tag_outputs(self.each[slot]).items():
                if tag != tags[name]:
                    return name
        return None

    def one_call(
        self,
        own: Mapping[str, PlacedBuffer],
        slot: int,
        step: int,
        calls: int,
        later: list[Callable[[], None]],
        *,
        warm_up: bool,
    ) -> float | Verdict:
        """Have the script make one call."""
        stepwise = not warm_up and bool(self.orders[-1].keys)
        call = Call(
            stepwise=stepwise,
            buffers=views(own),
            slots=self.everyone,
            slot=slot,
            step=step,
            warm_up=warm_up,
            batches=self.batches,
            calls=calls,
            memory=self.memory,
            guards={name: (one.guard_before, one.guard_after) for name, one in own.items()},
            later=later,
            options=self.options,
        )
        with np.errstate(all="ignore"):
            return self.script(call)


def as_it_is(array: Array) -> Array:
    """Return the array: arrays of the host need no wrapping."""
    return array


def running(
    candidate: Candidate,
    launches: tuple[LaunchProfile, ...] = (LAUNCH,),
    *,
    arrays: Arrays = HOST,
) -> MeasuredSession:
    """Return a session of an ordinary function on arrays, which is not timed."""
    return MeasuredSession(untimed(candidate), arrays=arrays, launches=launches)


def untimed(candidate: Candidate) -> Script:
    """Return the script of an ordinary function on arrays."""

    def script(call: Call) -> float | Verdict:
        verdict = candidate(call.buffers, call.options)
        return 0.0 if verdict is None else verdict

    return script


@dataclass
class MeasuredSite:
    """Opens a new session of the script that stands for a candidate."""

    hardware: Hardware
    scripts: Mapping[str, Script]
    """By the name of the candidate."""
    name: str = "a GPU that is not there"
    jitter_us: float = 1.0
    lasting: bool = False
    time_class: TimeClass = TimeClass.DEVICE
    """Of candidates; of one of them where `time_classes` has it."""
    time_classes: Mapping[str, TimeClass] = field(default_factory=dict)
    arrays: Arrays = HOST
    confined: str = "no namespaces; seccomp"
    capabilities: Capabilities = GPU_CAPABILITIES
    not_stepwise_of: Mapping[str, str] = field(default_factory=dict)
    """Why keys cannot be released, by the name of the candidate."""
    refused: Mapping[str, Verdict] = field(default_factory=dict)
    opened: list[tuple[str, MeasuredSession]] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Names of those whose runners could have been used again."""

    def read_clocks(self) -> None:
        """Return nothing: this site has no clocks."""

    def session_of(self, name: str) -> MeasuredSession:
        """Return the session opened last for a candidate."""
        return [session for opened, session in self.opened if opened == name][-1]

    @asynccontextmanager
    async def open(self, candidate: Baseline) -> AsyncIterator[MeasuredSession | Verdict]:
        """Open a session, or yield the verdict where there is none."""
        if candidate.name in self.refused:
            yield self.refused[candidate.name]
            return
        trusted = candidate.name == "baseline"
        session = MeasuredSession(
            self.scripts[candidate.name],
            arrays=self.arrays,
            time_class=self.time_classes.get(
                candidate.name, TimeClass.DEVICE if trusted else self.time_class
            ),
            jitter_us=self.jitter_us,
            seed=len(self.opened),
            lasting=self.lasting,
        )
        session.not_stepwise = self.not_stepwise_of.get(candidate.name, "")
        self.opened.append((candidate.name, session))
        yield session

    def open_cached(
        self, candidate: Baseline
    ) -> AbstractAsyncContextManager[MeasuredSession | Verdict]:
        """Open a session, and note that it could have been used again."""
        self.kept.append(candidate.name)
        return self.open(candidate)

    shares: dict[str, float] = field(default_factory=dict)
    released: int = 0
    """How often unused memory was given back."""

    async def release_unused(self) -> None:
        """Note that it was asked for."""
        self.released += 1

    def retire_cached(self) -> None:
        """Nothing is really used again here."""


def named(name: str) -> Compiled:
    """Return a stand-in of a compiled candidate."""
    nowhere = Path("nowhere")
    return Compiled(
        key=name, name=name, source="", target="sm_90a", library=nowhere, ptx=nowhere, kernels=()
    )
