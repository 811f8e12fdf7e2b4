"""Models the time of a launch: a term for each resource, a soft maximum, and the launch itself.

Every formula, with its source, is in docs/time-model.md. No term was measured on a GPU.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypedDict

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import WARP_THREADS, Occupancy, occupancy
from cuda_llm.hardware_profiles.roofline import mma_sync_tflops, wgmma_tflops
from cuda_llm.profile import KernelResources
from cuda_llm.source_file import SourceSpot
from cuda_llm.time_terms import ALONE, SHARPNESS, combine, unit_of
from cuda_llm.tools.profiler.counters import LaunchCounters
from cuda_llm.tools.profiler.counts import count_instructions, count_tensor_operations
from cuda_llm.tools.profiler.tables import WGMMA_PEAK, InstructionClass, KernelTable
from cuda_llm.tools.profiler.traffic import (
    first_turn_share,
    launch_traffic,
    warp_clk,
    warps_per_block,
)

GRID_BARRIER_US = 1.5
"""Microseconds of a barrier of a cooperative grid where the profile has no figure: an H200's."""


@dataclass(frozen=True, kw_only=True)
class TimeReason:
    """A reason for time spent, and the time that would be saved without it."""

    code: str
    saved_us: float
    share: float
    """Part of the launch's time that the reason accounts for, 0 to 1."""
    explanation: str
    advice: str
    spot: SourceSpot | None = None
    waste: bool = False
    """Whether the same work can be done in a cheaper way."""
    relieved_us: Mapping[str, float] = field(default_factory=dict)
    """Microseconds of each unit that would be saved without the reason."""


class Saving(TypedDict):
    """The figures of a reason, as keywords of `TimeReason`."""

    saved_us: float
    share: float
    relieved_us: Mapping[str, float]


class Term(StrEnum):
    """A resource on which a launch spends time. The values are the keys of
    `LaunchProfile.terms_us`."""

    ISSUE = "issue"
    FP32 = "fp32"
    FP64 = "fp64"
    FP16 = "fp16"
    INT = "int"
    SFU = "sfu"
    CONVERT = "convert"
    SHUFFLE = "shuffle"
    TENSOR = "tensor"
    SHARED = "shared"
    L1 = "l1"
    L2 = "l2"
    DRAM = "dram"
    ATOMIC = "atomic"
    LATENCY = "latency"
    FIRST_TURN = "first_turn"
    BLOCKS = "blocks"
    LAUNCH = "launch"


WAITING = (Term.FIRST_TURN, Term.LATENCY)
"""Terms of the waits of warps."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Residency of a launch on the chip: blocks per SM, bytes in L2, split over SMs."""

    blocks_per_sm: int
    """Resident blocks that an SM can hold, at least 1."""
    resident_bytes: float = 0.0
    """Bytes of the launch's footprint that earlier launches of the call left in L2."""
    is_first: bool = False
    """Whether no launch of the call is before it: its code and parameters are in no cache."""
    even_split: bool = False
    """Treat the blocks as divisible: every SM gets the same work and no wave is partial."""


@dataclass(frozen=True, kw_only=True)
class LaunchTime:
    """Modelled time of a launch, with its terms and traffic."""

    time_us: float
    terms_us: Mapping[Term, float]
    dram_bytes: float
    l2_bytes: float

    def without(self, *terms: Term) -> float:
        """Return the microseconds if `terms` were free."""
        return combine({term: us for term, us in self.terms_us.items() if term not in terms})

    def saving(self, fixed: "LaunchTime", *terms: Term) -> Saving:
        """Return what `fixed` saves; the share is the present weight of `terms`, without which it
        is the part saved."""
        saved_us = max(0.0, self.time_us - fixed.time_us)
        share = self.share(*terms) if terms else saved_us / self.time_us
        return Saving(saved_us=saved_us, share=share, relieved_us=self.relieved_us(fixed))

    def relieved_us(self, fixed: "LaunchTime") -> dict[str, float]:
        """Return the microseconds that each unit takes less in `fixed`."""
        found: dict[str, float] = {}
        for term, us in self.terms_us.items():
            unit = unit_of(term)
            found[unit] = found.get(unit, 0.0) + us - fixed.terms_us.get(term, 0.0)
        return found

    def with_part(self, term: Term, part: float) -> "LaunchTime":
        """Return the time if `term` took a part, 0 to 1, of what it takes."""
        terms_us = {**self.terms_us, term: part * self.terms_us.get(term, 0.0)}
        return replace(self, time_us=combine(terms_us), terms_us=terms_us)

    def share(self, *terms: Term) -> float:
        """Return the part of the time, 0 to 1, of `terms`, which share a resource.

        The part is the relative change of the launch's time per relative change of the terms: the
        parts of all resources add to 1.
        """
        if not self.time_us:
            return 0.0
        alone_us = {term: us for term, us in self.terms_us.items() if term in ALONE}
        own_us = sum(us for term, us in alone_us.items() if term in terms)
        overlapped = self.time_us - sum(alone_us.values())
        if overlapped <= 0:
            return own_us / self.time_us
        us = sum(self.terms_us.get(term, 0.0) for term in terms if term not in ALONE)
        return float((own_us + (us / overlapped) ** SHARPNESS * overlapped) / self.time_us)


def model_launch(
    account: LaunchCounters, table: KernelTable, hardware: Hardware, setting: Setting
) -> LaunchTime:
    """Model the time of a launch."""
    traffic = launch_traffic(account, table, hardware)
    dram_bytes = traffic.dram_bytes - min(traffic.dram_bytes, setting.resident_bytes)
    clk_us = 1.0 / hardware.boost_clock_mhz
    path_us = clk_us * _busiest_share("path", account, hardware, setting)
    model = hardware.model
    waiting = _waiting(account, table, hardware, setting)
    terms = _pipe_terms(account, table, hardware, setting) | {
        Term.SHARED: traffic.shared_clk * path_us,
        Term.L1: traffic.l1_clk * path_us,
        Term.L2: traffic.l2_clk * clk_us,
        Term.DRAM: _moving_us(dram_bytes, hardware),
        Term.ATOMIC: traffic.atomic_clk * clk_us,
        Term.FIRST_TURN: waiting.first_turn_clk * clk_us,
        Term.LATENCY: waiting.further_clk * clk_us,
        Term.BLOCKS: account.blocks_total * model.block_start_clk * clk_us,
        # The grid of a cooperative launch waits for itself, and nothing else runs meanwhile.
        Term.LAUNCH: model.launch_us
        + (model.cold_us if setting.is_first else 0.0)
        + (model.grid_barrier_us or GRID_BARRIER_US)
        * max(account.grid_barriers, int(account.cooperative)),
    }
    return LaunchTime(
        time_us=combine(terms),
        terms_us=terms,
        dram_bytes=dram_bytes,
        l2_bytes=traffic.l2_bytes,
    )


def _moving_us(dram_bytes: float, hardware: Hardware) -> float:
    return dram_bytes / (hardware.peaks.dram_gb_s * 1e3 * hardware.model.dram_efficiency)


def _pipe_terms(
    account: LaunchCounters, table: KernelTable, hardware: Hardware, setting: Setting
) -> dict[Term, float]:
    clk_us = 1.0 / hardware.boost_clock_mhz
    mix = count_instructions(account, table)
    pipes = hardware.pipes
    lanes = {
        InstructionClass.FP32: (Term.FP32, pipes.fp32),
        InstructionClass.FP64: (Term.FP64, pipes.fp64),
        InstructionClass.FP16: (Term.FP16, pipes.fp16),
        InstructionClass.INT: (Term.INT, pipes.int32),
        InstructionClass.SFU: (Term.SFU, pipes.sfu),
        InstructionClass.CONVERT: (Term.CONVERT, pipes.convert),
        InstructionClass.SHUFFLE: (Term.SHUFFLE, pipes.load_store),
    }
    terms = {
        term: mix.warps.get(kind, 0.0)
        * WARP_THREADS
        / per_clk
        * clk_us
        * _busiest_share(kind, account, hardware, setting)
        for kind, (term, per_clk) in lanes.items()
    }
    terms[Term.TENSOR] = _tensor_us(account, table, hardware, setting)
    issuing_us = clk_us * _busiest_share("issue", account, hardware, setting)
    terms[Term.ISSUE] = mix.issued / hardware.schedulers_per_sm * issuing_us
    return terms


def _tensor_us(
    account: LaunchCounters, table: KernelTable, hardware: Hardware, setting: Setting
) -> float:
    """Return the time of products at the rates that mma.sync, or wgmma, reaches on each type."""
    whole_us = least_tensor_us(count_tensor_operations(account, table), hardware)
    share = _busiest_share(InstructionClass.TENSOR, account, hardware, setting)
    return whole_us * hardware.sm_count * share


def least_tensor_us(operations: Mapping[str, float], hardware: Hardware) -> float:
    """Return the time of products, counted by their peaks, spread evenly over all tensor cores."""
    return sum(count / (_tensor_tflops(hardware, kind) * 1e6) for kind, count in operations.items())


def _tensor_tflops(hardware: Hardware, kind: str) -> float:
    if kind.startswith(WGMMA_PEAK):
        return wgmma_tflops(hardware, kind.removeprefix(WGMMA_PEAK))
    return mma_sync_tflops(hardware, kind)


def _busiest_share(
    unit: str, account: LaunchCounters, hardware: Hardware, setting: Setting
) -> float:
    """Return the part of a unit's work on the SM with the most blocks or the heaviest block."""
    if setting.even_split or not account.blocks_total:
        return 1.0 / hardware.sm_count
    share = -(-account.blocks_total // hardware.sm_count) / account.blocks_total
    return max(share, account.heaviest.get(unit, 0.0))


def _waves(account: LaunchCounters, hardware: Hardware, setting: Setting) -> float:
    """Return the number of waves of blocks with which the launch fills the chip."""
    places = hardware.sm_count * setting.blocks_per_sm
    if setting.even_split:
        return max(1.0, account.blocks_total / places)
    return float(-(-account.blocks_total // places))


@dataclass(frozen=True, kw_only=True)
class _Waiting:
    """The longest chain of waits of a launch: of all waves, or of a single block."""

    first_turn_clk: float
    """Clocks of the first block's path with each loop run once, which overlap with nothing."""
    further_clk: float
    """The other clocks of the chain."""


def _waiting(
    account: LaunchCounters, table: KernelTable, hardware: Hardware, setting: Setting
) -> _Waiting:
    block_clk = account.path_clk or warp_clk(account, table, hardware)
    all_clk = max(block_clk * _waves(account, hardware, setting), account.longest_clk)
    first_clk = block_clk * first_turn_share(account, table, hardware)
    return _Waiting(first_turn_clk=first_clk, further_clk=all_clk - first_clk)


@dataclass(frozen=True, kw_only=True)
class ModelledLaunch:
    """A launch on a chip, modelled."""

    name: str
    account: LaunchCounters
    table: KernelTable
    hardware: Hardware
    occupancy: Occupancy
    setting: Setting
    time: LaunchTime

    @property
    def shared_bytes(self) -> int:
        """Return static and dynamic shared memory per block."""
        return self.account.static_shared_bytes + self.account.dynamic_shared_bytes

    @property
    def resident_warps(self) -> int:
        """Return the warps resident on an SM, fewer than fit where the grid is small."""
        per_sm = -(-self.account.blocks_total // self.hardware.sm_count)
        return min(self.setting.blocks_per_sm, per_sm) * warps_per_block(self.account)

    @property
    def least_us(self) -> float:
        """Return the microseconds below which no change of this kernel leads: each byte of its
        footprint once, at the bandwidth of a large copy, and its own arithmetic, spread evenly."""
        even = self.what_if(setting=replace(self.setting, even_split=True)).terms_us
        own_us = max(even[term] for term in (Term.FP32, Term.FP16, Term.TENSOR))
        bytes_once = min(self.time.dram_bytes, self.account.footprint_bytes)
        moving_us = _moving_us(bytes_once, self.hardware)
        return min(self.time.time_us, self.hardware.model.launch_us + max(own_us, moving_us))

    def what_if(
        self,
        *,
        account: LaunchCounters | None = None,
        table: KernelTable | None = None,
        setting: Setting | None = None,
        waiting: float = 1.0,
    ) -> LaunchTime:
        """Model the same launch with other counts, other instructions or another setting.

        The longest path was found with the counts there are: it shortens as that of an average
        warp does, and to the part `waiting` of it.
        """
        other, mix = account or self.account, table or self.table
        changed = other is not self.account or mix is not self.table
        if changed and other.path_clk:
            before = warp_clk(self.account, self.table, self.hardware)
            after = warp_clk(other, mix, self.hardware)
            waiting *= min(1.0, after / before) if before else 1.0
        path_clk = other.path_clk or warp_clk(other, mix, self.hardware)
        other = replace(other, path_clk=path_clk * waiting, longest_clk=other.longest_clk * waiting)
        return model_launch(other, mix, self.hardware, setting or self.setting)


def place_launch(
    account: LaunchCounters,
    table: KernelTable,
    resources: KernelResources | None,
    hardware: Hardware,
    *,
    resident_bytes: float = 0.0,
    is_first: bool = False,
) -> ModelledLaunch:
    """Put a launch on a chip and model its time.

    Without `resources` the kernel is taken to need 32 registers a thread.
    """
    x, y, z = account.block
    fit = occupancy(
        hardware,
        threads_per_block=x * y * z,
        registers_per_thread=resources.registers if resources else 32,
        shared_bytes=account.static_shared_bytes + account.dynamic_shared_bytes,
    )
    setting = Setting(
        blocks_per_sm=max(1, fit.blocks_per_sm), resident_bytes=resident_bytes, is_first=is_first
    )
    return ModelledLaunch(
        name=resources.kernel if resources else table.symbol,
        account=account,
        table=table,
        hardware=hardware,
        occupancy=fit,
        setting=setting,
        time=model_launch(account, table, hardware, setting),
    )
