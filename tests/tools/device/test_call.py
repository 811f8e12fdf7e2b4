"""One generic call reaches functions of any signature with every argument intact."""

import ctypes
import math
import random
import struct
import subprocess
from pathlib import Path

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_llm.tools.device import Scalar, protocol
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.protocol import MAX_FLOATS, MAX_INTEGERS, CallFrame
from cuda_llm.tools.native import find_gxx

TOOLS = Path(protocol.__file__).parent.parent
BOUNDS = {
    "bool": (0, 1),
    "signed char": (-(1 << 7), (1 << 7) - 1),
    "unsigned char": (0, (1 << 8) - 1),
    "short": (-(1 << 15), (1 << 15) - 1),
    "int": (-(1 << 31), (1 << 31) - 1),
    "unsigned": (0, (1 << 32) - 1),
    "long long": (-(1 << 63), (1 << 63) - 1),
    "unsigned long long": (0, (1 << 64) - 1),
}
FORMATS = {
    "bool": "?",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "int": "i",
    "unsigned": "I",
    "long long": "q",
    "unsigned long long": "Q",
    "float": "f",
    "double": "d",
}


def _signatures(count: int) -> list[tuple[str, ...]]:
    """Random ones, up to the limits of both kinds in any order."""
    rng = random.Random(20250607)
    chosen = []
    for _ in range(count):
        kinds = [rng.choice(list(BOUNDS)) for _ in range(rng.randint(0, MAX_INTEGERS))]
        kinds += [rng.choice(["float", "double"]) for _ in range(rng.randint(0, MAX_FLOATS))]
        rng.shuffle(kinds)
        chosen.append(tuple(kinds))
    return [*chosen, ("long long",) * MAX_INTEGERS + ("double",) * MAX_FLOATS]


FLOATS = {
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(width=64, allow_nan=False),
}
SIGNATURES = _signatures(150)
Values = list[int | float]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Each `echo_K` writes its arguments one after the other into `seen`."""
    folder = tmp_path_factory.mktemp("call")
    lines = [
        "#include <cstring>",
        '#include "call.h"',
        'extern "C" { unsigned char seen[8 * 32]; unsigned long used; }',
        "template <class T> void put(T v) { std::memcpy(seen + used, &v, sizeof v);",
        "  used += sizeof v; }",
        "template <class... T> void echo(T... v) { used = 0; (put(v), ...); }",
    ]
    for index, kinds in enumerate(SIGNATURES):
        parameters = ", ".join(f"{kind} a{k}" for k, kind in enumerate(kinds))
        names = ", ".join(f"a{k}" for k in range(len(kinds)))
        lines.append(f'extern "C" void echo_{index}({parameters}) {{ echo({names}); }}')
    lines += [
        'extern "C" void call(void* f, const unsigned long* i, const unsigned long* d) {',
        "  runner::call_any(f, *reinterpret_cast<const uint64_t (*)[24]>(i),",
        "                   *reinterpret_cast<const uint64_t (*)[8]>(d)); }",
    ]
    source = folder / "echo.cpp"
    source.write_text("\n".join(lines))
    native = TOOLS / "device" / "native"
    target = folder / "echo.so"
    includes = [f"-I{native}", f"-I{TOOLS / 'emulator' / 'runtime'}"]
    checks = ["-fsanitize=undefined", "-fno-sanitize-recover=all", "-Wall", "-Wextra", "-Werror"]
    command = [find_gxx(), "-std=c++20", "-O1", "-shared", "-fPIC", *checks, *includes]
    subprocess.run([*command, source, native / "call.cpp", "-o", target], check=True)
    return ctypes.CDLL(str(target))


@st.composite
def _calls(draw: st.DrawFn) -> tuple[int, Values]:
    index = draw(st.integers(0, len(SIGNATURES) - 1))
    values: Values = []
    for kind in SIGNATURES[index]:
        if kind in BOUNDS:
            low, high = BOUNDS[kind]
            values.append(draw(st.integers(low, high)))
        else:
            values.append(draw(FLOATS[kind]))
    return index, values


@settings(max_examples=examples(400))
@given(call=_calls())
def test_every_argument_arrives(library: ctypes.CDLL, call: tuple[int, Values]) -> None:
    index, values = call
    kinds = SIGNATURES[index]
    frame = CallFrame()
    scalars = [Scalar(value=v, ctype=k) for v, k in zip(values, kinds, strict=True)]
    put_arguments(frame, scalars, {})
    function = ctypes.cast(getattr(library, f"echo_{index}"), ctypes.c_void_p)
    library.call(function, frame.integers, frame.floats)
    expected = b"".join(
        struct.pack("=" + FORMATS[k], v) for v, k in zip(values, kinds, strict=True)
    )
    used = ctypes.c_ulong.in_dll(library, "used").value
    assert bytes((ctypes.c_ubyte * 256).in_dll(library, "seen"))[:used] == expected


def test_the_bits_of_a_signalling_nan_survive(library: ctypes.CDLL) -> None:
    index = SIGNATURES.index(("long long",) * MAX_INTEGERS + ("double",) * MAX_FLOATS)
    frame = CallFrame()
    frame.floats[0] = 0x7FF0000000000001
    function = ctypes.cast(getattr(library, f"echo_{index}"), ctypes.c_void_p)
    library.call(function, frame.integers, frame.floats)
    seen = bytes((ctypes.c_ubyte * 256).in_dll(library, "seen"))
    assert struct.unpack_from("<Q", seen, 8 * MAX_INTEGERS) == (0x7FF0000000000001,)
    assert math.isnan(struct.unpack_from("<d", seen, 8 * MAX_INTEGERS)[0])
