"""Runs on a GPU that is not there: a table decides duels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_runs import TableBench, context_in

from cuda_llm.capabilities import Capabilities
from cuda_llm.graph.context import RunContext
from cuda_llm.outcomes import Verdict
from cuda_llm.profile import Profile
from cuda_llm.tools.cuda.inspect import inspect
from cuda_llm.tools.cuda.site import GPU_CAPABILITIES
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import KernelCounters
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.bench import Inspected
from cuda_llm.tools.judge.duel import Contest, lost_by_fault
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.timing.comparison import decide_outcome
from cuda_llm.tools.timing.contest import Duel

FLOOR = 0.01


class MeasuringDevice(EmulatedDevice):
    """Claims to measure, and can do nothing."""

    @property
    def capabilities(self) -> Capabilities:
        return GPU_CAPABILITIES

    inspect = staticmethod(inspect)
    """See `InspectingSite.inspect`."""


def measuring_device() -> MeasuringDevice:
    """On an emulated GPU, to have a profile of it."""
    return MeasuringDevice(open_emulated().hardware)


@dataclass(frozen=True)
class DuelTableBench(TableBench):
    """A duel is decided by `ratios`, contender over incumbent, else by the tables' times."""

    ratios: Mapping[str, float] = field(default_factory=dict)
    """By first declaration of the contender's source, as `ok_80_2`."""
    faults: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict of a contender when it is timed."""
    findings: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict of a contender when it is inspected."""
    artefacts: Mapping[str, Path] = field(default_factory=dict)
    """Files of an inspection."""
    not_inspected: Mapping[str, str] = field(default_factory=dict)
    """Why a contender cannot be inspected."""
    counters: tuple[KernelCounters, ...] = ()
    """Of each contender that is inspected."""

    async def contest(self, contenders: Sequence[Compiled], incumbent: Compiled) -> Contest:
        duels = tuple([await self.duel(one, incumbent) for one in contenders])
        faster = [
            (one.ratio, place)
            for place, one in enumerate(duels)
            if one.outcome == "faster" and not one.faults
        ]
        return Contest(duels=duels, fastest=min(faster)[1] if faster else None)

    async def duel(self, contender: Compiled, incumbent: Compiled) -> Duel:
        await self.take("duel", contender.source)
        first, second = declared(contender.source), declared(incumbent.source)
        if first in self.faults:
            return lost_by_fault("first", self.faults[first], "measured")
        own = float(first.split("_")[1]) / float(second.split("_")[1])
        ratio = self.ratios.get(first, own)
        low, high = ratio * 0.995, ratio * 1.005
        return Duel(
            sizes=(),
            ratio=ratio,
            low=low,
            high=high,
            outcome=decide_outcome(ratio, low, high, FLOOR),
            source="measured",
            faults={},
        )

    async def inspect(self, compiled: Compiled, profile: Profile) -> Inspected:
        await self.take("inspect", compiled.source)
        name = declared(compiled.source)
        return Inspected(
            fault=self.findings.get(name),
            notes=("watched",),
            not_inspected=self.not_inspected.get(name, ""),
            artefacts=self.artefacts,
            counters=self.counters,
        )


def declared(source: str) -> str:
    """`ok_80_2` of `int ok_80_2;`."""
    return source.rpartition("int ")[2].partition(";")[0]


def measured_context(folder: Path, bench: DuelTableBench, **parts: Any) -> RunContext:
    """A context on that device."""
    return context_in(folder, bench=bench, device=measuring_device(), **parts)
