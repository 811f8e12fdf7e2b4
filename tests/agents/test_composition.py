"""Two sources behind one `solve`: what is renamed apart, and what is refused by which name."""

from itertools import combinations
from pathlib import Path

import pytest

from cuda_llm.agents.composition import (
    LARGE,
    SMALL,
    CompositionRefused,
    compose,
    describe_refusal,
)
from cuda_llm.source_tokens import defines_solve, is_balanced
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.signature import signature

HONEST = Path(__file__).parents[1] / "fixtures/honest"
SIGNATURE = 'extern "C" void solve(const float* in, float* out, int n)'
PLAIN = f"""#include <cuda_runtime.h>
__global__ void copy(const float* in, float* out, int n) {{ if (threadIdx.x < n) out[0] = in[0]; }}
{SIGNATURE} {{ copy<<<1, 1>>>(in, out, n); }}
"""


def composed(small: str, large: str = PLAIN, defined: tuple[str, ...] = ()) -> object:
    return compose(
        small,
        large,
        signature=SIGNATURE,
        arguments=("in", "out", "n"),
        condition="(long long)n < 100LL",
        defined=defined,
    )


def test_both_stand_in_namespaces_and_solve_chooses_by_the_condition() -> None:
    source = composed(PLAIN, PLAIN.replace("<cuda_runtime.h>", "<cstdint>"))
    assert isinstance(source, str)
    assert defines_solve(source)
    assert is_balanced(source)
    assert source.count('extern "C"') == 1
    assert source.index("#include <cstdint>") < source.index(f"namespace {SMALL} {{")
    assert f"if ((long long)n < 100LL) {{\n        ::{SMALL}::solve(in, out, n);" in source
    assert f"::{LARGE}::solve(in, out, n);" in source


def test_macros_of_one_name_do_not_meet() -> None:
    small, large = (f"#define TILE {tile}\n{PLAIN}".replace("1, 1", "1, TILE") for tile in (8, 16))
    source = composed(
        small.replace("#include <cuda_runtime.h>\n", ""), large.replace("#incl", "//")
    )
    assert isinstance(source, str)
    assert source.count("#undef TILE") == 2
    assert source.index("#undef TILE") < source.index("#define TILE 16")


def test_names_with_c_linkage_become_ordinary_ones() -> None:
    block = PLAIN.replace(SIGNATURE, 'extern "C" int half(int n) { return n / 2; }\n' + SIGNATURE)
    whole = PLAIN.replace('extern "C" ', "").replace("__global__", 'extern "C" {\n__global__', 1)
    for source in (composed(block, block), composed(block, whole + "}\n")):
        assert isinstance(source, str)
        assert source.count('extern "C"') == 1


REFUSED = {
    "no_solve": "__global__ void copy() {}\n",
    "unbalanced": PLAIN + "}\n",
    "directive": "#line 7\n" + PLAIN,
    "conditional_include": f"#ifdef X\n#include <cstdio>\n#endif\n{PLAIN}",
    "macro_before_include": "#define NDEBUG\n" + PLAIN,
    "extern_name": 'extern "C" int puts(const char*);\n' + PLAIN,
    "global_name": PLAIN.replace("copy<<<", "::copy<<<"),
    "named_in_string": f'__constant__ float weights[4];\n{PLAIN}// x\nconst char* w = "weights";\n',
    "reopened_namespace": "namespace std { struct mine {}; }\n" + PLAIN,
}


@pytest.mark.parametrize(("fault", "source"), REFUSED.items())
def test_what_would_mean_something_else_in_a_namespace_is_refused(fault: str, source: str) -> None:
    for part, refused in ((SMALL, composed(source)), (LARGE, composed(PLAIN, source))):
        assert isinstance(refused, CompositionRefused)
        assert (refused.fault, refused.part) == (fault, part)
        assert "are not put together: " in describe_refusal(refused)


def test_a_macro_that_the_other_or_the_command_line_knows_is_refused() -> None:
    defines = PLAIN.replace("__global__", "#define LIMIT 4\n__global__", 1)
    uses = PLAIN.replace("threadIdx.x < n", "threadIdx.x < LIMIT")
    assert composed(defines, uses) == CompositionRefused("macro_clash", "LIMIT")
    assert composed(defines, defined=("LIMIT",)) == CompositionRefused("macro_clash", "LIMIT")
    assert isinstance(composed(defines, defines), str)


def test_a_macro_of_the_kernels_own_may_stand_before_an_include() -> None:
    found = composed("#define TILE 16\n" + PLAIN.replace("1, 1", "1, TILE"))
    assert isinstance(found, str)
    assert found.index("#include") < found.index("#define TILE")


def test_an_include_that_is_text_of_a_macro_or_undoes_one_of_a_header_is_refused() -> None:
    for source in ("#include HEADER\n" + PLAIN, "#undef NULL\n" + PLAIN, "#pragma once\n" + PLAIN):
        refused = composed(source)
        assert isinstance(refused, CompositionRefused)
        assert refused.fault == "directive"


def test_opcodes_and_own_members_are_no_names() -> None:
    asm = 'asm("copy.u32 %0, 1;" : "=r"(x)); using A = struct { int b; };'
    source = PLAIN.replace("copy<<<", f"int x; {asm} std::size_t y = 0; copy<<<")
    assert isinstance(composed(source), str)


@pytest.mark.parametrize("hostile", ["f(" * 5_000, '"' * 5_000, "#define\n" * 2_000, "{" * 9_000])
def test_hostile_text_is_answered_soon(hostile: str) -> None:
    assert composed(PLAIN + hostile) == composed(PLAIN + hostile)


@pytest.mark.parametrize("folder", sorted(HONEST.iterdir()), ids=lambda path: path.name)
def test_any_two_honest_kernels_make_one_source_or_are_refused_by_name(folder: Path) -> None:
    task = load_task(folder.name)
    for small, large in combinations(sorted(folder.glob("*.cu")), 2):
        made = compose(
            small.read_text(),
            large.read_text(),
            signature=signature(task),
            arguments=[one.name for one in task.arguments],
            condition="true",
        )
        if isinstance(made, str):
            assert defines_solve(made)
            assert is_balanced(made)
            assert made.count("#include <cuda_runtime.h>") <= 1
        else:
            assert describe_refusal(made)
