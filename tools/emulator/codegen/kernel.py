"""A kernel during its translation: registers, symbols, sites, and the steps of its blocks."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from cuda_llm.tools.emulator.codegen.layout import Layout
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import Guard, Instruction, Loc

Origins: TypeAlias = Literal["lane", "group", "moved"]
"""Where an undefined result of an act comes from: values of the same lane, of any lane of the warp,
or the lane whose value it is."""

Use: TypeAlias = Literal["address", "branch", "access", "atomic", "collective", "operand"]
"""What a value decides; the names of `emu::Use`."""

SpellLanes: TypeAlias = Callable[[str], str]
"""Function from a register to the C++ spelling of its lane array, or of a predicate's mask."""


@dataclass(frozen=True)
class Lane:
    """A pure operation on each lane by itself.

    `results` pairs a register with a C++ expression, in which a register is spelled as the scalar
    of its C name and a uniform as its name.
    """

    results: tuple[tuple[str, str], ...]
    reads: tuple[str, ...]
    guard: Guard | None = None
    uniforms: tuple[tuple[str, str], ...] = ()
    """Values the same in all lanes: C name and expression, computed before the loop."""
    vectorises: bool = True
    undefined: tuple[str, ...] = ()
    """C++ of the undefined bits of each result, in which the undefined bits of a register are
    spelled by `KernelDraft.bits_name`. Empty: all bits of a result, where any bit read is."""

    @property
    def writes(self) -> tuple[str, ...]:
        """Return the registers it sets."""
        return tuple(register for register, _ in self.results)


@dataclass(frozen=True)
class Act:
    """Something that must happen in order: a memory access, a collective, a trap.

    `code` makes the C++, which uses `q` for the mask of lanes that take part.
    """

    code: Callable[[SpellLanes], str]
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    guard: Guard | None = None
    narrows: bool = False
    """A collective: it may park lanes, so it changes the mask of the block."""
    enter: Callable[[SpellLanes], str] | None = None
    """C++ before `code` and `moves`: the join of a collective."""
    moves: Callable[[SpellLanes], str] | None = None
    """C++ that moves `data` and nothing else, which serves for undefined bits as for values. Where
    it is None, no register read may be undefined."""
    data: tuple[str, ...] = ()
    """Registers read or written whose values the act moves; all others read decide what it does."""
    origins: Origins = "lane"
    site: int | None = None
    """Site of its instruction, in a kernel that tracks undefined values."""
    use: Use = "operand"
    """What an undefined value that is not data would be used for."""


Step: TypeAlias = Lane | Act


@dataclass(frozen=True)
class RefusedInstruction:
    """An instruction the emulated device does not execute."""

    opcode: str


@dataclass(frozen=True)
class SiteDraft:
    """A memory, barrier or collective instruction, before its line is known as a spot."""

    opcode: str
    space: str
    kind: str
    bytes: int
    block: int
    loc: Loc | None
    waits: int = 0
    """Wait for the site's result, in 256ths of a latency (`waits.py`)."""
    copy: int = 0
    loop: int = 0
    """Number of the unrolled loop that the site is in; 0 outside unrolled loops."""
    steers: bool = False
    """Whether the loaded value decides a branch or an address."""
    updates: int = 0
    """Bits of `emu::AtomOp`: the operation of an atomic; of a load, the operations of other threads
    that it may race with, since it only guards one of them (`guards.py`)."""
    width: int | None = None
    """Bytes per lane of the instruction into which ptxas merges the access; 0 where another access
    of the group counts for the instruction, None where the access is not merged (`merging.py`)."""
    shift: int = 0
    """Bytes from the access's address to the merged instruction's address."""


@dataclass
class KernelDraft:
    """A kernel being translated. Mutable: lowering adds temporaries and sites."""

    layout: Layout
    registers: dict[str, str]
    tracks: bool = False
    """Whether the kernel computes which bits of its values are undefined."""
    block: int = 0
    """Basic block being lowered."""
    sites: list[SiteDraft] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _counter: int = 0
    unfenced: dict[int, int] = field(default_factory=dict)
    """Site that may have written a wgmma's registers since the last fence, by the wgmma."""

    def name(self, register: str) -> str:
        """Return the C name of a register."""
        found = self._names.get(register)
        if found is None:
            base = found = "v_" + re.sub(r"\W", "_", register.lstrip("%"))
            while found in self._taken:
                self._counter += 1
                found = f"{base}_{self._counter}"
            self._taken.add(found)
            self._names[register] = found
        return found

    def bits_name(self, register: str) -> str:
        """Return the C name of the undefined bits of a register."""
        return f"d_{self.name(register)}"

    def origin_name(self, register: str) -> str:
        """Return the C name of where the undefined bits of a register come from."""
        return f"o_{self.name(register)}"

    def number(self, register: str) -> int:
        """Return the number that the runtime knows a register by."""
        return self._numbers.setdefault(register, len(self._numbers))

    def bytes(self, register: str) -> int:
        """Return the width of a register."""
        return BYTES[self.registers[register]]

    def is_predicate(self, register: str) -> bool:
        """Return whether a register is stored as a mask."""
        return self.registers[register] == "pred"

    def raw(self, register: str) -> str:
        """Return the C type of a register's lanes."""
        return "bool" if self.is_predicate(register) else f"uint{8 * self.bytes(register)}_t"

    def temporary(self, kind: str) -> str:
        """Return a new register."""
        self._counter += 1
        name = f"%t.{self._counter}"
        self.registers[name] = kind
        return name

    def uniform(self) -> str:
        """Return the C name for a value that is the same in all lanes."""
        self._counter += 1
        return f"u{self._counter}"

    def site(self, instruction: Instruction, kind: str, space: str = "", size: int = 0) -> int:
        """Number of a new site for `instruction`."""
        self.sites.append(
            SiteDraft(instruction.spelling, space, kind, size, self.block, instruction.loc)
        )
        return len(self.sites) - 1
