"""The interface between the operation tables and the code generator.

A lane operation maps the values of a lane to new values of the same lane. It is named by C++
functions declared in `runtime/emu/arith.h` (namespace emu), one for each result, all taking the
same arguments. Arguments and results are typed by PTX type names; registers are stored as raw bits,
and the generator converts with `emu::from_bits<T>(raw)` (a wider register is cut) and
`emu::to_register<Raw>(value)` (integers keep their value, so a wider register is zero- or
sign-extended).

`setp` always gives `p|q`; a result without a destination is dropped. Predicates are passed and
returned lane by lane, as `bool`.
"""

from dataclasses import dataclass

from cuda_llm.tools.profiler.tables import InstructionClass

C_TYPES = {
    "pred": "bool",
    "b8": "uint8_t",
    "u8": "uint8_t",
    "s8": "int8_t",
    "b16": "uint16_t",
    "u16": "uint16_t",
    "s16": "int16_t",
    "f16": "uint16_t",
    "bf16": "uint16_t",
    "u16x2": "uint32_t",
    "s16x2": "uint32_t",
    "b32": "uint32_t",
    "u32": "uint32_t",
    "s32": "int32_t",
    "f16x2": "uint32_t",
    "bf16x2": "uint32_t",
    "f32": "float",
    "b64": "uint64_t",
    "u64": "uint64_t",
    "s64": "int64_t",
    "f32x2": "uint64_t",
    "f64": "double",
}
"""C++ type in which a lane function takes or returns a value of each PTX type."""


@dataclass(frozen=True, kw_only=True)
class LaneOp:
    """Semantics of an opcode spelling for each lane: C++ functions and PTX types."""

    functions: tuple[str, ...]
    """C++ functions, one for each result, e.g. `("emu::add_f32",)`."""
    results: tuple[str, ...]
    """PTX type of each result. A register wider than its result is zero- or sign-extended."""
    arguments: tuple[str, ...]
    """PTX type of each argument, in operand order; a vector operand contributes its items."""
    reads_carry: bool = False
    """The last argument is the carry flag (`pred`), not an operand."""
    writes_carry: bool = False
    """The last result is the carry flag (`pred`), not an operand."""
    vectorises: bool = True
    """False for operations that g++ cannot vectorise (division, calls), which get a loop of their
    own."""
    pipe: InstructionClass = InstructionClass.INT
    issues: int = 1
    """Instructions of its pipe that it is worth: two for a pair of floats."""
