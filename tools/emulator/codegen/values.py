"""Operands, and special registers, as C++ expressions of a lane."""

import struct
from dataclasses import dataclass, field

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft
from cuda_llm.tools.emulator.ops.lane_op import C_TYPES
from cuda_llm.tools.emulator.ptx.literals import BYTES, as_float
from cuda_llm.tools.emulator.ptx.module import Imm, Operand, Reg, Special, Symbol

_AXES = ("x", "y", "z")
_VECTORS = {
    "tid": ("w->tid[{}][i]", True),
    "ntid": ("w->launch->block[{}]", False),
    "ctaid": ("w->block->ctaid[{}]", False),
    "nctaid": ("w->launch->grid[{}]", False),
    "clusterid": ("emu::cluster_index(w, {})", False),
    "nclusterid": ("emu::cluster_count(w, {})", False),
    "cluster_ctaid": ("emu::cluster_position(w, {})", False),
    "cluster_nctaid": ("emu::cluster_extent(w, {})", False),
}


class NotSupported(Exception):
    """Raised while lowering an instruction that the emulated device lacks, and caught there: the
    kernel is refused."""


@dataclass
class OperandReader:
    """Collects the registers that the C++ expressions of an instruction read."""

    kernel: KernelDraft
    reads: list[str] = field(default_factory=list)
    uniforms: list[tuple[str, str]] = field(default_factory=list)

    def value(self, operand: Operand | None, kind: str, *, negated: bool = False) -> str:
        """Return the C++ expression of an operand as PTX type `kind`."""
        match operand:
            case Reg(name):
                return self._register(name, kind, negated)
            case Imm():
                return immediate(operand, kind)
            case Special(name):
                return f"{C_TYPES[kind]}({self._special(name)})"
            case Symbol():
                return f"{C_TYPES[kind]}({self.address(operand)})"
            case _:
                raise NotSupported

    def undefined(self, operand: Operand | None, kind: str) -> str:
        """Return the C++ expression of the undefined bits of an operand read as PTX type `kind`."""
        if not isinstance(operand, Reg):
            return "false" if kind == "pred" else f"{unsigned_type(kind)}(0)"
        name = self.kernel.bits_name(operand.name)
        return name if kind == "pred" else f"emu::from_bits<{unsigned_type(kind)}>({name})"

    def uniform(self, expression: str) -> str:
        """Name of a value computed once for all lanes."""
        name = self.kernel.uniform()
        self.uniforms.append((name, expression))
        return name

    def address(self, symbol: Symbol) -> str:
        """Return the address of a variable in its own space."""
        place = self.kernel.layout.places.get(symbol.name)
        if place is None:
            raise NotSupported
        if place.space in {"global", "const"}:
            base = self.uniform(f"w->launch->variables[{place.value}]")
            return f"({base} + {symbol.offset})" if symbol.offset else base
        return f"{place.value + symbol.offset}"

    def _register(self, name: str, kind: str, negated: bool) -> str:
        self.reads.append(name)
        spelled = self.kernel.name(name)
        if kind == "pred":
            return f"!{spelled}" if negated else spelled
        return f"emu::from_bits<{C_TYPES[kind]}>({spelled})"

    def _special(self, name: str) -> str:
        found = special(name)
        if found is None:
            raise NotSupported
        return found.expression if found.per_lane else self.uniform(found.expression)


def unsigned_type(kind: str) -> str:
    """Return the C type of the bits of a PTX type."""
    c_type = C_TYPES[kind]
    return {"float": "uint32_t", "double": "uint64_t"}.get(c_type, c_type)


def immediate(value: Imm, kind: str) -> str:
    """Return a literal as PTX type `kind`."""
    if kind == "pred":
        return "true" if value.value else "false"
    bits = value.value
    size = BYTES[kind]
    if value.float_bits and value.float_bits != 8 * size and size in {4, 8}:
        code, integer = ("<f", "<I") if size == 4 else ("<d", "<Q")
        bits = struct.unpack(integer, struct.pack(code, as_float(value)))[0]
    bits &= (1 << 8 * size) - 1
    suffix = "ull" if size == 8 else "u"
    if kind in {"f32", "f64"}:
        return f"emu::from_bits<{C_TYPES[kind]}>({bits:#x}{suffix})"
    return f"{C_TYPES[kind]}({bits:#x}{suffix})"


@dataclass(frozen=True)
class SpecialValue:
    """C++ expression of a special register. `i` is the lane."""

    expression: str
    per_lane: bool = False


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
    **dict.fromkeys(("total_smem_size", "aggr_smem_size"), SpecialValue("w->block->shared_bytes")),
    # Cooperative groups build the address of the grid's barrier out of these two.
    "envreg1": SpecialValue("uint32_t(w->launch->workspace >> 32)"),
    "envreg2": SpecialValue("uint32_t(w->launch->workspace)"),
    "cluster_nctarank": SpecialValue("emu::cluster_size(w)"),
    "cluster_ctarank": SpecialValue("emu::cluster_rank(w)"),
    "is_explicit_cluster": SpecialValue("uint32_t(emu::cluster_size(w) > 1)"),
}


def special(name: str) -> SpecialValue | None:
    """Return the C++ expression of a special register; None where the emulated device lacks it."""
    base, _, axis = name.lstrip("%").partition(".")
    if axis in _AXES and base in _VECTORS:
        text, per_lane = _VECTORS[base]
        return SpecialValue(text.format(_AXES.index(axis)), per_lane)
    other = SpecialValue("uint32_t(0)") if base.startswith("envreg") else None
    return None if axis else _FIXED.get(base, other)
