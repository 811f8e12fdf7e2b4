"""What a launch asks of the memory system: clocks of the L1/shared data path, L2 and DRAM bytes.

Rules, per site (sources in docs/time-model.md):
- a load asks L2 for what an ideal L1 of its block does not hold, or for every sector where its
  opcode goes past L1;
- a store is written through: every sector of every request travels to L2;
- an atomic on global memory is done in L2: every sector of every request travels there;
- local memory is interleaved by lane and stays in L1; constant memory has a cache of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.emulator.account import LaunchAccount, SiteCount
from cuda_llm.tools.emulator.tables import KernelTable, Site
from cuda_llm.tools.profiler.counts import SECTOR_BYTES, WARP_LANES

WORD_BYTES = 4
L2_SLICE_BYTES_PER_CLK = 64
"""Width of one L2 slice: how many slices, and so atomic units, a chip has (an estimate)."""
L2_LINE_BYTES = 128
ATOMIC_LINE_CLK = 3.4
"""Clocks between two atomic passes on one L2 line: an H200 took 1.77 ns a lane to add floats to one
address (docs/recorded.md)."""
ATOMIC_PASSES = 2
"""Shared-memory passes of one round of a native atomic: read and write (an estimate)."""
CAS_PASSES = 6
"""Passes of one round of a float atomic on shared memory, a compare-and-swap loop."""

_FLOATS = frozenset({"f64", "f32", "f16", "f16x2", "bf16", "bf16x2"})
_PAST_L1 = frozenset({"cg", "cv", "volatile", "relaxed", "acquire", "mmio"})


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Demand on the memory system, summed over the grid."""

    l1_clk: float = 0.0
    """Clocks of the SMs' L1 data path, all SMs together."""
    shared_clk: float = 0.0
    """Clocks of the same data path for shared memory."""
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0
    """First touches of the launch; of each wave of blocks where the footprint exceeds L2."""
    atomic_clk: float = 0.0
    """Clocks of the whole chip for atomics on global memory."""


def launch_traffic(account: LaunchAccount, table: KernelTable, hardware: Hardware) -> Traffic:
    """Traffic of a whole launch."""
    pairs = list(zip(table.sites, account.sites, strict=True))
    total = _sum(site_traffic(site, count, hardware) for site, count in pairs)
    atomics = [count for site, count in pairs if site.kind == "atomic" and count.sectors]
    return replace(total, atomic_clk=_l2_atomic_clk(atomics, account.blocks_total, hardware))


def site_traffic(site: Site, count: SiteCount, hardware: Hardware) -> Traffic:
    """Traffic of one memory instruction, but for the turns that atomics of all of them take."""
    if site.space in ("", "const"):
        return Traffic()
    request_clk = WARP_LANES / hardware.pipes.load_store
    shared_clk = shared_passes(site, count) * request_clk
    if not count.sectors:
        return Traffic(shared_clk=shared_clk)
    sector_clk = SECTOR_BYTES / (WORD_BYTES * hardware.pipes.load_store)
    l1_clk = max(count.requests * request_clk, count.sectors * sector_clk)
    if site.space == "local":
        return Traffic(l1_clk=l1_clk)
    to_l2 = _l2_sectors(site, count)
    dram_sectors = min(count.dram_sectors, to_l2)
    return Traffic(
        l1_clk=l1_clk,
        shared_clk=shared_clk,
        l2_bytes=to_l2 * SECTOR_BYTES,
        dram_bytes=dram_sectors * SECTOR_BYTES,
    )


def shared_passes(site: Site, count: SiteCount) -> float:
    """Passes over the banks of shared memory, retries of atomics included."""
    if site.kind != "atomic" or count.sectors:
        return count.wavefronts
    return max(count.wavefronts, count.serial) * atomic_round_passes(site)


def atomic_round_passes(site: Site) -> int:
    """Passes of one round of a shared-memory atomic. Floats have no native instruction."""
    is_float = not _FLOATS.isdisjoint(_parts(site))
    return CAS_PASSES if is_float else ATOMIC_PASSES


def l2_slices(hardware: Hardware) -> float:
    """How many L2 slices work side by side."""
    return max(1.0, hardware.model.l2_bytes_per_clk / L2_SLICE_BYTES_PER_CLK)


def _l2_sectors(site: Site, count: SiteCount) -> float:
    if site.kind in ("load", "async_copy") and _PAST_L1.isdisjoint(_parts(site)):
        return min(count.l2_sectors, count.sectors)
    return count.sectors


def _l2_atomic_clk(atomics: Sequence[SiteCount], blocks: int, hardware: Hardware) -> float:
    """The slices work side by side, a pass a clock each; a line takes its passes in turn.

    A request passes once a sector, and once more for each further lane on the same address.
    """
    passes = sum(max(0.0, count.sectors + count.serial - count.requests) for count in atomics)
    sectors = max(
        1.0,
        sum(count.dram_sectors for count in atomics),
        sum(count.l2_sectors for count in atomics) / max(1, blocks),
    )
    lines = max(1.0, sectors * SECTOR_BYTES / L2_LINE_BYTES)
    return passes * max(1 / l2_slices(hardware), ATOMIC_LINE_CLK / lines)


def _parts(site: Site) -> set[str]:
    return set(site.opcode.split("."))


def _sum(parts: Iterable[Traffic]) -> Traffic:
    parts = list(parts)
    return Traffic(
        l1_clk=sum(part.l1_clk for part in parts),
        shared_clk=sum(part.shared_clk for part in parts),
        l2_bytes=sum(part.l2_bytes for part in parts),
        dram_bytes=sum(part.dram_bytes for part in parts),
    )
