"""What a kernel touches at small sizes says how large its buffers are, and what inputs index."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from corpus_sample import sample
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.outcomes import IllegalAccess, TimedOut, Verdict, WrongResult
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import (
    Executed,
    choose_entry,
    draft,
    find_guesses,
    write_task,
    write_tried,
)
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.judge.executed_draft import EXTENTS, execute_draft, fit
from cuda_llm.tools.judge.judge import judge, open_bench
from cuda_llm.tools.open_device import DEFAULT_GPU, open_device, open_emulated

FOLDER = Path(__file__).parents[2] / "fixtures/drafted"


@dataclass(frozen=True)
class Drafted:
    """What the draft of a fixture's kernel has to say."""

    name: str
    shapes: dict[str, str]
    flops: str
    bytes: str
    distributions: dict[str, str] = field(default_factory=dict)
    multiples: dict[str, int] = field(default_factory=dict)
    terms: str = ""
    problem: str = ""
    """Why the draft is not admissible before its inputs are made as the kernel needs them."""


DRAFTED = [
    Drafted(
        "rope",
        {
            "q": "tokens * heads * dim",
            "cos_t": "tokens * dim // 2",
            "sin_t": "tokens * dim // 2",
            "pos": "tokens",
        },
        "2 * tokens * heads * dim",
        "8 * tokens * heads * dim + 8 * (tokens * dim // 2) + 4 * tokens",
        {"pos": "ints(0, tokens)"},
        {"dim": 2},
        terms="2",
    ),
    Drafted(
        "gemv",
        {"W": "rows * cols", "scales": "rows", "x": "cols", "y": "rows"},
        "2 * rows * cols",
        "rows * cols + 8 * rows + 4 * cols",
        terms="cols",
    ),
    Drafted(
        "gelu",
        {"in": "rows * cols", "bias": "cols", "mask": "rows * cols", "out": "rows * cols"},
        "2 * rows * cols",
        "9 * rows * cols + 4 * cols",
        terms="1",
    ),
    Drafted(
        "paged",
        {
            "cache": "num_pages * page * width",
            "table": "seqs * pages_per_seq",
            "out": "seqs * pages_per_seq * page * width",
        },
        "0",
        "4 * num_pages * page * width + 4 * seqs * pages_per_seq"
        " + 4 * seqs * pages_per_seq * page * width",
        {"table": "ints(0, num_pages)"},
    ),
    Drafted("scale_vectors", {"x": "n", "y": "n"}, "1 * n", "8 * n", multiples={"n": 4}, terms="1"),
    Drafted(
        "transpose_tiles",
        {"in": "rows * cols", "out": "rows * cols"},
        "0",
        "8 * rows * cols",
        multiples={"rows": 32, "cols": 32},
        terms="1",
    ),
    Drafted(
        "count_values",
        {"values": "n", "counts": "kinds"},
        "1 * n",
        "4 * n + 4 * kinds",
        {"values": "ints(0, kinds)"},
    ),
    Drafted(
        "row_sums",
        {"m": "rows * cols", "sums": "rows"},
        "1 * rows * cols",
        "4 * rows * cols + 4 * rows",
        terms="cols",
    ),
    Drafted(
        "dequant_gemm",
        {"A": "M * K", "B": "N * K", "scales": "(K + 3) // 4 * N", "C": "M * N"},
        "2 * M * N * K",
        "4 * M * K + N * K + 4 * ((K + 3) // 4 * N) + 4 * M * N",
        terms="K",
    ),
    Drafted(
        "block_sums",
        {"x": "n", "partial": "(n + 127) // 128"},
        "1 * n",
        "4 * n + 4 * ((n + 127) // 128)",
        terms="n",
    ),
    Drafted(
        "int4_gemv",
        {"packed": "N * K // 2", "scales": "N * K // 32", "x": "K", "y": "N"},
        "2 * N * K",
        "(N * K // 2) + 2 * (N * K // 32) + 4 * K + 4 * N",
        multiples={"K": 32},
        terms="K",
    ),
    Drafted(
        "top_two",
        {
            "logits": "num_tokens * num_experts",
            "topk_ids": "2 * num_tokens",
            "topk_weights": "2 * num_tokens",
        },
        "2 * num_tokens",
        "4 * num_tokens * num_experts + 16 * num_tokens",
    ),
    Drafted(
        "cholesky",
        {"a": "64 * batch", "l": "64 * batch"},
        "2 * batch",
        "512 * batch",
        problem="the reference's l is not finite for normal inputs",
    ),
    Drafted(
        "swiglu",
        {"gate": "tokens * hidden", "up": "tokens * hidden", "out": "tokens * hidden"},
        "2 * tokens * hidden",
        "6 * tokens * hidden",
        terms="1",
    ),
    Drafted(
        "csr",
        {
            "row_ptr": "rows + 1",
            "col_idx": "nonzeros",
            "vals": "nonzeros",
            "x": "cols",
            "y": "rows",
        },
        "2 * nonzeros",
        "4 * (rows + 1) + 8 * nonzeros + 4 * cols + 4 * rows",
        {"col_idx": "ints(0, cols)"},
        terms="nonzeros",
    ),
    Drafted("pixels", {"image": "4 * width * height"}, "0", "8 * width * height"),
    Drafted(
        "batched_inverse",
        {"in": "4 * count", "out": "4 * count"},
        "2 * count",
        "32 * count",
        terms="4",
    ),
]


def executed(folder: Path, name: str) -> tuple[Path, Executed | Verdict | None]:
    """The folder of a drafted task, and what its executed kernel says."""
    text = (FOLDER / f"{name}.cu").read_text()
    entry = choose_entry(text, name)
    made = write_task(f"my_{name}", folder, draft(f"my_{name}", text, entry, name))
    device = open_emulated(DEFAULT_GPU)
    tried = write_tried(text, entry, name)
    found = asyncio.run(execute_draft(load_task(made), device, *tried))
    if isinstance(found, Executed):
        for file, better in draft(f"my_{name}", text, entry, name, executed=found).items():
            (made / file).write_text(better)
    return made, found


@pytest.mark.parametrize("wanted", sample(DRAFTED, every=4), ids=lambda one: one.name)
def test_a_draft_has_the_shapes_that_its_kernel_touches(wanted: Drafted, tmp_path: Path) -> None:
    folder, found = executed(tmp_path, wanted.name)
    assert isinstance(found, Executed), found
    assert found.shapes == wanted.shapes
    assert found.distributions == wanted.distributions
    assert found.multiples == wanted.multiples
    assert (found.flops, found.bytes) == (wanted.flops, wanted.bytes)
    assert found.terms == wanted.terms
    admission = asyncio.run(check_task(load_task(folder), open_device("emulated:H200")))
    assert admission.ok != bool(wanted.problem), admission.problems
    assert wanted.problem in "".join(admission.problems)


def test_a_draft_of_ragged_rows_refuses_a_kernel_that_drops_long_rows(tmp_path: Path) -> None:
    folder, found = executed(tmp_path, "csr")
    assert isinstance(found, Executed), found
    assert (found.offsets, found.added) == ({"row_ptr": "nonzeros"}, "nonzeros")
    task, device = load_task(folder), open_device("emulated:H200")
    assert any(spot.file.endswith("inputs.py") for spot in find_guesses(task))
    admission = asyncio.run(check_task(task, device))
    assert admission.ok, admission.problems
    whole, short = "row_ptr[row + 1]", "min(row_ptr[row + 1], row_ptr[row] + 32)"
    source = task.baseline.read_text().replace(whole, short)

    async def judged() -> Verdict:
        bench = open_bench(task, device)
        return (await judge(bench, source, baseline=await bench.time_baseline())).verdict

    assert isinstance(asyncio.run(judged()), WrongResult)


def test_every_kernel_on_disk_is_drafted() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == {one.name for one in DRAFTED}


@given(st.data())
def test_the_lengths_of_a_product_of_dims_give_the_product(data: st.DataObject) -> None:
    dims = ("a", "b", "c")
    sizes = [dict(zip(dims, one, strict=False)) for one in EXTENTS]
    chosen = data.draw(st.lists(st.sampled_from(dims), min_size=1, unique=True).map(sorted))
    factor, added = data.draw(st.sampled_from([(1, 0), (2, 0), (9, 0), (1, 1)]))
    lengths = []
    for size in sizes:
        length = factor
        for dim in chosen:
            length *= size[dim]
        lengths.append(length + added)
    product = " * ".join(chosen)
    assert fit(lengths, sizes) == (
        f"{product} + 1" if added else f"{factor} * {product}" if factor > 1 else product
    )


@pytest.mark.parametrize("lengths", [(0, 0, 0, 0), (7, 13, 5, 11)])
def test_lengths_of_no_product_give_none(lengths: tuple[int, ...]) -> None:
    sizes = [dict(zip(("a", "b"), one, strict=False)) for one in EXTENTS]
    assert fit(lengths, sizes) == ""


@pytest.mark.parametrize(
    "body", ["y[1000000000ll + n] = 1;", "while (*(volatile float*)y != 12345.0f) {}"]
)
def test_a_kernel_that_oversteps_or_never_ends_says_nothing(body: str, tmp_path: Path) -> None:
    text = f"__global__ void k(float* y, int n) {{ {body} }}\n"
    made = write_task("over", tmp_path, draft("over", text, "k", "k.cu"))
    tried = write_tried(text, "k", "k.cu")
    device = open_emulated(DEFAULT_GPU)
    found = asyncio.run(execute_draft(load_task(made), device, *tried))
    assert isinstance(found, IllegalAccess | TimedOut), found
