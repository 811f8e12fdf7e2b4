"""Textures and surfaces end in one verdict that names them and says what to use instead."""

import asyncio
import re
from pathlib import Path

import pytest
from device_calls import compiled

from cuda_llm.outcomes import EmulatorUnsupported, PolicyBreach, PolicyViolation
from cuda_llm.tools.compiler.audit import allowed, in_known_library
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.open_device import open_emulated
from cuda_llm.tools.profiler.tables import KernelTable
from cuda_llm.verdict_wording import describe

SOURCE = (Path(__file__).parents[2] / "fixtures" / "devices" / "textures.cu").read_text()
FAMILIES = {"tex", "tld4", "txq", "suld", "sust", "sured", "suq"}


@pytest.fixture(scope="module")
def kernels() -> tuple[KernelTable, ...]:
    """The tables of one kernel for each kind of instruction, and of a plain one."""
    built = asyncio.run(compiled(SOURCE, open_emulated("H200").hardware.target))
    return generate(parse(built.ptx.read_text(), "kernel.cu"), (), "kernel.cu", SOURCE).kernels


def test_every_kind_of_texture_and_surface_instruction_is_refused_by_name(
    kernels: tuple[KernelTable, ...],
) -> None:
    refused = [one for kernel in kernels for one in kernel.unsupported]
    assert [len(kernel.unsupported) for kernel in kernels].count(0) == 1
    assert {one.opcode.partition(".")[0] for one in refused} == FAMILIES
    for one in refused:
        assert one.spot is not None
        assert one.spot.line > 0
        words = describe(EmulatorUnsupported(opcode=one.opcode, kernel="k", spot=one.spot))
        assert one.opcode in words[0]
        assert "__ldg" in words[0]


def test_every_runtime_call_for_textures_surfaces_and_arrays_is_refused_by_name() -> None:
    header = (find_toolkit().root / "include" / "cuda_runtime_api.h").read_text()
    declared = set(re.findall(r"\b(cuda\w*(?:Texture|Surface|Array|ChannelDesc)\w*)\(", header))
    assert len(declared) > 30
    for name in declared:
        assert not allowed(name, versioned=False), name
        assert in_known_library(name, versioned=False), name
        breach = PolicyBreach(kind="forbidden-call", names=(name,))
        (words,) = describe(PolicyViolation(rule="import", breach=breach))
        assert name in words
        assert "__ldg" in words, name
