"""What a basic block is lowered to: pure lane operations, and acts in program order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from cuda_llm.tools.emulator.ptx.module import Guard

SpellLanes: TypeAlias = Callable[[str], str]
"""From a register to the C++ spelling of its lane array, or of its mask for a predicate."""


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


Step: TypeAlias = Lane | Act


@dataclass(frozen=True)
class RefusedInstruction:
    """An instruction the emulated device does not execute."""

    opcode: str
