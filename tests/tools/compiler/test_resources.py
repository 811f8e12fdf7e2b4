"""ptxas's figures become kernels under their own names."""

import asyncio

import pytest

from cuda_llm.tools.compiler.diagnostics import name_kernels, parse_resources
from cuda_llm.tools.compiler.names import _undecorated, demangle, without_parameters

PTXAS = """\
ptxas info    : 16 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function '_Z3genIfEvPT_' for 'sm_86'
ptxas info    : Function properties for _Z3genIfEvPT_
    40 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, 256 bytes smem, 8 bytes cmem[0], 6 bytes cmem[2]
ptxas info    : Compile time = 13.544 ms
ptxas info    : Function properties for _Z6helperf
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function '_ZN12_GLOBAL__N_13addEPKfi' for 'sm_86'
ptxas info    : Function properties for _ZN12_GLOBAL__N_13addEPKfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 380 bytes cmem[0]
"""


def test_each_kernel_has_its_figures_and_name() -> None:
    tile, add = asyncio.run(name_kernels(parse_resources(PTXAS.splitlines())))

    assert (tile.kernel, tile.symbol) == ("gen<float>", "_Z3genIfEvPT_")
    assert (tile.registers, tile.shared_bytes, tile.constant_bytes) == (255, 256, 14)
    assert (tile.stack_bytes, tile.spill_store_bytes, tile.spill_load_bytes) == (40, 24, 32)
    assert (add.kernel, add.registers, add.shared_bytes) == ("(anonymous namespace)::add", 12, 0)


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void tile<4, float>(float*, int)", "tile<4, float>"),
        ("add(float const*, int)", "add"),
        ("(anonymous namespace)::k(int)", "(anonymous namespace)::k"),
        ("void apply<(Mode)1>(void (*)(int), float)", "apply<(Mode)1>"),
        ("plain_c_name", "plain_c_name"),
    ],
)
def test_parameters_and_return_type_are_dropped(signature: str, name: str) -> None:
    assert without_parameters(signature) == name


def test_symbols_without_decoration_stay() -> None:
    assert asyncio.run(demangle(["kernel", "_Z3addPf"])) == {
        "kernel": "kernel",
        "_Z3addPf": "add(float*)",
    }
    assert asyncio.run(demangle([])) == {}


def test_plain_functions_are_readable_without_binutils() -> None:
    assert _undecorated("_Z3addPKfi") == "add"
    assert _undecorated("kernel") == "kernel"
