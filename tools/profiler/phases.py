"""Phases of the longest path through a block: what its clocks go to, and on which lines.

The emulated device counts, for the warp that ends last, what the warp waited for at each site; at a
barrier the warps take over the path of the last to arrive. The rest are instructions: they are
divided among the basic blocks by what each takes by itself.
"""

from collections.abc import Iterator

from cuda_llm.profile import Phase, PhaseKind
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.profiler.counters import SiteCounters
from cuda_llm.tools.profiler.tables import InstructionClass, InstructionSite
from cuda_llm.tools.profiler.time_model import ModelledLaunch
from cuda_llm.tools.profiler.traffic import arithmetic_clk, on_chip_clk

LEAST_PHASE = 0.01
"""Part of the path below which a phase is left out."""
_Part = tuple[PhaseKind, SourceSpot | None, float]


def find_phases(launch: ModelledLaunch) -> tuple[Phase, ...]:
    """Return the phases of the path through an average block, longest first; empty where the path
    was not counted."""
    path_clk = launch.account.path_clk
    waits, own = list(_waits(launch)), list(_instructions(launch))
    waited = sum(clk for _, _, clk in waits)
    if not path_clk or not waited:
        return ()
    # Polls that are taken off a path leave a little more waits than path.
    fits = min(1.0, path_clk / waited)
    rest = max(0.0, path_clk - waited) / (sum(clk for _, _, clk in own) or 1.0)
    by_kind: dict[PhaseKind, dict[SourceSpot | None, float]] = {}
    for parts, factor in ((waits, fits), (own, rest)):
        for kind, spot, clk in parts:
            lines = by_kind.setdefault(kind, {})
            lines[spot] = lines.get(spot, 0.0) + clk * factor
    found = (
        Phase(kind=kind, clk=sum(lines.values()), spot=max(lines, key=lines.__getitem__))
        for kind, lines in by_kind.items()
    )
    shown = (one for one in found if one.clk >= LEAST_PHASE * path_clk)
    return tuple(sorted(shown, key=lambda one: -one.clk))


def _waits(launch: ModelledLaunch) -> Iterator[_Part]:
    for site, count in zip(launch.table.sites, launch.account.sites, strict=True):
        if count.path_clk > 0:
            yield _kind_of(site, count), site.spot, count.path_clk


def _kind_of(site: InstructionSite, count: SiteCounters) -> PhaseKind:
    if site.kind == "barrier":
        return "barrier"
    if site.kind == "atomic":
        return "merge"
    if site.kind in ("store", "bulk_store"):
        return "store"
    if site.kind in ("load", "async_copy", "bulk_load"):
        return "load" if count.sectors or site.kind != "load" else "shared"
    return "compute"


def _instructions(launch: ModelledLaunch) -> Iterator[_Part]:
    """Yield what the warps' executions of each basic block take by themselves."""
    for block, warps in zip(launch.table.blocks, launch.account.block_warps, strict=True):
        shuffles = block.mix.get(InstructionClass.SHUFFLE, 0)
        kind: PhaseKind = "reduce" if shuffles else "compute"
        yield kind, block.spot, warps * arithmetic_clk(block, launch.hardware)
        yield "shared", block.spot, warps * on_chip_clk(block, launch.hardware)
