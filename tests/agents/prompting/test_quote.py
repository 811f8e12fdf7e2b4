"""Quoted text: clean, bounded, and unable to leave its fence; hidden facts are hidden."""

import re
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.agents.llm.generator import find_blocks
from cuda_llm.agents.prompting.quote import (
    clean,
    fence,
    hide,
    hide_in_comments,
    hide_in_verdict,
    log_lines,
    mark_lines,
    one_line,
    shorten,
)
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import list_hardware
from cuda_llm.outcomes import (
    CompileFailed,
    Diagnostic,
    ExceededLimit,
    ImpossibleTime,
    LaunchFailed,
    LimitName,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import normal_sha
from cuda_llm.verdict_wording import describe

ANY = st.text(st.one_of(st.characters(), st.sampled_from("`~\n\r\t\x1b\x00")))


@given(ANY)
def test_a_fence_holds_its_text_whole(text: str) -> None:
    blocks = find_blocks(fence(clean(text), "text"))
    assert len(blocks) == 1
    assert blocks[0].closed
    assert blocks[0].text == clean(text).rstrip()


@given(ANY)
def test_clean_text_steers_no_terminal(text: str) -> None:
    assert all(c.isprintable() or c in "\n\t" for c in clean(text))
    assert clean(clean(text)) == clean(text)


@given(ANY, st.integers(10, 200))
def test_one_line_is_one_short_line(text: str, most: int) -> None:
    line = one_line(text, most)
    assert len(line) <= most
    assert line.isprintable()
    assert "`" not in line


@given(ANY)
def test_a_log_has_no_long_line_and_no_fence(text: str) -> None:
    quoted = log_lines(text)
    assert max(map(len, quoted.split("\n"))) <= 400
    assert not re.search(r"`{3}|~{3}", quoted)


def test_what_is_long_loses_its_middle() -> None:
    assert shorten("a" * 300 + "b" * 300, 21) == "aaaaaaaa ... bbbbbbbb"


MESSAGES = (
    "ptxas error: Entry function 'k' uses too much shared data (0x19000 bytes, 0xc000 max)",
    "error: 2048 threads a block, at most 1024",
    "ptxas error: k uses 300 registers, maximum of 255 registers",
    "Value 'sm_86' is not defined for option 'gpu-name' (compute_86)",
)


@pytest.mark.parametrize("hardware", list_hardware(), ids=lambda hardware: hardware.slug)
def test_no_name_and_no_limit_of_any_known_gpu_gets_through(hardware: Hardware) -> None:
    names = (hardware.name, *hardware.aliases, hardware.architecture, hardware.target)
    text = "; ".join([*MESSAGES, *names, *(name.upper() for name in names)])
    hidden = hide(text, hardware, "none").lower()
    for word in (*names, "0xc000", "1024", "255"):
        assert word.lower() not in hidden
    assert hardware.name in hide(text, hardware, "name")
    assert hardware.target not in hide(text, hardware, "name")
    assert hide(text, hardware, "full") == text


@pytest.mark.parametrize("hardware", list_hardware(), ids=lambda hardware: hardware.slug)
def test_texts_that_a_verdict_quotes_are_hidden_and_its_facts_stay(hardware: Hardware) -> None:
    spot = SourceSpot(file="mine.cu", line=3, text=f"k(); // at most 1024 on {hardware.name}")
    text = "; ".join([*MESSAGES, hardware.name, hardware.target])
    refused = CompileFailed(
        compiler_output=text,
        diagnostics=(Diagnostic(severity="error", message=text, spot=spot, fault="too-large"),),
    )
    hidden = hide_in_verdict(refused, hardware, "none")
    assert isinstance(hidden, CompileFailed)
    assert hidden.diagnostics[0].fault == "too-large"
    assert hidden.diagnostics[0].spot
    assert hidden.diagnostics[0].spot.line == 3
    text = "\n".join(describe(hidden, hardware_figures=False)).lower()
    for word in (hardware.name, hardware.target, "0xc000", "1024", "255"):
        assert word.lower() not in text
    assert hide_in_verdict(refused, hardware, "full") == refused


@pytest.mark.parametrize("name", get_args(LimitName))
def test_a_limit_of_a_launch_is_named_only_where_figures_may_be(name: LimitName) -> None:
    limit = ExceededLimit(name=name, asked=70_000, allowed=1_234, axis="x", most_bytes=5_678)
    refused = LaunchFailed(kernel="k", error="cudaErrorInvalidValue", limit=limit)
    assert "1,234" in "\n".join(describe(refused))
    hidden = "\n".join(describe(refused, hardware_figures=False))
    assert "70,000" in hidden
    assert not re.search(r"1.?234|5.?678", hidden)


def test_the_floor_of_a_time_is_named_only_where_figures_may_be() -> None:
    impossible = ImpossibleTime(time_us=1.2, floor_us=3.4)
    assert "3.4" in "\n".join(describe(impossible))
    assert "3.4" not in "\n".join(describe(impossible, hardware_figures=False))


def test_code_stays_as_it_is_where_comments_are_cleaned() -> None:
    hardware = list_hardware()[0]
    source = f"int limit = 1024; // at most 1024 on {hardware.name}\nchar* s = 0; /* sm_86 */\n"
    hidden = hide_in_comments(source, hardware, "none")
    assert "int limit = 1024;" in hidden
    assert hardware.name not in hidden
    assert "sm_86" not in hidden
    assert hidden.count("\n") == source.count("\n")


KERNEL = """\
// a kernel
#define TILE 16  // tunable: 8 16
#define TWICE(x) \\
    (2 * (x))
/* what it
   does */ __global__ void k(float* p)
{
    p[0] = R"(
)"[0];

    p[1] = 0;
    p[2] = 0;  //:99
}
"""


def spot(line: int, text: str = "") -> SourceSpot:
    return SourceSpot(file="mine.cu", line=line, text=text or KERNEL.split("\n")[line - 1].strip())


def test_cited_lines_and_every_tenth_have_their_number() -> None:
    marked = mark_lines(KERNEL, [spot(line) for line in range(1, 13) if line != 12])
    (*_, last) = lines = marked.split("\n")[:-1]
    assert lines[10] == "    p[1] = 0;  //:11"
    assert lines[5] == "   does */ __global__ void k(float* p)  //:6"
    assert last == "}"
    # What ends in a comment or a token, goes on, or is empty, has none; nor a copied mark.
    assert [n for n, line in enumerate(lines, 1) if "//:" in line] == [4, 6, 7, 9, 11]
    long = "int x;\n" * 25
    assert re.findall(r"//:(\d+)", mark_lines(long, ())) == ["10", "20"]


def test_a_line_of_a_header_is_no_line_of_the_kernel() -> None:
    assert "//:11" not in mark_lines(KERNEL, [spot(11, "return x;")])


@given(st.text(alphabet="ab1 \n\\\"/*R()#;:'", max_size=80), st.integers(1, 12))
def test_numbers_of_lines_leave_the_code_as_it_is(source: str, line: int) -> None:
    shown = mark_lines(source, [SourceSpot(file="x", line=line, text="a")])
    assert normal_sha(shown) == normal_sha(source)
    assert mark_lines(shown, ()) == mark_lines(source, ())
    assert len(shown.split("\n")) == len(source.split("\n"))
