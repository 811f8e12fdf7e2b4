"""What nvcc really writes for arithmetic is in the table."""

import subprocess
from pathlib import Path

import pytest
from corpus_sample import sample

from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.emulator.ops.table import lane_op
from cuda_llm.tools.emulator.ptx.module import Instruction, Vector
from cuda_llm.tools.emulator.ptx.parse import parse

SOURCE = Path(__file__).parents[3] / "fixtures" / "lane_spellings" / "every_intrinsic.cu"
ELSEWHERE = {"ld", "st", "bra", "brx", "cvta", "ret", "exit", "call"}
"""Memory and control flow: not operations of a lane."""


def instructions(target: str, flags: tuple[str, ...], folder: Path) -> list[Instruction]:
    """All instructions nvcc makes of the source."""
    ptx = folder / "out.ptx"
    nvcc = str(find_toolkit().nvcc)
    command = [nvcc, "-ptx", f"-arch={target}", *flags, str(SOURCE), "-o", str(ptx)]
    subprocess.run(command, check=True, capture_output=True)
    module = parse(ptx.read_text())
    return [s for f in module.functions for s in f.body if isinstance(s, Instruction)]


def moves_pieces(instruction: Instruction) -> bool:
    """Is it a `mov` between a register and a vector, which the generator spells itself?"""
    return instruction.opcode[0] == "mov" and any(
        isinstance(operand, Vector) for operand in instruction.operands
    )


def is_known(instruction: Instruction) -> bool:
    """Does the table have an operation for so many sources?"""
    sources = len(instruction.operands) - 1
    op = lane_op(instruction.opcode, sources)
    return op is not None and len(op.arguments) - op.reads_carry == sources


@pytest.mark.parametrize(
    ("target", "flags"),
    sample([("sm_90", ("-use_fast_math",)), ("sm_75", ()), ("sm_86", ()), ("sm_120", ())], every=4),
)
def test_every_spelling_is_known(target: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    found = instructions(target, flags, tmp_path)
    arithmetic = [i for i in found if i.opcode[0] not in ELSEWHERE and not moves_pieces(i)]
    assert len({i.spelling for i in arithmetic}) > 150
    assert {i.spelling for i in arithmetic if not is_known(i)} == set()
