"""Which instructions of a kernel the emulated device does not execute."""

from collections.abc import Iterable

from cuda_llm.tools.emulator.codegen.sites import Spots
from cuda_llm.tools.emulator.ptx.module import Instruction
from cuda_llm.tools.emulator.tables import Unsupported


def unsupported(refused: Iterable[Instruction], spots: Spots) -> tuple[Unsupported, ...]:
    """Refused instructions grouped by opcode, first place first."""
    found: dict[str, list[Instruction]] = {}
    for instruction in refused:
        found.setdefault(instruction.spelling, []).append(instruction)
    return tuple(
        Unsupported(opcode=opcode, count=len(places), spot=spots.at(places[0].loc))
        for opcode, places in found.items()
    )
