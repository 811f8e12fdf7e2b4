"""How long one warp takes if it never waits for another: the latency side of Little's law.

An SM that holds W warps, each with m requests under way, moves at most W x m requests per latency
(Volkov, "Understanding Latency Hiding on GPUs", 2016). Turned around: a wave of resident blocks
takes at least as long as the chain of dependent waits of one of its warps.
"""

from collections.abc import Sequence

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.spots import SourceSpot
from cuda_llm.tools.emulator.account import LaunchAccount, SiteCount
from cuda_llm.tools.emulator.tables import BasicBlock, InstructionClass, KernelTable, Site
from cuda_llm.tools.profiler.counts import WARP_LANES
from cuda_llm.tools.profiler.traffic import CAS_PASSES, atomic_round_passes, launch_traffic

DEPENDENT_SHARE = 0.5
"""Part of a block's instructions on its longest chain, where that is not known (an estimate)."""

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
    loads = _load_clk_by_block(table.blocks, accesses, hardware)
    return tuple(
        executions * _arithmetic_clk(block, hardware)
        + _shared_clk(executions, here, hardware)
        + waiting
        for block, executions, here, waiting in zip(
            table.blocks, account.block_warps, accesses, loads, strict=True
        )
    )


def warps_per_block(account: LaunchAccount) -> int:
    """Warps of one block, the last possibly not full."""
    x, y, z = account.block
    return -(-x * y * z // WARP_LANES)


def _arithmetic_clk(block: BasicBlock, hardware: Hardware) -> float:
    """A warp issues one instruction a clock at best, and waits along its chain of results."""
    issued = sum(count for kind, count in block.mix.items() if kind is not InstructionClass.FREE)
    chain = block.dependent_chain or issued * DEPENDENT_SHARE
    return max(float(issued), chain * hardware.model.latency_alu_clk)


def _shared_clk(executions: float, accesses: Sequence[Access], hardware: Hardware) -> float:
    latency = hardware.model.latency_shared_clk
    reads = any(_waits_for_shared(*pair) for pair in accesses)
    retries = sum(count.serial for site, count in accesses if _is_cas_loop(site, count))
    return (executions if reads else 0.0) * latency + retries * 2 * latency


def _load_clk_by_block(
    blocks: Sequence[BasicBlock], accesses: Sequence[Sequence[Access]], hardware: Hardware
) -> list[float]:
    """Waiting for global loads.

    Blocks that load on the same lines are copies of an unrolled loop whose guards ptxas turns into
    predicates: their loads are under way together, so only the slowest copy is waited for. Copies
    that also store to global memory wait in turn, for the load may not pass the store.
    """
    clk = [_global_clk(block, here, hardware) for block, here in zip(blocks, accesses, strict=True)]
    slowest: dict[frozenset[SourceSpot | None], int] = {}
    for index, here in enumerate(accesses):
        lines = frozenset(site.spot for site, count in here if _waits_for_global(site, count))
        if not lines or None in lines or any(_stores_to_global(site) for site, _ in here):
            continue
        held = slowest.setdefault(lines, index)
        if held != index:
            quicker, slowest[lines] = sorted((held, index), key=clk.__getitem__)
            clk[quicker] = 0.0
    return clk


def _global_clk(block: BasicBlock, accesses: Sequence[Access], hardware: Hardware) -> float:
    loads = [count for site, count in accesses if _waits_for_global(site, count)]
    if not loads:
        return 0.0
    waits = sum(_load_clk(count, hardware) * count.requests for count in loads)
    return max(1, block.memory_batches) * waits / len(loads)


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


def _stores_to_global(site: Site) -> bool:
    return site.kind in ("store", "atomic") and site.space in ("global", "generic")


def _waits_for_shared(site: Site, count: SiteCount) -> bool:
    return site.kind == "load" and count.wavefronts > 0


def _is_cas_loop(site: Site, count: SiteCount) -> bool:
    on_shared = site.kind == "atomic" and not count.sectors
    return on_shared and atomic_round_passes(site) == CAS_PASSES
