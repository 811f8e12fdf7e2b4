"""g++ makes right code of what the emulated device is built with."""

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from cuda_llm.tools.emulator.codegen.libraries import KERNEL_FLAGS, LIBRARY_FLAGS, OPTIMISED
from cuda_llm.tools.native import build, find_gxx

LOOP = Path(__file__).parent / "switch_in_loop.cpp"
WORDS = (0x3C003C00, 0x12345678)
EXPECTED = {
    0: [0x3C00, 0x3C00, 0x5678, 0x1234],
    1: [0x3C00, 0x3C00, 0x5678, 0x1234],
    2: [word >> 13 for word in WORDS],
    3: [0x00, 0x3C, 0x00, 0x3C, 0x78, 0x56, 0x34, 0x12],
    5: list(WORDS),
    7: [0x00, 0x3C, 0x00, 0x3C, 0x78, 0x56, 0x34, 0x12],
    9: list(WORDS),
}
"""What the words hold, by the number of the element's type."""


@pytest.mark.parametrize("flags", [LIBRARY_FLAGS, (*OPTIMISED, *KERNEL_FLAGS)])
def test_no_part_is_compiled_by_the_pass_that_some_compilers_break(flags: Sequence[str]) -> None:
    asked = [find_gxx(), *flags, "-Wno-error", "-Q", "--help=optimizers"]
    passes = dict(
        line.split()[:2]
        for line in subprocess.run(
            asked, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        if len(line.split()) == 2
    )
    assert passes["-funswitch-loops"] == "[disabled]"


def test_a_switch_in_a_loop_keeps_its_cases() -> None:
    library = ctypes.CDLL(str(build("switch_in_loop.so", [LOOP], LIBRARY_FLAGS, LOOP.parent)))
    words = (ctypes.c_uint32 * len(WORDS))(*WORDS)
    for element, expected in EXPECTED.items():
        found = (ctypes.c_uint32 * len(expected))()
        library.unpack(found, element, words, len(expected))
        assert list(found) == expected
