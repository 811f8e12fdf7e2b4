"""Facts in the machine code, read from what nvdisasm lists."""

from pathlib import Path

from cuda_llm.tools.cuda.sass import read_sass
from cuda_llm.tools.device.inspection import SassFacts

LISTING = (Path(__file__).parents[2] / "fixtures/counters/kernels.sass").read_text()


def facts(name: str) -> SassFacts:
    (found,) = [one for one in read_sass(LISTING) if name in one.symbol]
    return found


def test_every_kernel_is_found_by_its_symbol() -> None:
    assert {one.symbol for one in read_sass(LISTING)} == {
        "_Z4widePK6float4PS_PKf",
        "_Z6tensorPK6__halfS1_Pf",
        "_Z7spilledPKfPfi",
    }


def test_wide_accesses_are_told_from_narrow_ones() -> None:
    assert facts("wide").wide_global == (2, 3)
    assert "2 of 3 global accesses 16 bytes wide" in str(facts("wide"))


def test_fused_multiply_adds_are_a_share_of_the_instructions() -> None:
    one = facts("wide")
    assert one.ffma_share == 2 / one.instructions


def test_tensor_instructions_are_not_confused_with_half_arithmetic() -> None:
    assert facts("tensor").tensor == 2
    halves = "\n".join([".text.k:", "        /*0030*/  HFMA2.MMA R0, -RZ, RZ, 0, 0 ;"])
    assert [one.tensor for one in read_sass(halves)] == [0]


def test_local_memory_shows() -> None:
    assert facts("spilled").local > 0
    assert facts("wide").local == 0
    assert "local memory" in str(facts("spilled"))


def test_padding_and_other_text_are_no_kernels() -> None:
    assert read_sass("\n\tcode for sm_90a\n\t.target\tsm_90a\n") == ()
    assert read_sass(".text.k:\n        /*0000*/                   NOP;\n") == ()
