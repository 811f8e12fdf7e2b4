"""Counts of a launch, in total and by source line: counted, nothing modelled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.tables import InstructionClass, InstructionSite, KernelTable

WARP_LANES = 32
SECTOR_BYTES = 32


@dataclass(frozen=True, kw_only=True)
class InstructionMix:
    """Warp instructions by the pipe they use, without those that ptxas folds away."""

    warps: Mapping[InstructionClass, float]
    lanes: float
    """Active lanes, summed over warp instructions."""

    @property
    def issued(self) -> float:
        """Return warp instructions of all classes."""
        return sum(self.warps.values())

    @property
    def simd_efficiency(self) -> float:
        """Return active lanes over 32 a warp instruction; 1 means no divergence and full warps."""
        return min(1.0, self.lanes / (WARP_LANES * self.issued)) if self.issued else 1.0


@dataclass(frozen=True, kw_only=True)
class LineAccess:
    """Accesses of one kind to one memory space on one source line."""

    spot: SourceSpot | None
    space: str
    kind: str
    requests: float
    lanes: float
    sectors: float
    ideal_sectors: float
    wavefronts: float
    ideal_wavefronts: float
    worst_ways: int
    serial: float

    @property
    def sectors_per_request(self) -> float:
        """Return the distinct 32-byte sectors that an average request touches."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        """Return the sectors that the same bytes would touch, side by side."""
        return self.ideal_sectors / self.requests if self.requests else 0.0

    @property
    def useful_byte_share(self) -> float:
        """Return bytes requested over bytes moved in sectors, at most 1."""
        return self.ideal_sectors / self.sectors if self.sectors else 1.0

    @property
    def bank_ways(self) -> float:
        """Return passes over those needed without conflicts, on average; 1 means none."""
        return self.wavefronts / self.ideal_wavefronts if self.ideal_wavefronts else 1.0

    @property
    def serial_lanes(self) -> float:
        """Return the lanes of an average atomic request that wait for the same address."""
        return self.serial / self.requests if self.requests else 0.0


def count_instructions(account: LaunchCounters, table: KernelTable) -> InstructionMix:
    """Count the instructions of a launch: executions of each basic block times its composition."""
    warps: dict[InstructionClass, float] = {}
    lanes = 0.0
    for block, executions, active in zip(
        table.blocks, account.block_warps, account.block_lanes, strict=True
    ):
        for kind, count in block.mix.items():
            if kind is not InstructionClass.FREE:
                warps[kind] = warps.get(kind, 0.0) + count * executions
                lanes += count * active
    return InstructionMix(warps=warps, lanes=lanes)


def count_tensor_operations(account: LaunchCounters, table: KernelTable) -> dict[str, float]:
    """Return additions and multiplications on tensor cores, by the peak that holds for them."""
    counts: dict[str, float] = {}
    for block, executions in zip(table.blocks, account.block_warps, strict=True):
        for kind, count in block.tensor.items():
            counts[kind] = counts.get(kind, 0.0) + count * executions
    return counts


def ideal_sectors(site: InstructionSite, count: SiteCounters) -> float:
    """Return the sectors of the same requests with neighbouring lanes at neighbouring addresses.

    Never more than they do touch: lanes that share an address need fewer.
    """
    side_by_side = count.lanes * site.bytes / SECTOR_BYTES
    return min(count.sectors, max(count.requests, side_by_side))


def accesses_by_line(account: LaunchCounters, table: KernelTable) -> tuple[LineAccess, ...]:
    """Merge memory accesses by line, space and kind, in the order the lines first appear."""
    groups: dict[
        tuple[SourceSpot | None, str, str], list[tuple[InstructionSite, SiteCounters]]
    ] = {}
    for site, count in zip(table.sites, account.sites, strict=True):
        if site.space and count.requests:
            groups.setdefault((site.spot, site.space, site.kind), []).append((site, count))
    return tuple(_merge(spot, space, kind, pairs) for (spot, space, kind), pairs in groups.items())


def _merge(
    spot: SourceSpot | None,
    space: str,
    kind: str,
    pairs: Iterable[tuple[InstructionSite, SiteCounters]],
) -> LineAccess:
    pairs = list(pairs)
    counts = [count for _, count in pairs]
    return LineAccess(
        spot=spot,
        space=space,
        kind=kind,
        requests=sum(count.requests for count in counts),
        lanes=sum(count.lanes for count in counts),
        sectors=sum(count.sectors for count in counts),
        ideal_sectors=sum(ideal_sectors(site, count) for site, count in pairs),
        wavefronts=sum(count.wavefronts for count in counts),
        ideal_wavefronts=sum(count.ideal_wavefronts for count in counts),
        worst_ways=max(count.worst_ways for count in counts),
        serial=sum(count.serial for count in counts),
    )
