"""Guarded copies of a loop's body wait together: they have the same lines, or the same loads."""

import pytest

from cuda_llm.tools.emulator.codegen.flow import GuardedBranch
from cuda_llm.tools.emulator.codegen.kernel import Act, SiteDraft
from cuda_llm.tools.emulator.codegen.waits import (
    AT_ONCE,
    BlockInstructions,
    LoweredInstruction,
    place_waits,
)
from cuda_llm.tools.emulator.ptx.module import Address, Guard, Instruction, Loc, Reg

COPIES = 4


def guarded_loads(
    loc: Loc | None, *, opcodes: tuple[str, ...] = ("f32",) * COPIES, chained: bool = False
) -> tuple[list[SiteDraft], list[BlockInstructions]]:
    """A block for each load, each skipped where its predicate is false."""
    sites, blocks = [], []
    for number, kind in enumerate(opcodes):
        base = f"x{number - 1}" if chained and number else "p"
        opcode = ("ld", "global", kind)
        operands = (Reg(f"x{number}"), Address(Reg(base), 4 * number))
        step = Act(lambda array: "", reads=(base,), writes=(f"x{number}",))
        one = LoweredInstruction(
            Instruction(opcode, operands, loc=loc), [step], range(number, number + 1)
        )
        end = GuardedBranch(Guard(Reg(f"inside{number}"), False), number + 1, number + 1)
        blocks.append(BlockInstructions([one], end))
        sites.append(SiteDraft(".".join(opcode), "global", "load", 4, number, loc))
    # The last block is followed by one without loads.
    last = len(opcodes)
    blocks.append(BlockInstructions([], GuardedBranch(Guard(Reg("end"), False), last, last)))
    return sites, blocks


@pytest.mark.parametrize("loc", [Loc("solve.cu", 7), None])
def test_copies_wait_together_in_the_kernel_s_text_and_in_a_library_s(loc: Loc | None) -> None:
    placed = place_waits(*guarded_loads(loc))
    assert [site.loop for site in placed] == [1] * COPIES
    assert [site.copy for site in placed] == [1, 2, 3, 4]


def test_no_more_copies_wait_together_than_loads_of_one_block() -> None:
    placed = place_waits(*guarded_loads(None, opcodes=("f32",) * (2 * AT_ONCE + 1)))
    assert [site.loop for site in placed] == [1] * AT_ONCE + [2] * AT_ONCE + [3]


@pytest.mark.parametrize("loc", [Loc("solve.cu", 7), None])
def test_loads_from_loaded_addresses_wait_one_after_another(loc: Loc | None) -> None:
    placed = place_waits(*guarded_loads(loc, chained=True))
    assert [site.loop for site in placed] == [0] * COPIES


def test_other_loads_of_a_library_are_no_copies() -> None:
    opcodes = ("f32", "f32", "b64", "f32")
    placed = place_waits(*guarded_loads(None, opcodes=opcodes))
    assert [site.loop for site in placed] == [1, 1, 0, 1]
