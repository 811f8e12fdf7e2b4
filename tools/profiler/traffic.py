"""Bytes that a launch moves and clocks for which its warps wait: the two sides of Little's law.

An SM that holds W warps, each with m requests in flight, moves at most W x m requests per latency
(Volkov, "Understanding Latency Hiding on GPUs", 2016). Conversely, a wave of resident blocks takes
at least as long as the chain of dependent waits of one of its warps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import LaunchCounters, SiteCounters
from cuda_llm.tools.profiler.counts import SECTOR_BYTES, WARP_LANES
from cuda_llm.tools.profiler.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
)

WORD_BYTES = 4
BULK = ("bulk_load", "bulk_store")
"""Copies beside the warps."""
CONSTANT_SPACES = ("const", "param")
"""State spaces that lie in constant memory, parameters among them."""
L2_SLICE_BYTES_PER_CLK = 64
"""Bytes per clock of an L2 slice, which gives the number of slices and atomic units of a chip (an
estimate)."""
L2_LINE_BYTES = 128
ATOMIC_LINE_CLK = 3.4
"""Clocks between two atomic passes on the same L2 line: an H200 took 1.77 ns per lane to add floats
to the same address (docs/recorded.md)."""
ATOMIC_PASSES = 1
"""Shared-memory passes of a round of a native atomic: an H200 takes 31.6 clocks to add integers of
a warp to one word."""
CAS_PASSES = 6
"""Shared-memory passes of a round of a float atomic, a compare-and-swap loop."""

_FLOATS = frozenset({"f64", "f32", "f16", "f16x2", "bf16", "bf16x2"})
_PAST_L1 = frozenset({"cg", "cv", "volatile", "relaxed", "acquire", "mmio"})

DEPENDENT_SHARE = 0.5
"""Part of a block's instructions on its longest chain, where that is not known (an estimate)."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Demand on the memory system, summed over the grid."""

    l1_clk: float = 0.0
    """Clocks of the SMs' L1 data path, all SMs together."""
    shared_clk: float = 0.0
    """Clocks of the data path of L1 and shared memory for accesses to shared memory."""
    l2_bytes: float = 0.0
    l2_clk: float = 0.0
    """Clocks of all L2 slices side by side."""
    dram_bytes: float = 0.0
    """First touches of the launch; of each wave of blocks where the footprint exceeds L2."""
    atomic_clk: float = 0.0
    """Clocks of the whole chip for atomics on global memory."""


def launch_traffic(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> Traffic:
    """Return the traffic of a whole launch."""
    pairs = list(zip(table.sites, account.sites, strict=True))
    total = _sum(site_traffic(site, count, hardware) for site, count in pairs)
    atomics = [count for site, count in pairs if site.kind == "atomic" and count.sectors]
    if account.worst_line:
        passes = sum(_l2_passes(count) for count in atomics)
        atomic_clk = max(passes / l2_slices(hardware), account.worst_line * ATOMIC_LINE_CLK)
    else:
        atomic_clk = _l2_atomic_clk(atomics, account.blocks_total, hardware)
    return replace(total, atomic_clk=atomic_clk)


def site_traffic(site: InstructionSite, count: SiteCounters, hardware: Hardware) -> Traffic:
    """Return the traffic of a memory instruction, without the serialisation of atomics."""
    if site.space == "":
        return Traffic()
    request_clk = WARP_LANES / hardware.pipes.load_store
    if site.space in CONSTANT_SPACES:
        # A pass serves one word: a word that all lanes read comes with the instruction.
        return Traffic(shared_clk=max(0.0, count.wavefronts - count.requests) * request_clk)
    shared_clk = shared_passes(site, count) * request_clk
    if not count.sectors:
        return Traffic(shared_clk=shared_clk)
    sector_clk = SECTOR_BYTES / (WORD_BYTES * hardware.pipes.load_store)
    # L1 looks up a line of a request a clock, however little of the line is wanted.
    lines = max(count.requests, count.lines)
    l1_clk = max(lines * request_clk, count.sectors * sector_clk)
    if site.kind in BULK:
        # The copy engine's way into shared memory passes L1 by.
        l1_clk = 0.0
    to_l2 = _l2_sectors(site, count)
    dram_sectors = min(count.dram_sectors, to_l2)
    return Traffic(
        l1_clk=l1_clk,
        shared_clk=shared_clk,
        l2_bytes=to_l2 * SECTOR_BYTES,
        l2_clk=_l2_clk(count, to_l2, hardware),
        dram_bytes=dram_sectors * SECTOR_BYTES,
    )


def shared_passes(site: InstructionSite, count: SiteCounters) -> float:
    """Return passes over the banks of shared memory, with retries of atomics."""
    if site.kind != "atomic" or count.sectors:
        return count.wavefronts
    return max(count.wavefronts, count.serial) * atomic_round_passes(site)


def atomic_round_passes(site: InstructionSite) -> int:
    """Return the passes of a round of a shared-memory atomic. Floats have no native instruction."""
    is_float = not _FLOATS.isdisjoint(_parts(site))
    return CAS_PASSES if is_float else ATOMIC_PASSES


def l2_slices(hardware: Hardware) -> float:
    """Return how many L2 slices work side by side."""
    return max(1.0, hardware.model.l2_bytes_per_clk / L2_SLICE_BYTES_PER_CLK)


def _l2_sectors(site: InstructionSite, count: SiteCounters) -> float:
    if site.space == "local":
        # Stores stay in L1 until their line is pushed out.
        return count.l2_sectors
    if site.kind in ("load", "async_copy") and _PAST_L1.isdisjoint(_parts(site)):
        return min(count.l2_sectors, count.sectors)
    return count.sectors


def _l2_clk(count: SiteCounters, sectors: float, hardware: Hardware) -> float:
    """Return the clocks of L2: a slice serves a line of a request per clock, and two sectors of the
    line per clock."""
    lines = count.lines * sectors / count.sectors
    slots = max(sectors * SECTOR_BYTES, lines * L2_SLICE_BYTES_PER_CLK)
    return slots / hardware.model.l2_bytes_per_clk


def _l2_atomic_clk(atomics: Sequence[SiteCounters], blocks: int, hardware: Hardware) -> float:
    """Return the clocks of atomics in L2: slices work in parallel at a pass per clock, and a line
    serves its passes in turn.

    Where the passes of each line were not counted, all lines are assumed to have equally many
    passes.
    """
    passes = sum(_l2_passes(count) for count in atomics)
    sectors = max(
        1.0,
        sum(count.dram_sectors for count in atomics),
        sum(count.l2_sectors for count in atomics) / max(1, blocks),
    )
    lines = max(1.0, sectors * SECTOR_BYTES / L2_LINE_BYTES)
    return passes * max(1 / l2_slices(hardware), ATOMIC_LINE_CLK / lines)


def _l2_passes(count: SiteCounters) -> float:
    """Return the passes of atomics over L2: a pass for each sector, and a pass for each further
    lane on an address."""
    return max(0.0, count.sectors + count.serial - count.requests)


def _parts(site: InstructionSite) -> set[str]:
    return set(site.opcode.split("."))


def _sum(parts: Iterable[Traffic]) -> Traffic:
    parts = list(parts)
    return Traffic(
        l1_clk=sum(part.l1_clk for part in parts),
        shared_clk=sum(part.shared_clk for part in parts),
        l2_bytes=sum(part.l2_bytes for part in parts),
        l2_clk=sum(part.l2_clk for part in parts),
        dram_bytes=sum(part.dram_bytes for part in parts),
    )


SiteAccess = tuple[InstructionSite, SiteCounters]


@dataclass(frozen=True, kw_only=True)
class Waits:
    """Clocks for which an average warp waits from its first instruction to its last."""

    loads: float = 0.0
    """Clocks of waiting for global memory."""
    chains: float = 0.0
    """Clocks of waiting for dependent results, and for shared memory."""
    barriers: float = 0.0
    data_path: float = 0.0
    """Clocks of the warp's passes over L1 and shared memory."""

    @property
    def all(self) -> float:
        """Return the clocks of all waits together."""
        return self.loads + self.chains + self.barriers + self.data_path


def warp_clk(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> float:
    """Return the clocks of an average warp's chain of waits, from first to last instruction."""
    return warp_waits(account, table, hardware).all


def first_turn_share(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> float:
    """Return the part (0 to 1) of an average block's path that runs each loop once: 0 where the
    path was not counted.

    A wait of the path is divided by the times that a warp executes the instruction; instructions
    count once for each basic block that any warp of the thread block executes.
    """
    warps = warps_per_block(account) * account.blocks_total
    if not account.path_clk or not warps:
        return 0.0
    waits = sum(one.path_clk for one in account.sites)
    once = sum(one.path_clk / max(1.0, one.requests / warps) for one in account.sites)
    own = sum(
        (arithmetic_clk(block, hardware) + on_chip_clk(block, hardware))
        * min(1.0, executed / account.blocks_total)
        for block, executed in zip(table.blocks, account.block_warps, strict=True)
    )
    # Polls that are taken off a path leave a little more waits than path.
    once *= min(1.0, account.path_clk / waits) if waits else 0.0
    return min(1.0, (once + own) / account.path_clk)


def warp_waits(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> Waits:
    """Return the clocks for which an average warp waits, by kind of wait."""
    warps = warps_per_block(account) * account.blocks_total
    if not warps:
        return Waits()
    whole = sum(block_clk(account, table, hardware))
    loads = sum(load_clk(account, table, hardware))
    traffic = launch_traffic(account, table, hardware)
    return Waits(
        loads=loads / warps,
        chains=(whole - loads) / warps,
        barriers=account.barriers * hardware.model.latency_shared_clk / warps,
        data_path=(traffic.l1_clk + traffic.shared_clk) / warps,
    )


def _by_block(account: LaunchCounters, table: KernelTable) -> list[list[SiteAccess]]:
    accesses: list[list[SiteAccess]] = [[] for _ in table.blocks]
    for site, count in zip(table.sites, account.sites, strict=True):
        if site.space and count.requests:
            accesses[site.block].append((site, count))
    return accesses


def block_clk(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> tuple[float, ...]:
    """Return the clocks of waiting in each basic block, summed over the warps of the grid."""
    accesses = _by_block(account, table)
    loads = load_clk(account, table, hardware)
    return tuple(
        executions * arithmetic_clk(block, hardware)
        + _shared_clk(executions, here, hardware)
        + waiting
        for block, executions, here, waiting in zip(
            table.blocks, account.block_warps, accesses, loads, strict=True
        )
    )


def warps_per_block(account: LaunchCounters) -> int:
    """Return the number of warps of a block; the last warp may be partly filled."""
    x, y, z = account.block
    return -(-x * y * z // WARP_LANES)


def arithmetic_clk(block: BasicBlock, hardware: Hardware) -> float:
    """Return the clocks of a block's arithmetic: a warp issues at most an instruction per clock,
    and waits along its chain of results."""
    issued = sum(count for kind, count in block.mix.items() if kind is not InstructionClass.FREE)
    chain = block.dependent_chain or issued * DEPENDENT_SHARE
    return max(float(issued), chain * hardware.model.latency_alu_clk)


def on_chip_clk(block: BasicBlock, hardware: Hardware) -> float:
    """Return the clocks for which one execution of a basic block waits for shared memory, and for
    local and constant memory at loaded addresses."""
    model = hardware.model
    return block.shared_waits * model.latency_shared_clk + block.cached_waits * model.latency_l1_clk


def _shared_clk(executions: float, accesses: Sequence[SiteAccess], hardware: Hardware) -> float:
    latency = hardware.model.latency_shared_clk
    reads = any(_waits_for_shared(*pair) for pair in accesses)
    retries = sum(count.serial for site, count in accesses if _is_cas_loop(site, count))
    return (executions if reads else 0.0) * latency + retries * 2 * latency


def load_clk(account: LaunchCounters, table: KernelTable, hardware: Hardware) -> list[float]:
    """Return the clocks of waiting for global loads, by basic block, summed over the warps.

    Blocks that load on the same lines are copies of an unrolled loop whose guards ptxas turns into
    predicates: their loads are under way together, so only the slowest copy is waited for. Copies
    that also store to global memory wait in turn, for the load may not pass the store.
    """
    accesses = _by_block(account, table)
    pairs = zip(table.blocks, accesses, strict=True)
    clk = [_global_clk(block, here, hardware) for block, here in pairs]
    slowest: dict[frozenset[SourceSpot | None], int] = {}
    for index, here in enumerate(accesses):
        lines = frozenset(site.spot for site, count in here if _waits_for_global(site, count))
        if not lines or None in lines or any(_stores_to_global(site) for site, _ in here):
            continue
        slowest_index = slowest.setdefault(lines, index)
        if slowest_index != index:
            quicker, slowest[lines] = sorted((slowest_index, index), key=clk.__getitem__)
            clk[quicker] = 0.0
    return clk


def _global_clk(block: BasicBlock, accesses: Sequence[SiteAccess], hardware: Hardware) -> float:
    loads = [count for site, count in accesses if _waits_for_global(site, count)]
    if not loads:
        return 0.0
    waits = sum(_load_clk(count, hardware) * count.requests for count in loads)
    return max(1, block.memory_batches) * waits / len(loads)


def wait_clk(site: InstructionSite, count: SiteCounters, hardware: Hardware) -> float:
    """Return the clocks that warps wait for a load, were each request alone; 0 for others."""
    if not count.requests or not (_waits_for_global(site, count) or _waits_for_shared(site, count)):
        return 0.0
    on_chip = count.requests * hardware.model.latency_shared_clk
    return _load_clk(count, hardware) * count.requests if count.sectors else on_chip


def _load_clk(count: SiteCounters, hardware: Hardware) -> float:
    """Return the latency of an average request, which waits for its slowest sector."""
    model = hardware.model
    to_dram = min(1.0, count.dram_sectors / count.requests)
    to_l2 = max(0.0, min(1.0, count.l2_sectors / count.requests) - to_dram)
    in_l1 = 1.0 - to_dram - to_l2
    return (
        to_dram * model.latency_dram_clk
        + to_l2 * model.latency_l2_clk
        + in_l1 * model.latency_l1_clk
    )


def _waits_for_global(site: InstructionSite, count: SiteCounters) -> bool:
    return site.kind in ("load", "async_copy") and count.sectors > 0


def _stores_to_global(site: InstructionSite) -> bool:
    return site.kind in ("store", "atomic") and site.space in ("global", "generic")


def _waits_for_shared(site: InstructionSite, count: SiteCounters) -> bool:
    on_shared = site.space not in CONSTANT_SPACES
    return site.kind == "load" and on_shared and count.wavefronts > 0


def _is_cas_loop(site: InstructionSite, count: SiteCounters) -> bool:
    on_shared = site.kind == "atomic" and not count.sectors
    return on_shared and atomic_round_passes(site) == CAS_PASSES
