"""Reading files that are not the candidate's is a violation with its line."""

from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_sample import sample
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.outcomes import CompileFailed, PolicyViolation, Verdict
from cuda_llm.source_tokens import blank_comments
from cuda_llm.tools.compiler.policy import without_line_directives
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.verdict_wording import describe

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
Compile = Callable[..., Compiled | Verdict]

BODY = "\n" + SOLVE + " {}\n"

READS = {
    "absolute": ('#include "/etc/passwd"', "include-outside"),
    "angled": ("#include </etc/passwd>", "include-outside"),
    "absent": ('#include "/no/such/file.h"', "include-outside"),
    "upwards": ('#include "../manifest.json"', "include-outside"),
    "by macro": ("#define F </etc/passwd>\n#include F", "include-outside"),
    "spliced": ('#inc\\\nlude "/etc/hostname"', "include-outside"),
    "incbin": ('asm(".incbin \\"/etc/passwd\\"");', "embed-file"),
    "incbin by pieces": ('asm(".inc" "bin \\"/etc/passwd\\"");', "embed-file"),
    "embed": ('const char d[] = {\n#embed "/etc/hostname"\n};', "embed-file"),
}


@pytest.mark.parametrize("way", READS)
def test_a_file_outside_is_a_violation(compile_source: Compile, way: str) -> None:
    source, rule = READS[way]
    violation = compile_source(source + BODY)

    assert isinstance(violation, PolicyViolation)
    assert violation.rule == rule
    assert violation.spot is not None
    assert violation.spot.file == "mine.cu"
    assert violation.spot.line <= 2


def test_a_file_outside_that_the_jail_shows_is_a_violation_too(
    compile_source: Compile, tmp_path: Path
) -> None:
    (tmp_path / "lent").mkdir()
    violation = compile_source(
        '#include "/usr/share/common-licenses/../../../usr/share/misc/magic"' + BODY
    )

    assert isinstance(violation, PolicyViolation)
    assert violation.rule == "include-outside"


def test_nothing_of_the_file_is_shown(compile_source: Compile, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("the hidden words")

    outcome = compile_source(f'#include "{secret}"' + BODY)

    assert "hidden" not in repr(outcome)


def test_a_line_directive_that_names_another_file_shows_nothing_of_it(
    compile_source: Compile, tmp_path: Path
) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    (tmp_path / "secret").write_text("the hidden words")
    claim = f'#line 1 "{lent}/../secret"\nint mistake = nothing_like_that;\n'

    outcome = compile_source(claim + BODY, include_dirs=(lent,))

    assert "hidden" not in repr(outcome)


def test_a_missing_header_is_only_an_error(compile_source: Compile) -> None:
    failed = compile_source('#include "cutlass/gemm.h"' + BODY)

    assert isinstance(failed, CompileFailed)
    assert "cutlass/gemm.h: No such file" in describe(failed)[0]


def test_comments_and_disabled_lines_are_no_violation(compile_source: Compile) -> None:
    source = (
        '// #embed "x" .incbin\n/* #include "/etc/passwd" */\n'
        '#if 0\n#include "/etc/passwd"\n#endif\n'
    )

    assert isinstance(compile_source(source + BODY), Compiled)


def test_comments_are_blanked_and_strings_stay() -> None:
    source = 'a // b\n"// kept" /* x\ny */ R"(/* kept */)" c'

    assert blank_comments(source) == 'a  \n"// kept"  \n R"(/* kept */)" c'


PEEK = """
__global__ void peek(float* b, int n) {{
    unsigned long long word;
    asm volatile("ld.param.{load};" : "=l"(word));
    if (word == 77) b[0] = n;
}}
"""


@pytest.mark.parametrize(
    "load",
    [
        "u64 %0, [_Z4peekPfi_param_0+8]",
        "u64 %0, [_Z4peekPfi_param_1]",
    ],
)
def test_inline_ptx_reads_no_more_than_the_parameter_it_names(
    compile_source: Compile, load: str
) -> None:
    source = PEEK.format(load=load) + SOLVE + " { peek<<<1, 1>>>(b, n); }"
    verdict = compile_source(source)
    assert isinstance(verdict, PolicyViolation)
    assert verdict.rule == "kernel-parameters"


def test_inline_ptx_may_read_what_a_parameter_holds(compile_source: Compile) -> None:
    source = PEEK.format(load="u64 %0, [_Z4peekPfi_param_0]") + SOLVE + " { peek<<<1, 1>>>(b, n); }"
    assert isinstance(compile_source(source), Compiled)


LINE_DIRECTIVES = {
    "plain": '#line 700 "other.cu"',
    "short": '# 700 "other.cu"',
    "gnu": '# 700 "/usr/include/stdio.h" 1 3',
    "spliced": '#li\\\nne 700 "other.cu"',
    "digraph": '%:line 700 "other.cu"',
    "behind a comment": '/* a */ # /* b */ line 700 "other.cu"',
    "by macro": '#define PLACE 700 "other.cu"\n#line PLACE',
    "number alone": "#line 700",
    "two": '#line 700 "other.cu"\n#line 900 "another.cu"',
}


@pytest.mark.parametrize("way", sample(LINE_DIRECTIVES, every=3))
def test_a_file_cannot_give_its_lines_another_name_or_number(
    compile_source: Compile, way: str
) -> None:
    before = LINE_DIRECTIVES[way]
    failed = compile_source(f"{before}\nint mistake = nothing_like_that;{BODY}")

    assert isinstance(failed, CompileFailed)
    spot = failed.diagnostics[0].spot
    assert spot is not None
    assert (spot.file, spot.line) == ("mine.cu", before.count("\n") + 2)
    assert spot.text == "int mistake = nothing_like_that;"


@pytest.mark.parametrize(
    "source",
    [
        'const char* text = R"(\n#line 7 "a"\n)";',
        "/*\n#line 7\n*/",
        '// a \\\n#line 7 "a"',
        "#define LINE_7 7\n#if LINE_7\n#endif",
        "int lines[] = {\n1,\n2};",
        "#linear 7",
    ],
)
def test_what_is_no_line_directive_stays(source: str) -> None:
    assert without_line_directives(source) == source


@given(st.text(alphabet='#line 7"\\\n/*%:R()x', max_size=60))
def test_blanking_directives_keeps_every_line_where_it_was(source: str) -> None:
    blanked = without_line_directives(source)
    assert len(blanked) == len(source)
    assert [c == "\n" for c in blanked] == [c == "\n" for c in source]
    assert without_line_directives(blanked) == blanked
