"""Every spelling of the toolkit's own inline PTX is executed, or listed with the reason why not."""

import re

import numpy as np
import pytest
from device_calls import run
from header_ptx import inline_ptx

from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse

HEAD = ".version 9.0\n.target sm_100a\n.address_size 64\n"

NOT_EXECUTED = {
    r"tcgen05\.": "tensor memory of Blackwell",
    r"multimem\.": "memory of several GPUs behind one address",
    r"tensormap\.|fence\.proxy\.tensormap": "tensor maps changed on the device",
    r"clusterlaunchcontrol\.|mov\.b128": "clusters that take over the work of others",
    r"cp\.async\.bulk\.tensor\..*cta_group": "pairs of blocks of Blackwell",
    r"cp\.async\.bulk\.tensor\..*(gather4|scatter4)": "gathered and scattered rows of tiles",
    r"cp\.async\.bulk\..*cp_mask": "bulk copies that leave bytes out",
    r"st\.bulk\.": "zeroing of shared memory by Blackwell",
    r"(ld|st|atom)\..*b128": "registers of 128 bits",
    r"cvt\..*(e2m1x2|e2m3x2|e3m2x2|ue8m0x2)": "floats of 4 and 6 bits, and scales",
    r"shfl\.(bfly|down|idx|up)\.b32": "shuffles without a mask, which end with sm_70",
    r"mov\.u32": "shared memory that CUDA reserves (%reserved_smem_offset_1)",
    r"mov\.u64": "graphs that run on the device (%current_graph_exec)",
}
"""Pattern of opcodes that the emulated device refuses, and what they are for."""


@pytest.fixture(scope="module")
def refused() -> dict[str, str]:
    """A file for each opcode of the headers that has no rule."""
    found: dict[str, str] = {}
    texts = [one for one in inline_ptx(find_toolkit().root / "include") if ";" in one.text]
    assert len(texts) > 2500
    for one in texts:
        (kernel,) = generate(parse(HEAD + one.kernel, "k"), (), "k", "").kernels
        found |= {unsupported.opcode: one.file for unsupported in kernel.unsupported}
    return found


def test_every_spelling_of_the_headers_has_a_rule_or_a_reason(refused: dict[str, str]) -> None:
    def is_listed(opcode: str) -> bool:
        return any(re.match(pattern, opcode) for pattern in NOT_EXECUTED)

    assert {opcode: file for opcode, file in refused.items() if not is_listed(opcode)} == {}


def test_every_reason_is_needed(refused: dict[str, str]) -> None:
    for pattern in NOT_EXECUTED:
        assert any(re.match(pattern, opcode) for opcode in refused), pattern


SPELLED_BY_CUB = """
__global__ void votes(const int* value, int* out)
{
    int mine = value[threadIdx.x];
    int found;
    asm("{ .reg .pred p; setp.ne.u32 p, %1, 0; vote.ballot.sync.b32 %0, p, 0xffffffff; }"
        : "=r"(found) : "r"(mine & 4));
    out[threadIdx.x] = found;
}

extern "C" void solve(const int* value, int* out) { votes<<<1, 64>>>(value, out); }
"""


def test_a_vote_is_the_same_in_the_order_in_which_cub_spells_it() -> None:
    value = np.random.default_rng(3).integers(0, 8, 64).astype(np.int32)
    called = run(SPELLED_BY_CUB, {"value": value, "out": np.zeros(64, np.int32)}, ["out"])
    assert called.report
    bits = ((value & 4) != 0).reshape(2, 32).astype(np.uint32) << np.arange(32, dtype=np.uint32)
    expected = np.repeat(bits.sum(axis=1, dtype=np.uint32), 32)
    assert (called.outputs["out"].view(np.uint32) == expected).all()
