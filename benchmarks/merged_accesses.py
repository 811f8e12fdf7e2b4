"""Does the emulated device count shared accesses as ptxas makes them?

    PYTHONPATH=tests/support python benchmarks/merged_accesses.py --disassembler nvdisasm

The kernels are all honest ones of tests/fixtures, the baselines and the playbooks as written,
compiled for sm_86 and sm_90. Loads and stores of shared memory that stand in the machine code are
counted by width and compared with those of PTX as nvcc writes it, and as the emulated device merges
them. A kernel is held back as in `bench_size_agreement.py`; twelve points of each playbook
(`rank_agreement.py`) were looked at by nobody before the rules stood. Writes
`results/merged_accesses.json`:

before, after   kernels whose counts are equal, without merging and with it
same_widths     kernels whose widths are the same with merging, however often ptxas repeats a loop

Kernels that use no shared memory are left out.
"""

import argparse
import asyncio
import subprocess
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import record
from bench_size_agreement import is_held_back, kernels, name_of
from rank_agreement import variants
from recorded_tasks import RECORDED_TASKS

from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.cuda.sass import read_sass
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.codegen.module import generate
from cuda_llm.tools.emulator.ptx.parse import parse
from cuda_llm.tools.judge.steps import compile_source
from cuda_llm.tools.open_device import open_device
from cuda_llm.tools.profiler.tables import KernelTable

DEVICES = {"sm_86": "emulated:RTX 3090 Ti", "sm_90": "emulated:H200"}
WORD = 4
Widths = dict[str, int]
"""Instructions by what they are, as in the machine code: `LDS.128`."""


def spelled(kind: str, width: int) -> str:
    """Return how the machine code spells an access."""
    opcode = "LDS" if kind == "load" else "STS"
    return opcode if width <= WORD else f"{opcode}.{8 * width}"


def emulated(kernel: KernelTable, *, merged: bool) -> Widths:
    """Count the accesses of a kernel as the emulated device does."""
    sites = [one for one in kernel.sites if one.opcode.split(".")[0] in {"ld", "st"}]
    widths = [
        (one.kind, one.width if merged else one.bytes) for one in sites if one.space == "shared"
    ]
    return dict(sorted(Counter(spelled(*one) for one in widths if one[1]).items()))


def disassembled(ptx: Path, target: str, disassembler: Path) -> dict[str, Widths]:
    """Count the accesses that ptxas makes, by kernel."""
    ptxas = find_toolkit().root / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "kernel.cubin"
        command = [str(ptxas), "-O3", f"-arch={target}", "-o", str(cubin), str(ptx)]
        subprocess.run(command, check=True, capture_output=True)
        listing = subprocess.run(
            [str(disassembler), "-c", str(cubin)], check=True, capture_output=True, text=True
        ).stdout
    # Before asynchronous copies stand loads that no thread executes.
    lines = [line for line in listing.splitlines() if "@!PT" not in line]
    return {one.symbol: shared(one.opcodes) for one in read_sass("\n".join(lines))}


def shared(opcodes: Mapping[str, int]) -> Widths:
    """Return loads and stores of shared memory by width."""
    found: Counter[str] = Counter()
    for opcode, count in opcodes.items():
        name, *modifiers = opcode.split(".")
        if name in {"LDS", "STS"}:
            wide = [one for one in modifiers if one in {"64", "128"}]
            found[".".join([name, *wide])] += count
    return dict(sorted(found.items()))


@dataclass(frozen=True, kw_only=True)
class Source:
    """One file of kernels."""

    task: str
    name: str
    text: str
    part: str


def sources() -> list[Source]:
    """Return the kernels of the tests, and points of the playbooks."""
    found = [
        Source(
            task=known.task,
            name=name_of(known),
            text=known.path.read_text(),
            part="held back" if is_held_back(name_of(known)) else "others",
        )
        for known in kernels()
    ]
    points = [one for task in RECORDED_TASKS for one in variants(task) if one.point]
    return found + [
        Source(task=one.task.name, name=one.name, text=one.source, part="points of playbooks")
        for one in points
    ]


async def compare(source: Source, device: str, disassembler: Path) -> list[dict[str, Any]]:
    """Return a row for each kernel of a file that touches shared memory."""
    opened = open_device(device)
    made = await compile_source(load_task(source.task), opened, source.text, "kernel.cu")
    if not isinstance(made, Compiled):
        return []  # needs a later chip
    theirs = disassembled(made.ptx, opened.target, disassembler)
    rows = []
    for kernel in generate(parse(made.ptx.read_text(), "k.cu"), (), "k.cu", "").kernels:
        before, after = (emulated(kernel, merged=merged) for merged in (False, True))
        found = theirs[kernel.symbol]
        if not kernel.unsupported and (after or found):
            row = {"ptx": before, "merged": after, "ptxas": found}
            names = {"task": source.task, "name": source.name, "kernel": kernel.symbol}
            rows.append(names | row | {"part": source.part})
    return rows


def summarise(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Count the kernels that agree."""
    return {
        "kernels": len(rows),
        "before": sum(row["ptx"] == row["ptxas"] for row in rows),
        "after": sum(row["merged"] == row["ptxas"] for row in rows),
        "same_widths": sum(row["merged"].keys() == row["ptxas"].keys() for row in rows),
    }


async def run(disassembler: Path) -> dict[str, Any]:
    """Compare every kernel for each target."""
    figures: dict[str, Any] = {}
    for target, device in DEVICES.items():
        rows = []
        for source in sources():
            rows += await compare(source, device, disassembler)
        for part in sorted({row["part"] for row in rows}):
            chosen = [row for row in rows if row["part"] == part]
            tasks = sorted({row["task"] for row in chosen})
            by_task = {task: summarise([r for r in chosen if r["task"] == task]) for task in tasks}
            figures.setdefault(part, {})[target] = by_task | {"together": summarise(chosen)}
            print(target, part, figures[part][target]["together"])
        differing = [row for row in rows if row["merged"] != row["ptxas"]]
        figures.setdefault("differing", {})[target] = differing
    return figures


def main() -> None:
    """Compare, print, record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--disassembler", type=Path, required=True, help="path of nvdisasm")
    parser.add_argument("--results", type=Path, default=record.RESULTS)
    arguments = parser.parse_args()
    figures = asyncio.run(run(arguments.disassembler))
    print(record.write("merged_accesses", figures, arguments.results))


if __name__ == "__main__":
    main()
