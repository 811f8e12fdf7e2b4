"""Replies: the kernel is found wherever a model puts it, and every other answer has its name."""

import html
import time
from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cuda_llm.agents.llm.generator import MOST_SOURCE, read_reply
from cuda_llm.conversation import Reply
from cuda_llm.outcomes import NoCode, ReplyFault
from cuda_llm.search import Draft
from cuda_llm.verdict_wording import describe

KERNEL = """\
__global__ void add(const float* A, const float* B, float* C, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) C[i] = A[i] + B[i];
}
"""
SOLVE = """\
extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    add<<<(n + 255) / 256, 256>>>(A, B, C, n);
}
"""
FILE = f"// one element a thread\n#include <cuda_runtime.h>\n\n{KERNEL}\n{SOLVE}"
PROSE = "Each thread adds one pair of elements, neighbours beside neighbours."


def fenced(text: str, language: str = "cuda", ticks: str = "```") -> str:
    return f"{ticks}{language}\n{text}{ticks}\n"


def read(text: str, **fields: str) -> Draft | NoCode:
    return read_reply(Reply(text=text, **fields))  # type: ignore[arg-type]


def source_of(text: str, **fields: str) -> str:
    drafted = read(text, **fields)
    assert isinstance(drafted, Draft), drafted
    return drafted.source


def kind_of(text: str, **fields: str) -> str:
    drafted = read(text, **fields)
    assert isinstance(drafted, NoCode), drafted
    assert describe(drafted)[0] != drafted.kind
    return drafted.kind


LAYOUTS = {
    "a cuda block": fenced(FILE),
    "a cpp block": fenced(FILE, "cpp"),
    "a block with attributes": fenced(FILE, "cuda filename=solve.cu"),
    "a block without language": fenced(FILE, ""),
    "capitals": fenced(FILE, "CUDA"),
    "tildes": fenced(FILE, "cuda", "~~~"),
    "more ticks": fenced(FILE, "cuda", "`````"),
    "prose around it": f"{PROSE}\n\n{fenced(FILE)}\nIt is coalesced.\n",
    "a fence at the end of a line of prose": f"Here it is: {fenced(FILE)}",
    "an unclosed fence": f"{PROSE}\n```cuda\n{FILE}",
    "no fence": FILE,
    "no fence, prose around it": f"{PROSE}\n\n{FILE}\nThis is coalesced.\n",
    "an indented block of a list": "1. The file:\n"
    + "".join(f"   {line}\n" for line in fenced(FILE).rstrip().split("\n")),
    "Windows line ends": fenced(FILE).replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + fenced(FILE),
    "HTML entities": html.escape(fenced(FILE), quote=False),
    "reasoning in front": f"<think>\n{fenced(SOLVE)}\n</think>\n{fenced(FILE)}",
    "reasoning whose beginning is lost": f"I could {fenced(SOLVE)} ...</think>\n{fenced(FILE)}",
    "a shell block behind it": fenced(FILE) + "Compile it:\n" + fenced("nvcc solve.cu\n", "bash"),
    "a draft and the final file": fenced(FILE.replace("255", "127")) + "Better:\n" + fenced(FILE),
    "a Python check behind it": fenced(FILE) + fenced("import torch\nsolve(a, b)\n", "python"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_file_is_found_in(layout: str) -> None:
    assert source_of(LAYOUTS[layout]).strip() == FILE.strip()


def test_numbers_of_lines_that_an_answer_copied_are_taken_off() -> None:
    numbered = FILE.replace("int n)\n", "int n)  //:12\n").replace("}\n", "}  //:20\n")
    assert read(fenced(numbered)) == read(fenced(FILE))


def test_parts_of_one_file_are_joined_where_one_launches_what_another_defines() -> None:
    source = source_of(f"The kernel:\n{fenced(KERNEL)}\nand its launch:\n{fenced(SOLVE)}")
    assert source.index("__global__") < source.index("solve")
    assert KERNEL.strip() in source
    assert SOLVE.strip() in source


def test_unrelated_blocks_are_not_joined() -> None:
    other = KERNEL.replace("add", "unused")
    assert "unused" not in source_of(fenced(other) + fenced(FILE))
    assert "unused" not in source_of(fenced(other) + fenced(SOLVE))


REFUSED = {
    "empty": ["", "  \n\n"],
    "no_code": [PROSE, "Sure! I will write it in the next message."],
    "no_solve": [fenced(KERNEL), f"{fenced('int main() { return 0; }')}", KERNEL],
    "diff": [
        fenced("--- a/solve.cu\n+++ b/solve.cu\n@@ -1,2 +1,2 @@\n-x\n+y\n", "diff"),
        "@@ -3,7 +3,7 @@\n-    int i = 0;\n+    int i = 1;\n",
    ],
    "other_language": [
        fenced("import torch\n\ndef solve(a, b):\n    return a + b\n", "python"),
        fenced(
            f'import torch\nfrom torch.utils.cpp_extension import load_inline\ns = """{FILE}"""\n',
            "",
        ),
        "import triton\n@triton.jit\ndef add(x):\n    pass\n",
    ],
    "refused": ["I'm sorry, but I can't help with that.", "I cannot write this kernel."],
    "too_long": [fenced(FILE + "// padding\n" * (MOST_SOURCE // 10))],
    "truncated": [fenced(FILE)[:-60], FILE[:-30]],
    "only_reasoning": ["<think>First I need to consider the tile ...", "<think></think>"],
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in REFUSED.items() for text in texts]
)
def test_a_reply_without_a_kernel_has_a_kind(kind: str, text: str) -> None:
    assert kind_of(text) == kind


def test_a_reply_cut_at_its_length_is_truncated_whatever_it_looks_like() -> None:
    assert kind_of(PROSE, finish="length") == "truncated"
    assert kind_of(f"```cuda\n{FILE}", finish="length") == "truncated"
    assert kind_of("", finish="length") == "truncated"
    assert source_of(f"{fenced(FILE)}\nThis is how it", finish="length").strip() == FILE.strip()


def test_a_finish_reason_of_the_server_decides() -> None:
    assert kind_of(fenced(FILE), finish="content_filter") == "content_filter"
    assert kind_of("", refusal="I can't help with that.") == "refused"
    assert kind_of("", reasoning="Let me think.") == "only_reasoning"


def test_a_refusal_is_quoted_on_one_line() -> None:
    refused = read("", refusal="I can't\nhelp `with` \x1b[31mthat")
    assert isinstance(refused, NoCode)
    assert refused.said.isprintable()
    assert "help 'with'" in refused.said


@pytest.mark.parametrize(
    ("text", "idea"),
    [
        (fenced(FILE), "one element a thread"),
        (fenced("// solve.cu\n// Idea: float4 loads\n" + SOLVE), "float4 loads"),
        (fenced("/* padded tiles */\n" + SOLVE), "padded tiles"),
        ("**Idea:** vector loads\n" + fenced(SOLVE), "vector loads"),
        (fenced(SOLVE), ""),
    ],
)
def test_the_idea_is_what_the_file_begins_with(text: str, idea: str) -> None:
    drafted = read(text)
    assert isinstance(drafted, Draft)
    assert drafted.idea == idea


def test_an_idea_is_short_and_printable() -> None:
    drafted = read(fenced("// " + "long `idea`\x1b[31m " * 50 + "\n" + SOLVE))
    assert isinstance(drafted, Draft)
    assert len(drafted.idea) <= 100
    assert drafted.idea.isprintable()


PIECES = st.sampled_from(
    [
        *("```", "~~~", "```cuda\n", "\n", "<think>", "</think>", "solve(", ")", "{", "}", "/*"),
        *('"', "//", "<<<", "&lt;", "@@ -1 +1 @@", "import torch\n", "__global__ void k(", FILE),
    ]
)


@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=40).map("".join), st.booleans())
@example("`" * 5000, True)
def test_any_reply_is_a_draft_with_solve_or_a_named_outcome(text: str, cut: bool) -> None:
    drafted = read(text, finish="length" if cut else "stop")
    if isinstance(drafted, NoCode):
        assert drafted.kind in get_args(ReplyFault)
    else:
        assert "solve" in drafted.source


@given(st.text(alphabet=st.characters(exclude_characters="`~<@&\r\0\ufeff"), max_size=300))
def test_prose_before_a_block_never_changes_its_file(prose: str) -> None:
    assert source_of(f"{prose}\n{fenced(FILE)}").strip() == FILE.strip()


@pytest.mark.parametrize(
    "piece", ["<think>", "</think>", "/*", "solve(", "```", "__global__ void ", "a<", '"']
)
def test_an_enormous_reply_is_read_in_linear_time(piece: str) -> None:
    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        begun = time.process_time()
        read(text)
        read(fenced(text + SOLVE))
        return time.process_time() - begun

    # Eight times as long takes 64 times as long where the time is quadratic.
    longer, shorter = (min(seconds(length) for _ in range(2)) for length in (16_000, 2_000))
    assert longer < 40 * max(shorter, 0.001)
