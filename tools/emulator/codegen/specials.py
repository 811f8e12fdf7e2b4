"""Special registers: `%tid.x`, `%laneid`, `%clock64` ..."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SpecialValue:
    """How a special register is read. `i` is the lane."""

    expression: str
    per_lane: bool = False


_AXES = {"x": 0, "y": 1, "z": 2}

_FIXED = {
    "laneid": SpecialValue("uint32_t(i)", per_lane=True),
    "warpid": SpecialValue("emu::warp_slot(w)"),
    "nwarpid": SpecialValue("emu::warp_slots()"),
    "smid": SpecialValue("emu::multiprocessor(w)"),
    "nsmid": SpecialValue("emu::multiprocessors()"),
    "gridid": SpecialValue("emu::grid_number(w)"),
    "lanemask_eq": SpecialValue("(1u << i)", per_lane=True),
    "lanemask_lt": SpecialValue("((1u << i) - 1u)", per_lane=True),
    "lanemask_le": SpecialValue("((2u << i) - 1u)", per_lane=True),
    "lanemask_gt": SpecialValue("~((2u << i) - 1u)", per_lane=True),
    "lanemask_ge": SpecialValue("~((1u << i) - 1u)", per_lane=True),
    "clock": SpecialValue("uint32_t(emu::cycles(w))"),
    "clock_hi": SpecialValue("uint32_t(emu::cycles(w) >> 32)"),
    "clock64": SpecialValue("emu::cycles(w)"),
    "globaltimer": SpecialValue("emu::timer_ns(w)"),
    "globaltimer_lo": SpecialValue("uint32_t(emu::timer_ns(w))"),
    "globaltimer_hi": SpecialValue("uint32_t(emu::timer_ns(w) >> 32)"),
    "dynamic_smem_size": SpecialValue("w->launch->dynamic_shared_bytes"),
    "total_smem_size": SpecialValue("w->block->shared_bytes"),
    "aggr_smem_size": SpecialValue("w->block->shared_bytes"),
    # Cooperative groups build the address of the grid's barrier out of these two.
    "envreg1": SpecialValue("uint32_t(w->launch->workspace >> 32)"),
    "envreg2": SpecialValue("uint32_t(w->launch->workspace)"),
    # Without clusters every block is a cluster of its own.
    "cluster_ctarank": SpecialValue("uint32_t(0)"),
    "cluster_nctarank": SpecialValue("uint32_t(1)"),
    "is_explicit_cluster": SpecialValue("uint32_t(0)"),
}

_VECTORS = {
    "tid": ("w->tid[{}][i]", True),
    "ntid": ("w->launch->block[{}]", False),
    "ctaid": ("w->block->ctaid[{}]", False),
    "nctaid": ("w->launch->grid[{}]", False),
    "clusterid": ("w->block->ctaid[{}]", False),
    "nclusterid": ("w->launch->grid[{}]", False),
    "cluster_ctaid": ("uint32_t(0)", False),
    "cluster_nctaid": ("uint32_t(1)", False),
}


def special(name: str) -> SpecialValue | None:
    """Return how to read a special register; None where the emulated device has none such."""
    base, _, axis = name.lstrip("%").partition(".")
    if axis in _AXES and base in _VECTORS:
        text, per_lane = _VECTORS[base]
        return SpecialValue(text.format(_AXES[axis]), per_lane)
    if not axis and base.startswith("envreg"):
        return _FIXED.get(base, SpecialValue("uint32_t(0)"))
    return None if axis else _FIXED.get(base)
