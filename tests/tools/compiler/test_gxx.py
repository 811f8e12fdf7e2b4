"""Generated C++ becomes a library in the cache, in a jail."""

import asyncio
import ctypes
from pathlib import Path

from cuda_llm.outcomes import CompileFailed, InfraFailed, TimedOut
from cuda_llm.tools.compiler.candidate import CompileLimits
from cuda_llm.tools.compiler.gxx import compile_cpp


def test_source_with_headers_becomes_a_library_once(own_cache: Path, tmp_path: Path) -> None:
    headers = tmp_path / "headers"
    headers.mkdir()
    (headers / "seven.h").write_text("#define SEVEN 7\n")
    source = '#include "seven.h"\nextern "C" int seven() { return SEVEN; }\n'

    async def build() -> tuple[object, object]:
        made = await compile_cpp(source, include_dirs=[headers], flags=["-O1", "-march=native"])
        return made, await compile_cpp(
            source, include_dirs=[headers], flags=["-O1", "-march=native"]
        )

    first, second = asyncio.run(build())
    assert isinstance(first, Path)
    assert first == second
    assert first.is_relative_to(own_cache)
    assert ctypes.CDLL(str(first)).seven() == 7

    (headers / "seven.h").write_text("#define SEVEN 8\n")
    changed = asyncio.run(build())[0]
    assert isinstance(changed, Path)
    assert changed != first
    assert ctypes.CDLL(str(changed)).seven() == 8


def test_what_does_not_build_is_our_failure() -> None:
    failed = asyncio.run(compile_cpp("int f() { return missing; }"))

    assert isinstance(failed, InfraFailed)
    assert failed.code == "INFRA_EMULATOR"
    assert "generated.cpp:1" in failed.detail
    assert "missing" in failed.detail


def test_files_outside_are_not_there(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text('#error "hidden words"')

    failed = asyncio.run(compile_cpp(f'#include "{secret}"\n'))

    assert isinstance(failed, InfraFailed)
    assert "Permission denied" in failed.detail
    assert "hidden" not in failed.detail


def test_limits_hold(own_cache: Path) -> None:
    deep = "template <int A, int N> struct T { T<2 * A, N - 1> a; T<2 * A + 1, N - 1> b; };\n"
    source = deep + "template <int A> struct T<A, 0> {};\nT<1, 24> t;\n"

    late = asyncio.run(compile_cpp(source, limits=CompileLimits(wall_s=0.5)))
    large = asyncio.run(compile_cpp(source, limits=CompileLimits(memory_bytes=160 << 20)))

    assert isinstance(late, TimedOut)
    assert isinstance(large, CompileFailed)
    assert large.reason.endswith("needs more than 160 MiB of memory")
    assert list((own_cache / "work").iterdir()) == []
