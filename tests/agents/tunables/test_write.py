import re
import subprocess
from itertools import product

import pytest
from corpus_sample import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tunable_sources import points, sources

from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Point, Space
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.source_tokens import normal_sha

KERNEL = """\
#include <cuda_runtime.h>

// Which way.
#define VARIANT 1  // tunable: 0 1
// Edge of the tile.
#define TILE 16    // tunable: 8 16 32
#define ROWS 4     // tunable: 1 2 4; rows of a thread
#define THREADS (TILE * TILE / ROWS)
// tunable-if: ROWS <= TILE
// tunable-hint: latency ROWS=4

#if VARIANT == 0
__global__ void copy() {}
#else
__global__ void turn() { int n = THREADS; }
#endif
"""


def preprocessed(source: str) -> list[str]:
    """What g++ makes of it, or the empty list where it refuses."""
    done = subprocess.run(
        ["g++", "-E", "-P", "-x", "c++", "-std=c++17", "-"],
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.split() if done.returncode == 0 else []


def redefined(source: str, point: Point) -> str:
    """As `-D` would: the declared defaults replaced, nothing else."""
    for name, value in point.items():
        source = re.sub(rf"(#define {name}) -?\d+", rf"\1 {value}", source)
    return source


@settings(max_examples=examples(100))
@given(source=sources, point=points)
def test_a_specialised_kernel_means_what_the_original_means_at_that_point(
    source: str, point: Point
) -> None:
    assert preprocessed(write_point(source, point)) == preprocessed(redefined(source, point))


@settings(max_examples=examples(150))
@given(source=sources, point=points)
def test_specialising_twice_changes_nothing(source: str, point: Point) -> None:
    once = write_point(source, point)
    assert read_space(once) is None
    assert write_point(once, point) == once


@settings(max_examples=examples(100))
@given(source=sources, point=points, other=points)
def test_keeping_the_declarations_changes_the_defaults_alone(
    source: str, point: Point, other: Point
) -> None:
    kept = write_point(source, point, keep_declarations=True)
    assert kept == redefined(source, point)
    assert write_point(kept, other) == write_point(source, other)


def test_a_block_is_resolved_wherever_its_conditions_are_of_tunables_alone() -> None:
    source = (
        "#define N 2  // tunable: 1 2 3\n"
        "#if defined(OTHER)\n"
        "#  if N == 1\none();\n#  elif N == 2 && defined N\ntwo();\n#  else\nmore();\n#  endif\n"
        "#elif N\nnever();\n"
        "#endif\n"
        "#ifndef N\nnone();\n#else\nsome();\n#endif\n"
    )
    assert write_point(source, {"N": 2}) == (
        "#define N 2\n#if defined(OTHER)\ntwo();\n#elif N\nnever();\n#endif\nsome();\n"
    )


def test_a_specialised_kernel_reads_as_if_written_for_its_point() -> None:
    assert write_point(KERNEL, {"VARIANT": 1, "TILE": 32, "ROWS": 2}) == (
        "#include <cuda_runtime.h>\n\n"
        "// Edge of the tile.\n#define TILE 32\n"
        "#define ROWS 2  // rows of a thread\n"
        "#define THREADS (TILE * TILE / ROWS)\n\n"
        "__global__ void turn() { int n = THREADS; }\n"
    )


def test_points_that_differ_where_it_does_not_matter_are_one_kernel() -> None:
    texts = {
        write_point(KERNEL, {"VARIANT": 0, "TILE": tile, "ROWS": rows})
        for tile, rows in product((8, 16, 32), (1, 2, 4))
    }
    assert texts == {"#include <cuda_runtime.h>\n\n__global__ void copy() {}\n"}


@pytest.mark.parametrize(
    "use",
    [
        "#define GLUE(a, b) a##b\nint x = GLUE(TI, LE);\n",
        '_Pragma("unroll TILE") for (;;) {}\n',
        "#ifdef OTHER\nint x = TILE;\n#endif\n",
        "#if TILE > OTHER\n#endif\n",
        "#define LATER TILE\nint x = LATER;\n",
    ],
)
def test_a_tunable_that_may_be_used_stays_defined(use: str) -> None:
    source = f"#define TILE 8  // tunable: 8 16\n{use}"
    assert "#define TILE 16\n" in write_point(source, {"TILE": 16})


def test_a_condition_before_the_declaration_is_left_to_the_preprocessor() -> None:
    source = "#if TILE\nint x;\n#endif\n#define TILE 8  // tunable: 8 16\n"
    assert write_point(source, {"TILE": 8}) == "#if TILE\nint x;\n#endif\n#define TILE 8\n"


@pytest.mark.parametrize(
    "condition", ["TILE / 0", "1u < TILE", "'a' < TILE", "TILE << 64", "TILE +"]
)
def test_what_the_preprocessor_alone_can_judge_is_left_to_it(condition: str) -> None:
    source = f"#define TILE 8  // tunable: 8 16\n#if {condition}\nint x;\n#endif\n"
    assert f"#if {condition}\n" in write_point(source, {"TILE": 8})


@pytest.mark.parametrize("tail", ["#endif\n", "#if TILE\nint x;\n", "#else\n"])
def test_blocks_that_do_not_match_up_are_left_alone(tail: str) -> None:
    source = f"#define TILE 8  // tunable: 8 16\nint y = TILE;\n{tail}"
    expected = f"#define TILE 16\nint y = TILE;\n{tail}"
    assert write_point(source, {"TILE": 16}) == expected


@pytest.mark.parametrize("point", [{}, {"TILE": 9}, {"TILE": 32}])
def test_a_point_outside_of_the_space_is_refused(point: Point) -> None:
    source = "#define TILE 8  // tunable: 8 16 32\n// tunable-if: TILE < 32\n"
    with pytest.raises(ValueError, match="no point"):
        write_point(source, point)


def test_a_source_that_declares_nothing_is_written_as_it_is() -> None:
    assert write_point("#define TILE 8\n", {"TILE": 16}) == "#define TILE 8\n"


@given(st.sampled_from(["\r\n", "\n"]))
def test_line_ends_stay_as_they_are(end: str) -> None:
    text = write_point(KERNEL.replace("\n", end), {"VARIANT": 1, "TILE": 8, "ROWS": 1})
    assert text.count(end) == text.count("\n")
    assert normal_sha(text) == normal_sha(write_point(KERNEL, {"VARIANT": 1, "TILE": 8, "ROWS": 1}))


def test_the_sample_kernel_declares_what_it_says() -> None:
    space = read_space(KERNEL)
    assert isinstance(space, Space)
    assert space.conditions == ("ROWS <= TILE",)
