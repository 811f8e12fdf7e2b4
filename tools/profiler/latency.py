"""How long one warp takes if it never waits for another: the latency side of Little's law.

An SM that holds W warps, each with m requests under way, moves at most W x m requests per latency
(Volkov, "Understanding Latency Hiding on GPUs", 2016). Turned around: a wave of resident blocks
takes at least as long as the chain of dependent waits of one of its warps.
"""

from collections.abc import Sequence

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.emulator.account import LaunchAccount, SiteCount
from cuda_llm.tools.emulator.tables import BasicBlock, InstructionClass, KernelTable, Site
from cuda_llm.tools.profiler.counts import WARP_LANES
from cuda_llm.tools.profiler.traffic import CAS_PASSES, atomic_round_passes, launch_traffic

DEPENDENT_SHARE = 0.5
"""Part of a warp's instructions that wait for the one before them (an estimate)."""

Access = tuple[Site, SiteCount]


def warp_clk(account: LaunchAccount, table: KernelTable, hardware: Hardware) -> float:
    """Clocks of an average warp's chain of waits, from its first instruction to its last."""
    warps = warps_per_block(account) * account.blocks_total
    if not warps:
        return 0.0
    chains = sum(block_clk(account, table, hardware))
    traffic = launch_traffic(account, table, hardware)
    barriers = account.barriers * hardware.model.latency_shared_clk
    return (chains + traffic.l1_clk + traffic.shared_clk + barriers) / warps


def block_clk(account: LaunchAccount, table: KernelTable, hardware: Hardware) -> tuple[float, ...]:
    """Clocks of waiting in each basic block, summed over the warps of the grid."""
    accesses: list[list[Access]] = [[] for _ in table.blocks]
    for site, count in zip(table.sites, account.sites, strict=True):
        if site.space and count.requests:
            accesses[site.block].append((site, count))
    return tuple(
        executions * _arithmetic_clk(block, hardware)
        + _memory_clk(block, executions, here, hardware)
        for block, executions, here in zip(table.blocks, account.block_warps, accesses, strict=True)
    )


def warps_per_block(account: LaunchAccount) -> int:
    """Warps of one block, the last possibly not full."""
    x, y, z = account.block
    return -(-x * y * z // WARP_LANES)


def _arithmetic_clk(block: BasicBlock, hardware: Hardware) -> float:
    issued = sum(count for kind, count in block.mix.items() if kind is not InstructionClass.FREE)
    return issued * DEPENDENT_SHARE * hardware.model.latency_alu_clk


def _memory_clk(
    block: BasicBlock, executions: float, accesses: Sequence[Access], hardware: Hardware
) -> float:
    clk = 0.0
    loads = [pair for pair in accesses if _waits_for_global(*pair)]
    if loads:
        slowest = sum(_load_clk(count, hardware) * count.requests for _, count in loads)
        clk += max(1, block.memory_batches) * slowest / len(loads)
    if any(_waits_for_shared(*pair) for pair in accesses):
        clk += executions * hardware.model.latency_shared_clk
    retries = sum(count.serial for site, count in accesses if _is_cas_loop(site, count))
    return clk + retries * 2 * hardware.model.latency_shared_clk


def _load_clk(count: SiteCount, hardware: Hardware) -> float:
    """Latency of an average request: it waits for its slowest sector."""
    model = hardware.model
    to_dram = min(1.0, count.dram_sectors / count.requests)
    to_l2 = max(0.0, min(1.0, count.l2_sectors / count.requests) - to_dram)
    in_l1 = 1.0 - to_dram - to_l2
    return (
        to_dram * model.latency_dram_clk
        + to_l2 * model.latency_l2_clk
        + in_l1 * model.latency_l1_clk
    )


def _waits_for_global(site: Site, count: SiteCount) -> bool:
    return site.kind in ("load", "async_copy") and site.space != "const" and count.sectors > 0


def _waits_for_shared(site: Site, count: SiteCount) -> bool:
    return site.kind == "load" and count.wavefronts > 0


def _is_cas_loop(site: Site, count: SiteCount) -> bool:
    on_shared = site.kind == "atomic" and not count.sectors
    return on_shared and atomic_round_passes(site) == CAS_PASSES
